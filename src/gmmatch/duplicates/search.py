"""``duplicates``: groups of rows that are nearly the same, or rows that are also in another set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gmmatch._array import Indices, Mask, Vector, read_only
from gmmatch._threads import one_blas_thread
from gmmatch.duplicates.cells import candidate_pairs
from gmmatch.duplicates.representatives import Components, choose_representatives
from gmmatch.duplicates.sketch import (
    SAMPLE,
    Points,
    Sketch,
    StandardizedRows,
    first_equal,
    pair_cosines,
)
from gmmatch.duplicates.threshold import natural_threshold, values_tell
from gmmatch.errors import InvalidInputError
from gmmatch.frames import SHOWN, html_table
from gmmatch.preprocess import UnitLength
from gmmatch.rows import Rows, open_rows
from gmmatch.rows.base import RowMap

# A cosine of float32 rows is known to this much.
_TOLERANCE = 1e-7
# Rows less similar than this are no duplicates, however far apart all others are; more similar ones are copies.
_LEAST, _COPIES = 0.9, 1.0 - 1e-6
# The same for standardized rows, whose constant column halves the distance of cosines from 1.
_LEAST_STANDARDIZED = 0.95
Pairs: TypeAlias = tuple[Indices, Indices, Vector]
"""Rows on the left and on the right, and their cosines."""

# Rows that show in which steps the values of a column come.
_STEP_ROWS = 500


def duplicates(
    X: Any,
    threshold: float | None = None,
    *,
    against: Any = None,
    engine: Any = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
) -> Duplicates:
    """Find rows that are nearly the same as another row.

    Two rows are near-duplicates if the cosine of their embeddings is at least ``threshold``. All such pairs are
    found, and each is checked in float64.

    Parameters
    ----------
    X : array of shape (n, s), tensor, paths or Rows
        Rows (embeddings).
    threshold : float, optional
        The least cosine of near-duplicates, above 0 and at most 1. By default it is estimated from the distances
        between neighbors, as a cosine that no two rows are expected to reach by chance, and at least 0.9.
    against : array of shape (m, s), tensor, paths or Rows, optional
        Another set of rows, such as a test set: find the rows of ``X`` that have a near-duplicate there, instead of
        those that have one in ``X``.
    engine, memory_limit, n_jobs
        How it runs; see :func:`~gmmatch.open_rows`. The result does not depend on it. Short vectors of all rows
        (up to 260 bytes, or rows of at most 96 columns themselves) are in memory; of rows in files, in a temporary
        file.

    Returns
    -------
    Duplicates

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((100, 16))
    >>> X[60:] = X[:40] + 0.001
    >>> copies = duplicates(X)
    >>> int(copies.mask.sum()), copies.groups[0]
    (40, array([ 0, 60]))
    >>> duplicates(X[:50], against=X[50:]).original[:3]
    array([10, 11, 12])
    """
    if threshold is not None and not (
        isinstance(threshold, (int, float, np.floating)) and 0.0 < threshold <= 1.0
    ):
        raise InvalidInputError(f"threshold={threshold!r}: expected a cosine above 0 and at most 1.")
    options = {"engine": engine, "memory_limit": memory_limit, "n_jobs": n_jobs}
    with open_rows(X, **options) as rows, one_blas_thread():
        numbers, least = np.arange(len(rows)), threshold
        if least is None:
            bounds = {"least": _LEAST, "copies": _COPIES}
            least, _ = natural_threshold(rows, numbers, UnitLength(), n_queries=500, among=50_000, **bounds)
        if against is None:
            firsts = first_equal(rows, numbers)
            pairs = _search_within(rows, np.unique(firsts), firsts, UnitLength(), least - _TOLERANCE, n_jobs)
        else:
            with open_rows(against, name="against", **options) as others:
                if others.n_features != rows.n_features:
                    raise InvalidInputError(
                        f"against has {others.n_features:,} columns and X has {rows.n_features:,}: embed both by the "
                        "same encoder."
                    )
                pairs = _search_between(rows, others, least - _TOLERANCE, n_jobs)
    return Duplicates(*pairs, float(least), threshold is None, against is not None)


def find_duplicates(rows: Rows, *, mask: Mask | None = None, n_jobs: int | None = None) -> Indices:
    """Return the row that each row is a near copy of, -1 for none, as a screening wants it.

    It promises less than :func:`duplicates`, whatever the rows are: tables as well as embeddings. Columns are
    standardized, and rows are copies if they are so near each other in all of them that 0.05 such pairs are expected
    by chance in the whole data set. Where values come in steps (grades, counts, categories) and the steps are wider
    than that, equal rows are natural, and nothing is called a copy. Of each group of copies the most typical row
    stays, and has -1. Of copies that are hardly near enough, a few in a hundred are missed: time grows only little
    faster than the number of rows.

    Parameters
    ----------
    rows : Rows
    mask : boolean array of shape (n,), optional
        Which rows take part; all by default.
    n_jobs : int, optional
        Threads; every core by default.

    Returns
    -------
    duplicate_of : int64 array of shape (n,)

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> X[7] = X[5] + 1e-6
    >>> with open_rows(X) as rows:
    ...     np.flatnonzero(find_duplicates(rows) >= 0)
    array([7])
    >>> grades = np.random.default_rng(0).integers(1, 5, (200, 3))
    >>> with open_rows(grades) as rows:
    ...     int((find_duplicates(rows) >= 0).sum())
    0
    """
    numbers = np.arange(len(rows)) if mask is None else np.flatnonzero(mask)
    if not len(numbers):
        return np.full(len(rows), -1)
    with one_blas_thread():
        # Copies must not hide what the values of a column are like.
        firsts = first_equal(rows, numbers)
        distinct = np.unique(firsts[numbers])
        sample = rows.take(_draw(distinct, SAMPLE))
        normalize = StandardizedRows.fit(sample)
        least, distance = natural_threshold(
            rows, distinct, normalize, n_queries=200, among=10_000, least=_LEAST_STANDARDIZED, copies=1.0
        )
        if not values_tell(sample[:_STEP_ROWS] / normalize.scale, distance):
            return np.full(len(rows), -1)
        original, _ = _search_within(rows, distinct, firsts, normalize, least, n_jobs, exact=False)
    return original


def _draw(numbers: Indices, size: int) -> Indices:
    """Return some of these numbers, ascending, the same ones in every call."""
    return numbers[np.sort(np.random.default_rng(0).permutation(len(numbers))[:size])]


def _search_within(
    rows: Rows, distinct: Indices, firsts: Indices, normalize: RowMap, least: float, n_jobs: int | None, *,
    exact: bool = True,
) -> tuple[Indices, Vector]:  # fmt: skip
    """Return the original of each row, and their cosine; ``firsts`` are those of exact copies, the distinct rows."""
    sketch = Sketch.fit(normalize, rows.take(_draw(distinct, SAMPLE)), least, exact=exact)
    points = Points.of(rows, distinct, sketch)
    components = Components(points, least)
    candidate_pairs(points, None, least, components.add, n_jobs, exact)
    counts = np.bincount(firsts, minlength=len(rows))
    original, similarity = choose_representatives(
        points, components.find(np.arange(len(rows))), counts, least
    )
    # A copy has the original of the row that it copies, or that row itself.
    copies = np.flatnonzero(firsts != np.arange(len(rows)))
    sources = firsts[copies]
    stay = original[sources] < 0
    original[copies] = np.where(stay, sources, original[sources])
    similarity[copies] = np.where(stay, 1.0, similarity[sources])
    return original, similarity


def _search_between(rows: Rows, others: Rows, least: float, n_jobs: int | None) -> tuple[Indices, Vector]:
    """Return the row of the others that each row is most similar to, and their cosine."""
    sketch = Sketch.fit(UnitLength(), rows.take(_draw(np.arange(len(rows)), SAMPLE)), least)
    left, right = (Points.of(side, np.arange(len(side)), sketch) for side in (rows, others))
    pairs: list[Pairs] = []

    def add(i: Indices, j: Indices) -> None:
        cosines = pair_cosines(left, i, right, j)
        near = cosines >= least
        pairs.append(_keep_best(i[near], j[near], cosines[near]))

    candidate_pairs(left, right, least, add, n_jobs, exact=True)
    original, similarity = np.full(len(rows), -1), np.full(len(rows), np.nan)
    if pairs:
        row, original_of_row, cosine = _keep_best(*map(np.concatenate, zip(*pairs, strict=True)))
        original[row], similarity[row] = original_of_row, cosine
    return original, similarity


def _keep_best(i: Indices, j: Indices, cosines: Vector) -> Pairs:
    """Return the most similar pair of each row i, the lowest j among equals."""
    best = np.lexsort([j, -cosines.round(9), i])
    row, first = np.unique(i[best], return_index=True)
    return row, j[best[first]], cosines[best[first]]


@dataclass(frozen=True, eq=False)
class Duplicates:
    """Which rows are near-duplicates, and of which row; what :func:`gmmatch.duplicates` returns.

    Within one set of rows, of each group one row stays, its most typical one. The others are duplicates of it. No two
    rows that stay are duplicates of each other.

    Attributes
    ----------
    original : int64 array of shape (n,)
        The row that each row is a duplicate of: one of the same rows, or of ``against``;
        -1 if the row is not a duplicate.
    similarity : float64 array of shape (n,)
        The cosine of each row and its original, at least ``threshold``; NaN if the row is not a duplicate.
    threshold : float
        The least cosine of duplicates.
    estimated : bool
        Whether the threshold was chosen from the data.
    against : bool
        Whether originals are rows of another set.

    Examples
    --------
    >>> import gmmatch as gm
    >>> copies = gm.duplicates([[1.0, 0.0], [0.0, 1.0], [1.0, 0.01], [1.0, 0.0]], threshold=0.99)
    >>> copies
    Duplicates: 2 of 4 rows, in 1 group, at a cosine of at least 0.99
    >>> copies.original
    array([-1, -1,  0,  0])
    """

    original: Indices
    similarity: Vector
    threshold: float
    estimated: bool = False
    against: bool = False

    def __post_init__(self) -> None:
        for name in ("original", "similarity"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.original)

    @property
    def mask(self) -> Mask:
        """Whether each row is a duplicate; what ``exclude=`` of ``select`` takes."""
        return self.original >= 0

    @property
    def rows(self) -> Indices:
        """The duplicates' row numbers, ascending."""
        return np.flatnonzero(self.original >= 0)

    @property
    def groups(self) -> list[Indices]:
        """The rows of each group, the largest group first: the row that stays, then its duplicates, ascending.

        With ``against``, the first row of a group is one of the other set.
        """
        rows = self.rows
        by_original = rows[np.argsort(self.original[rows], kind="stable")]
        firsts, starts = np.unique(self.original[by_original], return_index=True)
        members = np.split(by_original, starts[1:]) if len(rows) else []
        groups = [np.concatenate([[first], rest]) for first, rest in zip(firsts, members, strict=True)]
        return sorted(groups, key=len, reverse=True)

    def __repr__(self) -> str:
        count, groups = len(self.rows), len(np.unique(self.original[self.rows]))
        ending = "" if groups == 1 else "s"
        of = (
            f"near-duplicates of {groups:,} row{ending} of the others"
            if self.against
            else f"in {groups:,} group{ending}"
        )
        return (
            f"Duplicates: {count:,} of {len(self):,} rows, {of}, at a cosine of at least {self.threshold:.4g}"
        )

    def _repr_html_(self) -> str:
        rows = self.rows[:SHOWN]
        lines = list(zip(rows, self.original[rows], self.similarity[rows].round(4), strict=True))
        return html_table(repr(self), ["row", "duplicate of", "cosine"], lines, len(self.rows))
