"""Duplicates: which rows are near-duplicates, and of which row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmmatch._array import Indices, Mask, Vector, read_only


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
