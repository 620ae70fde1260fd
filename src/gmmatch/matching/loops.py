"""The compiled loops of greedy matching.

Each pick has two halves: a fast *scan* that gives every row a score and a bound on that score's error,
and an exact *choice* among the few rows that the bounds cannot tell apart. The choice computes plain
float64 sums from left to right, so its outcome is that of the textbook loop, to the last bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

_VECTORISED = {"reassoc", "contract", "nsz"}
# 2^-52: twice the unit roundoff of float64.
_DOUBLE_ROUNDOFF = 2.0**-52
# Squares of numbers below this may underflow, so a norm is known up to this much, and a product of numbers
# that small loses up to _LEAST. Both are far below the rounding of ordinary data.
TINY = 1e-150
_LEAST = 2.0**-1074


@njit(nogil=True, cache=True, boundscheck=False)
def exact_score(row: NDArray[Any], theta: NDArray[np.float64]) -> float:
    """Return ⟨θ, x⟩ summed from left to right in float64: the score that decides."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += np.float64(row[j]) * theta[j]
    return total


@njit(nogil=True, cache=True, fastmath=_VECTORISED, boundscheck=False)
def quick_score(row: NDArray[Any], theta: NDArray[np.float64]) -> float:
    """Return ⟨θ, x⟩ in float64, summed in any order."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += np.float64(row[j]) * theta[j]
    return total


@njit(nogil=True, cache=True, boundscheck=False)
def rounding_of_scores(s: int, theta_norm: float) -> tuple[float, float]:
    """Return how far ⟨θ, x⟩, summed in float64 in any order, may be off: per unit of ‖x‖ + TINY, and at least."""
    return 2.0 * s * _DOUBLE_ROUNDOFF * (theta_norm + TINY), 2.0 * s * _LEAST


def score_slack(thetas: NDArray[np.float64], longest: float) -> NDArray[np.float64]:
    """Return how far a score in float64, summed in any order, may be off for rows up to some length.

    Examples
    --------
    >>> bool(score_slack(np.array([[3.0, 4.0]]), 2.0)[0] < 1e-13)
    True
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", thetas, thetas))
    relative, least = rounding_of_scores(thetas.shape[1], lengths)
    slack: NDArray[np.float64] = 2.0 * (relative * (longest + TINY) + least)
    return slack


@njit(nogil=True, cache=True, fastmath=_VECTORISED, boundscheck=False)
def scan_rows(
    block: NDArray[Any],
    index: NDArray[np.int64],
    theta: NDArray[np.float64],
    theta_norm: float,
    norms: NDArray[np.float64],
    available: NDArray[np.bool_],
    scores: NDArray[np.float64],
    slack: NDArray[np.float64],
) -> float:
    """Score a chunk of rows in float64, in any order of summation; return the best lower bound."""
    rounding, least = rounding_of_scores(theta.shape[0], theta_norm)
    best = -np.inf
    for i in range(index.shape[0]):
        if not available[i]:
            continue
        scores[i] = quick_score(block[index[i]], theta)
        slack[i] = rounding * (norms[i] + TINY) + least
        best = max(best, scores[i] - slack[i])
    return best


@njit(nogil=True, cache=True, boundscheck=False)
def candidates(
    scores: NDArray[np.float64],
    slack: NDArray[np.float64],
    available: NDArray[np.bool_],
    floor: float,
    found: NDArray[np.int64],
) -> int:
    """Write the rows that may be the best into ``found``, in row order; return how many there are.

    A row is left out only if it is known to be below the floor: a bound that overflowed to NaN leaves it in.
    So at least one row is found while any is available.
    """
    count = 0
    for i in range(scores.shape[0]):
        if available[i] and not scores[i] + slack[i] < floor:
            found[count] = i
            count += 1
    return count


@njit(nogil=True, cache=True, boundscheck=False)
def choose(
    block: NDArray[Any],
    index: NDArray[np.int64],
    theta: NDArray[np.float64],
    found: NDArray[np.int64],
    count: int,
) -> int:
    """Return the candidate with the highest exact score; the lowest row of equals."""
    best, best_score = int(found[0]), -np.inf
    if count == 1:
        return best
    for c in range(count):
        i = int(found[c])
        score = exact_score(block[index[i]], theta)
        if score > best_score or (score == best_score and i < best):
            best, best_score = i, score
    return best


@njit(nogil=True, cache=True, boundscheck=False)
def advance(
    row: NDArray[Any], target: NDArray[np.float64], theta: NDArray[np.float64], drift: NDArray[np.float64]
) -> tuple[float, float]:
    """Apply θ ← θ + (μ − x) and the same to ``drift`` (θ without its start); return both norms."""
    theta_squared, drift_squared = 0.0, 0.0
    for j in range(theta.shape[0]):
        change = target[j] - np.float64(row[j])
        theta[j] += change
        drift[j] += change
        theta_squared += theta[j] * theta[j]
        drift_squared += drift[j] * drift[j]
    return np.sqrt(theta_squared), np.sqrt(drift_squared)


class Picking(NamedTuple):
    """What compiled loops make picks from, where they stand, and where picks and residuals go.

    Row i is ``block[row_index[i]]``; ``picked_before`` is how many rows were picked when this began. The arrays
    ``theta``, ``drift`` and ``available`` are updated in place.
    """

    block: NDArray[Any]
    row_index: NDArray[np.int64]
    target: NDArray[np.float64]
    theta: NDArray[np.float64]
    drift: NDArray[np.float64]
    picked_before: int
    available: NDArray[np.bool_]
    replacement: bool
    order: NDArray[np.int64]
    residuals: NDArray[np.float64]


@njit(nogil=True, cache=True, boundscheck=False)
def note_pick(picking: Picking, best: int, t: int) -> float:
    """Make row ``best`` pick ``t``; return ‖θ‖ after it."""
    picking.order[t] = best
    if not picking.replacement:
        picking.available[best] = False
    row = picking.block[picking.row_index[best]]
    theta_norm, drift_norm = advance(row, picking.target, picking.theta, picking.drift)
    picking.residuals[t] = drift_norm / (picking.picked_before + t + 1)
    return float(theta_norm)


@njit(nogil=True, cache=True, boundscheck=False)
def pick_by_rows(picking: Picking, norms: NDArray[np.float64]) -> None:
    """Make all picks by one pass over the rows for each."""
    block, index, theta, available = picking.block, picking.row_index, picking.theta, picking.available
    n = index.shape[0]
    scores, slack, found = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    theta_norm = np.sqrt(np.sum(theta * theta))
    for t in range(picking.order.shape[0]):
        floor = scan_rows(block, index, theta, theta_norm, norms, available, scores, slack)
        count = candidates(scores, slack, available, floor, found)
        theta_norm = note_pick(picking, choose(block, index, theta, found, count), t)
