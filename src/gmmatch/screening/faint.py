"""A faint cluster: one that overlaps the rest, in round rows of which there are few for so many columns.

Where there are hardly more rows than columns, a row takes part in every direction that is estimated from it, and
what is seen along that direction is its own doing. So every row is seen along a direction that was estimated
without it, first within each step, and at the end from nine tenths of the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.mixture import log_sum
from gmmatch.types import Indices, Vector

Array = NDArray[Any]

# With more rows per column the widest directions are known well enough for a mixture in them.
_ROWS_PER_COLUMN = 5
_FEWEST = 200
# Round: almost all rows have about the same norm, and the scatter is a sphere but for one direction.
_NORMS, _ALMOST_ALL = 1.25, 0.95
_ROUND = 0.75
# By chance alone the widest direction exceeds the next by about n to the power of -2/3.
_STANDS_OUT = 4.0
_STEPS, _LATER_STEPS, _FINAL_STEPS = 20, 8, 60
_FOLDS = 10
# How much better two Gaussians explain what is seen along the direction than one, in nats, beside the Bayesian
# information criterion: the direction was sought among many.
_EVIDENCE = 5.0
_LEAST_SHARE = 0.02


class TwoGaussians(NamedTuple):
    """Two Gaussians of one width on a line.

    Attributes
    ----------
    odds : (n,)
        Log odds of the second one.
    gain : float
        Log likelihood over that of a single Gaussian.
    """

    odds: Vector
    gain: float

    @property
    def shares(self) -> Vector:
        """The probability of the second one."""
        found: Vector = 1.0 / (1.0 + np.exp(-np.clip(self.odds, -30.0, 30.0)))
        return found


def faint_odds(points: Array, fitted: Indices) -> Vector | None:
    """Return each row's log odds of being in a faint cluster; None where there is none.

    Parameters
    ----------
    points : (n, s)
        Rows seen from their centre.
    fitted : (m,)
        The rows to look for it in.

    Examples
    --------
    >>> points = np.random.default_rng(0).standard_normal((600, 200))
    >>> points[:150, 0] += 4.0
    >>> odds = faint_odds(points - points.mean(axis=0), np.arange(600))
    >>> round(float(np.mean(odds[:150] > 0)), 1), round(float(np.mean(odds[150:] > 0)), 1)
    (1.0, 0.0)
    """
    sample = points[fitted]
    n = len(sample)
    if n < _FEWEST or n > _ROWS_PER_COLUMN * sample.shape[1]:
        return None
    norms = np.einsum("ij,ij->i", sample, sample)
    ratio = np.sqrt(norms / max(float(np.median(norms)), 1e-300))
    if np.mean((ratio < _NORMS) & (ratio > 1.0 / _NORMS)) < _ALMOST_ALL:
        return None
    sample = sample - sample.mean(axis=0)
    along = _direction_that_stands_out(sample)
    if along is None:
        return None
    starts = [_sigmoid(3.0 * along), _sigmoid(3.0 * (along - 1.0)), _sigmoid(3.0 * (-along - 1.0))]
    found = max((_climb(sample, start, _STEPS) for start in starts), key=lambda one: one.gain)
    return _seen_from_others(points - points[fitted].mean(axis=0), fitted, found.shares)


def _direction_that_stands_out(sample: Array) -> Vector | None:
    """Return the rows' places along the widest direction, of unit variance; None unless all others are alike."""
    from scipy.linalg import eigh

    n, width = sample.shape
    products = sample @ sample.T
    values, vectors = eigh(products, subset_by_index=(n - 2, n - 1))
    # Ledoit and Wolf: how far the scatter of the rows is from a sphere, and how far chance alone makes it so.
    squares = float(np.sum(products**2))
    apart = squares - float(np.trace(products)) ** 2 / width
    chance = float(np.sum(np.diag(products) ** 2)) - squares / n
    if values[1] < (1.0 + _STANDS_OUT * n ** (-2 / 3)) * values[0] or chance < _ROUND * apart:
        return None
    found: Vector = np.sqrt(n) * vectors[:, 1]
    return found


def _climb(sample: Array, shares: Vector, steps: int) -> TwoGaussians:
    """Fit two clusters in turn with two Gaussians on the line between their centres, each row's without itself."""
    norms = np.einsum("ij,ij->i", sample, sample)
    for _ in range(steps):
        places = np.zeros(len(sample))
        for sign, mine in ((1.0, shares), (-1.0, 1.0 - shares)):
            size = max(float(mine.sum()), 1e-9)
            own = size * (sample @ (mine @ sample / size)) - mine * norms
            places += sign * own / np.maximum(size - mine, 1e-9)
        found = _two_gaussians(places, shares, 5)
        shares = found.shares
    return found


def _two_gaussians(places: Vector, shares: Vector, steps: int) -> TwoGaussians:
    """Fit two Gaussians of one width to numbers, from the probability of the second one for each."""
    for _ in range(steps):
        weight = float(np.clip(shares.mean(), _LEAST_SHARE, 1.0 - _LEAST_SHARE))
        first = (1.0 - shares) @ places / max(float((1.0 - shares).sum()), 1e-9)
        second = shares @ places / max(float(shares.sum()), 1e-9)
        squares = np.column_stack([(places - first) ** 2, (places - second) ** 2])
        variance = float((1.0 - shares) @ squares[:, 0] + shares @ squares[:, 1]) / len(places)
        logs = np.log([1.0 - weight, weight]) - 0.5 * squares / max(variance, 1e-300)
        found = TwoGaussians(logs[:, 1] - logs[:, 0], 0.0)
        shares = found.shares
    likelihood = float(log_sum(logs).sum()) - 0.5 * len(places) * float(np.log(max(variance, 1e-300)))
    single = -0.5 * len(places) * (1.0 + float(np.log(max(float(places.var()), 1e-300))))
    return TwoGaussians(found.odds, likelihood - single)


def _seen_from_others(points: Array, fitted: Indices, shares: Vector) -> Vector | None:
    """Return the odds of all rows, each tenth's from the other rows; None without evidence of two clusters."""
    folds = np.random.default_rng(0).integers(0, _FOLDS, len(points))
    places, likely = np.empty(len(points)), np.full(len(points), 0.5)
    likely[fitted] = shares
    for fold in range(_FOLDS):
        others = fitted[folds[fitted] != fold]
        again = _climb(points[others], likely[others], _LATER_STEPS).shares
        apart = again @ points[others] / again.sum() - (1.0 - again) @ points[others] / (1.0 - again).sum()
        places[folds == fold] = points[folds == fold] @ apart
    known = _two_gaussians(places[fitted], likely[fitted], _FINAL_STEPS)
    if known.gain < float(np.log(len(fitted))) + _EVIDENCE:
        return None
    # The odds are a straight line, as the two have one width.
    slope, level = np.polyfit(places[fitted], known.odds, 1)
    odds: Vector = slope * places + level
    return -odds if np.mean(known.shares) > 0.5 else odds


def _sigmoid(odds: Vector) -> Vector:
    found: Vector = 1.0 / (1.0 + np.exp(-odds))
    return found
