"""The compiled loops of greedy matching.

A fast scan gives each row a score and a bound on that score's rounding; the rows that the bounds cannot tell
apart are scored again, in float64 from left to right, and that decides. So the picks are those of the textbook
loop to the last bit, on every machine.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from gmmatch._array import Block, Indices, Mask, Matrix, Vector

REORDER = {"reassoc", "contract", "nsz"}
# Products of numbers smaller than this may underflow.
_LEAST = 1e-44


@njit(nogil=True, cache=True)
def exact_score(row: Block, theta: Vector) -> float:
    """Return ⟨θ, x⟩ summed from left to right in float64: the score that decides."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += np.float64(row[j]) * theta[j]
    return total


@njit(nogil=True, cache=True, fastmath=REORDER)
def quick_score(row: Block, theta: Block) -> float:
    """Return ⟨θ, x⟩ in the precision of θ, summed in any order."""
    total = theta[0] * theta.dtype.type(0)
    for j in range(theta.shape[0]):
        total += row[j] * theta[j]
    return float(total)


@njit(nogil=True, cache=True, fastmath=REORDER)
def write_norms(block: Block, index: Indices, out: Matrix) -> None:
    """Write the length of each of the rows ``block[index]`` into ``out``."""
    for i in range(index.shape[0]):
        row, squared = block[index[i]], 0.0
        for j in range(block.shape[1]):
            squared += np.float64(row[j]) * np.float64(row[j])
        out[i] = np.sqrt(squared)


@njit(nogil=True, cache=True)
def score_error(s: int, theta_norm: float, row_norm: float, roundoff: float) -> float:
    """Return how far a score of ``s`` products, summed in any order, may be off, θ rounded as well."""
    return 2.0 * (s + 2) * (roundoff * theta_norm * row_norm + _LEAST * (1.0 + theta_norm + row_norm))


@njit(nogil=True, cache=True)
def update_best(
    block: Block, numbers: Indices, codes: Indices, available: Mask, norms: Vector, thetas: Matrix, slots: Indices,
    taken: Indices, out: Matrix,
) -> None:  # fmt: skip
    """Update the best score, row number and row of each active group in ``out`` by the rows of a block."""
    s = thetas.shape[1]
    lengths = np.sqrt((thetas * thetas).sum(axis=1))
    for i in range(block.shape[0]):
        if codes[i] < 0 or not available[i] or slots[codes[i]] < 0:
            continue
        slot = slots[codes[i]]
        theta, best = thetas[slot], out[slot]
        error = score_error(s, lengths[slot], norms[i], 2.0**-53)
        # A row is left out only where it is known to be below the best: a bound of NaN leaves it in.
        if quick_score(block[i], theta) + error < best[0]:
            continue
        score = exact_score(block[i], theta)
        if best[1] >= 0.0 and not score > best[0]:
            continue
        at = np.searchsorted(taken, numbers[i])
        if at < taken.shape[0] and taken[at] == numbers[i]:
            continue
        best[0], best[1] = score, numbers[i]
        for j in range(s):
            best[2 + j] = block[i, j]


@njit(nogil=True, cache=True)
def pick_by_scan(
    block: Block, index: Indices, target: Vector, theta: Vector, replacement: bool, open_rows: Mask, norms: Vector,
    order: Indices,
) -> None:  # fmt: skip
    """Pick from the rows ``block[index]``: write positions in ``index`` into ``order`` and advance ``theta``.

    Scores are scanned in the precision of the rows, where vector instructions are fastest. ``open_rows``, which
    rows may be picked, is updated as well.
    """
    n, s = index.shape[0], theta.shape[0]
    narrow = np.empty(s, dtype=block.dtype)
    roundoff = 2.0**-53 if block.itemsize == 8 else 2.0**-24
    upper = np.empty(n)
    for t in range(order.shape[0]):
        theta_norm = np.sqrt((theta * theta).sum())
        for j in range(s):
            narrow[j] = theta[j]
        threshold = -np.inf
        for i in range(n):
            if open_rows[i]:
                score = quick_score(block[index[i]], narrow)
                error = score_error(s, theta_norm, norms[i], roundoff)
                upper[i] = score + error
                threshold = max(threshold, score - error)
        best, best_score = -1, -np.inf
        for i in range(n):
            if open_rows[i] and not upper[i] < threshold:
                score = exact_score(block[index[i]], theta)
                if best < 0 or score > best_score:
                    best, best_score = i, score
        order[t] = best
        open_rows[best] = replacement
        row = block[index[best]]
        for j in range(s):
            theta[j] += target[j] - np.float64(row[j])


@njit(nogil=True, cache=True)
def write_residuals(
    rows: Matrix, points: Matrix, groups: Indices, errors: Matrix, counts: Indices, out: Vector
) -> None:
    """Write ‖point − mean of the picks so far‖ after each pick; ``errors`` and ``counts`` go on."""
    for i in range(len(rows)):
        group, square = groups[i], 0.0
        counts[group] += 1
        for j in range(rows.shape[1]):
            errors[group, j] += points[group, j] - rows[i, j]
            square += errors[group, j] ** 2
        out[i] = np.sqrt(square) / counts[group]
