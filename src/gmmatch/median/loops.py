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


@njit(nogil=True, cache=True, fastmath=_VECTORISED, boundscheck=False)
def weiszfeld_chunk(
    block: NDArray[Any],
    index: NDArray[np.int64],
    weights: NDArray[np.float64],
    point: NDArray[np.float64],
    delta: float,
    near_origin: bool,
    distances: NDArray[np.float64],
    pull: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    """Add a chunk's share of Σ w(x−z)/(d+δ) to ``pull`` and of the scalar sums to ``sums``.

    With ``near_origin`` it is computed as Σ wx/d − z Σ w/d, which spares a subtraction per number; far
    from the origin, that difference would lose its digits.
    """
    n = index.shape[0]
    s = point.shape[0]
    inverse, objective, coincident = 0.0, 0.0, 0.0
    nearest, nearest_row, nearest_weight = np.inf, -1, 0.0
    # Four rows share one trip through `pull`, which halves the traffic to the cache.
    coefficient = np.empty(4)
    for first in range(0, n, 4):
        count = min(4, n - first)
        for i in range(first, first + count):
            d = distance(block[index[i]], point)
            distances[i] = d
            w = weights[i]
            coefficient[i - first] = 0.0
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
        if count == 4:
            row0, row1 = block[index[first]], block[index[first + 1]]
            row2, row3 = block[index[first + 2]], block[index[first + 3]]
            c0, c1, c2, c3 = coefficient[0], coefficient[1], coefficient[2], coefficient[3]
            if near_origin:
                for j in range(s):
                    pull[j] += (
                        c0 * np.float64(row0[j])
                        + c1 * np.float64(row1[j])
                        + c2 * np.float64(row2[j])
                        + c3 * np.float64(row3[j])
                    )
            else:
                for j in range(s):
                    z = point[j]
                    pull[j] += (
                        c0 * (np.float64(row0[j]) - z)
                        + c1 * (np.float64(row1[j]) - z)
                        + c2 * (np.float64(row2[j]) - z)
                        + c3 * (np.float64(row3[j]) - z)
                    )
        else:
            for i in range(first, first + count):
                row = block[index[i]]
                c = coefficient[i - first]
                for j in range(s):
                    pull[j] += c * (np.float64(row[j]) - (0.0 if near_origin else point[j]))
    if near_origin:
        for j in range(s):
            pull[j] -= inverse * point[j]
    sums[INVERSE_DISTANCES] = inverse
    sums[OBJECTIVE] = objective
    sums[COINCIDENT] = coincident
    sums[NEAREST_DISTANCE] = nearest
    sums[NEAREST_ROW] = nearest_row
    sums[NEAREST_WEIGHT] = nearest_weight
