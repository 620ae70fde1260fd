"""Foreign rows: groups of rows that differ from the rest of every class in the same way.

What spoils data seldom asks for the class: noise, blur or a wrong sensor move rows of all classes alike. Seen
from the centre of its class, each row is its class's variation; a mixture of Gaussians with one scatter
finds the groups in it. Groups of natural variation prefer some classes and shade into the rest. A group is
foreign if a gap lies between it and the rest, or if it takes its rows from all classes alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.contrast import FEWEST, Contrast, contrast_rows
from gmmatch.screening.core import ODDS, leading_directions
from gmmatch.screening.points import Points
from gmmatch.screening.sampling import spread_sample
from gmmatch.types import Indices, Mask, Vector

Array = NDArray[Any]

_FITTED_ROWS = 10_000
_COORDINATES = 128
_GROUPS = 24
# With fewer rows per group its centre is guesswork in so many coordinates.
_ROWS_PER_GROUP = 200
_ITERATIONS = 50
_ROUNDS = 2
# A gap: between the two centres the density falls below this share of the group's own.
_GAP = 0.1
# A group with less information than this about the class, in nats, takes its rows from all alike; among few
# classes natural groups may do so, too.
_INFORMATION = 0.05
_CLASSES = 5
_APART = 3.0


@dataclass(frozen=True)
class Groups:
    """Gaussians with one common scatter: linear scores that tell which group a row is of."""

    centers: Array
    weights: Vector
    slopes: Array
    likelihood: float = -np.inf

    def scores(self, points: Array) -> Array:
        """Return log(weight · density) of each row in each group, but for a number per row."""
        offsets = np.log(self.weights) - 0.5 * np.einsum("gp,pg->g", self.centers, self.slopes)
        found: Array = points @ self.slopes.astype(points.dtype) + offsets
        return found


def foreign_odds(points: Points, given: Indices, trusted: Mask, contrast: Contrast) -> Vector:
    """Return each row's log odds of being foreign, moved so that rows to drop are above 0.

    −∞ where no group of rows is foreign. Groups are sought, taken away, and sought again in what is left.
    Then the rows of each group are contrasted with all others as if they were a class of their own, by the
    same model that finds wrong labels: it finds their like among the others.
    """
    residuals = points.from_centers(contrast.centers, given)
    axes = leading_directions(contrast.scatter, min(_COORDINATES, points.width))
    kinds = np.zeros(len(points), dtype=np.int64)
    for _ in range(_ROUNDS):
        fitted = np.flatnonzero(trusted & (kinds == 0))
        fitted = fitted[spread_sample(len(fitted), _FITTED_ROWS)] if len(fitted) else fitted
        count = min(_GROUPS, len(fitted) // _ROWS_PER_GROUP)
        if count < 3:
            break
        sample = (residuals.gather(fitted) @ axes).astype(np.float64)
        middle, whitening = _whitening(sample)
        white = ((sample - middle) @ whitening).astype(np.float32)
        groups = _enough_groups(white, count)
        if groups is None:
            break
        foreign = _foreign_groups(groups, white, given[fitted], len(contrast.centers), contrast.channel.noise)
        if not foreign.any():
            break
        _name_kinds(kinds, residuals, axes, middle, whitening, groups, foreign)
    return _contrasted(residuals, kinds, trusted)


def _name_kinds(
    kinds: Indices,
    residuals: Points,
    axes: Array,
    middle: Vector,
    whitening: Array,
    groups: Groups,
    foreign: Mask,
) -> None:
    """Give the rows of foreign groups the numbers of new kinds; rows that have one keep it."""
    numbers = np.zeros(len(foreign), dtype=np.int64)
    numbers[foreign] = int(kinds.max()) + 1 + np.arange(int(foreign.sum()))
    for positions, block in residuals.blocks():
        found = numbers[groups.scores((block @ axes - middle) @ whitening).argmax(axis=1)]
        kinds[positions] = np.where(kinds[positions] == 0, found, kinds[positions])


def _contrasted(residuals: Points, kinds: Indices, trusted: Mask) -> Vector:
    """Return the log odds against the rest, of rows that were taken for it and of those that were not."""
    counts = np.bincount(kinds[trusted], minlength=int(kinds.max()) + 1)
    large = np.flatnonzero(counts >= FEWEST)
    if len(large) < 2 or large[0] != 0:
        return np.full(len(kinds), -np.inf)
    # Kinds of which hardly a row is trusted are left to the rest, to be judged with it.
    codes = np.zeros(len(kinds), dtype=np.int64)
    codes[np.isin(kinds, large)] = np.searchsorted(large, kinds[np.isin(kinds, large)])
    rest = contrast_rows(residuals, codes, trusted, len(large)).responsibilities[:, 0].astype(np.float64)
    rest = np.clip(rest, 1e-9, 1.0 - 1e-9)
    odds: Vector = np.log1p(-rest) - np.log(rest) + ODDS
    return odds


def _whitening(points: Array) -> tuple[Vector, Array]:
    """Return the mean of the rows and the map that makes their scatter a sphere."""
    middle = points.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(points.T).reshape(points.shape[1], -1))
    return middle, vectors / np.sqrt(np.maximum(values, 1e-8 * max(float(values[-1]), 1e-300)))


def _enough_groups(white: Array, most: int) -> Groups | None:
    """Return two, six or ``most`` groups, as the Bayesian information criterion asks for; None for a single one."""
    n, width = white.shape
    best, found = -0.5 * width, None
    for count in sorted({2, min(6, most), most}):
        groups = fit_groups(white, count)
        score = groups.likelihood - 0.5 * float(np.log(n)) * (count - 1) * (width + 1) / n
        if score > best:
            best, found = score, groups
    return found


def fit_groups(white: Array, count: int) -> Groups:
    """Fit Gaussians with one common scatter to rows whose mean is 0 and whose scatter is a unit sphere.

    Examples
    --------
    >>> points = np.random.default_rng(0).standard_normal((400, 1)) / 10.0
    >>> points[:200] += 2.0
    >>> white = (points - points.mean()) / points.std()
    >>> fit_groups(white, 2).weights.round(2).tolist()
    [0.5, 0.5]
    """
    width = white.shape[1]
    shares = _first_groups(white, count)
    last = -np.inf
    for step in range(_ITERATIONS):
        weights = (shares.sum(axis=0, dtype=np.float64) + 1e-6) / len(white)
        centers = (shares.T.astype(white.dtype) @ white) / (weights[:, None] * len(white))
        # The whole scatter is a unit sphere, so what the centres leave of it lies within the groups.
        within = (1.0 + 1e-3) * np.eye(width) - (centers.T * weights) @ centers
        groups = Groups(centers, weights, np.linalg.solve(within, centers.T))
        scores = groups.scores(white)
        top = scores.max(axis=1, keepdims=True)
        shares = np.exp(scores - top)
        total = shares.sum(axis=1)
        shares /= total[:, None]
        # The within scatter differs from the sphere in as many directions as there are groups.
        roots = np.sqrt(weights)[:, None] * centers
        values = 1.0 + 1e-3 - np.linalg.eigvalsh(roots @ roots.T)
        likelihood = float((np.log(total) + top[:, 0]).mean())
        likelihood -= 0.5 * float(np.sum(np.log(values) + 1.0 / values))
        likelihood -= 0.5 * (width - len(values)) * (np.log(1.0 + 1e-3) + 1.0 / (1.0 + 1e-3))
        if step > 5 and likelihood - last < 1e-3:
            break
        last = likelihood
    return replace(groups, likelihood=likelihood)


def _first_groups(white: Array, count: int) -> Array:
    """Return a start: the rows' nearest centres after a few steps of k-means."""
    from sklearn.cluster import kmeans_plusplus

    sample = white[spread_sample(len(white), 4000)]
    centers = kmeans_plusplus(sample, min(count, len(sample)), random_state=0)[0]
    for _ in range(8):
        nearest = (np.einsum("gp,gp->g", centers, centers) - 2.0 * white @ centers.T).argmin(axis=1)
        shares = np.zeros((len(white), len(centers)), dtype=white.dtype)
        shares[np.arange(len(white)), nearest] = 1.0
        sizes = shares.sum(axis=0)
        centers = np.where(sizes[:, None] > 0, (shares.T @ white) / np.maximum(sizes, 1.0)[:, None], centers)
    return shares


def _foreign_groups(groups: Groups, white: Array, given: Indices, n_classes: int, noise: float) -> Mask:
    """Return which groups are foreign; together they hold less than half of the rows."""
    nearest = groups.scores(white).argmax(axis=1)
    main = int(np.argmax(groups.weights))
    usual = np.bincount(given, minlength=n_classes) / len(given)
    suspects: list[tuple[float, int]] = []
    for group in range(len(groups.weights)):
        mine = np.flatnonzero(nearest == group)
        if group == main or len(mine) < 10:
            continue
        apart = groups.centers[group] - groups.centers[main]
        slope = groups.slopes[:, group] - groups.slopes[:, main]
        distance = float(np.sqrt(max(apart @ slope, 0.0)))
        if distance < _APART:
            continue
        rest = np.flatnonzero(nearest == main)
        along = (white[np.concatenate([rest, mine])] - groups.centers[main]) @ slope / (apart @ slope)
        blind = _information(given[mine], usual) < _INFORMATION * (1.0 - noise) ** 2
        if _valley(along) < _GAP or (blind and n_classes >= _CLASSES):
            suspects.append((distance, group))
    foreign = np.zeros(len(groups.weights), dtype=np.bool_)
    for _, group in sorted(suspects, reverse=True):
        foreign[group] = True
        if groups.weights[foreign].sum() >= 0.5:
            foreign[group] = False
    return foreign


def _valley(along: Vector) -> float:
    """Return the least density between the centres at 0 and 1, as a share of that around 1."""
    places = np.linspace(0.0, 1.2, 49)
    density = np.array([np.exp(-0.5 * ((along - place) / 0.06) ** 2).sum() for place in places])
    top = 36 + int(np.argmax(density[36:]))
    return float(density[: top + 1].min() / max(float(density[top]), 1e-300))


def _information(labels: Indices, usual: Vector) -> float:
    """Return how much a group tells about the class, in nats, less what so few rows tell by chance."""
    if (np.count_nonzero(usual) - 1) / (2.0 * len(labels)) > _INFORMATION:
        return np.inf
    found = np.bincount(labels, minlength=len(usual)) / len(labels)
    present = found > 0
    information = float(np.sum(found[present] * np.log(found[present] / usual[present])))
    return information - (np.count_nonzero(usual) - 1) / (2.0 * len(labels))
