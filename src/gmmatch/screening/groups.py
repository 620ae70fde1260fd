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

from gmmatch.screening.mixture import log_sum
from gmmatch.screening.sampling import spread_sample
from gmmatch.types import Mask, Vector

Array = NDArray[Any]

_STARTS = 256
_CLIMBS = 12
_LATER_CLIMBS = 16
# Groups that join the mixture in the first search, and in the second; of few rows, one for so many.
_FIRST, _SECOND = 30, 40
_ROWS_PER_GROUP = 250
_ITERATIONS = 20
_GAIN = 1e-3
# How far from the rest a group starts, in standard deviations, and which share of the rows it has.
_APART, _SHARE = 4.0, 0.03
_LEAST_SHARE, _MOST_SHARE = 0.005, 0.3
# Large groups are not far from the middle of all rows and are sought on their own.
_LARGE_STARTS, _LARGE_SHARE = 32, 0.1
# Density between two centres, as a share of that around the second, that is a gap.
GAP = 0.03
# Two directions with a larger cosine are the same group.
_SAME = 0.7


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

    def scores(self, points: Array) -> Array:
        """Return log(weight · density) of each row in each group, but for a number per row."""
        offsets = np.log(self.weights) - 0.5 * np.einsum("gp,pg->g", self.centers, self.slopes)
        found: Array = points @ self.slopes.astype(points.dtype)
        found += offsets.astype(points.dtype)
        return found


def find_groups(white: Array) -> Groups:
    """Return the groups of rows whose mean is 0 and whose scatter is a unit sphere; all the rest is one of them.

    Examples
    --------
    >>> points = np.random.default_rng(0).standard_normal((2000, 3)).astype(np.float32)
    >>> points[:100, 0] += 12.0
    >>> white = (points - points.mean(axis=0)) / points.std(axis=0)
    >>> groups = find_groups(white)
    >>> bool((groups.scores(white).argmax(axis=1)[:100] != groups.weights.argmax()).all())
    True
    """
    share = max(2, len(white) // _ROWS_PER_GROUP)
    beside = np.zeros(len(white), dtype=white.dtype)
    starts, weights = _climb(white, beside, _CLIMBS, min(_FIRST, share))
    large = [np.where(mine, 30.0, -30.0).astype(white.dtype) for mine in _large_groups(white)]
    scores = np.column_stack([_whole(white, weights), _scores(white, starts, weights), *large])
    groups, within = _fit_together(white, _shares(scores))
    scores = groups.scores(white)
    # Where the common scatter is a sphere, a group's direction is that of its centre.
    root = np.linalg.inv(np.linalg.cholesky(within)).T
    round_white = white @ root.astype(white.dtype)
    starts, weights = _climb(round_white, -log_sum(scores), _LATER_CLIMBS, min(_SECOND, share))
    if not len(weights):
        return groups
    scores = np.column_stack([scores, _scores(round_white, starts, weights)])
    return _fit_together(white, _shares(scores))[0]


def _climb(points: Array, beside: Vector, steps: int, most: int) -> tuple[Array, Vector]:
    """Return centres and weights of single Gaussians beside a fixed density, the best first.

    ``beside`` is the log of a unit Gaussian's density at 0 over the fixed density, without the factor that the
    row's own norm gives both.
    """
    begin = spread_sample(len(points), _STARTS)
    centers = points[begin].T.copy()
    centers *= _APART / np.maximum(np.linalg.norm(centers, axis=0), 1e-12)
    weights = np.full(len(begin), _SHARE)
    shares = np.empty((0, 0), dtype=points.dtype)
    for step in range(steps):
        shares = _sigmoid(_scores(points, centers, weights / (1.0 - weights)) + beside[:, None])
        if step == 0:  # a row would vouch for itself
            shares[begin, np.arange(len(begin))] = 0.0
        sizes = shares.sum(axis=0, dtype=np.float64)
        centers = (points.T @ shares) / np.maximum(sizes, 1.0).astype(points.dtype)
        weights = np.clip(sizes / len(points), _LEAST_SHARE, _MOST_SHARE)
    odds = _scores(points, centers, weights / (1.0 - weights)) + beside[:, None]
    gains = np.log1p(-weights) + np.logaddexp(0.0, odds).mean(axis=0, dtype=np.float64)
    directions = centers / np.maximum(np.linalg.norm(centers, axis=0), 1e-12)
    kept: list[int] = []
    for number in np.argsort(-gains):
        if sizes[number] < _LEAST_SHARE * len(points) or gains[number] <= 0.0 or len(kept) == most:
            continue
        if not kept or float((directions[:, kept].T @ directions[:, number]).max()) < _SAME:
            kept.append(int(number))
    return centers[:, kept], weights[kept]


def _large_groups(white: Array) -> list[Mask]:
    """Return the smaller sides of gaps that part large groups from the rest.

    A gap in the middle makes for the smallest fourth moment, along the direction across it.
    """
    directions = white[spread_sample(len(white), _LARGE_STARTS)].T.copy()
    for _ in range(_CLIMBS):
        directions /= np.maximum(np.linalg.norm(directions, axis=0), 1e-12)
        directions = white.T @ (white @ directions) ** 3 / len(white) - 3.0 * directions
    directions /= np.maximum(np.linalg.norm(directions, axis=0), 1e-12)
    found: list[Mask] = []
    for places in (white @ directions).T:
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
    grid = np.linspace(0.0, 1.2, 49)
    density = np.array([np.exp(-0.5 * ((along - place) / 0.06) ** 2).sum() for place in grid])
    top = 36 + int(np.argmax(density[36:]))
    return float(density[: top + 1].min() / max(float(density[top]), 1e-300))


def _fit_together(white: Array, shares: Array) -> tuple[Groups, Array]:
    """Return the groups that expectation-maximisation leads to, and their common scatter."""
    width = white.shape[1]
    last = -np.inf
    for step in range(_ITERATIONS):
        weights = (shares.sum(axis=0, dtype=np.float64) + 1e-6) / len(white)
        centers = (shares.T @ white).astype(np.float64) / (weights[:, None] * len(white))
        # The whole scatter is a unit sphere, so what the centres leave of it lies within the groups.
        values, vectors = np.linalg.eigh(np.eye(width) - (centers.T * weights) @ centers)
        values = np.maximum(values, 1e-3)
        within = (vectors * values) @ vectors.T
        groups = Groups(centers, weights, (vectors / values) @ (vectors.T @ centers.T))
        scores = groups.scores(white)
        top = log_sum(scores)
        # The mean of x' S⁻¹ x over rows whose scatter is the unit sphere is the trace of S⁻¹.
        likelihood = float(top.mean(dtype=np.float64) - 0.5 * np.sum(np.log(values) + 1.0 / values))
        shares = np.exp(scores - top[:, None])
        if step > 3 and likelihood - last < _GAIN:
            break
        last = likelihood
    return groups, within


def _whole(points: Array, weights: Vector) -> Vector:
    """Return the score of the group of all the rest."""
    found: Vector = np.full(len(points), np.log(max(1.0 - float(weights.sum()), 0.2)), dtype=points.dtype)
    return found


def _scores(points: Array, centers: Array, weights: Vector) -> Array:
    """Return log(weight · density) in unit Gaussians, but for a number per row."""
    found: Array = points @ centers
    found += (np.log(weights) - 0.5 * np.einsum("pg,pg->g", centers, centers)).astype(points.dtype)
    return found


def _shares(scores: Array) -> Array:
    found: Array = np.exp(scores - log_sum(scores)[:, None])
    return found


def _sigmoid(odds: Array) -> Array:
    found: Array = 1.0 / (1.0 + np.exp(-np.clip(odds, -30.0, 30.0)))
    return found
