"""Metrics of a subset: how well it matches, covers and balances the data, and how much of it is corrupted.

Plain functions on arrays; :mod:`gmmatch.yardsticks` measures many subsets of the same rows. Inputs are read block by
block, summed in float64 and never modified.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.kernels.distances import typical_row
from gmmatch.kernels.kernels import Bandwidth, Kernel, KernelSpec, resolve_kernel, row_means
from gmmatch.rows.checks import (
    check_pair,
    check_positions,
    check_rows,
    check_sample_weight,
    check_whole_number,
)
from gmmatch.rows.rows import Rows
from gmmatch.selection.labels import distinct_values
from gmmatch.types import Indices, Matrix, Vector, evenly_spaced, on_host

__all__ = ["Coverage", "class_balance", "contamination", "coverage", "imbalance", "mmd", "moment_error"]

BLOCK_ELEMENTS = 1 << 22


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


def moment_error(picked_rows: Matrix, reference_rows: Matrix) -> float:
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
    picked, reference = check_pair(picked_rows, reference_rows, ("picked_rows", "reference_rows"))
    origin = reference.row(0)
    return float(np.linalg.norm(mean_offset(picked, origin) - mean_offset(reference, origin)))


def mmd(
    A: Matrix | Rows,
    B: Matrix | Rows,
    *,
    weights: Any = None,
    kernel: KernelSpec = "rbf",
    bandwidth: Bandwidth = "median",
    biased: bool = True,
    squared: bool = False,
    block_rows: int = 1024,
) -> float:
    """Return the maximum mean discrepancy between two sets of rows.

    MMD²(A, B) = mean k(a, a′) + mean k(b, b′) − 2 mean k(a, b)

    is the squared distance between the two means in the kernel's space, and 0 for equal distributions
    when the kernel is characteristic (RBF, Laplacian). Memory is linear in the number of rows.

    Parameters
    ----------
    A, B : arrays of shape (n, s) and (m, s)
        The picks and the reference.
    weights : array of shape (n,), optional
        How much each row of ``A`` counts, such as ``Selection.weights``; equal by default.
    kernel : Kernel, name, or (name, parameters)
        See :func:`gmmatch.kernels.kernels.resolve_kernel`.
    bandwidth : float or "median"
        Length of an "rbf" or "laplacian" given by name alone. "median" is the median distance within
        ``B``, the reference, so that several subsets are measured on one scale.
    biased : bool
        Include the pairs of a row with itself (the V-statistic, never negative). Otherwise leave them
        out (the U-statistic): on average exact, so it can fall below 0 when the sets are alike.
    squared : bool
        Return MMD² rather than its root. The root of a negative unbiased estimate is given as 0.
    block_rows : int
        Rows on each side of the blocks of the kernel matrix held at a time.

    References
    ----------
    Gretton et al., A kernel two-sample test, JMLR 2012 (equations 3 and 5).

    Examples
    --------
    >>> mmd([[0.0]], [[2.0]], kernel="linear")
    2.0
    >>> round(mmd([[0.0]], [[1.0]], bandwidth=1.0, squared=True), 4)  # 2 - 2 exp(-1/2)
    0.7869
    """
    left, right = check_pair(A, B)
    if weights is not None and not biased:
        raise InvalidInputError("weights= goes with biased=True: leave out one of them.")
    shares = None if weights is None else check_sample_weight(weights, len(left), name="weights")
    if not biased and min(len(left), len(right)) < 2:
        raise InvalidInputError(
            f"biased=False compares different rows of each set, so both need 2 or more; A has {len(left)} "
            f"and B has {len(right)}."
        )
    chosen = _kernel_for_mmd(kernel, bandwidth, right)
    if shares is not None:
        shares = shares / shares.sum()
        own = row_means(chosen, left, left, shares, block=block_rows)
        across = row_means(chosen, left, right, block=block_rows)
        value = float(shares @ (own - 2.0 * across)) + _mean_within(chosen, right, True, block_rows)
    elif chosen.is_linear:
        value = _linear_mmd(left, right, biased)
    else:
        within = sum(_mean_within(chosen, rows, biased, block_rows) for rows in (left, right))
        value = within - 2.0 * float(row_means(chosen, left, right, block=block_rows).mean())
    if biased or not squared:
        value = max(0.0, value)
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
    flags = np.asarray(corrupt)
    if flags.dtype != np.bool_ or flags.ndim != 1:
        raise InvalidTypeError(
            f"corrupt must be a boolean mask with one entry per row; got dtype {flags.dtype} and shape "
            f"{flags.shape}."
        )
    if len(flags) == 0:
        raise InvalidInputError("corrupt is empty; it needs one entry per row.")
    return float(flags[_pick_indices(picks, len(flags))].mean())


def class_balance(labels: Any, picks: Any) -> dict[Any, tuple[float, float]]:
    """Return each class's share of all rows and its share of the picks.

    Parameters
    ----------
    labels : sequence of length n
        Anything hashable; None counts as a class of its own.
    picks : int array, boolean mask, or anything with ``.indices``

    Returns
    -------
    dict of label to (share before, share after)
        Sorted by label where labels can be sorted, otherwise in order of appearance.

    Examples
    --------
    >>> class_balance(["cat", "cat", "dog", "cat"], [0, 2])
    {'cat': (0.75, 0.5), 'dog': (0.25, 0.5)}
    """
    values, classes = _classes(labels)
    chosen = _pick_indices(picks, len(classes))
    before = np.bincount(classes, minlength=len(values)) / len(classes)
    after = np.bincount(classes[chosen], minlength=len(values)) / len(chosen)
    return dict(zip(values, zip(before.tolist(), after.tolist(), strict=True), strict=True))


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


def coverage(X: Matrix | Rows, picks: Any, *, of: Indices | None = None, block_rows: int = 8192) -> Coverage:
    """Return the largest and the mean distance from a row to its nearest pick.

    Parameters
    ----------
    X : array of shape (n, s)
    picks : int array, boolean mask, or anything with ``.indices``
    of : int array, optional
        The rows to be covered; all by default.
    block_rows : int
        Rows in a block.

    Examples
    --------
    >>> coverage([[0.0], [1.0], [4.0]], picks=[0])
    Coverage(largest=4.0, mean=1.6666666666666667)
    """
    check_whole_number(block_rows, "block_rows")
    rows = check_rows(X)
    chosen = np.unique(_pick_indices(picks, len(rows)))
    covered = np.arange(len(rows)) if of is None else of
    # Distances do not change when all rows move, but norms shrink, and with them the rounding.
    centre = typical_row(rows.gather(chosen[evenly_spaced(len(chosen), 31)]))
    squares = np.full(len(covered), np.inf)
    for some in parts(chosen, max(1, BLOCK_ELEMENTS // rows.n_features)):
        candidates = rows.gather(some) - centre
        for part in parts(np.arange(len(covered)), int(block_rows)):
            nearest = _nearest_squares(rows.gather(covered[part]) - centre, candidates)
            squares[part] = np.minimum(squares[part], nearest)
    distances = np.sqrt(squares, out=squares)
    return Coverage(float(distances.max()), float(distances.mean()))


def mean_offset(rows: Rows, origin: Vector) -> Vector:
    """Return mean(x) − origin, summed from the origin so that data far from 0 keeps its digits."""
    total = np.zeros(rows.n_features)
    for number in range(rows.n_chunks):
        total += (rows.block(number, np.float64) - origin).sum(axis=0)
    return total / len(rows)


def mean_square_distance(rows: Rows, point: Vector) -> float:
    """Return (1/n) Σ ‖x − point‖², in float64."""
    total = 0.0
    for number in range(rows.n_chunks):
        offsets = rows.block(number, np.float64) - point
        total += float(np.einsum("ij,ij->", offsets, offsets))
    return total / len(rows)


def _kernel_for_mmd(spec: KernelSpec, bandwidth: Bandwidth, reference: Rows) -> Kernel:
    kernel = resolve_kernel(spec)
    named = isinstance(spec, str)
    if named and "bandwidth" in kernel.params:
        kernel = resolve_kernel((kernel.name, {"bandwidth": bandwidth}))
    elif not (isinstance(bandwidth, str) and bandwidth == "median"):
        raise InvalidInputError(
            f"bandwidth={bandwidth!r} goes with kernel='rbf' or kernel='laplacian' given by name; "
            f"kernel={spec!r} has its own parameters."
        )
    return kernel.fit(reference)


def _mean_within(kernel: Kernel, rows: Rows, biased: bool, block_rows: int) -> float:
    """Return the mean of k over pairs of rows of one set, with or without a row and itself."""
    mean = float(row_means(kernel, rows, block=block_rows).mean())
    if biased:
        return mean
    count = len(rows)
    own = sum(float(kernel.diagonal(rows.gather(part)).sum()) for part in parts(np.arange(count), block_rows))
    return (count * mean - own / count) / (count - 1)


def _linear_mmd(left: Rows, right: Rows, biased: bool) -> float:
    """Return MMD² of the inner product, ‖mean(A) − mean(B)‖², with no pairs and so no cancellation."""
    origin = right.row(0)
    offsets = [mean_offset(rows, origin) for rows in (left, right)]
    gap = offsets[0] - offsets[1]
    value = float(gap @ gap)
    if not biased:
        # The squared error that each mean is expected to have, which the V-statistic counts as distance.
        for rows, offset in zip((left, right), offsets, strict=True):
            value -= mean_square_distance(rows, origin + offset) / (len(rows) - 1)
    return value


def _pick_indices(picks: Any, n: int) -> Indices:
    """Return row numbers from row numbers, a mask or a selection; at least one."""
    found = check_positions(picks, n, "picks")
    if not len(found):
        raise InvalidInputError("picks is empty: pick at least one row.")
    return found


def _classes(labels: Any) -> tuple[list[Any], Indices]:
    """Return the distinct labels, sorted if they can be, and for every row the position of its label."""
    codes, values = distinct_values(labels)
    codes = on_host(codes)
    if len(codes) == 0:
        raise InvalidInputError("labels is empty; give one label per row.")
    order = list(range(len(values)))
    with contextlib.suppress(TypeError):  # None among strings, say
        order = sorted(order, key=values.__getitem__)
    return [values[place] for place in order], np.argsort(order)[codes]


def _nearest_squares(block: NDArray[np.float64], candidates: NDArray[np.float64]) -> Vector:
    """Return each row's squared distance to the nearest candidate; both centered."""
    from scipy.spatial.distance import cdist

    halves = 0.5 * np.einsum("ij,ij->i", candidates, candidates)
    places = np.empty(len(block), dtype=np.int64)
    # Products of 4 MB each, which stay in a cache until their least is found.
    for these in parts(np.arange(len(block)), max(1, BLOCK_ELEMENTS // (8 * len(candidates)))):
        places[these] = np.argmin(halves - block[these] @ candidates.T, axis=1)
    nearest = candidates[places]
    offsets = block - nearest
    squares: Vector = np.einsum("ij,ij->i", offsets, offsets)
    # The search works through norms: where they dwarf the distance it may have taken the wrong row.
    sizes = np.einsum("ij,ij->i", block, block) + np.einsum("ij,ij->i", nearest, nearest)
    doubtful = np.flatnonzero((squares > 0.0) & (squares < 1e-6 * sizes))
    for these in parts(doubtful, max(1, BLOCK_ELEMENTS // len(candidates))):
        squares[these] = cdist(block[these], candidates, "sqeuclidean").min(axis=1)
    return squares


def parts(positions: Indices, size: int) -> Iterator[Indices]:
    """Cut positions into parts of a size."""
    for start in range(0, len(positions), size):
        yield positions[start : start + size]
