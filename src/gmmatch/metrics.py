"""Metrics of a subset: how well it matches, covers and balances the data, and how much of it is corrupted.

Functions take arrays, tensors, files or Rows, and compute in float64. :class:`SubsetMetrics` measures many subsets of
the same rows, class by class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from gmmatch._array import (
    Indices,
    Mask,
    Vector,
    array_namespace,
    asarray_like,
    sample_indices,
    sum_groups,
    to_numpy,
)  # fmt: skip
from gmmatch._checks import check_array, check_columns, check_positions, check_sample_weight
from gmmatch._threads import blas_threads_for
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.groups import Groups
from gmmatch.kernels import RBF, Kernel, typical_row
from gmmatch.rows import Rows, open_rows

__all__ = [
    "Coverage", "Metrics", "SubsetMetrics", "class_balance", "contamination", "coverage", "imbalance", "mmd",
    "moment_error",
]  # fmt: skip

# Numbers that are read at a time, and products that are computed at a time: these stay in a core's cache.
_READ_NUMBERS, _PRODUCTS = 1 << 22, 1 << 19
# Rows that a kernel's bandwidth is estimated from, and rows whose median is the origin of distances.
_BANDWIDTH_ROWS, _CENTER_ROWS = 1_000, 31


@dataclass(frozen=True)
class Coverage:
    """Distances from the rows to their nearest pick, in the units of the data.

    Examples
    --------
    >>> Coverage(largest=2.0, mean=0.5).largest
    2.0
    """

    largest: float
    """The row worst served; k-center selection minimizes this."""
    mean: float
    """The average row; k-medoids selection minimizes this."""


def moment_error(picked_rows: Any, reference_rows: Any) -> float:
    """Return ‖mean(picked) − mean(reference)‖, the square root of the paper's Δ².

    Parameters
    ----------
    picked_rows : array of shape (k, s)
    reference_rows : array of shape (n, s)
        The rows that the picks should represent; the clean ones, if known.

    Examples
    --------
    >>> moment_error([[3.0, 4.0]], [[1.0, 0.0], [-1.0, 0.0]])
    5.0
    """
    with (
        open_rows(picked_rows, name="picked_rows") as picked,
        open_rows(reference_rows, name="reference_rows") as reference,
    ):
        check_columns(picked, reference, "picked_rows", "reference_rows")
        # From a row, so that data far from 0 keeps its digits.
        origin = reference.take(np.zeros(1, dtype=np.int64))[0]
        means = [rows.reduce_blocks(_sum_offsets, origin) / len(rows) for rows in (picked, reference)]
    return float(np.linalg.norm(means[0] - means[1]))


def mmd(A: Any, B: Any, *, weights: Any = None, kernel: Kernel | None = None, squared: bool = False) -> float:
    """Return the maximum mean discrepancy between two sets of rows.

    MMD²(A, B) = mean k(a, a′) + mean k(b, b′) − 2 mean k(a, b)

    is the squared distance between the two means in the kernel's space, and 0 for equal distributions
    when the kernel is characteristic (RBF, Laplacian). Memory does not grow with the number of rows.

    Parameters
    ----------
    A, B : arrays of shape (n, s) and (m, s)
        The picks and the reference.
    weights : array of shape (n,), optional
        How much each row of ``A`` counts, such as ``Selection.weights``; equal by default.
    kernel : Kernel, optional
        ``RBF()`` by default. Its median bandwidth is that of ``B``, the reference, so that several subsets are
        measured on the same scale.
    squared : bool
        Return MMD² rather than its root.

    References
    ----------
    Gretton et al., A kernel two-sample test, JMLR 2012 (equation 5).

    Examples
    --------
    >>> from gmmatch import RBF, Polynomial
    >>> mmd([[0.0]], [[2.0]], kernel=Polynomial(degree=1))
    2.0
    >>> round(mmd([[0.0]], [[1.0]], kernel=RBF(1.0), squared=True), 4)  # 2 - 2 exp(-1/2)
    0.7869
    """
    with open_rows(A, name="A") as left, open_rows(B, name="B") as right:
        check_columns(left, right, "A", "B")
        shares = check_sample_weight(weights, len(left), name="weights")
        shares, equal = shares / shares.sum(), np.full(len(right), 1.0 / len(right))
        fitted = (kernel or RBF()).fit([right.take(sample_indices(len(right), _BANDWIDTH_ROWS))])
        self_similarity = _mean_kernel(fitted, left, shares, left, shares) + _mean_kernel(
            fitted, right, equal, right, equal
        )
        value = max(0.0, self_similarity - 2.0 * _mean_kernel(fitted, left, shares, right, equal))
    return value if squared else float(np.sqrt(value))


def contamination(picks: Any, corrupt: Any) -> float:
    """Return the share of the picks that are corrupted.

    Parameters
    ----------
    picks : int array, boolean mask, or anything with ``.indices`` (a Selection)
    corrupt : boolean mask over all rows

    Examples
    --------
    >>> contamination([0, 3], [True, False, False, False])
    0.5
    """
    flags = check_array(corrupt, "corrupt", "a boolean mask with one entry per row")
    if flags.dtype != np.bool_ or flags.ndim != 1:
        raise InvalidTypeError(
            f"corrupt must be a boolean mask with one entry per row; got dtype {flags.dtype} and shape "
            f"{flags.shape}."
        )
    if len(flags) == 0:
        raise InvalidInputError("corrupt is empty; it needs one entry per row.")
    return float(flags[_check_picks(picks, len(flags))].mean())


def class_balance(labels: Any, picks: Any) -> dict[Any, tuple[float, float]]:
    """Return each class's share of all rows and its share of the picks.

    Parameters
    ----------
    labels : sequence of length n
        As ``y`` of ``select``; rows without a label count as a class of their own, None.
    picks : int array, boolean mask, or anything with ``.indices``

    Returns
    -------
    dict of label to (share before, share after)
        Sorted by label.

    Examples
    --------
    >>> class_balance(["cat", "cat", "dog", "cat"], [0, 2])
    {'cat': (0.75, 0.5), 'dog': (0.25, 0.5)}
    """
    if not len(labels):
        raise InvalidInputError("labels is empty; give one label per row.")
    groups = Groups.of(labels, len(labels), unlabeled="group")
    picked = _check_picks(picks, len(labels))
    before, after = (
        np.bincount(codes, minlength=len(groups)) / len(codes)
        for codes in (groups.codes, groups.codes[picked])
    )
    return dict(zip(groups.labels, zip(before.tolist(), after.tolist(), strict=True), strict=True))


def imbalance(labels: Any, picks: Any) -> float:
    """Return how far the picks' classes are from the data's: half the sum of the shares' differences.

    This is the total variation distance: 0 for the same shares, towards 1 if the picks have only
    classes that are rare in the data. It is the share of picks that would have to change class.

    Parameters
    ----------
    labels, picks
        As in :func:`class_balance`.

    Examples
    --------
    >>> imbalance(["cat", "cat", "dog", "cat"], [0, 2])
    0.25
    """
    return 0.5 * sum(abs(before - after) for before, after in class_balance(labels, picks).values())


def coverage(X: Any, picks: Any, *, of: Any = None) -> Coverage:
    """Return the largest and the mean distance from a row to its nearest pick.

    Parameters
    ----------
    X : array of shape (n, s), tensor, paths or Rows
    picks : int array, boolean mask, or anything with ``.indices``
    of : int array or boolean mask, optional
        The rows to be covered; all by default.

    Examples
    --------
    >>> coverage([[0.0], [1.0], [4.0]], picks=[0])
    Coverage(largest=4.0, mean=1.6666666666666667)
    """
    with open_rows(X) as rows:
        picked = np.unique(_check_picks(picks, len(rows)))
        covered = rows if of is None else rows.take(check_positions(of, len(rows), "of"))
        with open_rows(covered) as others:
            return _measure_coverage(rows, picked, others)


@dataclass(frozen=True)
class Metrics:
    """The metrics of a subset; less is better for all.

    Examples
    --------
    >>> with open_rows([[0.0], [1.0], [2.0]]) as rows:
    ...     SubsetMetrics(rows).measure(np.array([1])).coverage_max
    1.0
    """

    moment_error: float
    """Distance between the means of the picks and of the reference, averaged over the classes."""
    mmd: float
    """Their distance as distributions, averaged over the classes. Of a sample if there are many rows."""
    coverage_mean: float
    """The mean distance from a row to its nearest pick. Of a sample if there are many rows."""
    coverage_max: float
    """The largest such distance."""


class SubsetMetrics:
    """Measures subsets of the same rows, class by class, in memory that does not grow with the rows.

    Moment error and MMD are averaged over the classes that have picks. Means are those of all rows; MMD and
    coverage, which compare rows with rows, take a sample of large inputs.

    Parameters
    ----------
    rows : Rows
        All rows.
    codes : int64 array of shape (n,), optional
        The class of each row, -1 for none; without it, all rows are one class.
    reference : boolean array of shape (n,), optional
        Which rows the picks should represent; all by default.
    mmd_rows, coverage_rows : int
        The most rows that MMD and coverage are measured on.
    seed : int
        Of the samples.

    Examples
    --------
    >>> with open_rows([[0.0], [2.0], [4.0]]) as rows:
    ...     SubsetMetrics(rows).measure(np.array([0, 1])).moment_error
    1.0
    """

    def __init__(
        self, rows: Rows, codes: Indices | None = None, *, reference: Mask | None = None,
        mmd_rows: int = 10_000, coverage_rows: int = 10_000, seed: int = 0,
    ) -> None:  # fmt: skip
        n = len(rows)
        self.rows, self.mmd_rows, self.seed = rows, mmd_rows, seed
        self.codes = np.zeros(n, dtype=np.int64) if codes is None else codes
        self.n_classes = int(self.codes.max()) + 1
        counted = np.ones(n) if reference is None else reference.astype(np.float64)
        sizes = np.bincount(self.codes[(self.codes >= 0) & (counted > 0.0)], minlength=self.n_classes)
        self.means = rows.group_means(self.codes, counted, self.n_classes)
        self.means[sizes == 0] = np.nan
        random, numbers = np.random.default_rng(seed), np.flatnonzero(counted)
        self._sample = _sample(numbers, mmd_rows, random)
        self._covered = rows.take(_sample(numbers, coverage_rows, random))

    def measure(self, picks: Indices) -> Metrics:
        """Return the metrics of these rows, of which there is at least one."""
        with blas_threads_for(len(self.rows) * self.rows.n_features), open_rows(self._covered) as covered:
            nearest = _measure_coverage(self.rows, np.unique(picks), covered)
            distance = self.mmd(picks)
        return Metrics(
            float(self.moment_errors(picks, np.array([len(picks)]))[0]),
            distance,
            nearest.mean,
            nearest.largest,
        )

    def mmd(self, picks: Indices) -> float:
        """Return the distance of these rows to the reference as distributions, averaged over the classes."""
        drawn = _sample(picks, self.mmd_rows, np.random.default_rng([self.seed, 2]))
        values = []
        for code in range(self.n_classes):
            picked, reference = (rows[self.codes[rows] == code] for rows in (drawn, self._sample))
            if len(picked) and len(reference):
                values.append(mmd(self.rows.take(picked), self.rows.take(reference)))
        return float(np.mean(values)) if values else float("nan")

    def moment_errors(self, order: Indices, sizes: Indices) -> Vector:
        """Return the moment error of the first picks, as many as each of the ascending ``sizes`` says."""
        sums, counts = np.zeros_like(self.means), np.zeros(self.n_classes)
        errors = []
        for steps in np.split(order, sizes)[: len(sizes)]:
            for numbers in _pieces(steps, self.rows):
                codes = self.codes[numbers]
                sums += sum_groups(self.rows.take(numbers), codes, self.n_classes)
                counts += np.bincount(codes[codes >= 0], minlength=self.n_classes)
            with np.errstate(invalid="ignore", divide="ignore"):
                gaps = np.linalg.norm(sums / counts[:, None] - self.means, axis=1)
            gaps = gaps[~np.isnan(gaps)]  # of classes without picks
            errors.append(gaps.mean() if len(gaps) else np.nan)
        return np.array(errors)


def _check_picks(picks: Any, n: int) -> Indices:
    """Return row numbers from row numbers, a mask or a selection; at least one."""
    numbers = check_positions(picks, n, "picks")
    if not len(numbers):
        raise InvalidInputError("picks is empty: pick at least one row.")
    return numbers


def _pieces(numbers: Indices, rows: Rows) -> Iterator[Indices]:
    """Cut row numbers into as many as are read at a time."""
    size = max(1, _READ_NUMBERS // rows.n_features)
    for first in range(0, len(numbers), size):
        yield numbers[first : first + size]


def _sample(numbers: Indices, limit: int, random: np.random.Generator) -> Indices:
    return np.sort(random.choice(numbers, limit, replace=False) if len(numbers) > limit else numbers)


def _sum_offsets(block: Any, origin: Any) -> Any:
    xp = array_namespace(block)
    return xp.sum(xp.astype(block, xp.float64) - origin, axis=0)


def _mean_kernel(kernel: Kernel, left: Rows, shares: Vector, right: Rows, others: Vector) -> float:
    """Return Σ k(a, b) over all pairs, weighted by shares that sum to 1."""
    weights, total = right.scatter(others), 0.0
    size = max(1, min(_READ_NUMBERS // left.n_features, int(np.sqrt(_PRODUCTS))))
    for first in range(0, len(left), size):
        numbers = np.arange(first, min(first + size, len(left)))
        total += float(
            right.reduce_blocks(_sum_kernel, kernel, left.take(numbers), shares[numbers], per_row=(weights,))
        )
    return total


def _sum_kernel(block: Any, weights: Any, kernel: Kernel, rows: Any, shares: Any) -> Any:
    xp, size = array_namespace(block), max(1, _PRODUCTS // len(rows))
    total = xp.zeros_like(shares[0])
    for first in range(0, len(block), size):
        some = slice(first, first + size)
        total = total + weights[some] @ (kernel.gram(xp.astype(block[some], xp.float64), rows) @ shares)
    return total


def _measure_coverage(rows: Rows, picks: Indices, covered: Rows) -> Coverage:
    """Return the distances from ``covered`` to the nearest of the picks among ``rows``."""
    # Distances do not change when all rows move, but norms shrink, and with them the rounding.
    center = typical_row(rows.take(picks[sample_indices(len(picks), _CENTER_ROWS)]))
    squares = np.full(len(covered), np.inf)
    for numbers in _pieces(picks, rows):
        squares = np.minimum(
            squares, covered.map_blocks(_nearest_squares, center, rows.take(numbers) - center)
        )
    distances = np.sqrt(squares)
    return Coverage(float(distances.max()), float(distances.mean()))


def _nearest_squares(block: Any, center: Any, picked: Any) -> Any:
    """Return each row's squared distance to the nearest of the picked rows, which are centered."""
    xp = array_namespace(block)
    rows = xp.astype(block, xp.float64) - center
    halves, size = 0.5 * xp.sum(picked * picked, axis=1), max(1, _PRODUCTS // len(picked))
    positions = xp.concat([
        xp.argmin(halves - rows[first : first + size] @ picked.T, axis=1) for first in range(0, len(rows), size)
    ])  # fmt: skip
    nearest = picked[positions]
    squares = xp.sum((rows - nearest) ** 2, axis=1)
    # The search works through norms: where they dwarf the distance it may have taken the wrong row.
    sizes = xp.sum(rows * rows, axis=1) + xp.sum(nearest * nearest, axis=1)
    doubtful = (squares > 0.0) & (squares < 1e-6 * sizes)
    if xp.any(doubtful):
        exact = cdist(to_numpy(rows[doubtful]), to_numpy(picked), "sqeuclidean").min(axis=1)
        squares[doubtful] = asarray_like(exact, block)
    return squares
