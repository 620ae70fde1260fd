"""Distances between rows: fast without losing the digits of small ones, and the length typical of a set."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.rows.checks import as_generator
from gmmatch.rows.rows import Rows, as_rows
from gmmatch.types import Indices, Matrix, RandomState

Block = NDArray[np.float64]

# Rows whose half squared norm (in bandwidths) exceeds this could lose more than about 1e-10 of an
# exponent to cancellation; their small distances are worked out again from the differences.
_FAR = 1e5
# exp(-50) is 2e-22: exponents below it need no digits.
_NEGLIGIBLE = -50.0
_TYPICAL_ROWS = 31
# Half a million pairs: the median distance is then known to well under one per cent.
_MEDIAN_ROWS = 1000


class ScaledRows:
    """Rows as z = (x − center)/scale with half their squared lengths: what the Gaussian kernel needs of them.

    ‖a − b‖² = ‖a‖² + ‖b‖² − 2⟨a, b⟩ is one matrix product of rows that carry their norms along, but it
    cancels when the norms dwarf the distance. So both sides are moved to the same typical row first,
    and the pairs that still cancel (a tight cluster far from all else) are computed directly.

    Examples
    --------
    >>> rows = ScaledRows(np.array([[1e8], [1e8 + 2.0]]), np.array([1e8]), 1.0)
    >>> rows[:1].exponents(rows)
    array([[ 0., -2.]])
    """

    def __init__(self, rows: Block, centre: Block, scale: float) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self._left = np.empty((rows.shape[0], rows.shape[1] + 2))
            scaled = self._left[:, :-2]
            np.subtract(rows, centre, out=scaled)
            scaled *= 1.0 / scale
            self._left[:, -2] = -0.5 * np.einsum("ij,ij->i", scaled, scaled)
            self._left[:, -1] = 1.0

    @cached_property
    def _right(self) -> Block:
        """[z, 1, −‖z‖²/2], where the left side has [z, −‖z‖²/2, 1]."""
        right = self._left.copy()
        right[:, -2], right[:, -1] = 1.0, self._left[:, -2]
        return right

    @cached_property
    def _far(self) -> Indices:
        """Rows that are, or may be, far from the center."""
        return np.flatnonzero(~(-self._left[:, -2] <= _FAR))

    def __len__(self) -> int:
        return len(self._left)

    def __getitem__(self, rows: slice) -> ScaledRows:
        part = object.__new__(ScaledRows)
        part._left = self._left[rows]
        return part

    def exponents(self, others: ScaledRows, out: Block | None = None) -> Block:
        """Return −‖aᵢ − bⱼ‖² / (2·scale²), at most 0.

        Values below −50 may be off by their rounding; the others by less than about 1e-10.
        """
        if out is None:
            out = np.empty((len(self), len(others)))
        if out.size == 0:
            return out
        with np.errstate(over="ignore", invalid="ignore"):
            np.matmul(self._left, others._right.T, out=out)
            # Both rows must be far: when one is near, the distance is as large as the norm and nothing cancels.
            if len(self._far) and len(others._far):
                _recompute_cancelled(out, self._left, others._left, self._far, others._far)
        return np.minimum(out, 0.0, out=out)


def typical_row(rows: NDArray[np.floating] | Rows) -> Block:
    """Return a point in the middle of most rows: the coordinate-wise median of a few of them.

    A median, because one far row would drag a mean away from all others.

    Examples
    --------
    >>> typical_row(np.array([[1.0], [2.0], [1e9]]))
    array([2.])
    """
    few = np.arange(0, len(rows), max(1, len(rows) // _TYPICAL_ROWS))[:_TYPICAL_ROWS]
    # Sorted whole: np.median takes five times as long over so few.
    ordered = np.sort(as_rows(rows).gather(few), axis=0)
    centre: Block = 0.5 * (ordered[(len(few) - 1) // 2] + ordered[len(few) // 2])
    return centre


def median_distance(X: Matrix, metric: str, random_state: RandomState = 0) -> float:
    """Return the median distance ("euclidean" or "cityblock") between at most 1,000 rows drawn from ``X``.

    When more than half the pairs are duplicates their distance of 0 is no length at all, and the mean
    of the other distances stands in; when all rows are equal, 1.

    Examples
    --------
    >>> median_distance([[0.0], [1.0], [3.0]], "euclidean")
    2.0
    """
    from scipy.spatial.distance import pdist

    rows = as_rows(X)
    distances = pdist(rows.gather(median_sample(len(rows), random_state)), metric)
    if not np.all(np.isfinite(distances)):
        raise InvalidInputError(
            "X holds NaN, infinity or numbers too large to take distances of; drop such rows."
        )
    positive = distances[distances > 0.0]
    if len(positive) == 0:
        return 1.0
    median = float(np.median(distances))
    return median if median > 0.0 else float(positive.mean())


def median_sample(n: int, random_state: RandomState = 0) -> Indices:
    """Return which of ``n`` rows the median distance is taken of.

    Examples
    --------
    >>> median_sample(3), len(median_sample(5000))
    (array([0, 1, 2]), 1000)
    """
    if n <= _MEDIAN_ROWS:
        return np.arange(n)
    return np.sort(as_generator(random_state).choice(n, _MEDIAN_ROWS, replace=False))


def _recompute_cancelled(
    out: Block, left: Block, right: Block, far_left: Indices, far_right: Indices
) -> None:
    """Replace the entries whose rounding could show by ones computed from the differences."""
    rounding = -8.0 * np.finfo(np.float64).eps * (left[far_left, -2, None] + right[far_right, -2])
    # "Not below" rather than "above", to catch NaN as well.
    rows, columns = np.nonzero(~(out[np.ix_(far_left, far_right)] < _NEGLIGIBLE - rounding))
    rows, columns = far_left[rows], far_right[columns]
    pairs_at_once = max(1, (1 << 20) // left.shape[1])
    for start in range(0, len(rows), pairs_at_once):
        i, j = rows[start : start + pairs_at_once], columns[start : start + pairs_at_once]
        difference = left[i, :-2] - right[j, :-2]
        out[i, j] = -0.5 * np.einsum("ij,ij->i", difference, difference)
