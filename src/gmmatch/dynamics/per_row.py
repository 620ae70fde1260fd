"""What a recorder keeps of each row: its forgetting events, and means that are added to batch by batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gmmatch.types import Indices, Mask, Vector

_NEVER = -1


class ForgettingCounter:
    """Counts the forgetting events of n rows as they are presented (Toneva et al., 2019).

    An event is a presentation at which a row is classified wrong, when it was classified right at the
    one before. Three numbers per row are kept, however long the training: its ``events`` so far, the epoch in which
    it was ``first_learnt`` and whether it was right when ``last`` presented, both -1 if never.

    Examples
    --------
    >>> counter = ForgettingCounter(2)
    >>> for epoch, right in enumerate([[True, False], [False, False], [True, False]]):
    ...     counter.observe(np.array([0, 1]), np.array(right), epoch)
    >>> counter.events, counter.score()
    (array([1, 0], dtype=int32), array([ 1., inf]))
    """

    def __init__(self, n_rows: int) -> None:
        self.events: NDArray[np.int32] = np.zeros(n_rows, dtype=np.int32)
        self.first_learnt: NDArray[np.int32] = np.full(n_rows, _NEVER, dtype=np.int32)
        self.last: NDArray[np.int8] = np.full(n_rows, _NEVER, dtype=np.int8)

    def observe(self, rows: Indices, right: Mask, epoch: int) -> None:
        """Count what was presented; a row that is there twice was presented in that order."""
        if len(rows) == 0:
            return
        order = np.argsort(rows, kind="stable")
        rows, right = rows[order], np.asarray(right, dtype=bool)[order]
        again = np.r_[False, rows[1:] == rows[:-1]]
        before = np.where(again, np.r_[False, right[:-1]], self.last[rows] == 1)
        np.add.at(self.events, rows[before & ~right], 1)
        final = np.r_[~again[1:], True]
        self.last[rows[final]] = right[final]
        learnt = rows[right]
        self.first_learnt[learnt[self.first_learnt[learnt] == _NEVER]] = epoch

    def add(self, other: ForgettingCounter) -> None:
        """Add the events of another training run; a row counts as learned if it was learned in either."""
        self.events += other.events
        both = np.stack([self.first_learnt, other.first_learnt])
        earliest = np.where(both == _NEVER, np.iinfo(np.int32).max, both).min(axis=0)
        self.first_learnt = np.where(both.max(axis=0) == _NEVER, _NEVER, earliest).astype(np.int32)
        self.last = np.maximum(self.last, other.last)

    def score(self) -> Vector:
        """Return the events, infinity for a row that was never learned, NaN for one never presented."""
        score = self.events.astype(np.float64)
        score[self.first_learnt == _NEVER] = np.inf
        score[self.last == _NEVER] = np.nan
        return score


class RunningMean:
    """The sum and the number of what was seen of each row.

    Examples
    --------
    >>> mean = RunningMean(3)
    >>> mean.add(np.array([0, 0, 2]), np.array([1.0, 3.0, 5.0]))
    >>> mean.values()
    array([ 2., nan,  5.])
    """

    def __init__(
        self, n_rows: int, sums: Vector | None = None, counts: NDArray[np.int32] | None = None
    ) -> None:
        self.sums: Vector = np.zeros(n_rows) if sums is None else sums
        self.counts: NDArray[np.int32] = np.zeros(n_rows, dtype=np.int32) if counts is None else counts

    def add(self, rows: Indices, values: NDArray[np.floating]) -> None:
        """Add one number for each of these rows, which may repeat."""
        np.add.at(self.sums, rows, values)
        np.add.at(self.counts, rows, 1)

    def merge(self, other: RunningMean) -> None:
        """Add all that another one was given."""
        self.sums += other.sums
        self.counts += other.counts

    def values(self) -> Vector:
        """Return the means, NaN for a row that nothing was seen of."""
        with np.errstate(invalid="ignore"):
            means: Vector = self.sums / self.counts
        return means
