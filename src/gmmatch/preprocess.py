"""Steps between the embeddings and the selection: center, scale, PCA, unit length.

A step is fitted by sums over all rows, whatever their weight or class, and is then a row map. Rows keep their
precision: float32 rows stay float32, computed in float64. Steps are recorded in the selection's provenance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np

from gmmatch._array import Matrix, Vector, array_namespace, asarray_like
from gmmatch._checks import LARGEST
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.problem import Problem
from gmmatch.rows.base import RowMap, Rows

Preprocess: TypeAlias = "str | Sequence[str] | None"
"""A step or a list of steps: "center", "scale", "pca:64", "unit"."""

_EXPECTED = 'expected a list of steps out of "center", "scale", "pca:64" (any number) and "unit"'


def list_steps(preprocess: Preprocess) -> list[str]:
    """Return the steps as a list, after checking their names.

    Examples
    --------
    >>> list_steps("unit"), list_steps(["center", "pca:64"])
    (['unit'], ['center', 'pca:64'])
    """
    if preprocess is None:
        return []
    if not isinstance(preprocess, (str, list, tuple)):
        raise InvalidTypeError(f"preprocess={preprocess!r}: {_EXPECTED}.")
    steps = [preprocess] if isinstance(preprocess, str) else list(map(str, preprocess))
    for step in steps:
        name, _, number = step.partition(":")
        takes_number = name == "pca"
        if name not in ("center", "scale", "pca", "unit") or takes_number != bool(number):
            raise InvalidInputError(f"preprocess={step!r} is not a step; {_EXPECTED}.")
        if takes_number and (not number.isdecimal() or int(number) < 1):
            raise InvalidInputError(f"preprocess={step!r} needs a number of components; {_EXPECTED}.")
    return steps


def apply_steps(problem: Problem, steps: list[str]) -> Problem:
    """Return the problem with its rows after the steps, in order."""
    for step in steps:
        name, _, number = step.partition(":")
        problem = problem.map_rows(fit_step(problem.rows, name, int(number or 0)))
    return problem


def fit_step(rows: Rows, name: str, number: int = 0) -> RowMap:
    """Fit one step to all rows.

    Examples
    --------
    >>> from gmmatch.rows.array import ArrayRows
    >>> rows = ArrayRows(np.array([[3.0, 4.0], [0.0, 2.0]]))
    >>> rows.map(fit_step(rows, "unit")).take(np.array([0, 1]))
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    if name == "unit":
        return UnitLength()
    codes, weights = np.zeros(len(rows), dtype=np.int64), np.ones(len(rows))
    center = rows.group_means(codes, weights, 1)[0]
    if name == "center":
        return Shift(center)
    if name == "scale":
        # Not "deviation == 0" alone: the mean of equal numbers may be off by rounding, and dividing by that would
        # blow the column up.
        squares = rows.reduce_blocks(_sum_squares, np.stack([center, rows.take(np.array([0]))[0]]))
        variance = squares[0] / len(rows)
        return Scale(np.where((squares[1] == 0.0) | (variance == 0.0), 1.0, np.sqrt(variance)))
    largest = min(len(rows), rows.n_features)
    if number > largest:
        raise InvalidInputError(
            f'preprocess step "pca:{number}" asks for more components than X has rows or columns; '
            f'"pca:{largest}" is the most.'
        )
    _, vectors = np.linalg.eigh(rows.reduce_blocks(scatter_matrix, center))
    components = vectors[:, ::-1][:, :number]
    # The sign of an eigenvector is arbitrary: fix it, so that two machines agree.
    signs = np.sign(components[np.abs(components).argmax(axis=0), np.arange(number)])
    return Projection(center, components * signs)


@dataclass(frozen=True, eq=False)
class Shift:
    """Subtract a point from every row."""

    center: Vector

    def __call__(self, block: Any) -> Any:
        """Return the new rows of a block."""
        return _convert(block, lambda rows: rows - asarray_like(self.center, block))


@dataclass(frozen=True, eq=False)
class Scale:
    """Divide every column by its standard deviation."""

    deviation: Vector

    def __call__(self, block: Any) -> Any:
        """Return the new rows of a block."""
        return _convert(block, lambda rows: rows / asarray_like(self.deviation, block))


@dataclass(frozen=True, eq=False)
class Projection:
    """Project every row onto principal components.

    Attributes
    ----------
    center : array of shape (s,)
    components : array of shape (s, r)
    """

    center: Vector
    components: Matrix

    def __call__(self, block: Any) -> Any:
        """Return the new rows of a block."""
        center, components = asarray_like(self.center, block), asarray_like(self.components, block)
        return _convert(block, lambda rows: (rows - center) @ components)


# Standardized values beyond this are as wild as this.
_LARGEST_STANDARDIZED = 6.0


@dataclass(frozen=True, eq=False)
class RobustScale:
    """Center columns at their medians, divide them by a scale that outliers do not widen, and clip them.

    Attributes
    ----------
    center, scale : arrays of shape (s,)
        The scale is infinite for columns that do not vary.
    """

    center: Vector
    scale: Vector

    @classmethod
    def fit(cls, sample: Matrix) -> Self:
        """Measure the columns of a sample of the rows."""
        low, center, high = np.percentile(sample, [5, 50, 95], axis=0)
        deviation = np.sqrt(np.mean((sample - center) ** 2, axis=0))
        # With heavy tails the central 90% set the scale; of a normal distribution they are 3.3 deviations wide.
        central = (high - low) / 3.3
        scale = np.where(central > 0.0, np.minimum(deviation, 2.0 * central), deviation)
        return cls(center, np.where(scale > 0.0, scale, np.inf))

    def __call__(self, block: Any) -> Any:
        """Return the new rows of a block, in its own precision."""
        xp = array_namespace(block)
        center, factor = (
            xp.astype(asarray_like(values, block), block.dtype) for values in (self.center, 1.0 / self.scale)
        )
        with np.errstate(over="ignore"):
            return xp.clip((block - center) * factor, -_LARGEST_STANDARDIZED, _LARGEST_STANDARDIZED)


@dataclass(frozen=True)
class UnitLength:
    """Scale every row to length 1; a row of zeros stays as it is."""

    def __call__(self, block: Any) -> Any:
        """Return the new rows of a block."""
        xp = array_namespace(block)

        def scale(rows: Any) -> Any:
            # By the largest entry first: squares of very small or large numbers vanish or overflow.
            largest = xp.max(xp.abs(rows), axis=1, keepdims=True)
            rows = rows / xp.where(largest > 0.0, largest, 1.0)
            lengths = xp.linalg.vector_norm(rows, axis=1, keepdims=True)
            return rows / xp.where(lengths > 0.0, lengths, 1.0)

        return _convert(block, scale)


def _convert(block: Any, function: Callable[[Any], Any]) -> Any:
    """Return ``function`` of a block in float64, in the block's own precision.

    Overflow becomes the largest number.
    """
    xp = array_namespace(block)
    with np.errstate(over="ignore"):
        rows = function(xp.astype(block, xp.float64))
    largest = min(float(xp.finfo(block.dtype).max), LARGEST)
    return xp.astype(xp.clip(rows, -largest, largest), block.dtype)


def _sum_squares(block: Any, points: Any) -> Any:
    """Return the sums of squared differences to each point, column by column, shape (P, s)."""
    xp = array_namespace(block)
    rows = xp.astype(block, xp.float64)
    return xp.stack([xp.sum((rows - points[i]) ** 2, axis=0) for i in range(points.shape[0])])


def scatter_matrix(block: Any, center: Any) -> Any:
    """Return Σ (x − c)(x − c)ᵀ over a block, shape (s, s)."""
    xp = array_namespace(block)
    difference = xp.astype(block, xp.float64) - center
    return difference.T @ difference
