"""A mean per row that is added to batch by batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gmmatch.types import Indices, Vector


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
            found: Vector = self.sums / self.counts
        return found
