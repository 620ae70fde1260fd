"""The compiled loops of greedy matching.

Each pick has two halves: a fast *scan* that gives every row a score and a bound on that score's error,
and an exact *choice* among the few rows that the bounds cannot tell apart. The choice computes plain
float64 sums from left to right, so its outcome is that of the textbook loop, to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

_VECTORISED = {"reassoc", "contract", "nsz"}
CODE_LIMIT = 127
QUERY_LIMIT = 32767
# 2^-52: twice the unit roundoff of float64.
_DOUBLE_ROUNDOFF = 2.0**-52
# Squares of numbers below this may underflow, so a norm is known up to this much, and a product of numbers
# that small loses up to _LEAST. Both are far below the rounding of ordinary data.
TINY = 1e-150
_LEAST = 2.0**-1074
# Rows whose largest entry, in the columns' units, is outside this range are not coded: squares stay finite.
_CODED_RANGE = 1e100


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


# All numbers are finite here; without NaN to mind, a maximum is one instruction.
@njit(nogil=True, cache=True, fastmath=True, boundscheck=False)
def encode_chunk(
    block: NDArray[Any],
    index: NDArray[np.int64],
    center: NDArray[np.float64],
    scale: NDArray[np.float64],
    codes: NDArray[np.int8],
    traits: NDArray[np.float64],
) -> None:
    """Round the rows of a chunk, centred and scaled by column, to one byte a number.

    ``traits`` gets, per row: the size of a step, ‖row − decoded row‖, ‖decoded row‖ and ‖x‖.
    """
    s = center.shape[0]
    scaled = np.empty(s)
    whole = np.empty(s, dtype=np.int32)
    for i in range(index.shape[0]):
        row = block[index[i]]
        norm = 0.0
        for j in range(s):
            value = np.float64(row[j])
            norm += value * value
            scaled[j] = (value - center[j]) * scale[j]
        largest = 0.0
        for j in range(s):
            largest = max(largest, abs(scaled[j]))
        traits[i, 3] = np.sqrt(norm) + TINY
        if largest < 1.0 / _CODED_RANGE or largest > _CODED_RANGE:
            codes[i] = 0
            traits[i, 0], traits[i, 1], traits[i, 2] = 1.0, largest * np.sqrt(s), 0.0
            continue
        step = largest / CODE_LIMIT
        inverse = 1.0 / step
        error, length = 0.0, 0.0
        for j in range(s):
            code = np.rint(scaled[j] * inverse)
            whole[j] = np.int32(code)
            decoded = code * step
            error += (scaled[j] - decoded) ** 2
            length += decoded * decoded
        for j in range(s):
            codes[i, j] = np.int8(max(-CODE_LIMIT, min(CODE_LIMIT, whole[j])))
        traits[i, 0] = step
        traits[i, 1] = np.sqrt(error)
        traits[i, 2] = np.sqrt(length)


@njit(nogil=True, cache=True, boundscheck=False)
def quantise_query(
    theta: NDArray[np.float64], scale: NDArray[np.float64], query: NDArray[np.int16]
) -> tuple[float, float, float]:
    """Round θ (in the columns' units) to two bytes a number; return its step, its norm and the error's."""
    s = theta.shape[0]
    # int32 sums must not overflow: s · 127 · limit < 2^31.
    limit = min(float(QUERY_LIMIT), np.floor((2.0**31 - 1.0) / (CODE_LIMIT * s)))
    largest = 0.0
    for j in range(s):
        largest = max(largest, abs(theta[j] / scale[j]))
    step = max(largest / limit, TINY)
    norm, error = 0.0, 0.0
    for j in range(s):
        value = theta[j] / scale[j]
        code = np.rint(value / step)
        query[j] = np.int16(code)
        norm += value * value
        error += (value - code * step) ** 2
    return step, np.sqrt(norm) + TINY, np.sqrt(error) + TINY


@njit(nogil=True, cache=True, boundscheck=False)
def scan_codes(
    codes: NDArray[np.int8],
    query: NDArray[np.int16],
    query_step: float,
    query_norm: float,
    query_error: float,
    theta_norm: float,
    traits: NDArray[np.float64],
    available: NDArray[np.bool_],
    scores: NDArray[np.float64],
    slack: NDArray[np.float64],
) -> float:
    """Score coded rows relative to the centre; return the best lower bound.

    |⟨θ, x − c⟩ − score| is at most ‖θ‖·(coding error of x) + (rounding of θ)·‖decoded x‖, by Cauchy and
    Schwarz; the last term covers the rounding of the exact score itself.
    """
    n, s = codes.shape
    rounding, least = rounding_of_scores(s, theta_norm)
    # The sums alone, for all rows: a loop with nothing else in it is what the compiler vectorises best.
    for i in range(n):
        total = np.int32(0)
        for j in range(s):
            total += np.int32(codes[i, j]) * np.int32(query[j])
        # The cast lets the compiler keep all of it in 32 bits, eight times as many at once.
        scores[i] = np.float64(np.int32(total))
    best = -np.inf
    for i in range(n):
        if not available[i]:
            continue
        scores[i] *= query_step * traits[i, 0]
        slack[i] = (
            1.000001 * (query_norm * traits[i, 1] + query_error * traits[i, 2])
            + rounding * (traits[i, 3] + traits[i, 2])
            + least
        )  # fmt: skip
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
    """Return the candidate with the highest exact score; the first of equals."""
    best, best_score = int(found[0]), -np.inf
    if count == 1:
        return best
    for c in range(count):
        score = exact_score(block[index[found[c]]], theta)
        if score > best_score:
            best, best_score = int(found[c]), score
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


@njit(nogil=True, cache=True, boundscheck=False)
def take_best(
    block: NDArray[Any],
    index: NDArray[np.int64],
    scores: NDArray[np.float64],
    slack: NDArray[np.float64],
    floor: float,
    found: NDArray[np.int64],
    target: NDArray[np.float64],
    theta: NDArray[np.float64],
    drift: NDArray[np.float64],
    picked_before: int,
    available: NDArray[np.bool_],
    replacement: bool,
    order: NDArray[np.int64],
    residuals: NDArray[np.float64],
    t: int,
) -> tuple[int, float]:
    """Make pick ``t`` once all rows are scored; return how many rows were scored exactly, and ‖θ‖."""
    count = candidates(scores, slack, available, floor, found)
    best = choose(block, index, theta, found, count)
    order[t] = best
    if not replacement:
        available[best] = False
    theta_norm, drift_norm = advance(block[index[best]], target, theta, drift)
    residuals[t] = drift_norm / (picked_before + t + 1)
    return count, theta_norm


@njit(nogil=True, cache=True, boundscheck=False)
def pick_by_codes(
    block: NDArray[Any],
    index: NDArray[np.int64],
    codes: NDArray[np.int8],
    traits: NDArray[np.float64],
    scale: NDArray[np.float64],
    target: NDArray[np.float64],
    theta: NDArray[np.float64],
    drift: NDArray[np.float64],
    picked_before: int,
    available: NDArray[np.bool_],
    replacement: bool,
    order: NDArray[np.int64],
    residuals: NDArray[np.float64],
) -> int:
    """Fill ``order``; stop early where the codes are too coarse to help. Return the number of picks."""
    n, s = codes.shape
    query = np.empty(s, dtype=np.int16)
    scores, slack, found = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    theta_norm = np.sqrt(np.sum(theta * theta))
    examined = 0
    for t in range(order.shape[0]):
        step, query_norm, query_error = quantise_query(theta, scale, query)
        floor = scan_codes(
            codes, query, step, query_norm, query_error, theta_norm, traits, available, scores, slack
        )
        count, theta_norm = take_best(
            block, index, scores, slack, floor, found, target, theta, drift, picked_before, available, replacement,
            order, residuals, t,
        )  # fmt: skip
        examined += count
        if too_coarse(t, examined, n):
            return t + 1
    return int(order.shape[0])


@njit(nogil=True, cache=True, boundscheck=False)
def too_coarse(t: int, examined: int, n: int) -> bool:
    """Return whether codes leave so many rows open that scoring the rows themselves is quicker."""
    return t >= 8 and examined > (t + 1) * (16 + n // 8)


@njit(nogil=True, cache=True, boundscheck=False)
def pick_by_rows(
    block: NDArray[Any],
    index: NDArray[np.int64],
    norms: NDArray[np.float64],
    target: NDArray[np.float64],
    theta: NDArray[np.float64],
    drift: NDArray[np.float64],
    picked_before: int,
    available: NDArray[np.bool_],
    replacement: bool,
    order: NDArray[np.int64],
    residuals: NDArray[np.float64],
) -> None:
    """Fill ``order`` by one pass over the rows per pick."""
    n = index.shape[0]
    scores, slack, found = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    theta_norm = np.sqrt(np.sum(theta * theta))
    for t in range(order.shape[0]):
        floor = scan_rows(block, index, theta, theta_norm, norms, available, scores, slack)
        _, theta_norm = take_best(
            block, index, scores, slack, floor, found, target, theta, drift, picked_before, available, replacement,
            order, residuals, t,
        )  # fmt: skip


@njit(nogil=True, cache=True, boundscheck=False)
def pick_by_gram(
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
    """Fill ``order`` by one row of the Gram matrix per pick."""
    n, s = block.shape
    slack, found, every = np.empty(n), np.empty(n, dtype=np.int64), np.arange(n)
    rounding = 4.0 * s * _DOUBLE_ROUNDOFF
    least = 4.0 * s * _LEAST
    # Σ of the norms of everything added to a score so far bounds its rounding, per unit of ‖x‖.
    added = np.sqrt(np.sum(theta * theta)) + TINY
    target_norm = np.sqrt(np.sum(target * target))
    for t in range(order.shape[0]):
        floor = -np.inf
        for i in range(n):
            if available[i]:
                slack[i] = rounding * added * (norms[i] + TINY) + least * (t + 1)
                floor = max(floor, scores[i] - slack[i])
        take_best(
            block, every, scores, slack, floor, found, target, theta, drift, picked_before, available, replacement,
            order, residuals, t,
        )  # fmt: skip
        best = order[t]
        for i in range(n):
            scores[i] += target_scores[i] - gram[best, i]
        added += target_norm + norms[best] + 2.0 * added * _DOUBLE_ROUNDOFF
