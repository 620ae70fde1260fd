"""``duplicates``: groups of rows that are nearly the same, or rows that are also in another set."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gmmatch.backends.cuda.blocks import on_device, tensor_beside
from gmmatch.errors import InvalidInputError
from gmmatch.near_duplicates.cells import Take, candidate_pairs, cell_centres, into_cells
from gmmatch.near_duplicates.chains import link, pair_cosines, roots
from gmmatch.near_duplicates.groups import stars
from gmmatch.near_duplicates.result import Duplicates
from gmmatch.near_duplicates.sketch import ROUNDING, first_equal, sketch_axes, sketches
from gmmatch.near_duplicates.threshold import natural_threshold
from gmmatch.rows.checks import check_pair, check_rows
from gmmatch.rows.parallel import map_in_order, one_blas_thread, resolve_jobs
from gmmatch.rows.rows import Rows, read_only
from gmmatch.types import Indices, Mask, Matrix, Vector

# A cosine of float32 rows is known to this much.
_TOLERANCE = 1e-7
# Pairs whose rows are looked up at once.
_PAIRS = 1 << 15


def duplicates(
    X: Any, threshold: float | None = None, *, against: Any = None, n_jobs: int | None = -1
) -> Duplicates:
    """Find rows that are nearly the same as another row.

    Two rows are near-duplicates if the cosine of their embeddings is at least ``threshold``. All such pairs are
    found, and each is checked in float64.

    Parameters
    ----------
    X : array of shape (n, s)
        Rows (embeddings): in memory, on disk, or a CUDA tensor.
    threshold : float, optional
        The least cosine of near-duplicates, above 0 and at most 1. By default it is estimated from the distances
        between neighbors, as a cosine that no two rows are expected to reach by chance, and at least 0.9.
    against : array of shape (m, s), optional
        Another set of rows, such as a test set: find the rows of ``X`` that have a near-duplicate there, instead of
        those that have one in ``X``.
    n_jobs : int or None
        Threads; the result does not depend on it.

    Returns
    -------
    Duplicates

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((100, 16))
    >>> X[60:] = X[:40] + 0.001
    >>> found = duplicates(X)
    >>> int(found.mask.sum()), found.groups[0]
    (40, array([ 0, 60]))
    >>> duplicates(X[:50], against=X[50:]).original[:3]
    array([10, 11, 12])
    """
    threads = resolve_jobs(n_jobs)
    if threshold is not None and not (
        isinstance(threshold, (int, float, np.floating)) and 0.0 < threshold <= 1.0
    ):
        raise InvalidInputError(f"threshold={threshold!r}: expected a cosine above 0 and at most 1.")
    if against is None:
        rows = check_rows(X, threads=threads)
        others = None
    else:
        rows, others = check_pair(X, against, ("X", "against"), threads=threads)
    least = natural_threshold(rows) if threshold is None else float(threshold)
    with one_blas_thread():
        if others is None:
            original, similarity = _within(rows, least, threads)
        else:
            original, similarity = _between(rows, others, least, threads)
    return Duplicates(original, similarity, least, threshold is None, others is not None)


def near_pairs(X: Any, threshold: float, n_jobs: int | None = -1) -> tuple[Indices, Indices, Vector]:
    """Return all pairs of near-duplicates: the lower rows, the higher rows, and their cosines, in order.

    Examples
    --------
    >>> near_pairs([[1.0, 0.0], [0.0, 1.0], [1.0, 0.01], [1.0, 0.0]], 0.99)[:2]
    (array([0, 0, 2]), array([2, 3, 3]))
    """
    threads = resolve_jobs(n_jobs)
    rows = check_rows(X, threads=threads)
    kept = _Kept(rows, rows, threshold)
    with one_blas_thread():
        _Search(rows, None, threshold, threads).candidates(kept.take)
    left, right, cosines = kept.pairs()
    left, right = np.minimum(left, right), np.maximum(left, right)
    order = np.lexsort([right, left])
    return left[order], right[order], cosines[order]


class _Search:
    """Rows, as they are multiplied: short vectors of them, or their half precision on a device."""

    def __init__(self, rows: Rows, others: Rows | None, threshold: float, threads: int) -> None:
        self.rows, self.others, self.threshold, self.threads = rows, others, threshold, threads
        self.random = np.random.default_rng([*b"near-duplicates"])
        if on_device(rows):
            from gmmatch.backends.cuda.near_pairs import halves

            self.left = halves(rows)
            self.right = self.left if others is None else halves(others, like=rows)
            return
        axes = sketch_axes(rows, self.random)
        self.left = sketches(rows, axes, threads)
        self.right = self.left
        if others is not None:
            self.right = sketches(others.here() if on_device(others) else others, axes, threads)

    def candidates(self, take: Take) -> None:
        """Pass on all pairs that may be near-duplicates, and some that are not."""
        if on_device(self.rows):
            from gmmatch.backends.cuda.near_pairs import candidate_blocks

            candidate_blocks(self.left, self.right, self.threshold, take)
            return
        larger = self.left if len(self.left) >= len(self.right) else self.right
        centres = cell_centres(larger, self.random)
        left = right = into_cells(self.left, centres, self.threads)
        if self.others is not None:
            right = into_cells(self.right, centres, self.threads)
        candidate_pairs(left, right, self.threshold, take, self.threads, ROUNDING)

    def near(self, lines: Indices, columns: Indices) -> tuple[Indices, Indices, Vector]:
        """Return which of some rows are near-duplicates of which others, by their places, and their cosines."""
        found: list[tuple[Indices, Indices]] = [(np.empty(0, dtype=np.int64),) * 2]
        if on_device(self.rows):
            from gmmatch.backends.cuda.near_pairs import candidate_blocks

            left, right = (self.left[tensor_beside(self.left, some)] for some in (lines, columns))
            candidate_blocks(left, right, self.threshold, lambda i, j: found.append((i, j)))
        else:
            block, level = self.left[lines], self.threshold - ROUNDING

            def work(number: int) -> tuple[Indices, Indices]:
                start = number * _PAIRS
                i, j = np.nonzero(block @ self.left[columns[start : start + _PAIRS]].T >= level)
                return i, j + start

            found += map_in_order(work, -(-len(columns) // _PAIRS), self.threads)
        i, j = (np.concatenate(side) for side in zip(*found, strict=True))
        good, cosines = _checked(self.rows, lines[i], self.rows, columns[j], self.threshold)
        return i[good], j[good], cosines[good]


def _checked(rows: Rows, i: Indices, others: Rows, j: Indices, threshold: float) -> tuple[Mask, Vector]:
    """Return which pairs are near-duplicates, and the cosines of all."""
    cosines = np.empty(len(i))
    for first in range(0, len(i), _PAIRS):
        some = slice(first, first + _PAIRS)
        if on_device(rows):
            from gmmatch.backends.cuda.near_pairs import cosines as on_the_device

            cosines[some] = on_the_device(rows, i[some], others, j[some])
        else:
            cosines[some] = pair_cosines(*_lookup(rows, i[some]), *_lookup(others, j[some]))
    return cosines >= threshold - _TOLERANCE, cosines


def _lookup(rows: Rows, positions: Indices) -> tuple[Matrix, Indices]:
    """Return rows, and where those at these positions are in them; without a copy where they are in memory."""
    if rows.in_place:
        return rows.source, rows.index[positions]
    distinct, place = np.unique(positions, return_inverse=True)
    return read_only(rows.subset(distinct).copied()), place.ravel()


class _Kept:
    """Pairs that passed the exact check."""

    def __init__(self, rows: Rows, others: Rows, threshold: float) -> None:
        self.rows, self.others, self.threshold = rows, others, threshold
        self._lock = threading.Lock()
        self._found: list[tuple[Indices, Indices, Vector]] = []

    def take(self, i: Indices, j: Indices) -> None:
        """Check some pairs."""
        good, cosines = _checked(self.rows, i, self.others, j, self.threshold)
        if good.any():
            self.keep(i[good], j[good], cosines[good])

    def keep(self, left: Indices, right: Indices, cosines: Vector) -> None:
        """Keep pairs that are near-duplicates."""
        with self._lock:
            self._found.append((left, right, cosines))

    def pairs(self) -> tuple[Indices, Indices, Vector]:
        """Return what was kept."""
        none = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))
        left, right, cosines = zip(none, *self._found, strict=True)
        return np.concatenate(left), np.concatenate(right), np.concatenate(cosines)


class _Linked(_Kept):
    """Chains of near-duplicates: a pair whose rows hang together already is not checked."""

    def __init__(self, rows: Rows, threshold: float) -> None:
        super().__init__(rows, rows, threshold)
        self.parent = np.arange(len(rows), dtype=np.int64)

    def take(self, i: Indices, j: Indices) -> None:
        for first in range(0, len(i), _PAIRS):
            left, right = i[first : first + _PAIRS], j[first : first + _PAIRS]
            news = roots(self.parent, left) != roots(self.parent, right)
            super().take(left[news], right[news])

    def keep(self, left: Indices, right: Indices, cosines: Vector) -> None:
        with self._lock:
            link(self.parent, left, right)


def _within(rows: Rows, threshold: float, threads: int) -> tuple[Indices, Vector]:
    """Return each row's original among the same rows; copies of a row are dealt with first, and cost nothing then."""
    first = first_equal(rows, threads)
    distinct, place, counts = np.unique(first, return_inverse=True, return_counts=True)
    some = rows if len(distinct) == len(rows) else rows.subset(distinct)
    chains = _Linked(some, threshold)
    search = _Search(some, None, threshold, threads)
    search.candidates(chains.take)
    original, similarity = stars(some, chains.parent, counts, threshold - _TOLERANCE, search.near)
    # A copy has the original of the row that it copies, or that row itself.
    original, similarity = np.where(original >= 0, distinct[original], -1)[place], similarity[place]
    copies = (first != np.arange(len(rows))) & (original < 0)
    original[copies], similarity[copies] = first[copies], 1.0
    return original, similarity


def _between(rows: Rows, others: Rows, threshold: float, threads: int) -> tuple[Indices, Vector]:
    """Return the row of the others that each row is most similar to."""
    kept = _Kept(rows, others, threshold)
    _Search(rows, others, threshold, threads).candidates(kept.take)
    left, right, cosines = kept.pairs()
    best = np.lexsort([right, -cosines.round(9), left])
    found, firsts = np.unique(left[best], return_index=True)
    original, similarity = np.full(len(rows), -1, dtype=np.int64), np.full(len(rows), np.nan)
    original[found], similarity[found] = right[best[firsts]], cosines[best[firsts]]
    return original, similarity
