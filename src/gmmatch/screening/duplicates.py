"""Duplicates: rows much closer to another row than neighbors are. The first of them stays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.screening.blocks import SAMPLE, Blocks, fixed_random
from gmmatch.types import Indices, Mask, Matrix, Vector

# A copy is at most this part of the usual distance to a neighbour away, and so near that natural rows of as many
# dimensions would have no such pair in nineteen of twenty data sets.
_PART, _CHANCE = 0.1, 0.05
# Rows are compared along this many random directions, which keep distances to within a third.
_DIRECTIONS = 16
# Shifted grids: two copies share a cell of a grid four times as wide as their distance in most of them.
_GRIDS = 8
_ASKED = 100


def duplicate_rows(blocks: Blocks) -> Mask:
    """Return which rows are copies, exact or near, of a row before them.

    Examples
    --------
    >>> from gmmatch.rows.rows import Rows
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> X[10:30] = X[5]
    >>> int(duplicate_rows(Blocks(Rows(X))).sum())
    20
    """
    n, width = blocks.shape
    copied = np.zeros(n, dtype=bool)
    if n < 4:
        return copied
    random = fixed_random("duplicates")
    directions = blocks.put(random.standard_normal((width, _DIRECTIONS)))
    points = blocks.scores(lambda block, where: block @ directions)
    near = _copy_distance(points, random)
    mix = random.integers(1, 2**61, _DIRECTIONS) | 1
    keys = np.empty(n, dtype=np.int64)
    for _ in range(_GRIDS):
        write_cells(points, 4.0 * near, random.random(_DIRECTIONS), mix, keys)
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        other = first[place]
        later = np.flatnonzero(other < np.arange(n))
        copied[later] |= np.linalg.norm(points[later] - points[other[later]], axis=1) <= near
    # Where most rows have copies, as in tables of few values, that is how the data are.
    return copied if copied.mean() < 0.5 else np.zeros(n, dtype=bool)


@njit(nogil=True, cache=True, boundscheck=False)
def write_cells(points: NDArray[Any], width: float, shift: Vector, mix: Indices, keys: Indices) -> None:
    """Write a number for the cell of a grid that each point is in."""
    for i in range(len(points)):
        key = np.int64(0)
        for j in range(points.shape[1]):
            cell = np.floor(points[i, j] / width + shift[j])
            key += np.int64(min(max(cell, -2e18), 2e18)) * mix[j]
        keys[i] = key


@njit(nogil=True, cache=True, boundscheck=False, fastmath={"reassoc", "contract"})
def write_nearest(points: NDArray[Any], rows: Indices, nearest: Matrix) -> None:
    """Write the distances from some points to the two points that are nearest to each."""
    for i in range(len(points)):
        for place in range(len(rows)):
            square = 0.0
            for j in range(points.shape[1]):
                square += (points[i, j] - points[rows[place], j]) ** 2
            if square < nearest[place, 1] and i != rows[place]:
                nearest[place, 1] = max(square, nearest[place, 0])
                nearest[place, 0] = min(square, nearest[place, 0])
    nearest[:] = np.sqrt(nearest)


def _copy_distance(points: NDArray[np.float32], random: np.random.Generator) -> float:
    """Return the distance below which two rows are copies, from a few rows' distances to all others."""
    n = len(points)
    some = random.permutation(n)[:SAMPLE]
    scale = float(np.median(np.linalg.norm(points[some] - points[some[::-1]], axis=1)))
    if scale == 0.0:
        scale = float(np.linalg.norm(points - points[0], axis=1).max()) or 1.0
    nearest = np.full((min(n, _ASKED), 2), np.inf)
    write_nearest(points, some[:_ASKED], nearest)
    # float32 rows along random directions are known to about this much.
    rounding = 1e-6 * scale
    apart = nearest[nearest[:, 0] > rounding]
    if len(apart) <= 10:
        return max(scale * _PART, rounding)
    # Distances to neighbours grow as n^(1/d): the ratio of the first two tells d (Facco et al., 2017).
    ratio = float(np.mean(np.log(np.maximum(apart[:, 1] / apart[:, 0], 1.0 + 1e-9))))
    part = min(_PART, (_CHANCE / n / np.log(2.0)) ** max(ratio, 1e-3))
    return float(max(float(np.median(apart[:, 0])) * part, rounding))
