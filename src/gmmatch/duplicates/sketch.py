"""Short vectors instead of rows: two of them are never less similar than the rows are.

A row of length 1 is split into its coordinates along a few axes (the head) and the rest (the tail). By Cauchy and
Schwarz, ⟨x, y⟩ ≤ ⟨head(x), head(y)⟩ + ‖tail(x)‖ ‖tail(y)‖, which is again the product of two vectors of length 1, but
short ones. So whatever the axes are, rows whose short vectors are not similar enough need not be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix, Vector, array_namespace, asarray_like, sample_indices
from gmmatch.preprocess import RobustScale, UnitLength
from gmmatch.rows.base import RowMap, Rows

# The most axes of a short vector; with these, rows of a few columns more are compared as they are.
_MAX_AXES, _SPARED_COLUMNS = 64, 32
_AXES = (16, 32, _MAX_AXES)
# Rows that the axes are computed from, rows whose pairs choose how many of them, and rounds of power iteration.
SAMPLE, _PAIRED, _ROUNDS = 2_000, 1_000, 3
# Checking a pair, which reads two rows, costs this many times a product of two numbers for each column.
_CHECK_COST = 2_000
# Products of all rows of some pairs cost less than products of the pairs up to this many for each.
_DENSE = 100
# Float32 knows the length of a tail to sqrt(1e-7), and products of short vectors to less than this.
_ROUNDING = 1e-4
# Rows of so few columns are dense, and many lie as near each other: these are compared in float64.
_PRECISE_COLUMNS, _PRECISE_ROUNDING = 16, 1e-9
# With random axes, near rows are allowed to look this many standard errors less similar.
_DEVIATIONS = 5.0
# Numbers that are read at a time.
READ_NUMBERS = 1 << 21


class StandardizedRows(RobustScale):
    """Map rows to the unit sphere so that rows are near each other there if they are so in every column.

    Columns are standardized, and a column of a constant is appended. Cosines of raw rows would compare directions
    only: rows of two columns would be copies if one is twice the other.
    """

    def __call__(self, block: Any) -> Any:
        """Return rows of length 1, with a column more."""
        xp, values = array_namespace(block), super().__call__(block)
        constant = xp.full_like(values[:, :1], float(np.sqrt(np.isfinite(self.scale).sum())))
        values = xp.concat([values, constant], axis=1)
        return values / xp.sqrt(xp.sum(values * values, axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Sketch:
    """The map of rows to short vectors of length 1.

    Attributes
    ----------
    normalize : row map
        Makes rows of length 1.
    axes : array of shape (s, c), optional
        Rows of few columns are compared as they are, without axes.
    exact : bool
        Whether short vectors are never less similar than the rows. Else the axes are random, and near rows are so.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((5, 200))
    >>> short, points = Sketch(UnitLength(), np.eye(200, 8))(X), UnitLength()(X)
    >>> short.shape, bool(np.all(short @ short.T >= points @ points.T - 1e-6))
    ((5, 9), True)
    """

    normalize: RowMap
    axes: NDArray[Any] | None = None
    exact: bool = True

    @classmethod
    def fit(cls, normalize: RowMap, sample: Matrix, threshold: float, *, exact: bool = True) -> Sketch:
        """Choose the axes along which a sample of the rows is longest.

        More axes make products cost more, fewer leave more pairs to check: the sample says how many. Rows that are
        as long in every direction leave nearly all pairs to check; only random axes help then.

        Parameters
        ----------
        normalize : row map
        sample : array of shape (m, s)
        threshold : float
            The least cosine of pairs that are searched for.
        exact : bool
            Whether no pair may be missed.
        """
        points = normalize(sample)
        width = points.shape[1]
        if width <= _MAX_AXES + _SPARED_COLUMNS:
            return cls(normalize)
        points = points.astype(np.float32)
        noise = np.random.default_rng(0).standard_normal((width, _MAX_AXES), dtype=np.float32)
        axes = noise
        for _ in range(_ROUNDS):
            axes = np.linalg.qr(points.T @ (points @ axes))[0]
        heads = points @ axes
        axes = np.ascontiguousarray(axes @ np.linalg.eigh(heads.T @ heads)[1][:, ::-1])
        choices = [cls(normalize, axes[:, :count].copy()) for count in _AXES]
        choices += [] if exact else [cls(normalize, noise, exact=False)]
        some = sample[sample_indices(len(sample), _PAIRED)]
        return min(choices, key=lambda choice: choice._cost(some, threshold))

    def __call__(self, block: Any) -> Any:
        """Return the short vectors of a block."""
        xp, points = array_namespace(block), self.normalize(block)
        if self.axes is None:
            return points if points.shape[1] <= _PRECISE_COLUMNS else xp.astype(points, xp.float32)
        points = xp.astype(points, xp.float32)
        heads = points @ xp.astype(asarray_like(self.axes, block), xp.float32)
        if not self.exact:
            return UnitLength()(heads)
        tails = xp.sum(points * points, axis=1) - xp.sum(heads * heads, axis=1)
        return xp.concat([heads, xp.sqrt(xp.clip(tails, 0.0, None))[:, None]], axis=1)

    def level(self, threshold: float, short: NDArray[Any]) -> float:
        """Return the least product of the short vectors of two rows whose cosine reaches the threshold."""
        if not self.exact:
            # Fisher's transformation of a correlation of so many coordinates has this standard error.
            error = _DEVIATIONS / np.sqrt(_MAX_AXES - 3)
            threshold = float(np.tanh(np.arctanh(min(threshold, 1.0 - 1e-9)) - error))
        return threshold - (_PRECISE_ROUNDING if short.dtype == np.float64 else _ROUNDING)

    def _cost(self, sample: Matrix, threshold: float) -> float:
        """Return what a pair costs, in products of two numbers."""
        short = self(sample)
        passed = np.mean(np.triu(short @ short.T >= self.level(threshold, short), 1))
        return float(short.shape[1] + _CHECK_COST * sample.shape[1] * passed)


@dataclass(frozen=True, eq=False)
class Points:
    """Rows of length 1, of which only the short vectors are at hand.

    Attributes
    ----------
    rows : Rows
    numbers : int64 array of shape (m,)
        The rows that take part.
    sketch : Sketch
    short : array of shape (n, c)
        The short vectors of all rows.
    """

    rows: Rows
    numbers: Indices
    sketch: Sketch
    short: NDArray[Any]

    @classmethod
    def of(cls, rows: Rows, numbers: Indices, sketch: Sketch) -> Points:
        """Make the short vectors in one pass over the rows."""
        return cls(rows, numbers, sketch, rows.map_array(sketch))

    def take(self, index: Indices) -> Matrix:
        """Return rows of length 1 in float64."""
        values: Matrix = self.sketch.normalize(self.rows.take(index))
        return values


def pair_cosines(left: Points, i: Indices, right: Points, j: Indices) -> Vector:
    """Return the cosines of pairs of rows in float64; 0 where a row is all zeros."""
    rows, at = np.unique(i, return_inverse=True)
    columns, opposite = np.unique(j, return_inverse=True)
    if len(i) > 1 and (len(rows) + len(columns)) * left.rows.n_features > READ_NUMBERS:
        half = len(i) // 2
        halves = (pair_cosines(left, i[some], right, j[some]) for some in (slice(half), slice(half, None)))
        return np.concatenate(list(halves))
    X, Y = left.take(rows), right.take(columns)
    # All products of these rows, unless only few of them are pairs.
    if len(rows) * len(columns) <= _DENSE * len(i):
        return np.asarray(np.minimum((X @ Y.T)[at, opposite], 1.0))
    return np.asarray(np.minimum(np.einsum("ij,ij->i", X[at], Y[opposite]), 1.0))


def first_equal(rows: Rows, numbers: Indices) -> Indices:
    """Return the first of these rows with the same values as each of them; other rows have themselves.

    Examples
    --------
    >>> from gmmatch.rows.array import ArrayRows
    >>> first_equal(ArrayRows(np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0]])), np.arange(3))
    array([0, 1, 0])
    """
    mix = np.random.default_rng(rows.n_features).integers(1, 2**31, rows.n_features) | 1
    keys = rows.map_blocks(row_keys, mix)[numbers]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    firsts = np.arange(len(rows))
    firsts[numbers] = numbers[first[inverse.ravel()]]
    copies = np.flatnonzero(firsts != np.arange(len(rows)))
    size = max(1, READ_NUMBERS // rows.n_features)
    for start in range(0, len(copies), size):
        some = copies[start : start + size]
        same = (rows.take(some) == rows.take(firsts[some])).all(axis=1)
        firsts[some[~same]] = some[~same]
    return firsts


def row_keys(block: Any, mix: Any) -> Any:
    """Return a whole number for each row, the same for rows of the same values: a sum of their bits, mixed."""
    xp = array_namespace(block)
    integer = xp.int32 if block.dtype == xp.float32 else xp.int64
    bits = (block + 0.0).view(integer)  # -0 and 0 are the same number
    # Round numbers end in zeros, which a product would keep.
    return xp.sum((bits ^ (bits >> 15)) * xp.astype(mix, integer), axis=1, dtype=xp.int64)
