"""Groups of rows in a mixture of Gaussians with one common scatter, also small ones close to the rest.

A group is sought from many rows at once: each starts a small Gaussian in its own direction, which climbs while
all else is held fixed. What is found joins the mixture, all are fitted together, and the search begins
again beside what is known by then: groups hidden by larger ones show only in the second search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.cloud import Cloud
from gmmatch.screening.mixture import log_sum
from gmmatch.screening.sampling import spread_sample
from gmmatch.types import Indices, Mask, Vector

Array = NDArray[Any]

_STARTS = 256
_CLIMBS = 12
_LATER_CLIMBS = 16
# All starts take so many steps, then the best go on.
_FIRST_STEPS = 5
_CLIMBERS = 96
# Groups that join the mixture in the first search, and in the second; of few rows, one for so many.
_FIRST, _SECOND = 30, 40
_ROWS_PER_GROUP = 250
# Of few rows the fits go on to the end, which decides where there are few groups; of many they need not.
_ITERATIONS, _FIRST_ITERATIONS, _LAST_ITERATIONS = 20, 8, 14
_MANY_ROWS = 4000
_GAIN = 1e-3
# How far from the rest a group starts, in standard deviations, and which share of the rows it has.
_APART, _SHARE = 4.0, 0.03
_LEAST_SHARE, _MOST_SHARE = 0.005, 0.3
# Large groups are not far from the middle of all rows and are sought on their own.
_LARGE_STARTS, _LARGE_SHARE, _FEWEST_LARGE = 32, 0.1, 3000
# Density between two centres, as a share of that around the second, that is a gap.
GAP = 0.03
# Two directions with a larger cosine are the same group.
_SAME, _NEARLY_SAME = 0.7, 0.95
# Bins along the way from one centre (0) to the other (1), and Gaussian windows of them at 49 places.
_BINS = 900
_WINDOW = np.exp(
    -0.5
    * ((np.linspace(0.0, 1.2, 49)[:, None] - (-0.3 + 1.8 / _BINS * (np.arange(_BINS) + 0.5))) / 0.06) ** 2
)


@dataclass(frozen=True)
class Groups:
    """Gaussians with one common scatter: linear scores that tell which group a row is of.

    Attributes
    ----------
    centers : (G, p)
    weights : (G,)
    slopes : (p, G)
        The inverse of the common scatter times each centre.
    """

    centers: Array
    weights: Vector
    slopes: Array

    @property
    def offsets(self) -> Vector:
        """What is added to ``points @ slopes`` for the scores."""
        found: Vector = np.log(self.weights) - 0.5 * np.einsum("gp,pg->g", self.centers, self.slopes)
        return found

    def scores(self, cloud: Cloud) -> Array:
        """Return log(weight · density) of each row in each group, but for a number per row."""
        found: Array = cloud.times(self.slopes)
        found += self.offsets.astype(found.dtype)
        return found


def find_groups(cloud: Cloud, rows_per_group: int = _ROWS_PER_GROUP) -> Groups:
    """Return the groups of rows whose mean is 0 and whose scatter is a unit sphere; all the rest is one of them.

    Examples
    --------
    >>> from gmmatch.screening.cloud import HostCloud
    >>> points = np.random.default_rng(0).standard_normal((2000, 3)).astype(np.float32)
    >>> points[:100, 0] += 12.0
    >>> cloud = HostCloud((points - points.mean(axis=0)) / points.std(axis=0))
    >>> groups = find_groups(cloud)
    >>> bool((groups.scores(cloud).argmax(axis=1)[:100] != groups.weights.argmax()).all())
    True
    """
    n = cloud.shape[0]
    share = max(2, n // rows_per_group)
    many = n > _MANY_ROWS
    starts, weights = _climb(cloud, np.zeros(n, dtype=np.float32), _CLIMBS, min(_FIRST, share))
    large = [np.where(mine, 30.0, -30.0).astype(np.float32) for mine in _large_groups(cloud)]
    rest = np.full(n, np.log(max(1.0 - float(weights.sum()), 0.2)), dtype=np.float32)
    scores = np.column_stack([rest, _scores(cloud, starts, weights), *large])
    groups, within = fit_together(cloud, _shares(scores), _FIRST_ITERATIONS if many else _ITERATIONS)
    scores = groups.scores(cloud)
    # Where the common scatter is a sphere, a group's direction is that of its centre.
    rounded = cloud.turned(np.linalg.inv(np.linalg.cholesky(within)).T)
    starts, weights = _climb(rounded, -log_sum(scores), _LATER_CLIMBS, min(_SECOND, share))
    if not len(weights):
        return groups
    scores = np.column_stack([scores, _scores(rounded, starts, weights)])
    return fit_together(cloud, _shares(scores), _LAST_ITERATIONS if many else _ITERATIONS)[0]


def _climb(cloud: Cloud, beside: Vector, steps: int, most: int) -> tuple[Array, Vector]:
    """Return centres and weights of single Gaussians beside a fixed density, the best first.

    ``beside`` is the log of a unit Gaussian's density at 0 over the fixed density, without the factor that the
    row's own norm gives both. All starts take the first steps; those that then head for the same place, or
    for nothing, go no farther.
    """
    n = cloud.shape[0]
    begin = spread_sample(n, _STARTS)
    centers = cloud.rows(begin).T.copy()
    centers *= _APART / np.maximum(np.linalg.norm(centers, axis=0), 1e-12)
    weights = np.full(len(begin), _SHARE)
    for step in range(_FIRST_STEPS):
        # A row would vouch for itself in the first step.
        centers, weights, _, _ = _step(cloud, beside, centers, weights, begin if step == 0 else None)
    _, _, sizes, gains = _step(cloud, beside, centers, weights, gained=True)
    kept = _best(centers, gains, sizes >= 0.5 * _LEAST_SHARE * n, _NEARLY_SAME, _CLIMBERS)
    centers, weights = centers[:, kept], weights[kept]
    for _ in range(_FIRST_STEPS, steps):
        centers, weights, sizes, _ = _step(cloud, beside, centers, weights)
    gains = _step(cloud, beside, centers, weights, gained=True)[3]
    kept = _best(centers, gains, (sizes >= _LEAST_SHARE * n) & (gains > 0.0), _SAME, most)
    return centers[:, kept], weights[kept]


def _step(
    cloud: Cloud,
    beside: Vector,
    centers: Array,
    weights: Vector,
    without: Indices | None = None,
    *,
    gained: bool = False,
) -> tuple[Array, Vector, Vector, Vector]:
    """Return the next centres, weights and sizes of Gaussians that climb, and what they gain where asked for.

    Row ``without[j]`` does not count for Gaussian j.
    """
    offsets = np.log(weights / (1.0 - weights)) - 0.5 * np.einsum("pg,pg->g", centers, centers)
    totals, sizes, gains = cloud.climb(centers, offsets.astype(np.float32), beside, without, gained)
    n = cloud.shape[0]
    centers = totals / np.maximum(sizes, 1.0).astype(totals.dtype)
    gains = np.log1p(-weights) + gains / n
    return centers, np.clip(sizes / n, _LEAST_SHARE, _MOST_SHARE), sizes, gains


def _best(centers: Array, gains: Vector, allowed: Mask, same: float, most: int) -> list[int]:
    """Return the Gaussians that gain most, without those in the direction of a better one."""
    directions = centers / np.maximum(np.linalg.norm(centers, axis=0), 1e-12)
    alike = directions.T @ directions >= same
    left = allowed.copy()
    kept: list[int] = []
    for number in np.argsort(-gains):
        if left[number] and len(kept) < most:
            kept.append(int(number))
            left &= ~alike[number]
    return kept


def _large_groups(cloud: Cloud) -> list[Mask]:
    """Return the smaller sides of gaps that part large groups from the rest.

    A gap in the middle makes for the smallest fourth moment, along the direction across it.
    """
    n = cloud.shape[0]
    directions = cloud.rows(spread_sample(n, _LARGE_STARTS)).T.copy()
    some = spread_sample(n, max(n // 3, _FEWEST_LARGE))
    for _ in range(_CLIMBS):
        directions /= np.maximum(np.linalg.norm(directions, axis=0), 1e-12)
        directions = cloud.cubed(directions, some) - 3.0 * directions
    directions /= np.maximum(np.linalg.norm(directions, axis=0), 1e-12)
    found: list[Mask] = []
    for places in cloud.times(directions).T:
        mine = places > 0.0
        for _ in range(_CLIMBS):
            if mine.all() or not mine.any():
                break
            mine = places > 0.5 * (places[mine].mean() + places[~mine].mean())
        mine = ~mine if mine.mean() > 0.5 else mine
        known = any(float(np.mean(mine == other)) > 0.9 for other in found)
        if mine.mean() > _LARGE_SHARE and not known and valley(places, mine, ~mine) < GAP:
            found.append(mine)
    return found


def valley(places: Vector, mine: Mask, rest: Mask) -> float:
    """Return the least density between the means of the rest and of a group, as a share of the group's own.

    Examples
    --------
    >>> places = np.concatenate([np.random.default_rng(0).standard_normal(900), np.full(100, 8.0)])
    >>> valley(places, places > 7.0, places < 7.0) < 0.01
    True
    """
    low, high = float(places[rest].mean()), float(places[mine].mean())
    along = (places[rest | mine] - low) / (high - low if high != low else 1.0)
    # Counted in narrow bins, and these seen through a wide window.
    counts = np.histogram(along, bins=_BINS, range=(-0.3, 1.5))[0]
    density = _WINDOW @ counts
    top = 36 + int(np.argmax(density[36:]))
    return float(density[: top + 1].min() / max(float(density[top]), 1e-300))


def fit_together(cloud: Cloud, shares: Array, steps: int) -> tuple[Groups, Array]:
    """Return the groups that expectation-maximisation leads to, and their common scatter."""
    n, width = cloud.shape
    last = -np.inf
    totals, sizes = cloud.totals(shares)
    for step in range(steps):
        weights = (sizes + 1e-6) / n
        centers = totals.astype(np.float64) / (weights[:, None] * n)
        values, vectors = _within(centers, weights)
        inverse = (vectors * (1.0 / values - 1.0)) @ (vectors.T @ centers.T)
        groups = Groups(centers, weights, centers.T + inverse)
        totals, sizes, mean_log = cloud.expect(groups.slopes, groups.offsets)
        # The mean of x' S⁻¹ x over rows whose scatter is the unit sphere is the trace of S⁻¹.
        others = width - len(values)
        spread = 0.5 * (np.sum(np.log(values) + 1.0 / values) + others)
        likelihood = float(mean_log - spread)
        if step > 3 and likelihood - last < _GAIN:
            break
        last = likelihood
    return groups, np.eye(width) + (vectors * (values - 1.0)) @ vectors.T


def _within(centers: Array, weights: Vector) -> tuple[Vector, Array]:
    """Return variances within the groups, and their directions; in all others the variance is 1.

    The whole scatter is a unit sphere, so what the centres leave of it lies within the groups.
    """
    roots = centers.T * np.sqrt(weights)
    if len(weights) >= len(roots):
        values, vectors = np.linalg.eigh(roots @ roots.T)
    else:  # few groups span few directions
        values, turned = np.linalg.eigh(roots.T @ roots)
        kept = values > 1e-10 * max(float(values[-1]), 1e-300)
        values = values[kept]
        vectors = roots @ (turned[:, kept] / np.sqrt(values))
    return np.maximum(1.0 - values, 1e-3), vectors


def _scores(cloud: Cloud, centers: Array, weights: Vector) -> Array:
    """Return log(weight · density) in unit Gaussians, but for a number per row."""
    found: Array = cloud.times(centers)
    found += (np.log(weights) - 0.5 * np.einsum("pg,pg->g", centers, centers)).astype(found.dtype)
    return found


def _shares(scores: Array) -> Array:
    found: Array = np.exp(scores - log_sum(scores)[:, None])
    return found
