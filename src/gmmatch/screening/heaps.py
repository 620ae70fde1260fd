"""Heaps: groups of rows apart from all classes that have labels of every class, and no way to tell which.

Seen from the centres of their classes, as :mod:`~gmmatch.screening.foreign` sees them, the rows of a heap lie in
as many places as there are classes, and each of those prefers one class. Seen from one place they are together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.algebra import combined, roughly_leading
from gmmatch.screening.cloud import Cloud
from gmmatch.screening.contrast import FEWEST, Contrast
from gmmatch.screening.foreign import Classes
from gmmatch.screening.groups import GAP, Groups, find_groups, fit_together, valley
from gmmatch.screening.points import Points
from gmmatch.screening.sampling import spread_sample
from gmmatch.types import Indices, Mask, Vector

# A heap has a gap around it: few rows and few directions show it.
_FITTED_ROWS, _WIDTH = 3_000, 32
_ROWS_PER_DIRECTION = 20
_FEWEST_ROWS = 200
_LEAST_SHARE = 0.03
# How far labels may agree with what rows look like in a heap, and how far they must in all others: 0 is chance,
# 1 is always.
_IN_HEAP, _ELSEWHERE = 0.25, 0.5
# What a heap may tell about the class, in nats: a class that lies close by and was taken into it tells more.
_TOLD = 0.03
_ROWS_PER_GROUP = 100
_STEPS = 20


def heap_odds(points: Points, given: Indices, used: Mask, contrast: Contrast) -> Vector:
    """Return each row's log odds of lying in a heap, rows to drop above 0; −∞ where there is no heap."""
    nothing: Vector = np.full(len(points), -np.inf)
    fitted = np.flatnonzero(used)
    if len(fitted) < _FEWEST_ROWS:
        return nothing
    fitted = fitted[spread_sample(len(fitted), _FITTED_ROWS)]
    sample, every = points.sample(fitted), slice(None)
    middle = sample.totals(every, np.ones((len(fitted), 1), dtype=np.float32))[0].astype(np.float64)
    middle /= len(fitted)
    scatter = combined([sample.gram(every)], -len(fitted) * middle[None], middle[None], len(fitted))
    axes = roughly_leading(scatter, min(max(len(fitted) // _ROWS_PER_DIRECTION, 2), _WIDTH, points.width))
    seen = sample.times(every, axes) - (middle @ axes).astype(np.float32)
    deviations = np.sqrt(np.maximum(np.mean(seen**2, axis=0, dtype=np.float64), 1e-30))
    scales = np.where(deviations > 1e-4 * deviations.max(), deviations, np.inf)
    axes, cloud = axes / scales, points.cloud(seen / scales.astype(np.float32))
    labels, looks_like = given[fitted], contrast.looks_like[fitted]
    for groups in (find_groups(cloud, _ROWS_PER_GROUP), _beside_the_classes(cloud, labels, looks_like)):
        heaps = _heaps(groups, cloud, labels, looks_like)
        if heaps.any():
            return _odds(points, middle, axes, groups, heaps)
    return nothing


def _beside_the_classes(cloud: Cloud, given: Indices, looks_like: Indices) -> Groups:
    """Return one group for each class, and one that starts from rows that look unlike their label."""
    count = int(given.max()) + 1
    shares = np.full((len(given), count + 1), 1e-3, dtype=np.float32)
    shares[np.arange(len(given)), np.where(given == looks_like, given, count)] = 1.0
    return fit_together(cloud, shares / shares.sum(axis=1, keepdims=True), _STEPS)[0]


def _heaps(groups: Groups, cloud: Cloud, given: Indices, looks_like: Indices) -> Mask:
    """Return which groups are heaps."""
    nearest = groups.scores(cloud).argmax(axis=1)
    found = _blind_groups(nearest, len(groups.weights), given, looks_like)
    for group in np.flatnonzero(found):
        found[group] = _has_gap(groups, cloud, nearest, int(group), found)
    mine = found[nearest]
    # Where labels have little to do with rows anywhere, that they have nothing to do with some says nothing.
    if mine.mean() >= 0.5 or agreement(given[~mine], looks_like[~mine]) < _ELSEWHERE:
        found[:] = False
    return found


def _odds(points: Points, middle: Vector, axes: NDArray[np.float64], groups: Groups, heaps: Mask) -> Vector:
    """Return how much more likely each row's best heap is than its best other group."""
    # Straight from the rows: their coordinates along the axes are not needed for anything else.
    slopes = axes @ groups.slopes
    scores = points.scored(slopes, groups.offsets - middle @ slopes)
    # Not sums: groups too small to be judged may lie in a heap, and each would vouch for its rows.
    odds: Vector = scores[:, heaps].max(axis=1).astype(np.float64)
    odds -= scores[:, ~heaps].max(axis=1, initial=-np.inf)
    return odds


def agreement(given: Indices, looks_like: Indices) -> float:
    """Return how much oftener labels agree with what rows look like than by chance: Cohen's kappa.

    0 where there is but one label, for which scikit-learn's has no number.

    Examples
    --------
    >>> given = np.array([0, 1, 0, 1])
    >>> agreement(given, given), agreement(given, np.array([0, 0, 1, 1]))
    (1.0, 0.0)
    """
    count = int(max(given.max(initial=0), looks_like.max(initial=0))) + 1
    shares = [np.bincount(labels, minlength=count) / max(len(labels), 1) for labels in (given, looks_like)]
    chance = float(shares[0] @ shares[1])
    found = float(np.mean(given == looks_like)) if len(given) else 0.0
    return (found - chance) / max(1.0 - chance, 1e-9) if chance < 1.0 else 0.0


def _blind_groups(nearest: Indices, count: int, given: Indices, looks_like: Indices) -> Mask:
    """Return which groups have labels as mixed as in all rows, that have nothing to do with what rows look like."""
    found = np.zeros(count, dtype=np.bool_)
    classes = Classes(given, int(given.max()) + 1, noise=0.0)
    for group in range(count):
        mine = nearest == group
        if np.count_nonzero(mine) >= FEWEST:
            blind = classes.information(mine) < _TOLD
            found[group] = blind and agreement(given[mine], looks_like[mine]) < _IN_HEAP
    if np.count_nonzero(found[nearest]) < max(FEWEST, _LEAST_SHARE * len(nearest)):
        found[:] = False
    return found


def _has_gap(groups: Groups, cloud: Cloud, nearest: Indices, group: int, heaps: Mask) -> bool:
    """Return whether few rows lie between a group and every other that is no heap."""
    mine = nearest == group
    for other in np.flatnonzero(~heaps):
        theirs = nearest == other
        if np.count_nonzero(theirs) < FEWEST:
            continue
        slope = groups.slopes[:, [group]] - groups.slopes[:, [other]]
        if valley(cloud.times(slope)[:, 0].astype(np.float64), mine, theirs) >= GAP:
            return False
    return True
