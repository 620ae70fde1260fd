"""Grouped matching in a kernel's space, on the device that holds the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.groups import DeviceGroups, on_their_device
from gmmatch.backends.cuda.medians import MOST_COLUMNS, uses_triton
from gmmatch.backends.cuda.picks import (
    DEFAULT_MEMORY,
    MOST_ROWS_PER_PROGRAM,
    GroupedPicks,
    gram_of_slab,
    slabs_that_fit,
)
from gmmatch.errors import InvalidInputError
from gmmatch.kernels.kernels import RBF, Kernel, Polynomial
from gmmatch.types import Indices


@dataclass(frozen=True, eq=False)
class KernelPicks:
    """Picks in a kernel's space, with the certified gaps of the medians they match.

    ``picks.rescored`` counts picks whose two best scores lay within the rounding of float32 kernel
    values; there is no exact score to decide them by.
    """

    picks: GroupedPicks
    gaps: NDArray[np.float64]
    iterations: Indices


def kernel_eps(eps: float) -> float:
    """Return the accuracy that a median of float32 kernel values is searched to.

    Examples
    --------
    >>> kernel_eps(1e-8), kernel_eps(1e-3)
    (1e-06, 0.001)
    """
    return max(eps, 1e-6)


@on_their_device
def grouped_kernel_picks(
    groups: DeviceGroups,
    kernels: list[Kernel],
    quotas: Indices,
    *,
    median: bool,
    weights: Any = None,
    available: Any = None,
    start: str = "target",
    replacement: bool = False,
    eps: float = 1e-6,
    max_iter: int = 1000,
    memory_limit: int | None = None,
) -> KernelPicks:
    """Match the mean or the geometric median of every group in the space of its kernel.

    Parameters
    ----------
    groups : DeviceGroups
        Of at most 8,192 rows each.
    kernels : list of RBF or of Polynomial
        One per group, all of one kind (their bandwidths may differ).
    quotas : int64 array of shape (G,)
    median : bool
        Whether the target is the geometric median; the mean otherwise.
    weights, available, start, replacement, eps, max_iter, memory_limit
        As in :func:`gmmatch.backends.cuda.picks.grouped_picks`. Kernel values are float32, so ``eps`` below
        1e-6 cannot be certified: see :func:`kernel_eps`.
    """
    import torch

    _check(groups, kernels)
    from gmmatch.backends.cuda import medians_triton, picks_triton  # which need Triton

    limit = DEFAULT_MEMORY if memory_limit is None else memory_limit
    device, n, count = groups.data.device, len(groups.rows), len(groups)
    quotas = np.asarray(quotas, dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(quotas)]).astype(np.int64)

    def new(*shape: int, dtype: Any = torch.float64) -> Any:
        return torch.zeros(shape, dtype=dtype, device=device)

    order, residuals = new(int(offsets[-1]), dtype=torch.int64), new(int(offsets[-1]))
    free = new(n, dtype=torch.int8) + 1 if available is None else available.to(torch.int8)
    w = new(n) + 1.0 if weights is None else weights
    coefficients, products, scratch = new(n), new(n), new(n)
    target_norms, gaps = new(count), new(count)
    passes, rescored = new(count, dtype=torch.int64), new(count, dtype=torch.int64)
    nothing = new(1)
    for slab in slabs_that_fit(np.flatnonzero(quotas > 0), groups.sizes, limit):
        gram, gram_offsets = gram_of_slab(groups, slab, None, kernels)
        block = max(64, 1 << (int(groups.sizes[slab].max()) - 1).bit_length())
        programs, first = (int(slab[-1] - slab[0]) + 1,), int(slab[0])
        medians_triton.kernel_targets[programs](
            gram, gram_offsets, groups.offsets_on_device, w, coefficients, products, scratch, target_norms,
            gaps, passes, first, kernel_eps(eps), max_iter, MEDIAN=median, ROWS=max(1, 8192 // block),
            BLOCK=block, num_warps=8,
        )  # fmt: skip
        starts = products if start == "target" else torch.zeros_like(products)
        picks_triton.pick_groups[programs](
            groups.data, groups.rows, groups.offsets_on_device, gram, gram_offsets, starts, products, nothing,
            free, nothing, nothing, target_norms, groups.to_device(quotas), groups.to_device(offsets), order,
            residuals, rescored, first, 2.0**-18, groups.n_features, groups.data.stride(0),
            REPLACEMENT=replacement, BLOCK=block, COLUMNS=16, EXACT=False, num_warps=8,
        )  # fmt: skip
        del gram
    picks = GroupedPicks(order.cpu().numpy(), offsets, residuals.cpu().numpy(), int(rescored.sum()))
    return KernelPicks(picks, gaps.cpu().numpy(), passes.cpu().numpy())


def _check(groups: DeviceGroups, kernels: list[Kernel]) -> None:
    if not uses_triton(groups.data):
        raise InvalidInputError(
            "Matching in a kernel's space on a device needs CUDA, a Triton that works there, and at most "
            f"{MOST_COLUMNS:,} columns: give the rows as a NumPy array."
        )
    if not all(isinstance(kernel, (RBF, Polynomial)) for kernel in kernels):
        raise InvalidInputError('On a CUDA device the kernel must be "rbf" or "polynomial", or "linear".')
    if groups.sizes.max() > MOST_ROWS_PER_PROGRAM:
        raise InvalidInputError(
            f"A group of {groups.sizes.max():,} rows is too large for its Gram matrix on the device (at most "
            f'{MOST_ROWS_PER_PROGRAM:,} rows): use approximation="nystroem", or labels.'
        )
