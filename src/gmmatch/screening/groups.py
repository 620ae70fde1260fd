"""Groups of rows of no class: a mixture has a part of its own for them, and a valley parts them from the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gmmatch._array import Indices, Mask, Matrix, Vector, to_numpy
from gmmatch.screening.evidence import FOLDS
from gmmatch.screening.mixture import Mixture, Sample, find_valley

# Fewer rows have groups by chance: of 200 digits with 20% wrong labels, 36% would be one.
FEWEST_ROWS = 250
# With more classes than this a mixture costs too much; labels are then only compared with those of the group.
_MAX_CLASSES = 32
# Steps of EM from each start, and again from what lies beyond its valley; and groups: more change little.
_STEPS = 6
# The emptiest bin as a share of the fullest bin of the group: heavy tails, skew and overlap have no such valley.
_VALLEY = 0.25
# A smaller group does little harm. Of two near halves neither can be called the wrong one.
_SMALLEST_SHARE, _FEWEST_IN_GROUP, _LARGEST_SHARE = 0.01, 20, 0.45
# The group's labels overlap with those of all rows by this share of what a random sample does: a fault hits all
# classes alike, a kind of its own belongs to some.
_ALIKE = 0.9
# Kinds of rows often belong to two classes alike, hardly ever to five.
_TELLING_CLASSES = 5
# With fewer classes, groups are corrupted for certain only if the others are one cloud: one more component may gain
# at most this much log-likelihood a row. Normal data gain 0.0, the images and tables that were tried 0.3 to 8; there,
# one more group is likely one more kind.
_LARGEST_GAIN = 0.25


@dataclass(frozen=True, eq=False)
class Fit:
    """A mixture fitted from one start, and what the rows of the sample look like to it."""

    columns: Matrix
    classes: Matrix
    density: Vector

    @classmethod
    def of(cls, sample: Sample, group: Vector, classes: Matrix) -> Fit:
        """Take steps of EM from how far rows belong to the group (n,) and to each class (n, K)."""
        for _ in range(_STEPS):
            fit = cls(*Mixture(sample, group, classes).judge(sample))
            group, classes = fit.group, fit.classes
        return fit

    @property
    def group(self) -> Vector:
        """How far rows belong to the group, shape (n,)."""
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(self.columns[0], -50.0, 50.0))))

    def hold_out(self, sample: Sample, group: Vector, folds: Indices) -> Fit:
        """Return what the rows of each fold look like to a mixture of the others."""
        columns, density = np.empty_like(self.columns), np.empty_like(self.density)
        for fold in range(FOLDS):
            test = folds == fold
            mixture = Mixture(sample[~test], group[~test], self.classes[~test])
            columns[:, test], _, density[test] = mixture.judge(sample[test])
        return Fit(columns, self.classes, density)

    def deepest_valley(self) -> tuple[float, int, float, Mask]:
        """Return depth, column and place of the deepest valley, and the rows beyond."""
        inside = self.columns[0] > 0.0
        if not is_group(inside):
            return 1.0, 0, 0.0, inside
        depth, column, cut = min(
            (depth, number, cut)
            for number, (depth, cut) in enumerate(find_valley(column, inside) for column in self.columns)
        )
        return depth, column, cut, self.columns[column] > cut


@dataclass(frozen=True, eq=False)
class Group:
    """Rows beyond a valley of one of the columns of a mixture.

    Attributes
    ----------
    mixture : Mixture
    column, cut : int and float
    inside : boolean array of shape (n,)
        The rows of the sample.
    distance : float
        Median distance of the group, in units of that of the others.
    """

    mixture: Mixture
    column: int
    cut: float
    inside: Mask
    distance: float

    def margins(self, sample: Sample) -> Vector:
        """Return how far rows lie beyond the valley, shape (n,)."""
        return np.asarray(self.mixture.judge(sample)[0][self.column] - self.cut)


def find_groups(
    values: Matrix, codes: Indices, shares: Vector, agreement: float, random: np.random.Generator
) -> tuple[list[Group], bool]:
    """Return groups, one after another among the rows that are left, and whether they are corrupted for certain.

    Parameters
    ----------
    values : array of shape (n, r)
    codes : int64 array of shape (n,)
        The class of each row, -1 without a label.
    shares : array of shape (K,)
        Of the labels; of length 1 without.
    agreement : float
        How far labels follow the rows.
    random : Generator
    """
    groups, left = list[Group](), np.ones(len(values), dtype=bool)
    all_folds, alone = random.permutation(len(values)) % FOLDS, False
    while left.sum() >= FEWEST_ROWS:
        sample, folds = model_sample(values[left], codes[left], shares), all_folds[left]
        start = np.exp(sample.channel()[0])
        start /= start.sum(axis=1, keepdims=True)
        fits = [Fit.of(sample, group, start) for group in _start_groups(sample, start)]
        group = _choose_group(sample, fits, partial(_likeness, codes[left], shares, agreement), folds)
        if group is None:
            alone = bool(groups) and _gain(sample, fits, folds) < _LARGEST_GAIN
            break
        inside = np.zeros(len(left), dtype=bool)
        inside[left] = group.inside
        groups.append(Group(group.mixture, group.column, group.cut, inside, group.distance))
        left &= ~inside
    return groups, alone or len(shares) >= _TELLING_CLASSES


def model_sample(values: Matrix, codes: Any, shares: Vector) -> Sample:
    """Return the sample as mixtures know it: without labels if there are too many classes."""
    return Sample(values, to_numpy(codes), shares if len(shares) <= _MAX_CLASSES else np.ones(1))


def is_group(inside: Mask) -> bool:
    """Return whether some rows are neither too few nor too many to be called a group."""
    return bool(_SMALLEST_SHARE < inside.mean() < _LARGEST_SHARE and inside.sum() >= _FEWEST_IN_GROUP)


def _likeness(codes: Indices, shares: Vector, agreement: float, inside: Mask) -> float:
    """Return how far the labels of some rows overlap with those of all: about 1 for a random sample.

    What is missing counts in units of the agreement of labels with rows: where many labels are wrong, those of any
    kind of rows are nearly as mixed as those of all.
    """
    if len(shares) == 1:
        return 1.0
    labels = codes[inside & (codes >= 0)]
    size = max(1, len(labels))
    overlap = np.minimum(np.bincount(labels, minlength=len(shares)) / size, shares).sum()
    # Half the mean absolute deviation of each count.
    likeness = float(overlap / (1.0 - 0.4 * np.sqrt(shares * (1.0 - shares) / size).sum()))
    return 1.0 - (1.0 - likeness) / agreement


def _choose_group(
    sample: Sample, fits: list[Fit], likeness_of: Callable[[Mask], float], folds: Indices
) -> Group | None:  # fmt: skip
    """Return the group whose valley is deepest, with labels like those of all rows, or None."""
    candidates, tried = [], list[Mask]()
    for number, fit in enumerate(fits):
        depth, _, _, inside = fit.deepest_valley()
        likeness = likeness_of(inside)
        if depth < _VALLEY and is_group(inside) and likeness > _ALIKE - 0.1:
            candidates.append((depth - likeness, number, inside))
    for _, number, inside in sorted(candidates, key=lambda candidate: candidate[:2]):
        if any(np.mean(inside != other) < _SMALLEST_SHARE for other in tried):
            continue
        tried.append(inside)
        fit = Fit.of(sample, inside.astype(np.float64), fits[number].classes)
        held_out = fit.hold_out(sample, fit.group, folds)
        depth, column, cut, inside = held_out.deepest_valley()
        if depth < _VALLEY and is_group(inside) and likeness_of(inside) > _ALIKE:
            distances = held_out.columns[1]
            distance = float(np.exp(0.5 * (np.median(distances[inside]) - np.median(distances[~inside]))))
            return Group(Mixture(sample, fit.group, fit.classes), column, cut, inside, distance)
    return None


def _gain(sample: Sample, fits: list[Fit], folds: Indices) -> float:
    """Return the log-likelihood a row that the best group adds to the classes alone, held out."""
    best = max(fits, key=lambda fit: float(fit.density.mean()))
    both, alone = (best.hold_out(sample, group, folds).density for group in (best.group, 0.0 * best.group))
    return float((both - alone).mean())


def _start_groups(sample: Sample, classes: Matrix) -> list[Vector]:
    """Return groups to start from: the ends of distances and of the leading directions within classes."""
    known = Mixture(sample, np.zeros(len(sample)), classes).classes
    squares = known.squares(sample.values)
    nearest = squares.argmin(axis=1)
    members = np.where(sample.codes >= 0, sample.codes, nearest) if len(sample.shares) > 1 else nearest
    residuals = sample.values - known.means[members]
    directions = (residuals @ np.linalg.eigh(residuals.T @ residuals)[1][:, :-4:-1]).T
    ends = [squares.min(axis=1), -squares.min(axis=1), directions[0], -directions[0]]
    starts = [(end, 0.05) for end in ends]
    starts += [(end, 0.2) for end in (*ends, *directions[1:], *-directions[1:])]
    starts.append((-squares[np.arange(len(members)), members], 0.2))
    return [(end <= np.quantile(end, share)).astype(np.float64) for end, share in starts]
