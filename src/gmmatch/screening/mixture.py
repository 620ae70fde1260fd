"""A few Gaussians that explain the rows: how many, where and how large, found from the rows alone.

Components are added by splitting one in two, as long as the Bayesian information criterion improves. They
have either one common shape and sizes of their own, which takes few rows to tell, or shapes of their own;
the criterion decides that as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gmmatch.types import Indices, Mask, Vector

Array = NDArray[np.float64]
Shapes = Literal["shared", "free"]

_ITERATIONS = 40
# Enough to tell which of several starts leads higher.
_FIRST_ITERATIONS = 10
# An iteration that gains less than this per row, in nats, is the last.
_GAIN = 2e-4
_MOST_COMPONENTS = 6


@dataclass(frozen=True)
class Mixture:
    """Gaussians over leading coordinates, and over the distance from their plane where there is one.

    Attributes
    ----------
    weights : (K,)
    centers : (K, D)
    scatters : (K, D, D)
    heights, height_variances : (K,)
        Mean and variance of the distance from the plane of the coordinates; zeros and ones without it.
    exhausted : bool
        Whether more components would explain the rows still better: they are no few Gaussians.
    gain : float
        By how much the Bayesian information criterion prefers it to a single Gaussian, in nats.
    """

    weights: Vector
    centers: Array
    scatters: Array
    heights: Vector
    height_variances: Vector
    exhausted: bool = False
    gain: float = 0.0

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def sizes(self) -> Vector:
        """The variance of each component, relative to the heaviest one's."""
        determinants = np.linalg.slogdet(self.scatters)[1] / self.centers.shape[1]
        found: Vector = np.exp(determinants - determinants[np.argmax(self.weights)])
        return found

    def log_densities(self, points: Array, heights: Vector) -> Array:
        """Return log(weight · density) per row and component, but for a constant."""
        found = np.empty((len(points), len(self)))
        for j in range(len(self)):
            found[:, j] = np.log(self.weights[j]) - 0.5 * (
                self._spread(points, heights, j)
                + np.linalg.slogdet(self.scatters[j])[1]
                + np.log(self.height_variances[j])
            )
        return found

    def _spread(self, points: Array, heights: Vector, j: int) -> Vector:
        scaled = (points - self.centers[j]) @ np.linalg.inv(np.linalg.cholesky(self.scatters[j])).T
        squares: Vector = np.einsum("ij,ij->i", scaled, scaled)
        squares += (heights - self.heights[j]) ** 2 / self.height_variances[j]
        return squares

    def distance(self, i: int, j: int) -> float:
        """Return how many standard deviations two centres are apart, in the two components' mean scatter."""
        apart = self.centers[i] - self.centers[j]
        scatter = 0.5 * (self.scatters[i] + self.scatters[j])
        height = (self.heights[i] - self.heights[j]) ** 2
        height /= 0.5 * (self.height_variances[i] + self.height_variances[j])
        return float(np.sqrt(apart @ np.linalg.solve(scatter, apart) + height))


def fit_mixture(points: Array, heights: Vector | None = None, most: int = _MOST_COMPONENTS) -> Mixture:
    """Fit one to ``most`` Gaussians, as many as the Bayesian information criterion asks for.

    Examples
    --------
    >>> points = np.random.default_rng(0).standard_normal((300, 2))
    >>> points[:100] += 10.0
    >>> sorted(fit_mixture(points).weights.round(2).tolist())
    [0.33, 0.67]
    """
    flat = heights is None
    up = np.zeros(len(points)) if heights is None else heights
    found = [_grow(points, up, flat, shapes, most) for shapes in ("shared", "free")]
    return max(found, key=lambda mixture: mixture.gain)


def log_sum(values: Array) -> Vector:
    """Return log Σ exp(values) of each row.

    Examples
    --------
    >>> log_sum(np.log([[1.0, 2.0]])).round(4)
    array([1.0986])
    """
    top = values.max(axis=1, keepdims=True)
    found: Vector = top[:, 0] + np.log(np.exp(values - top).sum(axis=1))
    return found


def _grow(points: Array, heights: Vector, flat: bool, shapes: Any, most: int) -> Mixture:
    n, width = points.shape
    least = 2 * (width + 1)
    mixture, likelihood, shares = _climb(points, heights, np.ones((n, 1)), shapes, flat)
    single = best = likelihood - _penalty(1, n, width, flat, shapes)
    while len(mixture) < most:
        grown: list[tuple[float, Array]] = []
        for start in _splits(points, heights, mixture, shares, least, flat):
            _, likelihood, its_shares = _climb(points, heights, start, shapes, flat, _FIRST_ITERATIONS)
            if its_shares.sum(axis=0).min() >= least:
                grown.append((likelihood, its_shares))
        if not grown:
            return replace(mixture, gain=best - single)
        start = max(grown, key=lambda one: one[0])[1]
        larger, likelihood, its_shares = _climb(points, heights, start, shapes, flat)
        score = likelihood - _penalty(len(larger), n, width, flat, shapes)
        if score <= best or its_shares.sum(axis=0).min() < least:
            return replace(mixture, gain=best - single)
        best, mixture, shares = score, larger, its_shares
    return replace(mixture, gain=best - single, exhausted=True)


def _penalty(count: int, n: int, width: int, flat: bool, shapes: Shapes) -> float:
    per_component = width + 1 + (0 if flat else 2)
    shape = width * (width + 1) // 2
    free = count * shape if shapes == "free" else shape + count - 1
    return 0.5 * float(np.log(n)) * (count * per_component - 1 + free)


def _climb(
    points: Array, heights: Vector, shares: Array, shapes: Shapes, flat: bool, most: int = _ITERATIONS
) -> tuple[Mixture, float, Array]:
    """Return the mixture that expectation-maximisation reaches, its likelihood and the rows' shares."""
    floor = 1e-6 * float(points.var(axis=0).mean()) + 1e-300
    sizes: Vector | None = None
    last = -np.inf
    for step in range(most):
        mixture, sizes = _maximize(points, heights, shares, shapes, flat, sizes, floor)
        logs = mixture.log_densities(points, heights)
        total = log_sum(logs)
        likelihood = float(total.sum())
        shares = np.exp(logs - total[:, None])
        if step > 4 and likelihood - last < _GAIN * len(points):
            break
        last = likelihood
    return mixture, likelihood, shares


def _maximize(
    points: Array,
    heights: Vector,
    shares: Array,
    shapes: Shapes,
    flat: bool,
    sizes: Vector | None,
    floor: float,
) -> tuple[Mixture, Vector]:
    n, width = points.shape
    counts = shares.sum(axis=0) + 1e-9
    centers = (shares.T @ points) / counts[:, None]
    scatters = np.empty((len(counts), width, width))
    for j, center in enumerate(centers):
        apart = points - center
        scatters[j] = (apart * shares[:, j : j + 1]).T @ apart / counts[j]
    scatters += floor * np.eye(width)
    if sizes is None:
        sizes = np.trace(scatters, axis1=1, axis2=2)
    shape = np.einsum("j,jab->ab", counts / n / sizes, scatters)
    sizes = np.einsum("ab,jba->j", np.linalg.inv(shape), scatters) / width
    alike = sizes[:, None, None] * shape
    if shapes == "shared":
        scatters = alike
    else:
        # As if so many rows more had been seen of the common shape: few rows make no needles and no plates.
        seen = 2.0 * (width + 1)
        scatters = (counts[:, None, None] * scatters + seen * alike) / (counts[:, None, None] + seen)
    means, variances = np.zeros(len(counts)), np.ones(len(counts))
    if not flat:
        means = (heights @ shares) / counts
        variances = (heights**2 @ shares) / counts - means**2
        variances = np.maximum(variances, 1e-4 * heights.var() + 1e-300)
    weights = counts / counts.sum()
    return Mixture(weights, centers, scatters, means, variances), sizes


def _splits(
    points: Array, heights: Vector, mixture: Mixture, shares: Array, least: int, flat: bool
) -> list[Array]:
    """Return starts with one component more: a core and its surroundings, or two halves, of each."""
    starts = []
    raw = points if flat else np.column_stack([points, heights])
    for j in range(len(mixture)):
        mine = shares[:, j]
        if mine.sum() < 2 * least:
            continue
        spread = mixture._spread(points, heights, j)
        inner = spread < np.median(spread[mine > 0.5]) if (mine > 0.5).any() else mine > 0.5
        white = (points - mixture.centers[j]) @ np.linalg.inv(np.linalg.cholesky(mixture.scatters[j])).T
        if not flat:
            up = (heights - mixture.heights[j]) / np.sqrt(mixture.height_variances[j])
            white = np.column_stack([white, up])
        for part in (inner, _two_means(raw, mine), _two_means(white, mine)):
            start = np.column_stack([shares, mine * ~part])
            start[:, j] = mine * part
            if min(start[:, j].sum(), start[:, -1].sum()) >= least:
                starts.append(start)
    return starts


def _two_means(points: Array, weights: Vector) -> Mask:
    """Return which rows fall to the first of two centres, started along the widest direction."""
    apart = points - weights @ points / weights.sum()
    direction = np.linalg.eigh((apart * weights[:, None]).T @ apart)[1][:, -1]
    along = apart @ direction
    first: Mask = along > np.median(along[weights > 0.5] if (weights > 0.5).any() else along)
    for _ in range(15):
        sums = [
            weights @ (points * side[:, None]) / max(float(weights @ side), 1e-9) for side in (first, ~first)
        ]
        nearer = ((points - sums[0]) ** 2).sum(axis=1) < ((points - sums[1]) ** 2).sum(axis=1)
        if np.array_equal(nearer, first):
            break
        first = nearer
    return first


def connected(mixture: Mixture, reach: float, ratio: float) -> Indices:
    """Return the number of the mode that each component belongs to.

    Components are of one mode if their centres are less than ``reach`` standard deviations apart and
    their sizes differ by less than ``ratio``. Two Gaussians of one size have a single peak between them
    up to a distance of 2.

    Examples
    --------
    >>> points = np.random.default_rng(0).standard_normal((300, 2))
    >>> points[:100] += 10.0
    >>> connected(fit_mixture(points), 2.0, 2.0).tolist()
    [0, 1]
    """
    sizes = mixture.sizes
    modes = np.arange(len(mixture))
    for i in range(len(mixture)):
        for j in range(i):
            heights = mixture.height_variances[[i, j]]
            alike = max(np.ptp(np.log(sizes[[i, j]])), np.ptp(np.log(heights))) < np.log(ratio)
            if alike and mixture.distance(i, j) < reach:
                modes[modes == modes[i]] = modes[j]
    return modes
