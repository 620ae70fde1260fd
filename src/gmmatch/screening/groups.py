"""Groups of rows of no class: a mixture has a part of its own for them, and a valley parts them from the rest.

    p(x) = (1 - e) sum_z pi_z N(x; mu_z, W) + e N(x; m, V)

The classes are those of the labels, with one scatter. The group has a mean and a scatter of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmmatch._array import Indices, Mask, Matrix, Vector
from gmmatch.screening.evidence import FOLDS

# Fewer rows have groups by chance: of 200 digits with 20% wrong labels, 36% would be one; of 263 vowels, a third.
FEWEST_ROWS = 300
# Share of the rows in a group to start from, and steps of EM from there: more change little.
_START_SHARE, _STEPS = 0.2, 6
# Bins between the medians of two sides, and as many beyond: fewer hide a valley, more make some by chance.
_BINS = 10
# A mean or a direction is known well enough from so many rows.
ROWS_PER_MEAN = 40
# The emptiest bin as a share of the fullest bin of the group: heavy tails, skew and overlap have no such valley.
_VALLEY = 0.25
# A smaller group does little harm. Of two near halves neither can be called the wrong one.
_FEWEST_IN_GROUP, _LARGEST_SHARE = 20, 0.45
# The group's labels overlap with those of all rows by this share of what a random sample does: a fault hits all
# classes alike, a kind of its own belongs to some.
_ALIKE = 0.9
# Kinds of rows often belong to two classes alike, hardly ever to five.
_TELLING_CLASSES = 5
# With fewer classes, groups are corrupted for certain only if the others are one cloud: one more component may gain
# at most this much log-likelihood a row. Normal data gain 0.0, the images and tables that were tried 0.3 to 8; there,
# one more group is likely one more kind.
_LARGEST_GAIN = 0.05


class Normal:
    """Normal distributions with one scatter, from weights of rows, shape (n, K)."""

    def __init__(self, values: Matrix, weights: Matrix) -> None:
        counts, r = weights.sum(axis=0) + 1e-9, values.shape[1]
        self.shares, self.means = counts / counts.sum(), weights.T @ values / counts[:, None]
        scatter = (values.T * weights.sum(axis=1)) @ values - (self.means.T * counts) @ self.means
        # As many rows as there are dimensions are added, scattered as its own diagonal is: few rows in many
        # dimensions would else leave directions without scatter.
        np.fill_diagonal(scatter, np.diag(scatter).clip(0.0) * (1.0 + r / counts.sum()))
        scatter = scatter / (counts.sum() + r) + 1e-7 * np.eye(r)
        self.root = np.linalg.inv(np.linalg.cholesky(scatter)).T
        self.log_scale = float(np.log(np.diag(self.root)).sum())

    def squares(self, values: Matrix) -> Matrix:
        """Return squared distances from each mean, in units of the scatter, shape (n, K)."""
        white, means = values @ self.root, self.means @ self.root
        squares = (white**2).sum(axis=1)[:, None] - 2.0 * white @ means.T + (means**2).sum(axis=1)
        return np.asarray(squares.clip(1e-9))


class Mixture:
    """Normal classes, whose members are known, and a group, from how far rows belong to it: (n, K) and (n,)."""

    def __init__(self, values: Matrix, classes: Matrix, group: Vector) -> None:
        group = np.clip(group, 1e-6, 1.0 - 1e-6)
        self.log_odds = float(np.log(group.sum() / (1.0 - group).sum()))
        self.usual, self.group = (
            Normal(values, classes * (1.0 - group)[:, None]),
            Normal(values, group[:, None]),
        )

    def judge(self, values: Matrix) -> tuple[Matrix, Vector]:
        """Return what rows look like.

        Returns
        -------
        columns : array of shape (3, n)
            Log odds of the group, log squared distance from the nearest class, and minus that from the group.
        log_density : array of shape (n,)
            But for a constant.
        """
        squares, from_group = self.usual.squares(values), self.group.squares(values)[:, 0]
        usual = np.logaddexp.reduce(np.log(self.usual.shares) - 0.5 * squares, axis=1) + self.usual.log_scale
        odds = self.log_odds + self.group.log_scale - 0.5 * from_group - usual
        columns = np.stack([odds, np.log(squares.min(axis=1)), -np.log(from_group)])
        return columns, usual - np.logaddexp(0.0, self.log_odds) + np.logaddexp(0.0, odds)


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

    def margins(self, values: Matrix) -> Vector:
        """Return how far rows lie beyond the valley, shape (n,)."""
        return np.asarray(self.mixture.judge(values)[0][self.column] - self.cut)


def find_groups(
    values: Matrix, codes: Indices, n_classes: int, random: np.random.Generator
) -> tuple[list[Group], bool]:
    """Return groups, one after another among the rows that are left, and whether they are corrupted for certain.

    Parameters
    ----------
    values : array of shape (n, r)
    codes : int64 array of shape (n,)
        The class of each row, -1 without a label.
    n_classes : int
    random : Generator
    """
    groups, left, alone = list[Group](), np.arange(len(values)), False
    folds = random.permutation(len(values)) % FOLDS
    classes = np.ones((len(values), 1))
    if 1 < n_classes <= len(values) // ROWS_PER_MEAN:
        classes = np.eye(n_classes)[codes] * (codes >= 0)[:, None]
    while len(left) >= FEWEST_ROWS:
        sample = values[left], classes[left]
        starts = [_fit_group(*sample, start) for start in _start_groups(values[left])]
        group = _choose_group(*sample, codes[left], starts, folds[left])
        if group is None:
            alone = bool(groups) and _gain(*sample, starts, folds[left]) < _LARGEST_GAIN
            break
        groups.append(group)
        left = left[~group.inside]
    return groups, alone or n_classes >= _TELLING_CLASSES


def _is_group(inside: Mask) -> bool:
    """Return whether some rows are neither too few nor too many to be called a group."""
    return bool(inside.sum() >= _FEWEST_IN_GROUP and inside.mean() < _LARGEST_SHARE)


def _fit_group(values: Matrix, classes: Matrix, group: Vector) -> Vector:
    """Take steps of EM; return how far rows belong to the group, shape (n,)."""
    for _ in range(_STEPS):
        odds = Mixture(values, classes, group).judge(values)[0][0]
        group = 1.0 / (1.0 + np.exp(-np.clip(odds, -50.0, 50.0)))
    # The smaller part is the group.
    return group if group.mean() <= 0.5 else 1.0 - group


def find_valley(values: Vector, inside: Mask) -> tuple[float, float]:
    """Return how empty the deepest valley of a density is between two sides, and where it lies.

    Parameters
    ----------
    values : array of shape (n,)
    inside : boolean array of shape (n,)
        The side with the larger values.

    Returns
    -------
    depth : float
        Rows in the emptiest bin, and one standard error, as a share of the fullest bin; 1 or more without a valley.
    cut : float

    Examples
    --------
    >>> values = np.r_[np.linspace(0, 1, 100), np.linspace(3, 4, 50)]
    >>> depth, cut = find_valley(values, values > 2)
    >>> depth < 0.1 and 1 < cut < 3
    True
    """
    if not 0 < inside.sum() < len(inside):
        return 1.0, 0.0
    low, high = np.median(values[~inside]), np.median(values[inside])
    width = (high - low) / _BINS
    if not width > 1e-9 * max(abs(low), abs(high)):
        return 1.0, 0.0
    edges = low + width * np.arange(-_BINS, 2 * _BINS + 1)
    counts = np.histogram(values, edges)[0].astype(np.float64)
    between = np.arange(_BINS + 1, 2 * _BINS)
    peak = np.maximum.accumulate(counts[::-1])[::-1][between + 1]
    depth = (counts[between] + np.sqrt(counts[between]) + 1.0) / np.maximum(peak, 1.0)
    deepest = between[depth <= depth.min() + 1e-9]
    return float(depth.min()), float(edges[deepest[len(deepest) // 2]] + 0.5 * width)


def _deepest_valley(columns: Matrix) -> tuple[float, int, float, Mask]:
    """Return depth, column and place of the deepest valley, and the rows beyond; depth 1 if they are no group."""
    inside = columns[0] > 0.0
    if not _is_group(inside):
        return 1.0, 0, 0.0, inside
    valleys = [find_valley(column, inside) for column in columns]
    depth, column, cut = min((depth, number, cut) for number, (depth, cut) in enumerate(valleys))
    inside = columns[column] > cut
    return (depth if _is_group(inside) else 1.0), column, cut, inside


def _likeness(codes: Indices, inside: Mask) -> float:
    """Return how far the labels of some rows overlap with those of all: about 1 for a random sample."""
    labels, all_labels = codes[inside & (codes >= 0)], codes[codes >= 0]
    if not len(all_labels):
        return 1.0
    shares, size = np.bincount(all_labels) / len(all_labels), max(1, len(labels))
    overlap = np.minimum(np.bincount(labels, minlength=len(shares)) / size, shares).sum()
    # Half the mean absolute deviation of each count.
    return float(overlap / (1.0 - 0.4 * np.sqrt(shares * (1.0 - shares) / size).sum()))


def _choose_group(
    values: Matrix, classes: Matrix, codes: Indices, starts: list[Vector], folds: Indices
) -> Group | None:
    """Return the group whose valley is deepest, with labels like those of all rows, or None."""
    candidates = []
    for number, start in enumerate(starts):
        depth, _, _, inside = _deepest_valley(Mixture(values, classes, start).judge(values)[0])
        if depth < _VALLEY and _likeness(codes, inside) > _ALIKE:
            candidates.append((depth, number))
    if not candidates:
        return None
    start = starts[min(candidates)[1]]
    columns, _ = _hold_out(values, classes, start, folds)
    depth, column, cut, inside = _deepest_valley(columns)
    if depth >= _VALLEY or _likeness(codes, inside) <= _ALIKE:
        return None
    distance = float(np.exp(0.5 * (np.median(columns[1][inside]) - np.median(columns[1][~inside]))))
    return Group(Mixture(values, classes, start), column, cut, inside, distance)


def _hold_out(values: Matrix, classes: Matrix, group: Vector, folds: Indices) -> tuple[Matrix, Vector]:
    """Return columns and log density of the rows of each fold, by a mixture of the others."""
    columns, density = np.empty((3, len(values))), np.empty(len(values))
    for fold in range(FOLDS):
        test = folds == fold
        mixture = Mixture(values[~test], classes[~test], group[~test])
        columns[:, test], density[test] = mixture.judge(values[test])
    return columns, density


def _gain(values: Matrix, classes: Matrix, starts: list[Vector], folds: Indices) -> float:
    """Return the log-likelihood a row that a group adds to the classes alone, held out."""
    group = max(starts, key=lambda start: float(Mixture(values, classes, start).judge(values)[1].mean()))
    both, alone = (_hold_out(values, classes, share, folds)[1] for share in (group, 0.0 * group))
    return float((both - alone).mean())


def _start_groups(values: Matrix) -> list[Vector]:
    """Return groups to start from: the nearest and the farthest rows, and both ends of the leading direction."""
    squares = Normal(values, np.ones((len(values), 1))).squares(values)[:, 0]
    along = values @ np.linalg.eigh(np.atleast_2d(np.cov(values.T)))[1][:, -1]
    ends = (squares, -squares, along, -along)
    return [(end <= np.quantile(end, _START_SHARE)).astype(np.float64) for end in ends]
