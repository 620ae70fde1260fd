"""Picks by one pass over the codes each: the codes rule rows out, and the few that they leave open are scored.

Codes of some megabytes stay in a cache, where reading them takes microseconds: helpers
(:mod:`gmmatch.matching.team`) then read parts of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.matching.codes import (
    ERROR,
    LENGTH,
    NORM,
    PENALTY,
    SLAB,
    STEP,
    TAKEN,
    TILE,
    Codes,
    padded,
    quantise,
    slab_dots,
)
from gmmatch.matching.loops import TINY, Picking, choose, note_pick, quick_score, rounding_of_scores
from gmmatch.matching.team import LAST_STEP, announce, await_step, claim, finish, finished, new_words


class Shared(NamedTuple):
    """What a leader and its helpers share: the query of a step, and what was found in each part of the rows.

    Attributes
    ----------
    words : int64 array
        Of :mod:`gmmatch.matching.team`.
    query : int8 array of shape (padded columns,)
        θ, rounded.
    offset, factors, norm : int32, float32 and float64 arrays
        What turns products of codes into scores and their errors, in units of ‖θ‖ in the columns' units; and that.
    rivals, tops, scores : arrays of shape (2, parts, room)
        Rows that are open, upper bounds by codes, and by the rows themselves. First what the leader finds, then what
        helpers do: a helper that is late disturbs nobody.
    counts, lows : arrays of shape (2, parts)
        How many rivals there are (−1 if more than there is room for), and the best lower bound of a score.
    """

    words: NDArray[np.int64]
    query: NDArray[np.int8]
    offset: NDArray[np.int32]
    factors: NDArray[np.float32]
    norm: NDArray[np.float64]
    rivals: NDArray[np.int64]
    tops: NDArray[np.float32]
    scores: NDArray[np.float64]
    counts: NDArray[np.int64]
    lows: NDArray[np.float64]

    @classmethod
    def among(cls, parts: int, rows: int, columns: int) -> Shared:
        """Return what so many threads share."""
        room = 4096 + rows // (16 * parts)
        return cls(
            new_words(parts),
            np.zeros(padded(columns), dtype=np.int8),
            np.empty(1, dtype=np.int32),
            np.empty(3, dtype=np.float32),
            np.empty(1),
            np.empty((2, parts, room), dtype=np.int64),
            np.empty((2, parts, room), dtype=np.float32),
            np.empty((2, parts, room)),
            np.empty((2, parts), dtype=np.int64),
            np.empty((2, parts)),
        )


@njit(nogil=True, cache=True, boundscheck=False)
def prepare(theta: NDArray[np.float64], spread: NDArray[np.float64], shared: Shared) -> None:
    """Turn θ into a query."""
    step, norm, error, shared.offset[0] = quantise(theta, spread, shared.query)
    rounding, _ = rounding_of_scores(theta.shape[0], np.sqrt(quick_score(theta, theta)))
    shared.factors[0] = step / norm
    shared.factors[1] = 1.000001 * error / norm
    shared.factors[2] = 1.000001 * rounding / norm
    shared.norm[0] = norm


# A count, not a maximum: the compiler vectorises sums of whole numbers, and no maximum of floats.
@njit(nogil=True, cache=True, fastmath=True, boundscheck=False)
def _bound_tile(
    dots: NDArray[np.int32],
    offset: np.int32,
    factors: NDArray[np.float32],
    traits: NDArray[np.float32],
    first: int,
    floor: np.float32,
    uppers: NDArray[np.float32],
) -> int:
    """Write the upper bounds of a tile's scores; return how many of them are at least ``floor``."""
    scale, query_error, rounding = factors[0], factors[1], factors[2]
    step, error = traits[STEP, first : first + TILE], traits[ERROR, first : first + TILE]
    length, norm = traits[LENGTH, first : first + TILE], traits[NORM, first : first + TILE]
    penalty = traits[PENALTY, first : first + TILE]
    count = np.int32(0)
    for r in range(TILE):
        score = np.float32(np.int32(dots[r] - offset)) * (scale * step[r]) + penalty[r]
        uppers[r] = score + (error[r] + query_error * length[r] + rounding * norm[r])
        count = np.int32(count + (uppers[r] >= floor))
    return int(count)


@njit(nogil=True, cache=True, boundscheck=False)
def bound_part(coded: Codes, shared: Shared, side: int, part: int) -> Any:
    """Find the rows of a part whose score may be the best; return the best lower bound, in units of the norm."""
    traits, factors, offset = coded.traits, shared.factors, shared.offset[0]
    rivals, tops = shared.rivals[side, part], shared.tops[side, part]
    parts, tiles = shared.counts.shape[1], traits.shape[1] // TILE
    dots, uppers = np.empty(TILE, dtype=np.int32), np.empty(TILE, dtype=np.float32)
    count, floor = 0, np.float32(0.1 * TAKEN)
    for first in range(tiles * part // parts * TILE, tiles * (part + 1) // parts * TILE, TILE):
        for column in range(0, TILE, SLAB):
            slab_dots(coded.codes, (first + column) // SLAB, shared.query, dots, column)
        if _bound_tile(dots, offset, factors, traits, first, floor, uppers) == 0:
            continue
        for r in range(TILE):
            if uppers[r] >= floor:
                if count == rivals.shape[0]:
                    shared.counts[side, part] = -1
                    return floor
                i = first + r
                rivals[count], tops[count] = i, uppers[r]
                count += 1
                slack = traits[ERROR, i] + factors[1] * traits[LENGTH, i] + factors[2] * traits[NORM, i]
                floor = max(floor, uppers[r] - np.float32(2.0) * slack)
    shared.counts[side, part] = count
    return floor


@njit(nogil=True, cache=True, boundscheck=False)
def _score_rivals(
    picking: Picking,
    norms: NDArray[np.float32],
    rivals: NDArray[np.int64],
    tops: NDArray[np.float32],
    floor: Any,
    norm: float,
    scores: NDArray[np.float64],
) -> tuple[int, float]:
    """Keep the rivals that may be the best, and write the most they score; return how many, and the best low.

    The most promising comes first: few others reach what it surely scores.
    """
    block, index, target, theta = picking.block, picking.row_index, picking.target, picking.theta
    rounding, least = rounding_of_scores(theta.shape[0], np.sqrt(quick_score(theta, theta)))
    along, reach = quick_score(target, theta), rounding * np.sqrt(quick_score(target, target)) + least
    if rivals.shape[0] > 0:
        best = np.argmax(tops[: rivals.shape[0]])
        rivals[0], rivals[best] = rivals[best], rivals[0]
        tops[0], tops[best] = tops[best], tops[0]
    count, low = 0, -np.inf
    for c in range(rivals.shape[0]):
        i = rivals[c]
        if tops[c] >= floor and picking.available[i]:
            score = quick_score(block[index[i]], theta)
            slack = rounding * (norms[i] + TINY) + least
            low = max(low, score - slack)
            # Codes are of rows from which the target was subtracted.
            sure = (score - along - 2.0 * (slack + reach)) / norm
            floor = max(floor, np.float32(sure - 1e-6 * abs(sure)))
            rivals[count], scores[count] = i, score + slack
            count += 1
    return count, low


@njit(nogil=True, cache=True, boundscheck=False)
def _scan_part(picking: Picking, coded: Codes, shared: Shared, side: int, part: int) -> None:
    """Find the rows of a part that may be the best, and score them."""
    floor, low = bound_part(coded, shared, side, part), -np.inf
    count = shared.counts[side, part]
    if count > 0:
        rivals, tops = shared.rivals[side, part, :count], shared.tops[side, part]
        count, low = _score_rivals(
            picking, coded.traits[NORM], rivals, tops, floor, shared.norm[0], shared.scores[side, part]
        )
    shared.counts[side, part], shared.lows[side, part] = count, low


@njit(nogil=True, cache=True, boundscheck=False)
def help_picking(picking: Picking, coded: Codes, shared: Shared, part: int) -> None:
    """Scan a part of the rows at every step that is announced, until the last."""
    step = 0
    while True:
        step = await_step(shared.words, step)
        if step == LAST_STEP:
            return
        if claim(shared.words, part, step):
            _scan_part(picking, coded, shared, 1, part)
            finish(shared.words, part, step)


@njit(nogil=True, cache=True, boundscheck=False)
def _keep_open(
    rivals: NDArray[np.int64], scores: NDArray[np.float64], low: float, found: NDArray[np.int64], count: int
) -> int:
    """Append the rivals that may reach the best lower bound to ``found``; return how many there are now."""
    for c in range(rivals.shape[0]):
        if not scores[c] < low:
            found[count] = rivals[c]
            count += 1
    return count


@njit(nogil=True, cache=True, boundscheck=False)
def _take_best(picking: Picking, coded: Codes, found: NDArray[np.int64], count: int, done: int) -> bool:
    """Make a pick among the rows found and those that no code bounds; return False if there is none."""
    for row in coded.outside:
        if picking.available[row]:
            found[count] = row
            count += 1
    if count == 0:  # the bounds are of no use: the rows themselves are to be scored
        return False
    best = choose(picking.block, picking.row_index, picking.theta, found, count)
    note_pick(picking, best, done)
    if not picking.replacement:
        coded.traits[PENALTY, best] = TAKEN
    return True


@njit(nogil=True, cache=True, boundscheck=False)
def settle(
    picking: Picking,
    coded: Codes,
    rivals: NDArray[np.int64],
    tops: NDArray[np.float32],
    floor: Any,
    norm: float,
    done: int,
) -> tuple[int, int]:
    """Make a pick among rivals that are gathered; return how many picks there are now, and rows that were scored."""
    scores, found = np.empty(len(rivals)), np.empty(len(rivals) + len(coded.outside), dtype=np.int64)
    count, low = _score_rivals(picking, coded.traits[NORM], rivals, tops, floor, norm, scores)
    made = _take_best(picking, coded, found, _keep_open(rivals[:count], scores, low, found, 0), done)
    return done + int(made), count


@njit(nogil=True, cache=True, boundscheck=False)
def pick_one_by_one(picking: Picking, coded: Codes, shared: Shared, done: int, stop: int) -> tuple[int, int]:
    """Make picks until ``stop``, or until codes leave more rows open than there is room for, or none.

    Returns how many picks there are now, and how many rows were scored.
    """
    parts, scored = shared.counts.shape[1], 0
    sides = np.empty(parts, dtype=np.int64)
    found = np.empty(parts * shared.rivals.shape[2] + len(coded.outside), dtype=np.int64)
    while done < stop:
        prepare(picking.theta, coded.spread, shared)
        announce(shared.words, done + 1)
        low, least = -np.inf, 0
        for part in range(parts):
            sides[part] = 0
            if (
                part > 0
                and not claim(shared.words, part, done + 1)
                and finished(shared.words, part, done + 1)
            ):
                sides[part] = 1
            else:
                _scan_part(picking, coded, shared, 0, part)
            low = max(low, shared.lows[sides[part], part])
            least = min(least, shared.counts[sides[part], part])
        if least < 0:
            break
        count = 0
        for part in range(parts):
            side, more = sides[part], shared.counts[sides[part], part]
            rivals, scores = shared.rivals[side, part, :more], shared.scores[side, part]
            count = _keep_open(rivals, scores, low, found, count)
            scored += more
        if not _take_best(picking, coded, found, count, done):
            break
        done += 1
    return done, scored
