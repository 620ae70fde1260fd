"""Rows as the models of the screening see them: from a centre, block by block, never copied wholesale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gmmatch.kernels.distances import negative_half_squared_distances
from gmmatch.rows.rows import Rows
from gmmatch.screening.algebra import Square
from gmmatch.screening.cloud import Cloud, HostCloud
from gmmatch.types import Indices, Vector

Block = NDArray[np.float32]

_BLOCK_ELEMENTS = 1 << 21
_DISTANCES = (0.02, 0.5)


class Sample(Protocol):
    """Some points, wherever they are; their products with small matrices come as NumPy arrays."""

    shape: tuple[int, int]

    def ordered(self, order: Indices) -> Sample:
        """Return the points in another order."""

    def gram(self, part: slice, *, wide: bool = False) -> Square:
        """Return Σ x xᵀ over a part of the points, as float64 where asked for."""

    def totals(self, part: slice, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return Σ wᵢ xᵢ over a part of the points, for each column of their weights."""

    def times(self, part: slice, slopes: NDArray[Any]) -> NDArray[np.float32]:
        """Return the products of a part of the points with the columns of ``slopes``."""


class HostSample:
    """Points in memory."""

    def __init__(self, values: Block) -> None:
        self.values = values
        self.shape = (int(values.shape[0]), int(values.shape[1]))

    def ordered(self, order: Indices) -> HostSample:
        """Return the points in another order."""
        return HostSample(self.values[order])

    def gram(self, part: slice, *, wide: bool = False) -> Square:
        """Return Σ x xᵀ."""
        return (self.values[part].T @ self.values[part]).astype(
            np.float64 if wide else np.float32, copy=False
        )

    def totals(self, part: slice, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return Σ wᵢ xᵢ for each column of weights."""
        return weights.T @ self.values[part]

    def times(self, part: slice, slopes: NDArray[Any]) -> NDArray[np.float32]:
        """Return the points' products with the columns of ``slopes``."""
        return self.values[part] @ slopes.astype(np.float32, copy=False)


@dataclass(frozen=True)
class Points:
    """Rows seen from an origin, or each from the centre of its class.

    Attributes
    ----------
    rows : Rows
    origin : (s,)
        What is subtracted from every row.
    scale : float
        A typical distance from there, which all are divided by: float32 holds no numbers of any size.
    axes : (s, p), optional
        Directions to see them along, where the rows have too many columns.
    frequencies : (p, f), optional
        Where given, the points are their cosines and sines along these: features of a Gaussian kernel.
    centers : (C, p), optional
        Centres of classes, subtracted from what is left.
    given : (n,), optional
        The class of each row.
    """

    rows: Rows
    origin: Vector
    scale: float = 1.0
    axes: Block | None = None
    frequencies: Block | None = None
    centers: Block | None = None
    given: Indices | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        """Number of coordinates."""
        if self.frequencies is not None:
            return 2 * int(self.frequencies.shape[1])
        return self.rows.n_features if self.axes is None else int(self.axes.shape[1])

    def from_centers(self, centers: NDArray[np.float64], given: Indices) -> Points:
        """Return the same rows, each seen from the centre of its class."""
        return replace(self, centers=centers.astype(np.float32), given=given)

    def lifted(self, sample: Indices, count: int) -> Points:
        """Return the points in the space of a Gaussian kernel, where a linear model bends around them.

        The kernel is a sum of Gaussians, from as wide as the median distance in the sample down to where one pair
        in fifty is closer, so that classes may consist of several small clusters.

        Examples
        --------
        >>> points = Points(Rows(np.arange(12.0).reshape(6, 2)), np.zeros(2))
        >>> points.lifted(np.arange(6), 50).gather(np.array([3])).shape
        (1, 100)
        """
        rows = self.gather(sample).astype(np.float64)
        halves = negative_half_squared_distances(rows, rows, 1.0)[np.triu_indices(len(rows), 1)]
        apart = np.sqrt(-2.0 * halves)
        apart = apart[apart > 0.0]
        least, most = np.quantile(apart, _DISTANCES) if len(apart) else (1.0, 1.0)
        frequencies = np.random.default_rng(0).standard_normal((self.width, count))
        frequencies /= np.geomspace(least, most, count)
        return replace(self, frequencies=frequencies.astype(np.float32))

    def gather(self, positions: Indices) -> Block:
        """Return the points at these positions.

        Examples
        --------
        >>> points = Points(Rows(np.array([[1.0], [2.0]])), np.array([1.0]))
        >>> points.gather(np.array([1]))
        array([[1.]], dtype=float32)
        """
        part = self.rows.subset(positions)
        block = np.empty((len(positions), self.rows.n_features), dtype=np.float32)
        for number in range(part.n_chunks):
            first, last = part.bounds(number)
            # Subtracted before it is narrowed: rows far from 0 keep the digits of their differences.
            apart = part.block(number)
            place = block[first:last] if apart.dtype == block.dtype else None
            apart = np.subtract(apart, self.origin.astype(apart.dtype), out=place)
            apart *= 1.0 / self.scale
            if place is None:
                block[first:last] = apart
        if self.axes is not None:
            block = block @ self.axes
        if self.frequencies is not None:
            phases = block @ self.frequencies
            block = np.concatenate([np.cos(phases), np.sin(phases)], axis=1)
        if self.centers is not None and self.given is not None:
            block -= self.centers[self.given[positions]]
        return block

    def sample(self, positions: Indices) -> Sample:
        """Return the points at these positions, to be multiplied."""
        return HostSample(self.gather(positions))

    def held(self, values: Block) -> Sample:
        """Return rows made from these points, to be multiplied where the points are."""
        return HostSample(values)

    def cloud(self, values: Block) -> Cloud:
        """Return rows made from these points as a cloud, where the points are."""
        return HostCloud(values)

    def projected(self, positions: Indices, axes: NDArray[Any]) -> Block:
        """Return the coordinates of the points at these positions along ``axes``.

        Examples
        --------
        >>> points = Points(Rows(np.array([[1.0, 2.0]])), np.zeros(2))
        >>> points.projected(np.array([0]), np.array([[1.0], [1.0]]))
        array([[3.]], dtype=float32)
        """
        return self.gather(positions) @ axes.astype(np.float32)

    def scored(self, slopes: NDArray[Any], offsets: NDArray[Any]) -> Block:
        """Return ``points @ slopes + offsets`` of all points, read block by block.

        Examples
        --------
        >>> points = Points(Rows(np.array([[1.0], [2.0]])), np.zeros(1))
        >>> points.scored(np.array([[2.0, 0.0]]), np.array([1.0, 5.0]))
        array([[3., 5.],
               [5., 5.]], dtype=float32)
        """
        found = np.empty((len(self), slopes.shape[1]), dtype=np.float32)
        narrow = slopes.astype(np.float32)
        step = max(1, _BLOCK_ELEMENTS // self.rows.n_features)
        for first in range(0, len(self), step):
            positions = np.arange(first, min(first + step, len(self)))
            np.matmul(self.gather(positions), narrow, out=found[first : first + step])
        found += offsets.astype(np.float32)
        return found
