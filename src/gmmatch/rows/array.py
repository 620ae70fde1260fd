"""Rows in main memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix, Vector, read_only
from gmmatch._threads import available_cores, one_blas_thread, resolve_jobs, run_parallel
from gmmatch.matching.scan import pick_group
from gmmatch.median.compiled import SCALARS, sort_rows, write_terms
from gmmatch.median.search import Medians
from gmmatch.rows.base import GreedyTask, LocalRows, RowMap, search_medians

# Medians are searched group by group unless one group has more than this part of the rows.
_FEW_GROUPS = 4
# Numbers of the rows whose medians are searched together: the search itself costs less per group for many of them.
_PART_ELEMENTS = 1 << 20
# Picks are shared among the threads in this many parts for each, since groups differ in size.
_PARTS_PER_JOB = 8


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
        self._in_place = X.dtype == self._dtype and X.flags.c_contiguous

    def __len__(self) -> int:
        return len(self.X)

    def take(self, index: Indices) -> Matrix:
        """Return the rows with these numbers in float64."""
        return self.X[index].astype(np.float64)

    def map(self, row_map: RowMap) -> ArrayRows:
        """Return the rows that ``row_map`` makes of these, in memory."""
        with one_blas_thread():  # blocks are small, and waiting threads spin
            return ArrayRows(self.map_blocks(row_map), self.n_jobs)

    def block(self, first: int, stop: int) -> NDArray[Any]:
        """Return a run of rows."""
        return read_only(self.X[first:stop].astype(self._dtype, copy=False))

    def group_medians(
        self, codes: Indices, weights: Vector, n_groups: int, *, eps: float, max_iter: int, delta: float
    ) -> Medians:
        """Return the geometric median of each group; some groups at a time, whose rows stay in the cache."""
        options: Any = {"eps": eps, "max_iter": max_iter, "delta": delta}
        # A large group is evaluated by several threads.
        sizes = np.bincount(codes[codes >= 0], minlength=n_groups)
        if not self._in_place or _FEW_GROUPS * sizes.max() > len(self):
            return super().group_medians(codes, weights, n_groups, **options)
        points = self.start_medians(codes, weights, n_groups, **options)
        codes, weights = read_only(codes), read_only(weights)
        order, starts = sort_rows(codes, weights, read_only(np.arange(n_groups)), n_groups)

        def search(groups: Indices) -> Medians:
            first, stop = starts[groups[0]], starts[groups[-1] + 1]
            rows = order[first:stop]
            per_row: list[Any] = [self.X, np.arange(len(self)), weights]
            # Neighbors in memory are read several times faster than scattered rows.
            if len(rows) * self.n_features <= 4 * _PART_ELEMENTS:
                per_row, rows = [self.X[rows], rows, weights[rows]], np.arange(len(rows))
            block, numbers, own_weights = map(read_only, per_row)

            def evaluate(points: Matrix, active: Indices) -> Matrix:
                out = np.empty((len(points), 2 * self.n_features + len(SCALARS)))
                write_terms(
                    block,
                    numbers,
                    own_weights,
                    rows,
                    starts - first,
                    read_only(points),
                    groups[active],
                    delta,
                    out,
                )
                return out

            return search_medians(points[groups], evaluate, **options)

        n_parts = -(-self.X.size // _PART_ELEMENTS)
        parts = np.array_split(np.arange(n_groups), min(n_groups, n_parts))
        medians = run_parallel(search, parts, self.n_jobs)
        return Medians(*map(np.concatenate, zip(*(vars(some).values() for some in medians), strict=True)))

    def greedy_picks(self, task: GreedyTask) -> tuple[Indices, Matrix]:
        """Pick rows group by group in a compiled loop, so that the rows of a group stay in the processor's cache."""
        thetas = task.thetas.copy()
        by_group = np.argsort(task.codes, kind="stable")
        by_group = by_group[task.available[by_group]]
        bounds = np.searchsorted(task.codes[by_group], np.arange(len(thetas) + 1))

        def pick(groups: Indices) -> Indices:
            orders = []
            for group in groups.tolist():
                index = by_group[bounds[group] : bounds[group + 1]]
                order = np.empty(task.quotas[group], dtype=np.int64)
                # Rows of another type are converted for one group at a time.
                block = self.X if self._in_place else self.X[index].astype(self._dtype, order="C")
                positions = index if self._in_place else np.arange(len(index))
                pick_group(
                    read_only(block), positions, task.targets[group], thetas[group], task.replacement, order
                )
                orders.append(index[order])
            return np.concatenate(orders)

        parts = np.array_split(np.arange(len(thetas)), min(len(thetas), _PARTS_PER_JOB * self.n_jobs))
        return np.concatenate(run_parallel(pick, parts, self.n_jobs)), thetas


def working_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the type that rows are computed in: float32 where it holds all values, else float64.

    Examples
    --------
    >>> working_dtype(np.float16), working_dtype(np.int64)
    (dtype('float32'), dtype('float64'))
    """
    promoted = np.promote_types(np.dtype(dtype), np.float32)
    return np.dtype(np.float32 if promoted == np.float32 else np.float64)
