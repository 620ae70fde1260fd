"""Sums over one block of rows, compiled.

A row is read twice, the second time from cache: once for its distance to the point of its group, and once to add its
unit vector. Sums are in float64 whatever the rows are.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from gmmatch._array import Block, Indices, Mask, Matrix, Vector

# Sums over features may be reordered, so that the compiler uses vector instructions. NaN keeps its meaning.
REORDER = {"reassoc", "contract", "nsz"}
# Below this a distance counts as zero: its inverse would overflow.
TINY = 1e-150
# The last columns of the terms of a group; before them are the gradient and the nearest row.
SCALARS = ("objective", "inverse", "coincident", "weight", "count", "distance", "number", "nearest_weight")
OBJECTIVE, INVERSE, COINCIDENT, WEIGHT, COUNT, DISTANCE, NUMBER, NEAREST_WEIGHT = range(-len(SCALARS), 0)


@njit(nogil=True, cache=True, fastmath=REORDER)
def squared_distance(row: Vector, point: Vector) -> float:
    """Return ‖x − z‖²."""
    total = 0.0
    for j in range(point.shape[0]):
        difference = np.float64(row[j]) - point[j]
        total += difference * difference
    return total


@njit(nogil=True, cache=True)
def _make_buffers(s: int) -> tuple[Vector, Vector]:
    """Return two buffers that a processor reads and writes in turn without delay.

    Both begin at a cache line of 64 bytes, and they lie half a page of 4096 bytes apart: a read seems to wait for a
    write at the same position of another page, which takes twice as long.
    """
    distance = (s // 512 + 1) * 512 + 256
    room = np.empty(distance + s + 7)
    first = -(room.ctypes.data // 8) % 8
    return room[first : first + s], room[first + distance : first + distance + s]


@njit(nogil=True, cache=True)
def sort_rows(codes: Indices, weights: Vector, slots: Indices, n_slots: int) -> tuple[Indices, Indices]:
    """Return the rows that take part, slot after slot and ascending in each, and where each slot starts."""
    starts = np.zeros(n_slots + 1, dtype=np.int64)
    for i in range(codes.shape[0]):
        if codes[i] >= 0 and slots[codes[i]] >= 0 and weights[i] > 0.0:
            starts[slots[codes[i]] + 1] += 1
    starts = np.cumsum(starts)
    order, ends = np.empty(starts[-1], dtype=np.int64), starts.copy()
    for i in range(codes.shape[0]):
        if codes[i] >= 0 and slots[codes[i]] >= 0 and weights[i] > 0.0:
            slot = slots[codes[i]]
            order[ends[slot]] = i
            ends[slot] += 1
    return order, starts


@njit(nogil=True, cache=True, fastmath=REORDER)
def write_terms(
    block: Block, numbers: Indices, weights: Vector, order: Indices, starts: Indices, points: Matrix, slots: Indices,
    delta: float, out: Matrix,
) -> None:  # fmt: skip
    """Write the terms of rows to ``out``; see :func:`gmmatch.median.terms.weiszfeld_terms`.

    Slot g has the rows ``order[starts[g]:starts[g + 1]]``: one after another, so that its sums stay in registers and
    in the cache. ``points`` and ``out`` are those of ``slots``.
    """
    s = points.shape[1]
    point, gradient = _make_buffers(s)
    pulls = np.empty(2)
    for slot in range(slots.shape[0]):
        i, stop, terms = starts[slots[slot]], starts[slots[slot] + 1], out[slot]
        terms[:], terms[DISTANCE], terms[NUMBER] = 0.0, np.inf, -1.0
        if i == stop:
            continue
        point[:], gradient[:] = points[slot], 0.0
        objective, inverse, coincident, weight = 0.0, 0.0, 0.0, 0.0
        distance, nearest, nearest_weight = np.inf, -1, 0.0
        terms[COUNT] = stop - i
        while i < stop:
            # Two rows share one trip through the gradient; past the end, a row stands in with a pull of 0.
            pulls[1] = 0.0
            for r in range(min(2, stop - i)):
                row = order[i + r]
                w, d = weights[row], np.sqrt(squared_distance(block[row], point))
                objective += w * d
                weight += w
                pulls[r] = 0.0
                if d <= TINY:
                    coincident += w
                    continue
                pulls[r] = w / (d + delta)
                inverse += pulls[r]
                if d < distance:
                    distance, nearest, nearest_weight = d, row, w
                elif d == distance:
                    nearest_weight += w
            first, second, c0, c1 = block[order[i]], block[order[min(i + 1, stop - 1)]], pulls[0], pulls[1]
            for j in range(s):
                gradient[j] += c0 * (np.float64(first[j]) - point[j]) + c1 * (
                    np.float64(second[j]) - point[j]
                )
            i += 2
        terms[:s] = gradient
        terms[OBJECTIVE] = objective
        terms[INVERSE] = inverse
        terms[COINCIDENT] = coincident
        terms[WEIGHT] = weight
        terms[NEAREST_WEIGHT] = nearest_weight
        if nearest >= 0:
            terms[DISTANCE], terms[NUMBER] = distance, numbers[nearest]
            for j in range(s):
                terms[s + j] = block[nearest, j]


@njit(nogil=True, cache=True, fastmath=REORDER)
def add_sums(block: Block, codes: Indices, weights: Vector, out: Matrix) -> None:
    """Add the weighted sum of the rows of each group to ``out``, and of their weights to its last column."""
    s = block.shape[1]
    for i in range(block.shape[0]):
        if codes[i] >= 0:
            total = out[codes[i]]
            for j in range(s):
                total[j] += weights[i] * np.float64(block[i, j])
            total[s] += weights[i]


@njit(nogil=True, cache=True)
def write_distances(block: Block, codes: Indices, points: Matrix, out: Vector) -> None:
    """Write the distance of every row to the point of its group into ``out``; 0 for rows of no group."""
    for i in range(block.shape[0]):
        out[i] = np.sqrt(squared_distance(block[i], points[codes[i]])) if codes[i] >= 0 else 0.0


@njit(nogil=True, cache=True)
def add_distance_stats(block: Block, codes: Indices, available: Mask, points: Matrix, out: Matrix) -> None:
    """Add the distances of the available rows to ``out``; see :func:`gmmatch.median.terms.distance_stats`."""
    for i in range(block.shape[0]):
        if codes[i] < 0 or not available[i]:
            continue
        d, stats = np.sqrt(squared_distance(block[i], points[codes[i]])), out[codes[i]]
        if d > TINY:
            stats[0] += np.log(d)
            stats[1] += 1.0
            stats[2] = max(stats[2], d)
