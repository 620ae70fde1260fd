"""How similar two rows have to be to count as near-duplicates, from the rows themselves."""

from __future__ import annotations

import numpy as np

from gmmatch._array import Indices, Matrix
from gmmatch.duplicates.sketch import READ_NUMBERS
from gmmatch.rows.base import RowMap, Rows

# The neighbors that tell how dense the rows are; copies of a row are hardly ever as many.
_NEIGHBORS = 10
# Pairs of natural rows that are expected to be as near as duplicates, in the whole data set.
_EXPECTED = 0.05
# Too few rows tell nothing about neighbors: only copies count.
_FEWEST = 50
# Grades hardly have more values than this; fewer distinct rows may differ in all of them by chance.
_FEW_VALUES = 16


def natural_threshold(
    rows: Rows,
    numbers: Indices,
    normalize: RowMap,
    *,
    n_queries: int,
    among: int,
    least: float,
    copies: float,
) -> tuple[float, float]:
    """Return the cosine, and the distance, that rows would hardly reach by chance.

    Within a small distance r of a row there are about c·rᵈ others, where d is the dimension of the data as its
    neighbors see it: the distances to the 10th and the 20th neighbor tell both d and c. The threshold is where so
    few neighbors are left, with c as in the densest tenth of the data, that 0.05 pairs are expected in all rows.

    Parameters
    ----------
    rows, numbers, normalize
        The rows, which of them take part, and what makes rows of length 1.
    n_queries, among : int
        Rows whose neighbors are searched for, and rows among which they are.
    least, copies : float
        The lowest and the highest threshold; the latter also where there are too few rows to tell. The distance has
        no such bounds.
    """
    n, count = len(numbers), 2 * _NEIGHBORS
    if n < _FEWEST:
        return copies, 0.0
    random = np.random.default_rng([*b"neighbours"])
    sample = np.sort(random.permutation(n)[:among])
    chosen = np.sort(random.permutation(len(sample))[:n_queries])
    similar = _nearest_cosines(rows, numbers[sample], chosen, normalize, count)
    tenth, twentieth = (np.sqrt(np.maximum(2.0 - 2.0 * similar[:, k - 1], 0.0)) for k in (_NEIGHBORS, count))
    distinct = tenth > 1e-3  # else all ten are copies
    if distinct.sum() < 10:
        return copies, 0.0
    dimension = np.log(2.0) / max(float(np.median(np.log(twentieth[distinct] / tenth[distinct]))), 1e-3)
    # Of all rows, as many more lie within a distance as there are more of them.
    neighbors = _NEIGHBORS * n / len(sample)
    shrinkage = (2.0 * _EXPECTED / (n * neighbors)) ** (1.0 / dimension)
    distance = float(np.quantile(tenth[distinct], 0.1)) * shrinkage
    return float(np.clip(1.0 - distance**2 / 2.0, least, copies)), distance


def _nearest_cosines(rows: Rows, numbers: Indices, chosen: Indices, normalize: RowMap, count: int) -> Matrix:
    """Return the highest cosines of the chosen rows with these rows, themselves left out, in descending order."""
    points = normalize(rows.take(numbers[chosen])).astype(np.float32)
    best = np.full((len(chosen), count), -2.0, dtype=np.float32)
    size = max(count, READ_NUMBERS // rows.n_features)
    for first in range(0, len(numbers), size):
        others = normalize(rows.take(numbers[first : first + size])).astype(np.float32)
        cosines = points @ others.T
        in_block = np.flatnonzero((chosen >= first) & (chosen < first + size))
        cosines[in_block, chosen[in_block] - first] = -2.0
        merged = np.concatenate([best, cosines], axis=1)
        best = np.partition(merged, merged.shape[1] - count, axis=1)[:, -count:]
    return -np.sort(-best.astype(np.float64), axis=1)


def values_tell(sample: Matrix, distance: float) -> bool:
    """Return whether equal rows are hardly ever so by chance, given a sample of standardized distinct rows.

    Grades, counts and categories come in steps: rows that differ by less than a step are equal. They are natural if
    ``distance``, at which rows are copies, is less than the radius of a ball of the same volume as such a cell.

    Examples
    --------
    >>> grades = np.random.default_rng(0).integers(1, 5, (200, 3)) / 1.12
    >>> values_tell(grades, 0.01), values_tell(grades + 1e-6 * np.arange(200)[:, None], 0.01)
    (False, True)
    """
    if len(sample) <= _FEW_VALUES:
        return False
    gaps = np.diff(np.sort(sample, axis=0), axis=0)
    steps = np.where(gaps > 0.0, gaps, np.inf).min(axis=0)
    steps = steps[np.isfinite(steps)]
    if not len(steps) or (gaps > 0.0).all(axis=0).any():
        return len(steps) > 0
    # Rows of d columns of unit variance, with the constant column, have a length of √(2d) before it becomes 1, and a
    # ball of volume 1 has a radius of √(d / 2πe).
    return bool(np.exp(np.log(steps).mean()) / np.sqrt(4.0 * np.pi * np.e) < distance)
