"""Distances between rows: fast without losing the digits of small ones, and the length typical of a set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.rows.checks import as_generator
from gmmatch.rows.rows import as_rows
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


def negative_half_squared_distances(A: Block, B: Block, scale: float, out: Block | None = None) -> Block:
    """Return −‖aᵢ − bⱼ‖² / (2·scale²), at most 0, for C-ordered float64 blocks.

    ‖a − b‖² = ‖a‖² + ‖b‖² − 2⟨a, b⟩ is one matrix product of rows that carry their norms along, but it
    cancels when the norms dwarf the distance. So both sides are moved to a typical row of ``B`` first,
    and the pairs that still cancel (a tight cluster far from all else) are computed directly. Values
    below −50 may be off by their rounding; the others by less than about 1e-10.

    Examples
    --------
    >>> negative_half_squared_distances(np.array([[1e8]]), np.array([[1e8], [1e8 + 2.0]]), 1.0)
    array([[ 0., -2.]])
    """
    if out is None:
        out = np.empty((len(A), len(B)))
    if out.size == 0:
        return out
    centre = typical_row(B)
    with np.errstate(over="ignore", invalid="ignore"):
        left, left_sizes = _with_sizes(A, centre, scale, size_column=-2)
        right, right_sizes = _with_sizes(B, centre, scale, size_column=-1)
        np.matmul(left, right.T, out=out)
        _recompute_cancelled(out, left[:, :-2], right[:, :-2], left_sizes, right_sizes)
    return np.minimum(out, 0.0, out=out)


def typical_row(rows: NDArray[np.floating]) -> Block:
    """Return a point in the middle of most rows: the coordinate-wise median of a few of them.

    A median, because one far row would drag a mean away from all others.

    Examples
    --------
    >>> typical_row(np.array([[1.0], [2.0], [1e9]]))
    array([2.])
    """
    step = max(1, len(rows) // _TYPICAL_ROWS)
    centre: Block = np.median(np.asarray(rows[::step][:_TYPICAL_ROWS], dtype=np.float64), axis=0)
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


def _with_sizes(rows: Block, centre: Block, scale: float, size_column: int) -> tuple[Block, Block]:
    """Return [z, −‖z‖²/2, 1] or [z, 1, −‖z‖²/2] for z = (x − center)/scale, and ‖z‖²/2."""
    wide = np.empty((rows.shape[0], rows.shape[1] + 2))
    scaled = wide[:, :-2]
    np.subtract(rows, centre, out=scaled)
    scaled *= 1.0 / scale
    sizes: Block = 0.5 * np.einsum("ij,ij->i", scaled, scaled)
    wide[:, -2:] = 1.0
    np.negative(sizes, out=wide[:, size_column])
    return wide, sizes


def _recompute_cancelled(
    out: Block, left: Block, right: Block, left_sizes: Block, right_sizes: Block
) -> None:
    """Replace the entries whose rounding could show by ones computed from the differences."""
    # Both rows must be far: when one is near, the distance is as large as the norm and nothing cancels.
    far_left = np.flatnonzero(~(left_sizes <= _FAR))
    far_right = np.flatnonzero(~(right_sizes <= _FAR))
    if len(far_left) == 0 or len(far_right) == 0:
        return
    rounding = 8.0 * np.finfo(np.float64).eps * (left_sizes[far_left, None] + right_sizes[far_right])
    # "Not below" rather than "above", to catch NaN as well.
    rows, columns = np.nonzero(~(out[np.ix_(far_left, far_right)] < _NEGLIGIBLE - rounding))
    rows, columns = far_left[rows], far_right[columns]
    pairs_at_once = max(1, (1 << 20) // left.shape[1])
    for start in range(0, len(rows), pairs_at_once):
        i, j = rows[start : start + pairs_at_once], columns[start : start + pairs_at_once]
        difference = left[i] - right[j]
        out[i, j] = -0.5 * np.einsum("ij,ij->i", difference, difference)
