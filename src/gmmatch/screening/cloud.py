"""A cloud of rows of unit scatter, and the sums over it by which groups in it are found."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gmmatch.types import Indices, Vector

Array = NDArray[Any]

_PART_ELEMENTS = 1 << 18
# Log odds are cut off here: beyond, a share is 0 or 1 in float32.
MOST_ODDS = 30.0


class Climbed(NamedTuple):
    """Sums over a cloud for Gaussians that climb: Σ share · x, Σ share, and Σ log(1 + odds) where asked for."""

    totals: Array
    sizes: Vector
    gains: Vector


class Expected(NamedTuple):
    """Sums over a cloud for a mixture: Σ share · x, Σ share, and the mean of log Σ exp(score)."""

    totals: Array
    sizes: Vector
    mean_log: float


class Cloud(Protocol):
    """Rows, wherever they are. All that goes in and comes out is a NumPy array."""

    shape: tuple[int, int]

    def rows(self, positions: Indices) -> Array:
        """Return the rows at these positions."""

    def times(self, matrix: Array) -> Array:
        """Return the product of all rows with a matrix."""

    def turned(self, matrix: Array) -> Cloud:
        """Return that product as a cloud."""

    def climb(
        self, centers: Array, offsets: Array, beside: Array, without: Indices | None, gained: bool
    ) -> Climbed:
        """Return the sums for Gaussians, each beside a fixed density; row ``without[j]`` does not count for j."""

    def totals(self, shares: Array) -> tuple[Array, Vector]:
        """Return Σ share · x and Σ share for each column of shares."""

    def expect(self, slopes: Array, offsets: Array) -> Expected:
        """Return the sums for shares in proportion to exp(x · slope + offset)."""

    def cubed(self, directions: Array, positions: Indices) -> Array:
        """Return the mean of x (x · direction)³ over the rows at these positions, for each direction."""


class HostCloud:
    """A cloud in memory.

    Examples
    --------
    >>> cloud = HostCloud(np.array([[1.0], [-1.0]], dtype=np.float32))
    >>> cloud.expect(np.array([[9.0, -9.0]]), np.zeros(2)).sizes.round(3).tolist()
    [1.0, 1.0]
    """

    def __init__(self, values: Array) -> None:
        self.values = values
        self.shape = (int(values.shape[0]), int(values.shape[1]))

    def rows(self, positions: Indices) -> Array:
        """Return the rows at these positions."""
        found: Array = self.values[positions]
        return found

    def times(self, matrix: Array) -> Array:
        """Return the product of all rows with a matrix."""
        found: Array = self.values @ matrix.astype(self.values.dtype, copy=False)
        return found

    def turned(self, matrix: Array) -> HostCloud:
        """Return that product as a cloud."""
        return HostCloud(self.times(matrix))

    def climb(
        self, centers: Array, offsets: Array, beside: Array, without: Indices | None, gained: bool
    ) -> Climbed:
        """Return the sums for Gaussians beside a fixed density; the rows come in parts that stay in the cache."""
        points, count = self.values, centers.shape[1]
        totals = np.zeros((len(centers), count), dtype=points.dtype)
        sizes, gains = np.zeros(count), np.zeros(count)
        length = max(1, _PART_ELEMENTS // max(count, 1))
        for first in range(0, len(points), length):
            part = points[first : first + length]
            shares = part @ centers
            shares += offsets
            shares += beside[first : first + length, None]
            if gained:
                gains += _softplus(shares).sum(axis=0, dtype=np.float64)
            np.clip(shares, -MOST_ODDS, MOST_ODDS, out=shares)
            np.negative(shares, out=shares)
            np.exp(shares, out=shares)
            shares += 1.0
            np.reciprocal(shares, out=shares)
            if without is not None:
                mine = np.flatnonzero((without >= first) & (without < first + length))
                shares[without[mine] - first, mine] = 0.0
            sizes += shares.sum(axis=0, dtype=np.float64)
            if not gained:
                totals += part.T @ shares
        return Climbed(totals, sizes, gains)

    def totals(self, shares: Array) -> tuple[Array, Vector]:
        """Return Σ share · x and Σ share for each column of shares."""
        return shares.T @ self.values, shares.sum(axis=0, dtype=np.float64)

    def expect(self, slopes: Array, offsets: Array) -> Expected:
        """Return the sums for shares in proportion to exp(x · slope + offset)."""
        scores = self.times(slopes)
        scores += offsets.astype(scores.dtype)
        top = scores.max(axis=1, keepdims=True)
        scores -= top
        shares = np.exp(scores, out=scores)
        sums = shares.sum(axis=1, keepdims=True)
        shares /= sums
        return Expected(*self.totals(shares), float(np.mean(top + np.log(sums), dtype=np.float64)))

    def cubed(self, directions: Array, positions: Indices) -> Array:
        """Return the mean of x (x · direction)³ over the rows at these positions, for each direction."""
        some = self.values[positions]
        along = some @ directions
        cubes = along * along
        cubes *= along
        found: Array = some.T @ cubes / len(some)
        return found


def _softplus(odds: Array) -> Array:
    """Return log(1 + exp(odds)), in a fraction of the time of ``np.logaddexp``.

    Examples
    --------
    >>> _softplus(np.array([-1e3, 0.0, 1e3])).round(4).tolist()
    [0.0, 0.6931, 1000.0]
    """
    found: Array = np.log1p(np.exp(-np.abs(odds)))
    found += np.maximum(odds, 0.0)
    return found
