"""Rows that belong to nothing: outliers and corrupted groups.

Two rules, fitted on a sample and applied to all rows. *Far out*: a row beyond the end of the tail of all distances
from the middle. *A group*: in a mixture of the classes and of one group of other rows, a valley with hardly any rows
parts the group, the smaller part, from the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix, Vector, array_namespace, to_numpy
from gmmatch._threads import one_blas_thread
from gmmatch.preprocess import RobustScale
from gmmatch.rows.base import Rows
from gmmatch.screening.evidence import principal_components
from gmmatch.screening.groups import FEWEST_ROWS, ROWS_PER_MEAN, Group, find_groups
from gmmatch.screening.result import GROUP, NO_REASON, OUT_OF_DISTRIBUTION, OUTLIER

# Rows that the tail and mixtures are fitted to: more change little and cost more.
_SAMPLE_ROWS = 4_000
# The tail ends where a tenth of a row is expected, but not before rows are half again as far as usual: nearer ones
# do no harm.
_EXPECTED, _LEAST_RATE = 0.1, 0.1
# What spoils many rows shows in the leading directions.
_MAX_RANK = 32


@dataclass(frozen=True, eq=False)
class Outliers:
    """What is wrong with rows, whatever their labels.

    Attributes
    ----------
    reason : int8 array of shape (n,)
        ``NO_REASON``, ``OUTLIER``, ``OUT_OF_DISTRIBUTION`` for a corrupted group or rows of no class, or ``GROUP``
        for a group that lies apart and may be a kind of its own.
    score : float64 array of shape (n,)
        How far the row lies beyond the limit of a rule; above 0 for rows with a reason.
    notes : list of str
        What people should know of groups.
    """

    reason: NDArray[np.int8]
    score: Vector
    notes: list[str] = field(default_factory=list)


def find_outliers(rows: Rows, codes: Indices, n_classes: int, seed: int = 0) -> Outliers:
    """Find rows that are far out, corrupted or of no class.

    Parameters
    ----------
    rows : Rows
    codes : int64 array of shape (n,)
        The class of each row, -1 without a label.
    n_classes : int
        0 without labels.
    seed : int
        Of the sample that the rules are fitted to.

    Examples
    --------
    >>> from gmmatch.rows import open_rows
    >>> X = np.random.default_rng(0).standard_normal((1000, 8))
    >>> X[:300] += 4.0
    >>> X[500] = 1e30
    >>> with open_rows(X) as rows:
    ...     outliers = find_outliers(rows, np.full(1000, -1), 0)
    >>> int(outliers.reason[500]), np.flatnonzero(outliers.reason == OUT_OF_DISTRIBUTION).tolist() == list(range(300))
    (2, True)
    """
    random = np.random.default_rng(seed)
    index = random.permutation(len(rows))[:_SAMPLE_ROWS]
    raw = rows.take(index)
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        score = find_far(rows, raw)
        outliers = Outliers(np.where(score > 0.0, OUTLIER, NO_REASON).astype(np.int8), score)
        near = score[index] <= 0.0
        index, raw = index[near], raw[near]
        if len(index) < FEWEST_ROWS:
            return replace(
                outliers, notes=[f"Groups of rows were not looked for: that takes {FEWEST_ROWS} rows."]
            )
        raw = spread_levels(raw, random)
        space = Space(raw)
        return _mark_groups(rows, space(raw), codes[index], n_classes, space, outliers, random)


def measure_columns(raw: Matrix) -> RobustScale:
    """Return the map to deviations from the median of each column, in units of their usual size.

    Zero deviations are left out, so that the unit of a column that is mostly zero is the size of what is not; and
    deviations count up to ten times the middle one, so that no single value sets the unit.
    """
    center = np.median(raw, axis=0)
    deviations = np.sort(np.abs(raw - center), axis=0)
    counts = (deviations > 0.0).sum(axis=0)
    middle = np.minimum(len(raw) - counts + counts // 2, len(raw) - 1)
    capped = np.minimum(deviations, 10.0 * deviations[middle, np.arange(raw.shape[1])])
    scale = np.sqrt((capped**2).sum(axis=0) / np.maximum(counts, 1))
    return RobustScale(center, np.where(scale > 0.0, scale, np.inf))


class Space:
    """Standardized rows along their leading directions, and the log of what is left of their length."""

    def __init__(self, raw: Matrix) -> None:
        self.columns = measure_columns(raw)
        rank = min(raw.shape[1], _MAX_RANK, len(raw) // ROWS_PER_MEAN)
        self.axes = principal_components(self.columns(raw), rank).astype(np.float64)

    def __call__(self, block: Any) -> Matrix:
        """Return the coordinates of rows, in main memory."""
        values = to_numpy(self.columns(block)).astype(np.float64)
        coordinates: Matrix = values @ self.axes
        if len(self.axes) == coordinates.shape[1]:
            return coordinates
        rest = (values**2).sum(axis=1) - (coordinates**2).sum(axis=1)
        return np.column_stack([coordinates, np.log(np.maximum(rest, 1e-12))])


def find_far(rows: Rows, raw: Matrix) -> Vector:
    """Return how far the log size of each row exceeds the end of the tail."""
    columns = measure_columns(raw)
    sizes = rows.map_blocks(log_sizes, columns.center, columns.scale)
    moved = sizes[np.isfinite(sizes)]
    if len(moved) < 2:
        return np.full(len(rows), -np.inf)
    # Beyond the median the tail is taken as exponential up to the 90% quantile: a tenth of the rows may be far out.
    start, end = np.quantile(moved, [0.5, 0.9])
    rate = max((end - start) / np.log(5.0), _LEAST_RATE) * (1.0 + 4.0 / np.sqrt(len(moved)))
    return np.asarray(sizes - start - rate * np.log(0.5 * len(moved) / _EXPECTED))


def log_sizes(block: Any, center: Any, scale: Any) -> Any:
    """Return the log mean square of each row's deviations, in units of the columns."""
    xp = array_namespace(block)
    with np.errstate(over="ignore", divide="ignore"):
        deviations = xp.abs(block - xp.astype(center, block.dtype)) / xp.astype(scale, block.dtype)
        squares = xp.astype(xp.clip(deviations, 0.0, 1e15), xp.float64) ** 2
        return xp.log(xp.mean(squares, axis=1))


def spread_levels(raw: Matrix, random: np.random.Generator) -> Matrix:
    """Spread values over half of the usual gap between a column's values, so that grades and flags make no valley."""
    gaps = np.diff(np.sort(raw, axis=0), axis=0)
    gaps[gaps == 0.0] = np.nan
    gap = [np.median(column[column > 0.0]) if (column > 0.0).any() else 0.0 for column in gaps.T]
    jittered: Matrix = raw + random.uniform(-0.5, 0.5, raw.shape) * gap
    return jittered


def _mark_groups(
    rows: Rows, values: Matrix, given: Indices, n_classes: int, space: Space, outliers: Outliers,
    random: np.random.Generator,
) -> Outliers:  # fmt: skip
    """Return the outliers with the groups of all rows."""
    groups, sure = find_groups(values, given, n_classes, random)
    sizes = [group.inside.sum() / len(values) for group in groups]
    if sum(sizes) > 0.5:
        shown = ", ".join(f"{size:.0%}" for size in sizes)
        note = f"The rows fall into several groups ({shown}, and the rest): none is a majority, and all are kept."
        return replace(outliers, notes=[note])
    reason, score, notes = outliers.reason.copy(), outliers.score, []
    margins = rows.map_blocks(group_margins, space, groups) if groups else np.empty((len(rows), 0))
    for group, margin in zip(groups, margins.T, strict=True):
        inside = (margin > 0.0) & (reason == NO_REASON)
        reason[inside], score = OUT_OF_DISTRIBUTION if sure else GROUP, np.maximum(score, margin)
        note = (
            f"{inside.sum():,} rows ({inside.mean():.0%}) are a group that hardly any row connects with the others, "
            f"{group.distance:.1f} times as far from the middle as these"
        )
        alike = ", with labels of all classes alike" if n_classes else ""
        doubt = "corrupted, or a kind of their own. Look at them, then keep or drop groups."
        notes.append(f"{note}{alike}: likely corrupted." if sure else f"{note}: {doubt}")
    return Outliers(reason, score, notes)


def group_margins(block: Any, space: Space, groups: list[Group]) -> Matrix:
    """Return how far rows lie beyond the valley of each group, shape (n, groups)."""
    values = space(block)
    return np.stack([group.margins(values) for group in groups], axis=1)
