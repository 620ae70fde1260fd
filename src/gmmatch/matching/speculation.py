"""The compiled loops of picks by codes: several picks are guessed, then verified by one pass over all codes.

A scan of all rows for one pick waits for memory. So the next few picks are *guessed* from a sketch, the rows'
coordinates in the directions of largest variance, and every guess is then *verified*: one pass over the codes bounds
the scores of all rows for the θ of each step, and the rows that may have beaten a guess are scored exactly. Up to the
first wrong guess, and including its correction, the picks are those of the textbook loop.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.matching.codes import (
    COLUMNS,
    ERROR,
    LENGTH,
    NORM,
    PENALTY,
    QUERIES_AT_ONCE,
    SHIFT,
    SLAB,
    STEP,
    TAKEN,
    TILE,
    Codes,
    one_dot,
    quantise,
    some_dots,
)
from gmmatch.matching.loops import TINY, Picking, advance, choose, note_pick, quick_score, rounding_of_scores

# How many rows per guess are scored themselves: about so many, and at most.
_SCORED, _MOST_SCORED = 64, 256


# A count, not a maximum: the compiler vectorises sums of whole numbers, and no maximum of floats.
@njit(nogil=True, cache=True, fastmath=True, boundscheck=False)
def _count_above(
    dots: NDArray[np.int32],
    offset: np.int32,
    factors: NDArray[np.float32],
    traits: NDArray[np.float32],
    first: int,
    floor: np.float32,
) -> int:
    """Return how many rows of a tile have an upper bound of at least ``floor``."""
    scale, query_error, rounding = factors[0], factors[1], factors[2]
    step, error = traits[STEP, first : first + TILE], traits[ERROR, first : first + TILE]
    length, norm = traits[LENGTH, first : first + TILE], traits[NORM, first : first + TILE]
    penalty = traits[PENALTY, first : first + TILE]
    count = np.int32(0)
    for r in range(TILE):
        score = np.float32(np.int32(dots[r] - offset)) * (scale * step[r]) + penalty[r]
        slack = error[r] + query_error * length[r] + rounding * norm[r]
        count = np.int32(count + (score + slack >= floor))
    return int(count)


@njit(nogil=True, cache=True, boundscheck=False)
def bound_scores(
    coded: Codes,
    start: int,
    stop: int,
    queries: NDArray[np.int8],
    offsets: NDArray[np.int32],
    factors: NDArray[np.float32],
    floors: NDArray[np.float32],
    rivals: NDArray[np.int64],
    tops: NDArray[np.float32],
) -> int:
    """Find the rows from ``start`` to ``stop`` whose score may reach the floor of a step.

    The floor of a single step rises to the best lower bound. Row and step of a rival go to ``rivals``, the upper
    bound of its score to ``tops``. Returns how many there are, −1 if more than there is room for.
    """
    codes, traits, steps, count = coded.codes, coded.traits, factors.shape[0], 0
    dots = np.empty((queries.shape[0], TILE), dtype=np.int32)
    for first in range(start, stop, TILE):
        for column in range(0, TILE, SLAB):
            slab = (first + column) // SLAB
            if steps == 1:
                one_dot(codes, slab, queries, 0, dots, column)
            else:
                for b in range(0, queries.shape[0], QUERIES_AT_ONCE):
                    some_dots(codes, slab, queries, b, dots, column)
        for b in range(steps):
            if _count_above(dots[b], offsets[b], factors[b], traits, first, floors[b]) == 0:
                continue
            scale, query_error, rounding = factors[b]
            for i in range(first, first + TILE):
                score = (
                    np.float32(dots[b, i - first] - offsets[b]) * (scale * traits[STEP, i])
                    + traits[PENALTY, i]
                )
                slack = traits[ERROR, i] + query_error * traits[LENGTH, i] + rounding * traits[NORM, i]
                if score + slack >= floors[b]:
                    if count == rivals.shape[0]:
                        return -1
                    rivals[count, 0], rivals[count, 1], tops[count] = i, b, score + slack
                    count += 1
                    if steps == 1:
                        # With more steps, a row that is picked at one must not raise the floor of the next.
                        floors[b] = max(floors[b], score - slack)
    return count


@njit(nogil=True, cache=True, boundscheck=False)
def prepare(
    thetas: NDArray[np.float64],
    spread: NDArray[np.float64],
    floors: NDArray[np.float64],
    queries: NDArray[np.int8],
    offsets: NDArray[np.int32],
    factors: NDArray[np.float32],
    single_floors: NDArray[np.float32],
) -> None:
    """Turn the θ of some steps into queries; scores are then in units of ‖θ‖ in the columns' units."""
    for b in range(thetas.shape[0]):
        theta = thetas[b]
        step, norm, error, offsets[b] = quantise(theta, spread, queries[b])
        rounding, _ = rounding_of_scores(theta.shape[0], np.sqrt(np.sum(theta * theta)))
        factors[b, 0] = step / norm
        factors[b, 1] = 1.000001 * error / norm
        factors[b, 2] = 1.000001 * rounding / norm
        floor = floors[b] / norm
        single_floors[b] = np.float32(max(0.1 * TAKEN, floor - 1e-6 * abs(floor)))


@njit(nogil=True, cache=True, fastmath=True, boundscheck=False)
def _score_tile(
    dots: NDArray[np.int32],
    offset: np.int32,
    steps: NDArray[np.float32],
    penalties: NDArray[np.float32],
    scores: NDArray[np.float32],
    best: NDArray[np.float32],
) -> None:
    """Write the scores of a tile, and raise the best score of each of its columns."""
    for r in range(TILE):
        scores[r] = np.float32(np.int32(dots[r] - offset)) * steps[r] + penalties[r]
    for r in range(TILE):
        best[r] = max(best[r], scores[r])


@njit(nogil=True, cache=True, boundscheck=False)
def _largest(values: NDArray[np.float32], rank: int) -> float:
    """Return the value that ``rank`` of them reach. (NumPy's partition takes seconds to compile.)"""
    largest = np.full(rank, np.float32(-np.inf))
    for value in values:
        place = rank - 1
        if value > largest[place]:
            while place > 0 and largest[place - 1] < value:
                largest[place] = largest[place - 1]
                place -= 1
            largest[place] = value
    return float(largest[rank - 1])


@njit(nogil=True, cache=True, boundscheck=False)
def likely_rows(
    sketch: NDArray[np.uint8],
    steps: NDArray[np.float32],
    penalties: NDArray[np.float32],
    direction: NDArray[np.float64],
    found: NDArray[np.int64],
    scores: NDArray[np.float32],
) -> int:
    """Write the rows with the highest sketch scores into ``found``; return how many there are."""
    rows, size = steps.shape[0], direction.shape[0]
    query, dots = np.empty((1, size), dtype=np.int8), np.empty((1, TILE), dtype=np.int32)
    _, _, _, offset = quantise(direction, np.ones(size), query[0])
    # Groups of TILE² rows at most: the best of each column of tiles.
    best = np.full((rows + TILE * TILE - 1) // (TILE * TILE) * TILE, np.float32(-np.inf))
    for first in range(0, rows, TILE):
        for column in range(0, TILE, SLAB):
            one_dot(sketch, (first + column) // SLAB, query, 0, dots, column)
        group, tile = first // (TILE * TILE) * TILE, slice(first, first + TILE)
        _score_tile(
            dots[0], np.int32(offset), steps[tile], penalties[tile], scores[tile], best[group : group + TILE]
        )
    # As many columns reach this, so a few more rows do.
    threshold, count = _largest(best, min(_SCORED, best.shape[0] // 2)), 0
    for place in range(best.shape[0]):
        if best[place] >= threshold:
            first = place // TILE * TILE * TILE + place % TILE
            for i in range(first, min(rows, first + TILE * TILE), TILE):
                if scores[i] >= threshold and count < found.shape[0]:
                    found[count] = i
                    count += 1
    return count


@njit(nogil=True, cache=True, boundscheck=False)
def guess(
    picking: Picking,
    sketch: NDArray[np.uint8],
    steps: NDArray[np.float32],
    penalties: NDArray[np.float32],
    direction: NDArray[np.float64],
    thetas: NDArray[np.float64],
    guesses: NDArray[np.int64],
    floors: NDArray[np.float64],
) -> None:
    """Guess the next picks, and the θ and the score to beat at each."""
    block, index, target = picking.block, picking.row_index, picking.target
    s, n = target.shape[0], index.shape[0]
    found = np.empty(_MOST_SCORED, dtype=np.int64)
    scores = np.empty(steps.shape[0], dtype=np.float32)
    before = np.empty(guesses.shape[0], dtype=np.float32)
    moving, unused = picking.theta.copy(), np.zeros(s)
    target_norm = np.sqrt(np.sum(target * target))
    for b in range(guesses.shape[0]):
        thetas[b] = moving
        count = likely_rows(sketch, steps, penalties, direction, found, scores)
        best, best_score = 0, -np.inf
        for c in range(count):
            if found[c] < n:
                score = quick_score(block[index[found[c]]], moving)
                if score > best_score:
                    best, best_score = found[c], score
        row = block[index[best]]
        squared = 0.0
        for j in range(s):
            squared += np.float64(row[j]) ** 2
        rounding, least = rounding_of_scores(s, np.sqrt(np.sum(moving * moving)))
        floors[b] = best_score - quick_score(target, moving)
        floors[b] -= 2.0 * (rounding * (np.sqrt(squared) + target_norm + TINY) + least)
        guesses[b], before[b] = best, penalties[best]
        if not picking.replacement:
            penalties[best] = TAKEN
        advance(row, target, moving, unused)
        for j in range(direction.shape[0]):
            place = (j // COLUMNS * SLAB + best % SLAB) * COLUMNS + j % COLUMNS
            direction[j] -= steps[best] * (np.float64(sketch[best // SLAB, place]) - SHIFT)
    for b in range(guesses.shape[0] - 1, -1, -1):
        penalties[guesses[b]] = before[b]


@njit(nogil=True, cache=True, boundscheck=False)
def settle(
    picking: Picking,
    coded: Codes,
    rivals: NDArray[np.int64],
    tops: NDArray[np.float32],
    floors: NDArray[np.float32],
    guesses: NDArray[np.int64],
    done: int,
) -> tuple[int, int]:
    """Make picks up to the first wrong guess; return how many picks there are now, and how many rows were scored.

    No pick is made where the bounds leave no row open.
    """
    block, index, theta, available = picking.block, picking.row_index, picking.theta, picking.available
    traits, outside = coded.traits, coded.outside
    candidates = np.empty(rivals.shape[0] + outside.shape[0], dtype=np.int64)
    scores = np.empty(candidates.shape[0])
    scored = 0
    for b in range(guesses.shape[0]):
        rounding, least = rounding_of_scores(theta.shape[0], np.sqrt(np.sum(theta * theta)))
        count, low = 0, -np.inf
        for c in range(rivals.shape[0]):
            i = rivals[c, 0]
            if rivals[c, 1] == b and tops[c] >= floors[b] and available[i]:
                scores[count] = quick_score(block[index[i]], theta)
                slack = rounding * (traits[NORM, i] + TINY) + least
                low = max(low, scores[count] - slack)
                scores[count] += slack
                candidates[count] = i
                count += 1
        scored += count
        close = 0
        for c in range(count):
            if not scores[c] < low:
                candidates[close] = candidates[c]
                close += 1
        for c in range(outside.shape[0]):
            if available[outside[c]]:
                candidates[close] = outside[c]
                close += 1
        if close == 0:  # the bounds are of no use: the rows themselves are to be scored
            break
        best = choose(block, index, theta, candidates, close)
        note_pick(picking, best, done)
        if not picking.replacement:
            traits[PENALTY, best] = TAKEN
        done += 1
        if best != guesses[b]:
            break
    return done, scored


@njit(nogil=True, cache=True, boundscheck=False)
def pick_one_by_one(
    picking: Picking,
    coded: Codes,
    rivals: NDArray[np.int64],
    tops: NDArray[np.float32],
    done: int,
    stop: int,
) -> tuple[int, int]:
    """Make picks without guesses until ``stop``, or until codes leave more rows open than there is room for, or none.

    Returns how many picks there are now, and how many rows were scored.
    """
    queries = np.zeros((1, coded.codes.shape[1] // SLAB), dtype=np.int8)
    offsets, factors = np.empty(1, dtype=np.int32), np.empty((1, 3), dtype=np.float32)
    floor, no_floor = np.empty(1, dtype=np.float32), np.full(1, -np.inf)
    no_guess, scored = np.full(1, -1), 0
    while done < stop:
        prepare(picking.theta.reshape(1, -1), coded.spread, no_floor, queries, offsets, factors, floor)
        count = bound_scores(coded, 0, coded.traits.shape[1], queries, offsets, factors, floor, rivals, tops)
        if count < 0:
            break
        made, more = settle(picking, coded, rivals[:count], tops[:count], floor, no_guess, done)
        scored += more
        if made == done:
            break
        done = made
    return done, scored
