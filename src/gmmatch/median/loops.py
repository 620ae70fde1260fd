"""The compiled loops of the geometric median: one fused pass over a chunk of rows.

A pass reads each row twice, the second time from cache: once for its distance to the current point,
once to add its unit vector to the sum. Sums are float64 whatever the rows are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Where a pass leaves its scalar sums.
INVERSE_DISTANCES, OBJECTIVE, COINCIDENT, NEAREST_DISTANCE, NEAREST_ROW, NEAREST_WEIGHT = range(6)
N_SUMS = 6

# Below this a distance is zero: its inverse would overflow.
TINY = 1e-150

# Sums over the features may be reordered, which is what lets the compiler use vector instructions;
# NaN and infinity keep their meaning.
_VECTORISED = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=_VECTORISED, boundscheck=False)
def distance(row: NDArray[Any], point: NDArray[np.float64]) -> float:
    """Return the Euclidean distance from a row to a point."""
    squared = 0.0
    for j in range(point.shape[0]):
        difference = np.float64(row[j]) - point[j]
        squared += difference * difference
    return float(np.sqrt(squared))


@njit(nogil=True, cache=True, boundscheck=False)
def same_row(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Return whether two rows are equal; rows at equal distance need not be."""
    different = 0
    for j in range(one.shape[0]):
        different += one[j] != other[j]
    return different == 0


@njit(nogil=True, cache=True, fastmath=_VECTORISED, boundscheck=False)
def distances_chunk(
    block: NDArray[Any], index: NDArray[np.int64], point: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Write the distance of every row of a chunk to ``point`` into ``out``."""
    for i in range(index.shape[0]):
        out[i] = distance(block[index[i]], point)


@njit(nogil=True, cache=True, boundscheck=False)
def sum_chunk(
    block: NDArray[Any], index: NDArray[np.int64], weights: NDArray[np.float64], total: NDArray[np.float64]
) -> None:
    """Add the weighted sum of a chunk's rows, and of their weights, to ``total`` of shape (2, s + 1).

    The second half is what rounding has cost the first (Knuth's TwoSum). Together they have so many digits that a
    mean comes out with the same bits in whatever parts its rows are summed.
    """
    sums, lost = total[0], total[1]
    s = total.shape[1] - 1
    for i in range(index.shape[0]):
        row = block[index[i]]
        w = weights[i]
        for j in range(s):
            term = w * np.float64(row[j])
            before = sums[j]
            after = before + term
            added = after - before
            sums[j] = after
            lost[j] += (before - (after - added)) + (term - added)
        after = sums[s] + w
        added = after - sums[s]
        lost[s] += (sums[s] - (after - added)) + (w - added)
        sums[s] = after


@njit(nogil=True, cache=True, boundscheck=False)
def _in_cache(
    point: NDArray[np.float64], pull: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return copies that a processor reads and writes in turn without delay.

    Both begin at a cache line (64 bytes), for vectors that straddle two take a third longer; and they lie half a page
    (of 4096 bytes) apart, for a read seems to wait for a write at the same place of another page: twice as long.
    """
    s = point.shape[0]
    apart = (s // 512 + 1) * 512 + 256
    room = np.empty(apart + s + 7)
    first = -(room.ctypes.data // 8) % 8
    z, total = room[first : first + s], room[first + apart : first + apart + s]
    for j in range(s):
        z[j], total[j] = point[j], pull[j]
    return z, total


@njit(nogil=True, cache=True, fastmath=_VECTORISED, boundscheck=False)
def weiszfeld_chunk(
    block: NDArray[Any],
    index: NDArray[np.int64],
    weights: NDArray[np.float64],
    point: NDArray[np.float64],
    delta: float,
    distances: NDArray[np.float64],
    pull: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    """Add a chunk's share of Σ w(x−z)/(d+δ) to ``pull`` and write its scalar sums to ``sums``."""
    n = index.shape[0]
    z, total = _in_cache(point, pull)
    inverse, objective, coincident = 0.0, 0.0, 0.0
    nearest, nearest_row, nearest_weight = np.inf, -1, 0.0
    # Two rows share one trip through `total`: measured, the fastest for float32 rows of 384 to 1,024 numbers. Four
    # take up to 15% longer there, and up to 15% less elsewhere.
    coefficient = np.empty(2)
    for first in range(0, n, 2):
        coefficient[:] = 0.0
        for i in range(first, min(first + 2, n)):
            d = distance(block[index[i]], z)
            distances[i] = d
            w = weights[i]
            objective += w * d
            if d <= TINY:
                coincident += w
            elif w > 0.0:
                coefficient[i - first] = w / (d + delta)
                inverse += w / (d + delta)
                if d < nearest:
                    nearest, nearest_row, nearest_weight = d, i, w
                elif d == nearest and same_row(block[index[i]], block[index[nearest_row]]):
                    nearest_weight += w
        # Past the end, the last row stands in with a coefficient of 0.
        row0, row1 = block[index[first]], block[index[min(first + 1, n - 1)]]
        c0, c1 = coefficient[0], coefficient[1]
        for j in range(z.shape[0]):
            total[j] += c0 * (np.float64(row0[j]) - z[j]) + c1 * (np.float64(row1[j]) - z[j])
    for j in range(z.shape[0]):
        pull[j] = total[j]
    sums[INVERSE_DISTANCES] = inverse
    sums[OBJECTIVE] = objective
    sums[COINCIDENT] = coincident
    sums[NEAREST_DISTANCE] = nearest
    sums[NEAREST_ROW] = nearest_row
    sums[NEAREST_WEIGHT] = nearest_weight
