"""Rows that belong to nothing: outliers, corrupted groups, rows of no class.

Three rules, fitted on a sample and applied to all rows. *Far out*: a row beyond the end of the tail of all
distances from the middle. *A group*: in a mixture of the classes and of one group without a class, a valley with
hardly any rows parts the group from the rest. *Labels say nothing*: the labels around a row are as mixed as shuffled
labels are, and a valley parts such rows from those whose neighbors agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix, Vector, array_namespace, to_numpy
from gmmatch._threads import one_blas_thread
from gmmatch.rows.base import Rows
from gmmatch.screening.evidence import Standardize, principal_components
from gmmatch.screening.groups import FEWEST_ROWS, Group, find_groups, is_group, model_sample
from gmmatch.screening.learners import find_nearest
from gmmatch.screening.mixture import find_valley
from gmmatch.screening.result import GROUP, NO_REASON, OUT_OF_DISTRIBUTION, OUTLIER

# Rows that neighbors are looked for among, and that mixtures are fitted to: more change little and cost more.
_SAMPLE_ROWS, _MIXTURE_ROWS = 4_000, 2_000
# Of fewer rows, the labels around a row are mixed by chance.
_FEWEST_FOR_LABELS = 1_000
# The tail is fitted from the median to the 90% quantile, so that a tenth of the rows may be far out. It ends where a
# tenth of a row is expected, but not before rows are half again as far as usual: nearer ones do no harm.
_EXPECTED, _LEAST_RATE = 0.1, 0.1
# Columns of fewer values are grades, counts or flags: each value stands for the range around it.
_LEVELS = 32
# A scatter of r dimensions is known to 15% from 40 r rows; what spoils many rows shows in the leading directions.
_MAX_RANK, _ROWS_PER_DIMENSION = 32, 40
# Labels around a row are those of so many neighbors. A valley half as deep as the lower peak is enough, since rows
# below it must also be within half again of what shuffled labels show.
_NEIGHBORS, _LABEL_VALLEY, _SHUFFLED = 20, 0.5, 1.5


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
        standardize = measure_columns(raw)
        score = find_far(rows, raw, standardize)
        outliers = Outliers(np.where(score > 0.0, OUTLIER, NO_REASON).astype(np.int8), score)
        near = outliers.reason[index] == NO_REASON
        index, raw = index[near], raw[near]
        if len(index) < FEWEST_ROWS:
            return replace(
                outliers, notes=[f"Groups of rows were not looked for: that takes {FEWEST_ROWS} rows."]
            )
        if 2 * len(np.unique(raw, axis=0)) < len(raw):
            # There is nothing but valleys between the few values that rows have.
            return replace(outliers, notes=["Groups of rows were not looked for: most rows have equals."])
        space = Space.fit(standardize, spread_levels(raw, random))
        agreement = measure_agreement(standardize(raw), codes[index])
        if not agreement:
            # A fault hits all classes alike, but so does everything where labels have nothing to do with the rows.
            codes, n_classes = np.full(len(rows), -1), 0
        outliers = _mark_groups(
            rows, codes, n_classes, agreement, index[:_MIXTURE_ROWS], space, outliers, random
        )
        if n_classes > 2:
            usable = (outliers.reason[index] == NO_REASON) & (codes[index] >= 0)
            outliers = _mark_unexplained(rows, codes, index[usable], space, outliers, random)
    return outliers


def measure_agreement(values: Any, codes: Indices) -> float:
    """Return how far labels follow the rows: 1 where near rows share their label, 0 where they do so by chance.

    Noise of a rate r brings the labels of a kind of rows this much nearer to those of all rows: random noise among K
    classes leaves 1 - r K / (K - 1).
    """
    labeled = np.flatnonzero(codes >= 0)[:_FEWEST_FOR_LABELS]
    if len(labeled) < 3:
        return 0.0
    values, codes = values[labeled], codes[labeled]
    nearest = find_nearest(values, values, 2)[0]
    # Of equal rows, the row itself may come second.
    nearest = np.where(nearest[:, 0] == np.arange(len(codes)), nearest[:, 1], nearest[:, 0])
    chance = float(((np.bincount(codes) / len(codes)) ** 2).sum())
    excess = float((codes[nearest] == codes).mean()) - chance
    if excess <= 3.0 * np.sqrt(chance * (1.0 - chance) / len(codes)):
        return 0.0
    # Both labels of a pair have gone through the noise.
    return float(np.sqrt(excess / (1.0 - chance)))


def measure_columns(raw: Matrix) -> Standardize:
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
    return Standardize(center, np.where(scale > 0.0, scale, np.inf), None)


def find_far(rows: Rows, raw: Matrix, standardize: Standardize) -> Vector:
    """Return how far the log size of each row exceeds the end of the tail, in units of columns or as it is."""
    center = standardize.center
    lengths = np.linalg.norm(np.clip(raw - center, -1e150, 1e150), axis=1)
    length = float(np.median(lengths[lengths > 0.0])) if lengths.any() else 1.0
    sizes = rows.map_blocks(log_sizes, center, standardize.scale, length)
    excess = np.full(len(rows), -np.inf)
    for size in sizes.T:
        moved = size[np.isfinite(size)]
        if len(moved) > 1:
            start, end = np.quantile(moved, [0.5, 0.9])
            over = np.minimum(moved[moved > start], end) - start
            inner = max(int((over < end - start).sum()), 1)
            # Of few rows the rate is not known well: two standard errors are added.
            rate = max(over.sum() / inner, _LEAST_RATE) * (1.0 + 2.0 / np.sqrt(inner))
            excess = np.maximum(excess, size - start - rate * np.log(0.5 * len(moved) / _EXPECTED))
    return np.where(np.isfinite(excess), excess, -1e3)


def log_sizes(block: Any, center: Any, scale: Any, length: float) -> Any:
    """Return the log mean square of each row's deviations in units of columns, and in units of the usual length."""
    xp = array_namespace(block)
    with np.errstate(over="ignore", divide="ignore"):
        deviations = xp.abs(block - xp.astype(center, block.dtype))
        sizes = [
            xp.mean(xp.clip(deviations / unit, 0.0, 1e15) ** 2, axis=1)
            for unit in (xp.astype(scale, block.dtype), length)
        ]
        return xp.log(xp.astype(xp.stack(sizes, axis=1), xp.float64))


@dataclass(frozen=True, eq=False)
class Space:
    """Standardized rows along their leading directions, and the log of what is left of their length.

    Attributes
    ----------
    standardize : Standardize
    axes : array of shape (s, r)
        The first direction has unit variance.
    values : array of shape (m, r)
        Coordinates of the sample, with grades spread.
    scale : float
        Of the directions, in standardized units.
    rest : tuple of two floats, optional
        Middle and deviation of the log energy outside the directions; None if there are as many as columns.
    """

    standardize: Standardize
    axes: Matrix
    values: Matrix
    scale: float
    rest: tuple[float, float] | None = None

    @classmethod
    def fit(cls, standardize: Standardize, raw: Matrix) -> Space:
        """Find the leading directions of rows."""
        values = standardize(raw).astype(np.float64)
        rank = min(values.shape[1], _MAX_RANK, max(2, len(values) // _ROWS_PER_DIMENSION))
        axes = principal_components(values[:_MIXTURE_ROWS], rank)
        axes /= np.linalg.norm(axes, axis=0)
        scale = float(np.sqrt(((values @ axes[:, -1]) ** 2).mean())) + 1e-30
        space = cls(standardize, axes / scale, values, scale)
        if rank < values.shape[1]:
            energy = replace(space, rest=(0.0, 1.0)).project(values)[:, -1]
            space = replace(space, rest=(float(np.median(energy)), float(energy.std()) + 1e-9))
        return replace(space, values=space.project(values))

    def project(self, values: Matrix) -> Matrix:
        """Return the coordinates of standardized rows."""
        coordinates = (values @ self.axes.astype(values.dtype)).astype(np.float64)
        if self.rest is None:
            return coordinates
        energy = (values**2).sum(axis=1) / self.scale**2 - (coordinates**2).sum(axis=1)
        energy = (np.log(np.maximum(energy, 1e-12)) - self.rest[0]) / self.rest[1]
        return np.column_stack([coordinates, energy])

    def __call__(self, block: Any) -> Matrix:
        """Return the coordinates of rows, in main memory."""
        return self.project(to_numpy(self.standardize(block)))


def spread_levels(raw: Matrix, random: np.random.Generator) -> Matrix:
    """Spread each value of columns of few values over the range that it stands for, so that it makes no valley."""
    jittered = raw.copy()
    few = (np.diff(np.sort(raw[: 4 * _LEVELS], axis=0), axis=0) > 0.0).sum(axis=0) < _LEVELS
    for column in np.flatnonzero(few):
        levels, level = np.unique(raw[:, column], return_inverse=True)
        if 1 < len(levels) <= _LEVELS and np.bincount(level).max() <= 0.5 * len(raw):
            middles = 0.5 * (levels[1:] + levels[:-1])
            ends = np.concatenate([2 * levels[:1] - middles[:1], middles, 2 * levels[-1:] - middles[-1:]])
            jittered[:, column] = random.uniform(ends[level], ends[level + 1])
    return jittered


def _mark_groups(
    rows: Rows, codes: Indices, n_classes: int, agreement: float, index: Indices, space: Space, outliers: Outliers,
    random: np.random.Generator,
) -> Outliers:  # fmt: skip
    """Return the outliers with the groups of all rows."""
    given = codes[index]
    shares = np.bincount(given[given >= 0], minlength=max(1, n_classes)) / max(1, (given >= 0).sum())
    groups, sure = find_groups(space.values[: len(index)], given, shares, agreement, random)
    if not groups:
        return outliers
    sizes = [float(group.inside.mean()) for group in groups]
    if sum(sizes) > 0.5:
        shown = ", ".join(f"{size:.0%}" for size in sizes)
        note = f"The rows fall into several groups ({shown}, and the rest): none is a majority, and all are kept."
        return replace(outliers, notes=[*outliers.notes, note])
    numbers, margin = rows.map_blocks(group_margins, space, groups, shares, per_row=(codes,)).T
    reason, notes = outliers.reason.copy(), list(outliers.notes)
    for number, group in enumerate(groups):
        inside = (numbers == number) & (reason == NO_REASON)
        reason[inside] = OUT_OF_DISTRIBUTION if sure else GROUP
        notes.append(_describe_group(int(inside.sum()), len(rows), group, n_classes > 0, sure))
    return Outliers(reason, np.maximum(outliers.score, margin), notes)


def _describe_group(size: int, n: int, group: Group, labeled: bool, sure: bool) -> str:
    text = f"{size:,} rows ({size / n:.0%}) are a group that hardly any row connects with the others"
    text += f", {group.distance:.1f} times as far from the middle as these"
    if sure:
        return f"{text}{', with labels of all classes alike' if labeled else ''}: likely corrupted."
    return f"{text}: corrupted, or a kind of their own. Look at them, then keep or drop groups."


def group_margins(block: Any, codes: Any, space: Space, groups: list[Group], shares: Any) -> Matrix:
    """Return the first group of each row, -1 without one, and how far the row lies beyond a group's valley."""
    sample = model_sample(space(block), codes, to_numpy(shares))
    margins = np.array([group.margins(sample) for group in groups])
    beyond = margins > 0.0
    first = np.where(beyond.any(axis=0), beyond.argmax(axis=0), -1)
    return np.column_stack([first, margins.max(axis=0)])


def _mark_unexplained(
    rows: Rows, codes: Indices, index: Indices, space: Space, outliers: Outliers, random: np.random.Generator
) -> Outliers:
    """Return the outliers with the rows around which labels say nothing."""
    given = codes[index]
    if len(given) < _FEWEST_FOR_LABELS:
        return outliers
    references = _directions(space(rows.take(index)))
    near = find_nearest(references, references, _NEIGHBORS + 1)[0]
    information, smoothed = _information(given, near)
    shuffled = _information(random.permutation(given), near)[1]
    usual, low = np.median(shuffled), smoothed < 0.5 * (np.median(shuffled) + np.median(smoothed))
    if not is_group(low):
        return outliers
    depth, cut = find_valley(-smoothed, low, both=True)
    below = smoothed < -cut
    if depth >= _LABEL_VALLEY or not np.median(smoothed[below]) <= _SHUFFLED * np.quantile(shuffled, 0.99):
        return outliers
    # Half way down: rows in the valley are as likely good.
    margin = 0.5 * (usual - cut) - rows.map_blocks(label_information, space, references, information)
    margin[codes < 0] = -1.0
    unexplained = (margin > 0.0) & (outliers.reason == NO_REASON)
    if unexplained.mean() > 0.5:
        return outliers
    size = f"{unexplained.sum():,} rows ({unexplained.mean():.0%})"
    note = f"{size} are of no class: the labels around them say nothing."
    reason = np.where(unexplained, OUT_OF_DISTRIBUTION, outliers.reason).astype(np.int8)
    return Outliers(reason, np.maximum(outliers.score, margin), [*outliers.notes, note])


def _information(codes: Indices, near: Indices) -> tuple[Vector, Vector]:
    """Return how far the labels around each row differ from those of all (Kullback and Leibler), also smoothed."""
    n_classes = int(codes.max()) + 1
    flat = np.arange(len(codes))[:, None] * n_classes + codes[near[:, 1:]]
    shares = np.bincount(flat.ravel(), minlength=len(codes) * n_classes).reshape(len(codes), -1) / _NEIGHBORS
    usual = np.maximum(np.bincount(codes, minlength=n_classes), 1) / len(codes)
    information = (shares * np.log(np.where(shares > 0.0, shares, 1.0) / usual)).sum(axis=1)
    return information, information[near[:, : _NEIGHBORS // 2 + 1]].mean(axis=1)


def label_information(block: Any, space: Space, references: Any, information: Any) -> Vector:
    """Return the smoothed information of labels around each row."""
    near, _ = find_nearest(_directions(space(block)), to_numpy(references), _NEIGHBORS // 2 + 1)
    smoothed: Vector = to_numpy(information)[near].mean(axis=1)
    return smoothed


def _directions(values: Matrix) -> NDArray[np.float32]:
    directions: NDArray[np.float32] = values.astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True) + np.float32(1e-12)
    return directions
