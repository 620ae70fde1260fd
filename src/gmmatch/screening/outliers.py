"""Rows that belong to nothing: outliers, corrupted groups, rows of no class.

Three rules, fitted on a sample and applied to all rows. *Far out*: a row beyond the end of the tail of all
distances from the middle. *A group*: in a mixture of the classes and of one group without a class, a valley with
hardly any rows parts the group from the rest. *Labels say nothing*: the labels around a row are as mixed as shuffled
labels are, and a valley parts such rows from those whose neighbors agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask, Matrix, Vector, array_namespace, asarray_like, to_numpy
from gmmatch._threads import one_blas_thread
from gmmatch.rows.base import Rows
from gmmatch.screening.mixture import Mixtures, Points, Stack, find_valley

OUTLIER, OUT_OF_DISTRIBUTION, GROUP = 1, 2, 3

# Rows that mixtures are fitted to, and rows that neighbors are looked for among: more change little and cost more.
_SAMPLE_ROWS, _NEIGHBOR_ROWS = 2_000, 4_000
# Rows whose nearest neighbor tells whether labels have to do with rows at all.
_INFORM_ROWS = 1_000
# Fewer rows have groups by chance; and of fewer, the labels around a row are mixed by chance.
_FEWEST_ROWS, _FEWEST_FOR_LABELS = 100, 1_000
# The tail is fitted from the median to the 90% quantile, so that a tenth of the rows may be far out. It ends where a
# tenth of a row is expected, but not before rows are half again as far as usual: nearer ones do no harm.
_EXPECTED, _LEAST_RATE = 0.1, 0.1
# Columns of fewer values are grades, counts or flags: each value stands for the range around it.
_LEVELS = 32
# A scatter of r dimensions is known to 15% from 40 r rows; what spoils many rows shows in the leading directions.
_MAX_RANK, _ROWS_PER_DIMENSION = 32, 40
# Standardized values beyond this are as wild as this.
_LARGEST_VALUE = 6.0
# With more classes than this a mixture costs too much; labels are then only compared with those of the group.
_MAX_CLASSES = 32
# Steps of EM from each start, and again from what lies beyond its valley: more change little.
_STEPS, _FOLDS, _MAX_GROUPS = 6, 5, 8
# The emptiest bin as a share of the fullest bin of the group: heavy tails, skew and overlap have no such valley.
_VALLEY = 0.25
# A smaller group does little harm. Of two near halves neither can be called the wrong one.
_SMALLEST_SHARE, _FEWEST_IN_GROUP, _LARGEST_SHARE = 0.01, 20, 0.45
# The group's labels overlap with those of all rows by this share of what a random sample does: a fault hits all
# classes alike, a kind of its own belongs to some.
_ALIKE = 0.9
# Kinds of rows often belong to two classes alike, hardly ever to five.
_TELLING_CLASSES = 5
# Without labels, groups are corrupted for certain only if the others are one cloud: one more component may gain at
# most this much log-likelihood a row. Normal data gain 0.0, the images and tables that were tried 0.3 to 8; there,
# one more group is likely one more kind.
_LARGEST_GAIN = 0.25
# Labels around a row are those of so many neighbors. A valley half as deep as the lower peak is enough, since rows
# below it must also be within half again of what shuffled labels show.
_NEIGHBORS, _LABEL_VALLEY, _SHUFFLED = 20, 0.5, 1.5


@dataclass(frozen=True, eq=False)
class Outliers:
    """What is wrong with rows, whatever their labels.

    Attributes
    ----------
    reason : int8 array of shape (n,)
        0 none; 1 outlier; 2 out of distribution: a corrupted group, or rows of no class; 3 a group that lies apart
        and may be a kind of its own.
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
    >>> int(outliers.reason[500]), np.flatnonzero(outliers.reason == 2).tolist() == list(range(300))
    (1, True)
    """
    random = np.random.default_rng(seed)
    index = random.permutation(len(rows))[:_NEIGHBOR_ROWS]
    raw = rows.take(index)
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        center, unit = measure_columns(raw)
        score = find_far(rows, raw, center, unit)
        outliers = Outliers(np.where(score > 0.0, OUTLIER, 0).astype(np.int8), score)
        near = outliers.reason[index] == 0
        index, raw = index[near], raw[near]
        if len(index) < _FEWEST_ROWS:
            return replace(outliers, notes=["Groups of rows were not looked for: that takes 100 rows."])
        if n_classes and not labels_inform((raw - center) / unit, codes[index]):
            # A fault hits all classes alike, but so does everything where labels have nothing to do with the rows.
            codes, n_classes = np.full(len(rows), -1), 0
        sample = Sample.of(raw, codes[index], n_classes, center, unit, random)
        outliers = _mark_groups(rows, codes, sample, outliers, random)
        if n_classes > 2:
            judged = (outliers.reason[index] == 0) & (codes[index] >= 0)
            outliers = _mark_unexplained(
                rows, codes, sample, raw[judged], codes[index[judged]], outliers, random
            )
    return outliers


def labels_inform(values: Matrix, codes: Indices) -> bool:
    """Return whether near rows share their label more often than by chance, by three standard errors."""
    labeled = np.flatnonzero(codes >= 0)[:_INFORM_ROWS]
    values, codes = np.clip(values[labeled], -_LARGEST_VALUE, _LARGEST_VALUE), codes[labeled]
    if len(labeled) < 3:
        return False
    squares = (values**2).sum(axis=1)
    distances = squares[:, None] + squares - 2.0 * values @ values.T
    np.fill_diagonal(distances, np.inf)
    agreement = codes[distances.argmin(axis=1)] == codes
    chance = float(((np.bincount(codes) / len(codes)) ** 2).sum())
    return bool(agreement.mean() > chance + 3.0 * np.sqrt(chance * (1.0 - chance) / len(codes)))


def measure_columns(raw: Matrix) -> tuple[Vector, Vector]:
    """Return the median of each column, and the usual size of deviations from it, infinite for constant columns.

    Zero deviations are left out, so that the unit of a column that is mostly zero is the size of what is not; and
    deviations count up to ten times the middle one, so that no single value sets the unit.
    """
    center = np.median(raw, axis=0)
    deviations = np.sort(np.abs(raw - center), axis=0)
    counts = (deviations > 0.0).sum(axis=0)
    middle = np.minimum(len(raw) - counts + counts // 2, len(raw) - 1)
    capped = np.minimum(deviations, 10.0 * deviations[middle, np.arange(raw.shape[1])])
    unit = np.sqrt((capped**2).sum(axis=0) / np.maximum(counts, 1))
    return center, np.where(unit > 0.0, unit, np.inf)


def find_far(rows: Rows, raw: Matrix, center: Vector, unit: Vector) -> Vector:
    """Return how far the log size of each row exceeds the end of the tail, in units of columns or as it is."""
    lengths = np.linalg.norm(np.clip(raw - center, -1e150, 1e150), axis=1)
    length = float(np.median(lengths[lengths > 0.0])) if lengths.any() else 1.0
    sizes = rows.map_blocks(log_sizes, center, unit, length)
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


def log_sizes(block: Any, center: Any, unit: Any, length: float) -> Any:
    """Return the log mean square of each row's deviations in units of columns, and in units of the usual length."""
    xp = array_namespace(block)
    with np.errstate(over="ignore", divide="ignore"):
        deviations = xp.abs(block - xp.astype(center, block.dtype))
        sizes = [
            xp.mean(xp.clip(deviations / scale, 0.0, 1e15) ** 2, axis=1)
            for scale in (xp.astype(unit, block.dtype), length)
        ]
        return xp.log(xp.astype(xp.stack(sizes, axis=1), xp.float64))


@dataclass(frozen=True, eq=False)
class Space:
    """Standardized rows along their leading directions, and the log of what is left of their length.

    Attributes
    ----------
    center, unit : arrays of shape (s,)
    axes : array of shape (s, r)
        The first direction has unit variance.
    scale : float
        Of the directions, in standardized units.
    rest : tuple of two floats, optional
        Middle and deviation of the log energy outside the directions; None if there are as many as columns.
    """

    center: Vector
    unit: Vector
    axes: Matrix
    scale: float
    rest: tuple[float, float] | None = None

    @classmethod
    def fit(cls, raw: Matrix, center: Vector, unit: Vector, random: np.random.Generator) -> Space:
        """Find the leading directions of rows by a few steps of subspace iteration."""
        n, d = raw.shape
        values = np.clip((raw - center) / unit, -_LARGEST_VALUE, _LARGEST_VALUE)
        rank = min(d, _MAX_RANK, max(2, n // _ROWS_PER_DIMENSION))
        axes = np.linalg.qr(random.standard_normal((d, min(d, rank + 8))))[0]
        for _ in range(3 if axes.shape[1] < d else 0):
            axes = np.linalg.qr(values.T @ (values @ axes))[0]
        axes = axes @ np.linalg.svd(values @ axes, full_matrices=False)[2].T[:, :rank]
        scale = float(np.sqrt(((values @ axes[:, 0]) ** 2).mean())) + 1e-30
        space = cls(center, unit, axes / scale, scale)
        if rank == d:
            return space
        energy = replace(space, rest=(0.0, 1.0))(raw)[:, -1]
        return replace(space, rest=(float(np.median(energy)), float(energy.std()) + 1e-9))

    def __call__(self, block: Any) -> Matrix:
        """Return the coordinates of rows, in main memory."""
        xp = array_namespace(block)
        center, unit, axes = (
            xp.astype(asarray_like(values, block), block.dtype)
            for values in (self.center, self.unit, self.axes)
        )
        with np.errstate(over="ignore"):
            values = xp.clip((block - center) / unit, -_LARGEST_VALUE, _LARGEST_VALUE)
        coordinates = to_numpy(values @ axes).astype(np.float64)
        if self.rest is None:
            return coordinates
        energy = to_numpy(xp.sum(values * values, axis=1)) / self.scale**2 - (coordinates**2).sum(axis=1)
        energy = (np.log(np.maximum(energy, 1e-12)) - self.rest[0]) / self.rest[1]
        return np.column_stack([coordinates, energy])


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that groups are looked for among.

    Attributes
    ----------
    raw : array of shape (n, s)
    values : array of shape (n, r)
        Their coordinates, with grades spread.
    codes : int64 array of shape (n,)
    shares : array of shape (K,)
        Of the labels; of length 1 without.
    space : Space
    """

    raw: Matrix
    values: Matrix
    codes: Indices
    shares: Vector
    space: Space

    @classmethod
    def of(
        cls, raw: Matrix, codes: Indices, n_classes: int, center: Vector, unit: Vector, random: np.random.Generator
    ) -> Sample:  # fmt: skip
        """Take rows of a larger sample, and measure their space."""
        shares = np.bincount(codes[codes >= 0], minlength=max(1, n_classes)) / max(1, (codes >= 0).sum())
        raw, codes = raw[:_SAMPLE_ROWS], codes[:_SAMPLE_ROWS]
        jittered = spread_levels(raw, random)
        space = Space.fit(jittered, center, unit, random)
        return cls(raw, space(jittered), codes, shares, space)

    def __getitem__(self, kept: Mask) -> Sample:
        return replace(self, raw=self.raw[kept], values=self.values[kept], codes=self.codes[kept])

    @property
    def modeled_shares(self) -> Vector:
        """The shares of the classes that the mixture knows."""
        return self.shares if len(self.shares) <= _MAX_CLASSES else np.ones(1)

    def likeness(self, inside: Mask) -> float:
        """Return how far the labels of some rows overlap with those of all; about 1 for a random sample."""
        codes = self.codes[inside & (self.codes >= 0)]
        size, shares = max(1, len(codes)), self.shares
        overlap = np.minimum(np.bincount(codes, minlength=len(shares)) / size, shares).sum()
        # Half the mean absolute deviation of each count.
        return float(overlap / (1.0 - 0.4 * np.sqrt(shares * (1.0 - shares) / size).sum()))


def spread_levels(raw: Matrix, random: np.random.Generator) -> Matrix:
    """Spread each value of columns of few values over the range that it stands for, so that it makes no valley."""
    ordered = np.sort(raw, axis=0)
    steps = np.diff(ordered, axis=0) > 0.0
    jittered = raw.copy()
    for column in np.flatnonzero((steps.sum(axis=0) < _LEVELS) & steps.any(axis=0)):
        levels = np.append(ordered[0, column], ordered[1:, column][steps[:, column]])
        gaps, level = np.diff(levels), np.searchsorted(levels, raw[:, column])
        if np.bincount(level).max() > 0.5 * len(raw):
            continue
        shift = random.random(len(raw)) - 0.5
        below, above = np.append(gaps[:1], gaps)[level], np.append(gaps, gaps[-1:])[level]
        jittered[:, column] += shift * np.where(shift < 0.0, below, above)
    return jittered


@dataclass(frozen=True, eq=False)
class Group:
    """Rows beyond a valley of one of the columns of a mixture.

    Attributes
    ----------
    mixture : Mixtures
        Of one start.
    column, cut : int and float
    share : float
        Of the rows of the sample.
    distance : float
        Median distance of the group, in units of that of the others.
    """

    mixture: Mixtures
    column: int
    cut: float
    share: float
    distance: float


def find_groups(sample: Sample, random: np.random.Generator) -> tuple[list[Group], bool]:
    """Return groups, one after another among the rows that are left, and whether they are corrupted for certain."""
    groups, n = list[Group](), len(sample.raw)
    folds = random.permutation(n) % _FOLDS
    while len(groups) < _MAX_GROUPS and len(sample.raw) >= _FEWEST_ROWS:
        points = Points(sample.values, sample.codes, sample.modeled_shares)
        group, classes, columns = points.fit(_start_groups(points, sample), points.given_classes(), _STEPS)
        result = _choose_group(points, sample, classes, columns, folds)
        if result is None:
            alone = bool(groups) and _gain(points, group, classes, folds) < _LARGEST_GAIN
            return groups, alone or len(sample.shares) >= _TELLING_CLASSES
        mixture, column, cut, inside, distances = result
        distance = float(np.exp(0.5 * (np.median(distances[inside]) - np.median(distances[~inside]))))
        groups.append(Group(mixture, column, cut, inside.sum() / n, distance))
        sample, folds = sample[~inside], folds[~inside]
    return groups, len(sample.shares) >= _TELLING_CLASSES


def _choose_group(
    points: Points, sample: Sample, classes: Stack, columns: Stack, folds: Indices
) -> tuple[Mixtures, int, float, Mask, Vector] | None:  # fmt: skip
    """Return the mixture whose valley is deepest, with labels like those of all rows, or None.

    With it come the column and the place of the valley, the rows beyond, and log squared distances from the others.
    """
    labeled, tried, candidates = len(sample.shares) > 1, list[Mask](), []
    for number, own in enumerate(columns):
        depth, _, _, inside = _deepest_valley(own)
        likeness = sample.likeness(inside) if labeled else 1.0
        if depth < _VALLEY and _is_group(inside) and likeness > _ALIKE - 0.1:
            candidates.append((depth - likeness, number, inside))
    for _, number, inside in sorted(candidates, key=lambda candidate: candidate[:2]):
        if any(np.mean(inside != other) < _SMALLEST_SHARE for other in tried):
            continue
        tried.append(inside)
        member, own, _ = points.fit(inside[None].astype(np.float64), classes[number : number + 1], _STEPS)
        held_out = points.columns(points.maximize(member, own, folds))[0][folds, :, np.arange(len(points))].T
        depth, column, cut, inside = _deepest_valley(held_out)
        if depth >= _VALLEY or not _is_group(inside) or (labeled and sample.likeness(inside) <= _ALIKE):
            continue
        if not _is_told_by_constants(sample, inside, own, folds):
            return points.maximize(member, own), column, cut, inside, held_out[1]
    return None


def _gain(points: Points, group: Matrix, classes: Stack, folds: Indices) -> float:
    """Return the log-likelihood a row that the best group adds to one cloud, held out."""
    best = int(points.log_density(points.maximize(group, classes)).mean(axis=1).argmax())
    rows = np.arange(len(points))
    cloud, both = (
        points.log_density(points.maximize(member, classes[best : best + 1], folds))[folds, rows]
        for member in (np.zeros((1, len(points))), group[best : best + 1])
    )
    return float((both - cloud).mean())


def _start_groups(points: Points, sample: Sample) -> Matrix:
    """Return groups to start from, (M, n): the ends of distances and of the leading directions within classes."""
    mixtures = points.maximize(np.zeros((1, len(points))), points.given_classes())
    squares = points.squares(mixtures.precision, mixtures.means)[0]
    classes = squares.argmin(axis=1)
    if len(sample.modeled_shares) > 1:
        classes = np.where(sample.codes >= 0, sample.codes, classes)
    residuals = points.values - mixtures.means[0, classes]
    directions = residuals @ np.linalg.eigh(residuals.T @ residuals)[1][:, :-4:-1]
    nearest, own = squares.min(axis=1), np.take_along_axis(squares, classes[:, None], axis=1)[:, 0]
    ends = [nearest, -nearest, directions[:, 0], -directions[:, 0]]
    starts = [(end, 0.05) for end in ends]
    starts += [(end, 0.2) for end in (*ends, *directions[:, 1:].T, *-directions[:, 1:].T)]
    if len(sample.modeled_shares) > 1:
        starts.append((-own, 0.2))
    return np.array([end <= np.quantile(end, share) for end, share in starts], dtype=np.float64)


def _deepest_valley(columns: Matrix) -> tuple[float, int, float, Mask]:
    """Return depth, column and place of the deepest valley of three columns, and the rows beyond."""
    inside = columns[0] > 0.0
    if not _is_group(inside):
        return 1.0, 0, 0.0, inside
    valleys = [find_valley(column, inside) for column in columns]
    best = int(np.argmin([depth for depth, _ in valleys]))
    depth, cut = valleys[best]
    return depth, best, cut, columns[best] > cut


def _is_group(inside: Mask) -> bool:
    return bool(_SMALLEST_SHARE < inside.mean() < _LARGEST_SHARE and inside.sum() >= _FEWEST_IN_GROUP)


def _is_told_by_constants(sample: Sample, inside: Mask, classes: Stack, folds: Indices) -> bool:
    """Return whether a few columns make the group in which its rows hold one value: a flag, or a mark of no value."""
    value = np.median(sample.raw[inside], axis=0)
    equal = sample.raw == value
    constant = (equal[inside].mean(axis=0) > 0.9) & (equal[~inside].mean(axis=0) < 0.5)
    if not 0 < 2 * constant.sum() < np.isfinite(sample.space.unit).sum():
        return False
    space = replace(sample.space, unit=np.where(constant, np.inf, sample.space.unit), rest=None)
    points = Points(space(sample.raw), sample.codes, sample.modeled_shares)
    mixtures = points.maximize(inside[None].astype(np.float64), classes, folds)
    depth, _, _, others = _deepest_valley(points.columns(mixtures)[0][folds, :, np.arange(len(points))].T)
    return depth >= _VALLEY or float(np.mean(others == inside)) < 0.95


def _mark_groups(
    rows: Rows, codes: Indices, sample: Sample, outliers: Outliers, random: np.random.Generator
) -> Outliers:  # fmt: skip
    """Return the outliers with the groups of all rows."""
    groups, sure = find_groups(sample, random)
    if not groups:
        return outliers
    if sum(group.share for group in groups) > 0.5:
        sizes = ", ".join(f"{group.share:.0%}" for group in groups)
        note = f"The rows fall into several groups ({sizes}, and the rest): none is a majority, and all are kept."
        return replace(outliers, notes=[*outliers.notes, note])
    numbers, margin = rows.map_blocks(
        group_margins, sample.space, groups, sample.modeled_shares, per_row=(codes,)
    ).T
    reason, notes = outliers.reason.copy(), list(outliers.notes)
    for number, group in enumerate(groups):
        inside = (numbers == number) & (reason == 0)
        reason[inside] = OUT_OF_DISTRIBUTION if sure else GROUP
        notes.append(_describe_group(int(inside.sum()), len(rows), group, len(sample.shares) > 1, sure))
    return Outliers(reason, np.maximum(outliers.score, margin), notes)


def _describe_group(size: int, n: int, group: Group, labeled: bool, sure: bool) -> str:
    text = f"{size:,} rows ({size / n:.0%}) are a group that hardly any row connects with the others"
    text += f", {group.distance:.1f} times as far from the middle as these"
    if sure:
        return f"{text}{', with labels of all classes alike' if labeled else ''}: likely corrupted."
    return f"{text}: corrupted, or a kind of their own. Look at them, then keep or drop groups."


def group_margins(block: Any, codes: Any, space: Space, groups: list[Group], label_shares: Any) -> Matrix:
    """Return the first group of each row, -1 without one, and how far the row lies beyond a group's valley."""
    values, codes, shares = space(block), to_numpy(codes), to_numpy(label_shares)
    result = np.empty((len(values), 2))
    for span in _parts(len(values)):
        points = Points(values[span], codes[span], shares)
        margins = np.array(
            [points.columns(group.mixture)[0][0, group.column] - group.cut for group in groups]
        )
        beyond = margins > 0.0
        result[span, 0] = np.where(beyond.any(axis=0), beyond.argmax(axis=0), -1)
        result[span, 1] = margins.max(axis=0)
    return result


def _parts(n: int) -> Iterator[slice]:
    """Yield runs of rows for which tables of 4,000 columns are small."""
    return (slice(first, first + 1024) for first in range(0, n, 1024))


def _mark_unexplained(
    rows: Rows, codes: Indices, sample: Sample, raw: Matrix, given: Indices, outliers: Outliers,
    random: np.random.Generator,
) -> Outliers:  # fmt: skip
    """Return the outliers with the rows around which labels say nothing."""
    if len(given) < _FEWEST_FOR_LABELS:
        return outliers
    references = _directions(sample.space(raw))
    near = _nearest(references, references, _NEIGHBORS + 1)
    information, smoothed = _information(given, near)
    shuffled = _information(random.permutation(given), near)[1]
    usual, low = np.median(shuffled), smoothed < 0.5 * (np.median(shuffled) + np.median(smoothed))
    if not _is_group(low):
        return outliers
    depth, cut = find_valley(-smoothed, low, both=True)
    below = smoothed < -cut
    if depth >= _LABEL_VALLEY or not np.median(smoothed[below]) <= _SHUFFLED * np.quantile(shuffled, 0.99):
        return outliers
    # Half way down: rows in the valley are as likely good.
    margin = 0.5 * (usual - cut) - rows.map_blocks(label_information, sample.space, references, information)
    margin[codes < 0] = -1.0
    unexplained = (margin > 0.0) & (outliers.reason == 0)
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
    near = _nearest(_directions(space(block)), to_numpy(references), _NEIGHBORS // 2 + 1)
    smoothed: Vector = to_numpy(information)[near].mean(axis=1)
    return smoothed


def _directions(values: Matrix) -> NDArray[np.float32]:
    directions: NDArray[np.float32] = values.astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True) + np.float32(1e-12)
    return directions


def _nearest(directions: NDArray[np.float32], references: NDArray[np.float32], count: int) -> Indices:
    """Return the nearest references of each row by cosine, the nearest first."""
    near = np.empty((len(directions), count), dtype=np.int64)
    for span in _parts(len(directions)):
        distances = -(directions[span] @ references.T)
        best = np.argpartition(distances, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(distances, best, axis=1), axis=1, kind="stable")
        near[span] = np.take_along_axis(best, order, axis=1)
    return near
