"""The mean, the geometric median and the coordinate-wise median of a group of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.median.passes import distances_to, weighted_mean
from gmmatch.median.result import MedianResult
from gmmatch.median.weiszfeld import sample_positions, solve
from gmmatch.rows.checks import check_fraction, check_number, check_whole_number
from gmmatch.rows.rows import Rows
from gmmatch.types import Vector

# Columns come in blocks of so many numbers, so that no second copy of the rows exists; in larger ones where
# the rows must be read again for each block (from files, from a GPU).
_BLOCK_ELEMENTS = 1 << 22
_READ_ELEMENTS = 1 << 23


@dataclass(frozen=True)
class Moment:
    """A target and how it was computed.

    ``details`` goes into the provenance; ``distances`` are those of all rows to the point, where the
    computation gave them for free; ``mass`` is its weight, where that is known.
    """

    point: Vector
    details: dict[str, Any] = field(default_factory=dict)
    distances: Vector | None = None
    mass: float | None = None

    @classmethod
    def of_median(cls, found: MedianResult, n: int) -> Moment:
        """Return the moment of a median that was searched for, of which ``n`` rows want to know their distance."""
        details = median_details(found.gap, found.iterations, found.converged)
        return cls(found.point, details, found.distances if len(found.distances) == n else None)

    def distances_of(self, rows: Rows, threads: int = 1) -> Vector:
        """Return the distance of every row to the point."""
        return self.distances if self.distances is not None else distances_to(rows, self.point, threads)


class Target(Protocol):
    """Anything that turns rows and weights into a moment."""

    def of(self, rows: Rows, weights: Vector, random: np.random.Generator, threads: int) -> Moment:
        """Return the moment of these rows."""
        ...


@dataclass(frozen=True)
class MeanTarget:
    """The weighted mean: one corrupted row can move it anywhere."""

    def of(self, rows: Rows, weights: Vector, random: np.random.Generator, threads: int) -> Moment:
        """Return the moment of these rows."""
        return Moment(weighted_mean(rows, weights, threads))


@dataclass(frozen=True)
class GeometricMedianTarget:
    """The geometric median: bounded while less than half of the weight is corrupted."""

    eps: float = 1e-8
    max_iter: int = 1000
    delta: float = 0.0
    fraction: float = 1.0

    def __post_init__(self) -> None:
        check_fraction(self.fraction, "median_fraction")
        for name in ("eps", "delta"):
            check_number(getattr(self, name), name)
        check_whole_number(self.max_iter, "max_iter")

    def of(self, rows: Rows, weights: Vector, random: np.random.Generator, threads: int) -> Moment:
        """Return the moment of these rows, of a random sample of them where ``fraction`` is below 1."""
        if hasattr(rows, "geometric_median"):  # workers make the passes
            return Moment.of_median(rows.geometric_median(self.eps, self.max_iter, self.delta), len(rows))
        sample, sample_weights = rows, weights
        if self.fraction < 1.0:
            chosen = sample_positions(weights, self.fraction, random)
            sample, sample_weights = rows.subset(chosen), weights[chosen]
        result = solve(
            sample, sample_weights, eps=self.eps, max_iter=self.max_iter, delta=self.delta, threads=threads
        )
        return Moment.of_median(result, len(rows))


@dataclass(frozen=True)
class CoordinateMedianTarget:
    """The weighted median of each column on its own; unlike the other two, it depends on the axes."""

    def of(self, rows: Rows, weights: Vector, random: np.random.Generator, threads: int) -> Moment:
        """Return the moment of these rows."""
        point = np.empty(rows.n_features)
        in_memory = isinstance(rows.source, np.ndarray) and not rows.bfloat16
        width = max(1, (_BLOCK_ELEMENTS if in_memory else _READ_ELEMENTS) // len(rows))
        for first in range(0, rows.n_features, width):
            # In float64, because the middle of two float32 numbers need not be one.
            if in_memory:
                columns = rows.source[:, first : first + width][rows.index].astype(np.float64, copy=False)
            else:
                blocks = (rows.block(number) for number in range(rows.n_chunks))
                columns = np.concatenate(
                    [block[:, first : first + width] for block in blocks], dtype=np.float64
                )
            point[first : first + width] = weighted_column_medians(columns, weights)
        return Moment(point)


def weighted_column_medians(columns: Any, weights: Vector) -> Vector:
    """Return the weighted median of each column; the middle of the two where half the weight is a tie.

    Examples
    --------
    >>> weighted_column_medians(np.array([[0.0], [1.0], [5.0]]), np.array([1.0, 1.0, 3.0]))
    array([5.])
    """
    low, high = middle_values(columns, weights)
    return 0.5 * (low + high)


def middle_values(columns: Any, weights: Vector) -> tuple[Vector, Vector]:
    """Return the two values of each column that its weighted median lies between; mostly one and the same.

    Examples
    --------
    >>> middle_values(np.array([[0.0], [5.0], [1.0], [7.0]]), np.ones(4))
    (array([1.]), array([5.]))
    """
    n = len(columns)
    if np.all(weights == weights[0]):
        places = [(n - 1) // 2, n // 2]
        low, high = np.partition(columns, places, axis=0)[places].astype(np.float64)
        return low, high
    order = np.argsort(columns, axis=0, kind="stable")
    below = np.cumsum(weights[order], axis=0)
    half = 0.5 * below[-1]
    first = np.argmax(below >= half * (1.0 - 1e-12), axis=0)
    last = np.argmax(below > half * (1.0 + 1e-12), axis=0)
    ranked = np.take_along_axis(columns, order, axis=0).astype(np.float64)
    every = np.arange(columns.shape[1])
    return ranked[first, every], ranked[last, every]


def median_details(gap: float, iterations: int, converged: bool) -> dict[str, Any]:
    """Return what is recorded of a geometric median."""
    return {"median_gap": gap, "median_iterations": iterations, "median_converged": converged}


def resolve_target(name: str, *, argument: str = "target", **options: Any) -> Target:
    """Return the target with this ``name``: "mean", "geometric-median" or "coordinate-median".

    ``options`` are those of :class:`GeometricMedianTarget`; ``argument`` is what messages call ``name``.

    Examples
    --------
    >>> resolve_target("geometric-median", eps=1e-6)
    GeometricMedianTarget(eps=1e-06, max_iter=1000, delta=0.0, fraction=1.0)
    """
    median = GeometricMedianTarget(**options)  # made in any case, to check its options
    if name == "mean":
        return MeanTarget()
    if name == "geometric-median":
        return median
    if name == "coordinate-median":
        return CoordinateMedianTarget()
    raise InvalidInputError(
        f'{argument}={name!r}: expected "mean", "geometric-median" or "coordinate-median".'
    )
