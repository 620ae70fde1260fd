"""Functions of a block that means, distances and medians are made of.

They take blocks of NumPy or torch. NumPy blocks go to compiled loops, so rows in memory, in files and on Ray workers
all have them; another namespace goes through the array API.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch._array import (
    Matrix,
    array_namespace,
    best_in_groups,
    is_numpy_array,
    max_groups,
    sum_groups,
    to_numpy,
)
from gmmatch._triton import has_kernels
from gmmatch.median import compiled
from gmmatch.median.compiled import DISTANCE, NEAREST_WEIGHT, NUMBER, SCALARS


def weighted_sums(block: Any, codes: Any, weights: Any, n_groups: int) -> Any:
    """Return Σ w x and Σ w over the rows of each group, shape (G, s + 1).

    Examples
    --------
    >>> weighted_sums(np.array([[1.0], [3.0]]), np.array([0, 0]), np.array([1.0, 2.0]), 1)
    array([[7., 3.]])
    """
    if is_numpy_array(block):
        out = np.zeros((n_groups, block.shape[1] + 1))
        compiled.add_sums(block, codes, weights, out)
        return out
    xp = array_namespace(block)
    rows = xp.astype(block, xp.float64)
    return sum_groups(xp.concat([rows * weights[:, None], weights[:, None]], axis=1), codes, n_groups)


def distances(block: Any, codes: Any, points: Any) -> Any:
    """Return the distance of each row to the point of its group, shape (m,); 0 for rows of no group.

    Examples
    --------
    >>> distances(np.array([[3.0, 4.0], [1.0, 1.0]]), np.array([0, -1]), np.zeros((1, 2)))
    array([5., 0.])
    """
    if is_numpy_array(block):
        out = np.empty(len(block))
        compiled.write_distances(block, codes, points, out)
        return out
    if has_kernels(block):
        from gmmatch.median.triton import compute_distances

        return compute_distances(block, codes, points)
    xp = array_namespace(block)
    lengths = xp.linalg.vector_norm(block - points[codes], axis=1)
    return xp.where(codes >= 0, lengths, 0.0)


def weiszfeld_terms(
    block: Any, numbers: Any, codes: Any, weights: Any, points: Any, slots: Any, delta: float
) -> Matrix:
    """Return what a block adds to the evaluation of a point z for each active group.

    Parameters
    ----------
    block : array of shape (m, s)
    numbers, codes, weights : arrays of shape (m,)
        The number of each row, its group (-1 for none) and its weight.
    points : array of shape (A, s)
        The points of the active groups.
    slots : array of shape (G,)
        Where each group stands among the active ones; -1 for the others.
    delta : float
        The paper's δ.

    Returns
    -------
    array of shape (A, 2 s + 8)
        ``gradient``: Σ w (x − z) / (d + δ) over the rows that are not at z, which is minus the gradient.
        ``nearest``: the nearest of these rows, with its ``distance`` and ``number``, and the ``nearest_weight`` of
        all rows at that distance, which count as its copies. ``objective``: Σ w d. ``inverse``: Σ w / (d + δ).
        ``coincident``: the weight of the rows at z. ``weight`` and ``count`` of all rows.
    """
    n_points, s = points.shape
    out = np.empty((n_points, 2 * s + len(SCALARS)))
    if is_numpy_array(block):
        order, starts = compiled.sort_rows(codes, weights, slots, n_points)
        every = np.arange(n_points)
        compiled.write_terms(block, numbers, weights, order, starts, points, every, delta, out)
        return out
    xp = array_namespace(block)
    active = xp.where((codes >= 0) & (weights > 0.0), slots[codes], -1)
    difference = block - points[active]
    d = xp.linalg.vector_norm(difference, axis=1)
    at_point = d <= compiled.TINY
    pull = xp.where(at_point, 0.0, weights / xp.where(at_point, 1.0, d + delta))
    sums = xp.stack([weights * d, pull, xp.where(at_point, weights, 0.0), weights, xp.ones_like(d)], axis=1)
    others = xp.where(at_point, -1, active)
    groups, nearest = best_in_groups(-d, others)
    least = -max_groups(-d, others, n_points)
    copies = xp.where((others >= 0) & (d == least[others]), weights, 0.0)
    out[:, :s] = to_numpy(sum_groups(pull[:, None] * difference, active, n_points))
    out[:, 2 * s : DISTANCE] = to_numpy(sum_groups(sums, active, n_points))
    out[:, DISTANCE], out[:, NEAREST_WEIGHT] = to_numpy(least), to_numpy(sum_groups(copies, others, n_points))
    out[:, NUMBER], out[:, s : 2 * s] = -1.0, 0.0
    owners = to_numpy(groups)
    out[owners, NUMBER], out[owners, s : 2 * s] = to_numpy(numbers[nearest]), to_numpy(block[nearest])
    return out


def combine_terms(left: Matrix, right: Matrix) -> Matrix:
    """Return the terms of two sets of rows together: sums are added, the nearer of the nearest rows stays."""
    # In place: terms of many groups are large, and nobody else has those of the left rows.
    total = left if left.flags.writeable else left.copy()
    s = (left.shape[1] - len(SCALARS)) // 2
    nearer, tied = right[:, DISTANCE] < left[:, DISTANCE], right[:, DISTANCE] == left[:, DISTANCE]
    total[:, :s] += right[:, :s]
    total[:, 2 * s : DISTANCE] += right[:, 2 * s : DISTANCE]
    if tied.any():
        total[tied, NEAREST_WEIGHT] += right[tied, NEAREST_WEIGHT]
    if nearer.any():
        for columns in (slice(s, 2 * s), slice(DISTANCE, None)):
            total[nearer, columns] = right[nearer, columns]
    return total


def distance_stats(block: Any, codes: Any, available: Any, points: Any) -> Matrix:
    """Return Σ log d, the count and the largest d over the available rows of each group, shape (G, 3).

    Rows at the point of their group are left out. The mean of log d tells a typical distance, which no far row moves.
    """
    out = np.zeros((len(points), 3))
    if is_numpy_array(block):
        compiled.add_distance_stats(block, codes, available, points, out)
        return out
    xp = array_namespace(block)
    d = distances(block, codes, points)
    active = xp.where(available & (d > compiled.TINY), codes, -1)
    sums = xp.stack([xp.log(xp.where(active >= 0, d, 1.0)), xp.ones_like(d)], axis=1)
    out[:, :2] = to_numpy(sum_groups(sums, active, len(points)))
    out[:, 2] = np.maximum(0.0, to_numpy(max_groups(d, active, len(points))))
    return out


def combine_distances(left: Matrix, right: Matrix) -> Matrix:
    """Return the statistics of two sets of rows together."""
    total = left + right
    total[:, 2] = np.maximum(left[:, 2], right[:, 2])
    return total
