"""The Gram strategy: one matrix product up front, then O(n) per pick.

Scores obey s ← s + Φμ − Φφ(x), so a pick needs one row of the Gram matrix and nothing else.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.matching import loops
from gmmatch.matching.walk import Picks, Walk
from gmmatch.rows.rows import Rows
from gmmatch.types import Mask


def pick_by_gram(rows: Rows, walk: Walk, available: Mask, k: int, *, replacement: bool) -> Picks:
    """Make ``k`` picks with a float64 Gram matrix and advance ``walk``."""
    block = rows.gather(np.arange(len(rows)))
    gram = block @ block.T
    order = np.empty(k, dtype=np.int64)
    residuals = np.empty(k)
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    _pick(
        block, gram, norms, block @ walk.theta, block @ walk.target, walk.target, walk.theta, walk.drift,
        walk.count, available, replacement, order, residuals,
    )  # fmt: skip
    walk.count += k
    return Picks(order, residuals)


@njit(nogil=True, cache=True, boundscheck=False)
def _pick(
    block: NDArray[np.float64],
    gram: NDArray[np.float64],
    norms: NDArray[np.float64],
    scores: NDArray[np.float64],
    target_scores: NDArray[np.float64],
    target: NDArray[np.float64],
    theta: NDArray[np.float64],
    drift: NDArray[np.float64],
    picked_before: int,
    available: NDArray[np.bool_],
    replacement: bool,
    order: NDArray[np.int64],
    residuals: NDArray[np.float64],
) -> None:
    n, s = block.shape
    slack = np.empty(n)
    found = np.empty(n, dtype=np.int64)
    every = np.arange(n)
    rounding = 4.0 * s * 2.0**-52
    least = 4.0 * s * 2.0**-1074
    # Σ of the norms of everything added to a score so far bounds its rounding, per unit of ‖x‖.
    added = np.sqrt(np.sum(theta * theta)) + loops.TINY
    target_norm = np.sqrt(np.sum(target * target))
    for t in range(order.shape[0]):
        floor = -np.inf
        for i in range(n):
            if available[i]:
                slack[i] = rounding * added * (norms[i] + loops.TINY) + least * (t + 1)
                floor = max(floor, scores[i] - slack[i])
        count = loops.candidates(scores, slack, available, floor, found)
        best = loops.choose(block, every, theta, found, count)
        order[t] = best
        if not replacement:
            available[best] = False
        _, drift_norm = loops.advance(block[best], target, theta, drift)
        residuals[t] = drift_norm / (picked_before + t + 1)
        for i in range(n):
            scores[i] += target_scores[i] - gram[best, i]
        added += target_norm + norms[best] + 2.0 * added * 2.0**-52
