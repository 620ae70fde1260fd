"""How much each pick should count, so that the weighted mean of the picks comes as near to the target as it can."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gmmatch.types import Vector

# Up to so many picks the problem is solved exactly, in about a second; beyond them by L-BFGS-B, whose time does not
# grow with the cube of the picks.
_EXACT_PICKS = 1_000
# Of the mean square of the picks: among weights that match equally well, the most even ones are wanted.
_EVENNESS = 1e-6


def matching_weights(apart: NDArray[np.float64], gram: NDArray[np.float64] | None = None) -> Vector:
    """Return non-negative weights of sum 1 that minimize ‖Σ wⱼ (xⱼ − μ)‖.

    The least of wᵀCw over the simplex, with C the products of the differences, is found without the constraint on the
    sum: the u ≥ 0 that minimize uᵀCu + (Σu − 1)² are in proportion to it, because for u = t·w the least over t is
    d²/(1 + d²), which grows with d² = wᵀCw.

    Parameters
    ----------
    apart : array of shape (q, s)
        xⱼ − μ; without meaning if there is a Gram matrix.
    gram : array of shape (q, q), optional
        Their products, where the space is a kernel's.

    Examples
    --------
    >>> matching_weights(np.array([[-1.0], [3.0]])).round(4)
    array([0.75, 0.25])
    """
    count = len(apart) if gram is None else len(gram)
    if count <= _EXACT_PICKS:
        products = apart @ apart.T if gram is None else gram
        shares = _exactly(products, _scale(float(np.trace(products)), count))
    elif gram is None:
        squares = float(np.einsum("ij,ij->", apart, apart))
        shares = _iteratively(lambda u: apart @ (apart.T @ u), count, _scale(squares, count))
    else:
        shares = _iteratively(lambda u: gram @ u, count, _scale(float(np.trace(gram)), count))
    return np.asarray(shares / shares.sum())


def _scale(trace: float, count: int) -> float:
    return trace / count if trace > 0.0 else 1.0


def _exactly(products: NDArray[np.float64], scale: float) -> Vector:
    from scipy.linalg import eigh
    from scipy.optimize import nnls

    count = len(products)
    # Not Cholesky's: rounding can make the least eigenvalues negative.
    values, vectors = eigh(products / scale)
    root = np.sqrt(np.maximum(values, 0.0) + _EVENNESS)[:, None] * vectors.T
    wanted = np.zeros(count + 1)
    wanted[-1] = 1.0
    return np.asarray(nnls(np.vstack([root, np.ones(count)]), wanted, maxiter=30 * count)[0])


def _iteratively(product: Callable[[Vector], Vector], count: int, scale: float) -> Vector:
    from scipy.optimize import minimize

    def objective(u: Vector) -> tuple[float, Vector]:
        along, excess = product(u) / scale + _EVENNESS * u, float(u.sum()) - 1.0
        return 0.5 * (float(u @ along) + excess**2), along + excess

    options = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-9}
    even = np.full(count, 1.0 / count)
    found = minimize(
        objective, even, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * count, options=options
    )
    return np.asarray(found.x)
