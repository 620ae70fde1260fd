"""The textbook loop in plain NumPy float64: slow, obvious, and the judge of every fast path."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gmmatch.types import Indices, Mask, Start, Vector


def reference_picks(
    X: NDArray[np.float64],
    target: Vector,
    k: int,
    *,
    start: Start = "target",
    replacement: bool = False,
    available: Mask | None = None,
) -> Indices:
    """Return the picks of the paper's listing, one float64 score per row and pick, ties to the lowest row.

    Sums run from left to right (``cumsum``), so that equal rows have equal scores wherever they stand;
    a matrix product does not promise that.

    Examples
    --------
    >>> reference_picks(np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([1.0]), 2, start="zero")
    array([0, 3])
    """
    free = np.ones(len(X), dtype=bool) if available is None else np.array(available)
    theta = target.copy() if start == "target" else np.zeros_like(target)
    order = np.empty(k, dtype=np.int64)
    for t in range(k):
        scores = np.cumsum(X * theta, axis=1)[:, -1]
        scores[~free] = -np.inf
        order[t] = int(np.argmax(scores))
        if not replacement:
            free[order[t]] = False
        theta = theta + (target - X[order[t]])
    return order
