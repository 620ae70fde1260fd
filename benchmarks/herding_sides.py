"""The two sides of the kernel-herding benchmark, shared by its warm and its cold runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Pick = Callable[[], NDArray[np.int64]]

# The fastest of None, 1,000 and 2,000 for coreax on 10,000 rows; None holds the whole kernel matrix.
COREAX_BLOCK = 2_000


def gmmatch_side(X: NDArray[np.float32], k: int, bandwidth: float) -> Pick:
    """Return a call that picks by gmmatch."""
    # Names of the package load on first use; this one loads the method with everything it needs.
    from gmmatch import RBF, KernelHerding, select  # noqa: F401

    def pick() -> NDArray[np.int64]:
        return select(X, k=k, method="kernel-herding", kernel=RBF(bandwidth)).indices

    return pick


def coreax_side(
    X: NDArray[np.float32],
    k: int,
    bandwidth: float,
    *,
    compiled: bool = True,
    block: int | None = COREAX_BLOCK,
) -> Pick:
    """Return a call that picks by coreax, as its examples do: the whole solver compiled."""
    import equinox
    import jax.numpy as jnp
    from coreax import Data
    from coreax.kernels import SquaredExponentialKernel
    from coreax.solvers import KernelHerding

    block = None if block is None else min(block, len(X))
    solver = KernelHerding(
        coreset_size=k, kernel=SquaredExponentialKernel(length_scale=bandwidth), block_size=block
    )
    reduce = equinox.filter_jit(solver.reduce) if compiled else solver.reduce
    rows = Data(jnp.asarray(X))

    def pick() -> NDArray[np.int64]:
        coreset, _ = reduce(rows)
        return np.sort(np.asarray(coreset.unweighted_indices).astype(np.int64))

    return pick
