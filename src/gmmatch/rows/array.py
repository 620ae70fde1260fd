"""Rows in main memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix, read_only
from gmmatch._threads import available_cores, resolve_jobs
from gmmatch.matching.picks import pick_group
from gmmatch.rows.base import GreedyTask, LocalRows, RowMap


class ArrayRows(LocalRows):
    """Rows of a NumPy array, read in place if it is C-ordered float32 or float64, else converted block by block.

    Parameters
    ----------
    X : array of shape (n, s)
    n_jobs : int, optional
        Threads; every core by default.
    """

    def __init__(self, X: NDArray[Any], n_jobs: int | None = None) -> None:
        self.X, self.n_jobs = X, available_cores() if n_jobs is None else resolve_jobs(n_jobs)
        self.n_features = int(X.shape[1])
        self._dtype = working_dtype(X.dtype)

    def __len__(self) -> int:
        return len(self.X)

    def take(self, index: Indices) -> Matrix:
        """Return the rows with these numbers in float64."""
        return self.X[index].astype(np.float64)

    def map(self, row_map: RowMap) -> ArrayRows:
        """Return the rows that ``row_map`` makes of these, in memory."""
        return ArrayRows(self.map_blocks(row_map), self.n_jobs)

    def block(self, first: int, stop: int) -> NDArray[Any]:
        """Return a run of rows."""
        return read_only(self.X[first:stop].astype(self._dtype, copy=False))

    def greedy_picks(self, task: GreedyTask) -> tuple[Indices, Matrix]:
        """Pick rows group by group in a compiled loop, so that the rows of a group stay in the processor's cache."""
        thetas = task.thetas.copy()
        by_group = np.argsort(task.codes, kind="stable")
        by_group = by_group[task.available[by_group]]
        bounds = np.searchsorted(task.codes[by_group], np.arange(len(thetas) + 1))
        in_place = self.X.dtype == self._dtype and self.X.flags.c_contiguous

        def pick(group: int) -> Indices:
            index = by_group[bounds[group] : bounds[group + 1]]
            order = np.empty(task.quotas[group], dtype=np.int64)
            # Rows of another type are converted for one group at a time.
            block = self.X if in_place else self.X[index].astype(self._dtype, order="C")
            positions = index if in_place else np.arange(len(index))
            pick_group(
                read_only(block), positions, task.targets[group], thetas[group], task.replacement, order
            )
            return index[order]

        if len(thetas) == 1:  # in the caller's thread, which Ctrl-C reaches
            return pick(0), thetas
        with ThreadPoolExecutor(self.n_jobs) as pool:
            return np.concatenate(list(pool.map(pick, range(len(thetas))))), thetas


def working_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the type that rows are computed in: float32 where it holds all values, else float64.

    Examples
    --------
    >>> working_dtype(np.float16), working_dtype(np.int64)
    (dtype('float32'), dtype('float64'))
    """
    promoted = np.promote_types(np.dtype(dtype), np.float32)
    return np.dtype(np.float32 if promoted == np.float32 else np.float64)
