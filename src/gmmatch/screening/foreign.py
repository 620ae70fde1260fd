"""Foreign rows: groups of rows that differ from the rest of every class in the same way.

What spoils data seldom asks for the class: noise, blur or a wrong sensor move rows of all classes alike. Seen
from the centre of its class, each row is its class's variation, and a mixture of Gaussians finds the groups in
it. Groups of natural variation prefer some classes, or shade into the rest without a dip between. A group is
foreign if it takes its rows from all classes alike and stands out from the rest as a bump of its own; a gap
all around it makes up for some preference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.algebra import combined, leading_directions, narrowed, shrunk_solutions, trace
from gmmatch.screening.contrast import FEWEST, Contrast
from gmmatch.screening.groups import GAP, find_groups, valley
from gmmatch.screening.mixture import log_sum
from gmmatch.screening.points import Points, Sample
from gmmatch.screening.sampling import fold_slices, spread_sample
from gmmatch.types import Indices, Mask, Vector

Array = NDArray[Any]

_FITTED_ROWS = 8000
# Groups are sought in the widest directions of the variation and told apart in more; fewer of few rows.
_SOUGHT_IN, _WIDER = 192, 2
_ROWS_PER_DIRECTION = 32
_LEAST_WIDTH = 8
_FEWEST_ROWS = 600
# A group this many standard deviations from the rest at least.
_APART = 3.5
# What a group may tell about the class, in nats, if no dip parts it from the rest; more with a deeper one, up
# to these shares of all there is to tell, the second for groups so many standard deviations away: those of
# their rows that are trusted are trusted for the labels that they happen to have.
_BLIND, _MOST = 0.01, (0.5, 0.75)
_FAR = 15.0
_SUSPECT = 0.05
# A dip below the first share of the group's own density is one that natural groups seldom have; without one below
# the second, a group must hold so many of the rows: small groups of a data set's own oddities are many.
_DIP, _SLIGHT_DIP = 0.2, 0.5
_LEAST_SHARE = 0.03
# To be blind to the class must be rare among groups without such a dip, or else it says nothing.
_RARE = 0.25
# Among fewer classes natural groups may well be spread alike; then only groups with a gap are foreign.
CLASSES = 5
_FOLDS = 3
_SHRINKAGE = 0.02
# A kind that differs in so many columns at most, in which so large a share of it has one value, and of the rest too.
_FEW_COLUMNS, SHARED = 6, 0.3
# So many rounds at most, and none after one that moves no more than this share of the rows.
_ROUNDS, _SETTLED = 8, 5e-4
# A row stays if it is this many times as likely to be of the rest.
KEEP_ODDS = np.log(4.0)


@dataclass(frozen=True)
class Kinds:
    """The rest and the foreign kinds, told apart by linear scores, one model for each fold of the rows.

    Attributes
    ----------
    slopes : per fold, (p, K + 1)
    offsets : per fold, (K + 1,)
    """

    slopes: list[Array]
    offsets: list[Vector]

    def scores(self, sample: Sample, folds: Indices) -> Array:
        """Return log(weight · density) of each row in the rest (first) and each kind, but for a number per row."""
        # All models on all rows: a copy of each fold's rows would take longer.
        every = sample.times(slice(None), np.column_stack(self.slopes))
        every += np.concatenate(self.offsets).astype(every.dtype)
        return self._own(every, folds)

    def scores_of_all(self, points: Points, axes: Array, folds: Indices) -> Array:
        """Return the same of points that are seen along axes, straight from the points."""
        slopes = axes @ np.column_stack(self.slopes)
        return self._own(points.scored(slopes, np.concatenate(self.offsets)), folds)

    def _own(self, every: Array, folds: Indices) -> Array:
        found: Array = every.reshape(len(folds), len(self.slopes), -1)[np.arange(len(folds)), folds]
        return found


def foreign_odds(points: Points, given: Indices, trusted: Mask, contrast: Contrast) -> Vector:
    """Return each row's log odds of being foreign, moved so that rows to drop are above 0.

    −∞ where no group of rows is foreign. Groups are sought among trusted rows. Those that may be foreign are
    told from the rest again by models that were fitted to other rows; a group that was a whim of its rows
    does not survive that.
    """
    nothing: Vector = np.full(len(points), -np.inf)
    fitted = np.flatnonzero(trusted)
    if len(fitted) < _FEWEST_ROWS:
        return nothing
    fitted = fitted[spread_sample(len(fitted), _FITTED_ROWS)]
    residuals = points.from_centers(contrast.centers, given)
    width = min(max(len(fitted) // _ROWS_PER_DIRECTION, _LEAST_WIDTH), _SOUGHT_IN, points.width)
    # The directions need not be exact, only orthogonal.
    axes = leading_directions(narrowed(contrast.scatter), min(_WIDER * width, points.width))
    sample = residuals.projected(fitted, axes)
    distinct = _distinct(sample)
    if len(distinct) < _FEWEST_ROWS:
        return nothing
    fitted, sample = fitted[distinct], sample[distinct]
    classes = Classes(given[fitted], len(contrast.centers), contrast.channel.noise)
    nearest, rare = _suspects(points, sample[:, :width], classes)
    if not nearest.any():
        return nothing
    folds = np.random.default_rng(0).integers(0, _FOLDS, len(points))
    kinds, seen = _told_apart(points, sample, nearest, folds[fitted])
    foreign = _foreign_kinds(seen, nearest, classes, rare)
    if foreign.any():
        foreign &= ~_of_few_values(points.rows.gather(fitted), seen.argmax(axis=1), foreign)
    if not foreign.any():
        return nothing
    scores = kinds.scores_of_all(residuals, axes, folds).astype(np.float64)
    odds: Vector = log_sum(scores[:, foreign]) - log_sum(scores[:, ~foreign])
    odds += KEEP_ODDS
    return odds


@dataclass(frozen=True)
class Classes:
    """The labels of the fitted rows, and how much a group of rows tells about them."""

    given: Indices
    count: int
    noise: float

    def most(self, square: float) -> float:
        """Return what a group with a gap around it may tell, given its squared distance from the rest."""
        return _MOST[int(square > _FAR**2)] * float(np.log(self.count))

    def information(self, group: Mask) -> float:
        """Return how much a group tells about the class, in nats, less what so few rows may well tell by chance.

        By chance alone it is half of a χ², divided by the number of rows: its mean and one standard deviation are
        taken off. Wrong labels hide part of what a group tells; that is made up for.
        """
        size = max(int(np.count_nonzero(group)), 1)
        usual = np.bincount(self.given, minlength=self.count) / len(self.given)
        found = np.bincount(self.given[group], minlength=self.count) / size
        present = found > 0
        information = float(np.sum(found[present] * np.log(found[present] / usual[present])))
        freedom = int(np.count_nonzero(usual)) - 1
        chance = (freedom + np.sqrt(2.0 * freedom)) / (2.0 * size)
        return float((information - chance) / (1.0 - self.noise) ** 2)


def _distinct(sample: Array) -> Indices:
    """Return the first of all copies of each row: copies are no further evidence."""
    leading = sample[:, :3] / max(float(np.abs(sample[:, :3]).max()), 1e-30)
    # Rounded, as copies may differ in the last digits after a product.
    found: Indices = np.sort(np.unique(np.round(leading, 5), axis=0, return_index=True)[1])
    return found


def _suspects(points: Points, sample: Array, classes: Classes) -> tuple[Indices, bool]:
    """Return each row's group, counted from 1, if that may be foreign, else 0; and whether few groups are blind."""
    apart = sample - sample.mean(axis=0, dtype=np.float64).astype(sample.dtype)
    cloud = points.cloud(apart).turned(_whitening(apart))
    groups = find_groups(cloud)
    nearest = groups.scores(cloud).argmax(axis=1)
    main = int(np.argmax(groups.weights))
    # Along the way from the main group to every other.
    places = cloud.times(groups.slopes - groups.slopes[:, [main]])
    found = np.zeros(len(sample), dtype=np.int64)
    blind: list[float] = []
    for group in range(len(groups.weights)):
        mine = nearest == group
        way = groups.centers[group] - groups.centers[main]
        slope = groups.slopes[:, group] - groups.slopes[:, main]
        if group == main or np.count_nonzero(mine) < FEWEST or way @ slope < _APART**2:
            continue
        dip = valley(places[:, group], mine, nearest == main)
        information = classes.information(mine)
        if dip >= _DIP:
            blind.append(float(information < _SUSPECT))
        if information < (classes.most(way @ slope) if dip < GAP else _SUSPECT):
            found[mine] = found.max() + 1
    return found, sum(blind) <= _RARE * len(blind)


def _whitening(apart: Array) -> Array:
    """Return the map that makes the scatter of rows whose mean is 0 a sphere."""
    values, vectors = np.linalg.eigh((apart.T @ apart).astype(np.float64) / (len(apart) - 1))
    found: Array = vectors / np.sqrt(np.maximum(values, 1e-8 * max(float(values[-1]), 1e-300)))
    return found


def _told_apart(points: Points, sample: Array, nearest: Indices, folds: Indices) -> tuple[Kinds, Array]:
    """Return models of the rest and the kinds, each fitted to the other folds' rows in a few rounds, and scores."""
    # Fold after fold, so that each is a run of rows.
    order = np.argsort(folds, kind="stable")
    folds, nearest, held = folds[order], nearest[order], points.held(sample[order])
    parts = fold_slices(folds, _FOLDS)
    shares = np.zeros((len(sample), int(nearest.max()) + 1), dtype=np.float32)
    shares[np.arange(len(sample)), nearest] = 1.0
    before = nearest
    squares = [held.gram(part) for part in parts]
    for _ in range(_ROUNDS):
        sums = [held.totals(part, shares[part]).astype(np.float64) for part in parts]
        sizes = [shares[part].sum(axis=0, dtype=np.float64) for part in parts]
        slopes, offsets = [], []
        for fold in range(_FOLDS):
            others = [other for other in range(_FOLDS) if other != fold]
            weights = np.sum([sizes[other] for other in others], axis=0) + 1e-6
            centers = np.sum([sums[other] for other in others], axis=0) / weights[:, None]
            # Shrunk as it is, the scatter needs no more than single precision.
            scatter = combined(
                [squares[other] for other in others],
                centers * -weights[:, None],
                centers,
                float(weights.sum()),
            )
            ridge = _SHRINKAGE * trace(scatter) / len(scatter)
            slopes += shrunk_solutions(scatter, [0.0], 0.0, ridge, centers.T)
            offsets.append(np.log(weights) - 0.5 * np.einsum("kp,pk->k", centers, slopes[-1]))
        kinds = Kinds(slopes, offsets)
        scores = kinds.scores(held, folds)
        now = scores.argmax(axis=1)
        if np.count_nonzero(now != before) <= _SETTLED * len(now):
            break
        before = now
        shares = np.exp(scores - log_sum(scores)[:, None])
    found = np.empty_like(scores)
    found[order] = scores
    return kinds, found


def _foreign_kinds(scores: Array, nearest: Indices, classes: Classes, rare: bool) -> Mask:
    """Return which kinds are foreign, the rest (first) never; none if they would hold half of the rows."""
    now = scores.argmax(axis=1)
    foreign = np.zeros(scores.shape[1], dtype=np.bool_)
    for kind in range(1, len(foreign)):
        mine = now == kind
        if np.count_nonzero(mine) < max(FEWEST, 0.5 * np.count_nonzero(nearest == kind)):
            continue
        odds = scores[:, kind] - scores[:, 0]
        dip = valley(odds, mine, now == 0)
        # The odds of two Gaussians of one scatter differ by the squared distance between their centres.
        square = float(odds[mine].mean() - odds[now == 0].mean())
        information = classes.information(mine)
        if classes.count < CLASSES:
            foreign[kind] = dip < GAP and information < _SUSPECT
        else:
            allowed = min(_BLIND / max(dip, 1e-9), classes.most(square))
            shows = dip < _SLIGHT_DIP or np.count_nonzero(mine) >= _LEAST_SHARE * len(mine)
            foreign[kind] = information < allowed and (dip < _DIP or (rare and shows))
    if np.count_nonzero(foreign[now]) >= 0.5 * len(now):
        foreign[:] = False
    return foreign


def _of_few_values(rows: Array, kinds: Indices, asked: Mask) -> Mask:
    """Return which kinds differ from the rest in a few columns alone, and in these by values that many rows share.

    Rows with a word among rows without it, or of another colour, have a gap around them and any class: columns of
    counts and categories have such groups by nature.
    """
    found = np.zeros(len(asked), dtype=np.bool_)
    rest = rows[kinds == 0].astype(np.float64)
    deviations = np.maximum(rest.std(axis=0), 1e-12 * max(float(np.abs(rest).max(initial=0.0)), 1e-300))
    for kind in np.flatnonzero(asked):
        mine = rows[kinds == kind].astype(np.float64)
        squares = ((mine.mean(axis=0) - rest.mean(axis=0)) / deviations) ** 2
        total = float(squares.sum())
        if total**2 > _FEW_COLUMNS * float(np.sum(squares**2)):
            continue
        leading = np.argsort(squares)[-_FEW_COLUMNS:]
        shared = [min(most_common(part[:, column]) for part in (mine, rest)) for column in leading]
        found[kind] = squares[leading[np.array(shared) >= SHARED]].sum() > 0.5 * total
    return found


def most_common(values: Array) -> float:
    """Return the share of the most common value."""
    return float(np.unique(values, return_counts=True)[1].max() / len(values))
