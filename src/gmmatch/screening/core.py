"""The core: the densest majority of the rows, without labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import TensorRows, on_device
from gmmatch.median.passes import distances_to
from gmmatch.median.weiszfeld import solve
from gmmatch.rows.rows import Rows
from gmmatch.screening.algebra import leading_directions
from gmmatch.screening.faint import faint_odds
from gmmatch.screening.mixture import Mixture, connected, fit_mixture, log_sum
from gmmatch.screening.result import FAR_OUT, REASONS, Screening
from gmmatch.screening.sampling import spread_sample
from gmmatch.types import Indices, Mask, Vector

# A Gaussian's farthest row of a million lies 8 median distances out in one dimension, fewer in more.
GROSS = 10.0
# Rows that models are fitted to; all rows are then judged by the models.
_FITTED_ROWS = 4000
_LEADING = 10
_FEW = 2
# The distance from a plane is close to a Gaussian only if that many directions add up to it.
_LEFT_OVER = 10
# Faint clusters are sought in all columns of rows that fit into memory a few times.
_ELEMENTS = 1 << 24
# With fewer rows, pieces of any shape look like clusters.
_ROWS_PER_DIRECTION = 10
# A component with this many times the core's variance is a background and no mode, nor the core's own tail.
_BACKGROUND = 4.0
# What is judged for its odds stays if it is twice as likely clean as foreign.
ODDS = np.log(2.0)


@dataclass(frozen=True)
class Center:
    """A geometric median, and which rows lie grossly far from it."""

    point: Vector
    distances: Vector
    typical: float
    reach: float = GROSS

    @property
    def gross(self) -> Mask:
        """Rows over ``reach`` times as far out as the median row."""
        found: Mask = self.distances > self.reach * self.typical
        return found

    @property
    def suspicion(self) -> Vector:
        """The logarithm of how many times too far out a row lies."""
        scale = self.reach * self.typical if self.typical > 0.0 else 1.0
        found: Vector = np.log(np.maximum(self.distances, 1e-300) / scale)
        return found


def robust_center(rows: Rows, threads: int = 1) -> Center:
    """Return the geometric median of a sample of the rows, and every row's distance to it."""
    sample = rows.subset(spread_sample(len(rows), _FITTED_ROWS))
    point = solve(sample, np.ones(len(sample)), eps=1e-6, max_iter=200, threads=threads).point
    distances = (
        TensorRows(rows).distances_to(point) if on_device(rows) else distances_to(rows, point, threads)
    )
    return Center(point, distances, float(np.median(distances)))


def core_screening(rows: Rows, n_modes: int | None = None, threads: int = 1) -> Screening:
    """Keep the rows that the largest ``n_modes`` Gaussians explain at least twice as well as all else."""
    center = robust_center(rows, threads)
    if (n_modes or 1) > 1:  # clusters may well lie farther apart than a cluster's rows
        center = replace(center, reach=GROSS**3)
    inside = np.flatnonzero(~center.gross)
    suspicion = np.where(center.gross, np.maximum(center.suspicion, 1e-12), -np.inf)
    if rows.n_features < _LEADING + _LEFT_OVER:
        axes = np.eye(rows.n_features)
    else:
        axes = leading_axes(rows, center, _LEADING)
    points = coordinates(rows, center, axes)
    spread = points[inside].var(axis=0)
    # Directions in which nothing but rounding varies say nothing.
    points = points[:, spread > 1e-10 * max(float(spread.max(initial=0.0)), 1e-300)]
    # Copies are no further evidence.
    if points.shape[1]:
        inside = np.sort(inside[np.unique(points[inside], axis=0, return_index=True)[1]])
    fitted = inside[spread_sample(len(inside), _FITTED_ROWS)]
    best: tuple[Mixture, NDArray[np.float64], Vector] | None = None
    # In few coordinates less evidence tells two overlapping clusters apart, in many more of them show.
    for width in sorted({min(_FEW, points.shape[1]), points.shape[1]}):
        leading = points[:, :width]
        heights = _heights(center.distances, leading, fitted)
        flat = width == rows.n_features or float(np.median(heights[fitted])) < 1e-5 * center.typical
        too_few = width < rows.n_features < width + _LEFT_OVER and not flat
        if too_few or width == 0 or len(fitted) < _ROWS_PER_DIRECTION * (width + 2):
            continue
        mixture = fit_mixture(leading[fitted], None if flat else heights[fitted])
        if best is None or mixture.gain > best[0].gain:
            best = mixture, leading, np.zeros(len(rows)) if flat else heights
    faint = None
    if (n_modes or 1) == 1 and len(rows) <= _FITTED_ROWS and len(rows) * rows.n_features <= _ELEMENTS:
        faint = faint_odds(rows.gather(np.arange(len(rows))) - center.point, fitted)
    if faint is not None:
        suspicion = np.where(center.gross, suspicion, faint + ODDS)
    elif best is not None:
        odds = _odds_against(*best, n_modes) + ODDS
        suspicion = np.where(center.gross, np.maximum(suspicion, odds), odds)
    dropped = suspicion > 0.0
    reason = np.where(dropped, REASONS.index(FAR_OUT), 0).astype(np.int8)
    return Screening(~dropped, suspicion, reason)


def _heights(distances: Vector, leading: NDArray[np.float64], fitted: Indices) -> Vector:
    """Return how far each row lies from the plane of its leading coordinates.

    Rows of one norm bend down from that plane where they leave its middle, which looks like clusters: their
    heights say nothing that the coordinates do not, and are 0.
    """
    squares = np.maximum(distances**2 - np.einsum("ij,ij->i", leading, leading), 0.0)
    bent = 2.0 * float(np.var(distances[fitted] ** 2)) < float(np.var(squares[fitted]))
    return np.zeros(len(squares)) if bent else np.sqrt(squares)


def leading_axes(rows: Rows, center: Center, width: int) -> NDArray[np.float64]:
    """Return the directions in which a sample of the rows varies most, gross ones aside; widest first."""
    inside = np.flatnonzero(~center.gross)
    inside = inside[spread_sample(len(inside), _FITTED_ROWS)]
    sample = rows.gather(inside) - center.point
    n, s = sample.shape
    if s <= 2 * n:
        return leading_directions(sample.T @ sample, width)
    values, vectors = np.linalg.eigh(sample @ sample.T)
    kept = values > 1e-10 * max(float(values[-1]), 1e-300)
    axes: NDArray[np.float64] = sample.T @ (vectors[:, kept] / np.sqrt(values[kept]))
    return axes[:, : -width - 1 : -1]


def coordinates(rows: Rows, center: Center, axes: NDArray[Any], dtype: Any = np.float64) -> NDArray[Any]:
    """Return each row's coordinates along the axes, seen from the centre."""
    if on_device(rows):
        return TensorRows(rows).coordinates(center.point, axes.astype(np.float64)).astype(dtype, copy=False)
    points = np.empty((len(rows), axes.shape[1]), dtype=dtype)
    narrow, shift = axes.astype(dtype), (center.point @ axes).astype(dtype)
    for number in range(rows.n_chunks):
        first, last = rows.bounds(number)
        points[first:last] = rows.block(number, dtype) @ narrow - shift
    return points


def _odds_against(
    mixture: Mixture, points: NDArray[np.float64], heights: Vector, n_modes: int | None
) -> Vector:
    """Return each row's log odds of belonging to a component outside of the core."""
    # Where two Gaussians do not do, components may be pieces of a shape, and only gaps tell what is foreign.
    pieces = n_modes is None and len(mixture) > 2
    modes = connected(mixture, 4.0 if pieces else 2.0, _BACKGROUND)
    weights = np.array([mixture.weights[modes == mode].sum() for mode in modes])
    sizes = np.array(
        [np.average(mixture.sizes[modes == m], weights=mixture.weights[modes == m]) for m in modes]
    )
    heaviest = int(np.argmax(weights))
    ranked = [
        mode for mode in dict.fromkeys(modes[np.argsort(-weights, kind="stable")].tolist())
        if sizes[modes == mode][0] <= _BACKGROUND * sizes[heaviest]
    ]  # fmt: skip
    core = np.isin(modes, ranked[: n_modes or 1])
    logs = mixture.log_densities(points, heights)
    if core.all():
        return np.full(len(points), -np.inf)
    return log_sum(logs[:, ~core]) - log_sum(logs[:, core])
