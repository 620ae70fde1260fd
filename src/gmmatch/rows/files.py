"""Rows in ``.npy`` files or shards of a store: mapped when they are needed, and read block by block."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import count, pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix, read_only, to_numpy
from gmmatch._threads import one_blas_thread, release_freed_memory, resolve_jobs
from gmmatch.rows.array import ArrayRows
from gmmatch.rows.base import BlockFunction, GreedyTask, LocalRows, PerRow, RowMap
from gmmatch.rows.npy import mapped
from gmmatch.rows.shards import RowFile, ShardReader
from gmmatch.rows.tree import block_edges

# A map of rows is computed anew in so many passes; before the next one, its results go to a temporary file.
_LAZY_PASSES = 2
# Numbers that are mapped at a time: a map needs several times their memory, and some compute in float64.
_MAP_ELEMENTS = 1 << 18


class FileRows(LocalRows):
    """Rows of several files, one after another.

    Parameters
    ----------
    files : sequence of paths or RowFile
    span : pair of ints, optional
        The first row and the one after the last; all rows by default. A Ray worker reads its own span.
    memory_limit : int, optional
        Bytes of rows that may be held at a time; 1 GiB by default.
    n_jobs : int, optional
        Threads; every core by default.
    """

    memory_limit: int

    def __init__(
        self,
        files: Sequence[str | PathLike[str] | RowFile],
        span: tuple[int, int] | None = None,
        *,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_jobs = resolve_jobs(n_jobs)
        self.memory_limit = 1 << 30 if memory_limit is None else memory_limit
        self._reader = ShardReader(
            [file if isinstance(file, RowFile) else RowFile.of(file) for file in files]
        )
        self._span = span or (0, self._reader.shape[0])
        self._dtype, self.n_features = self._reader.dtype, self._reader.shape[1]
        self._row_maps: tuple[RowMap, ...] = ()
        self._passes = 0
        self._scratch = ScratchFolder()

    def __len__(self) -> int:
        return self._span[1] - self._span[0]

    def take(self, index: Indices) -> Matrix:
        """Return the rows with these numbers in float64."""
        return self._take(np.asarray(index, dtype=np.int64)).astype(np.float64)

    def map(self, row_map: RowMap) -> FileRows:
        """Return the rows that ``row_map`` makes of these: when they are read, or once, into a file."""
        other = copy(self)
        other._row_maps, other._passes = (*self._row_maps, row_map), 0
        sample = other._apply_maps(np.zeros((1, self._reader.shape[1]), dtype=self._reader.dtype))
        other.n_features, other._dtype = int(sample.shape[1]), sample.dtype
        return other

    def block(self, first: int, stop: int) -> NDArray[Any]:
        """Return a run of rows; it may span several files."""
        first += self._span[0]
        return self._map(
            stop + self._span[0] - first, lambda low, high: self._reader.slice(first + low, first + high)
        )

    def map_array(self, row_map: RowMap) -> NDArray[Any]:
        """Return the rows that ``row_map`` makes of these, mapped from a temporary file if there is room for it."""
        saved = self.map(row_map)._save(None)
        return self.map_blocks(row_map) if saved is None else saved

    def iterate_blocks(
        self, function: BlockFunction, args: tuple[Any, ...], per_row: PerRow, edges: Indices
    ) -> Iterator[Any]:
        """Yield the results of the blocks between ``edges``, in order."""
        self._passes += 1
        if self._row_maps and self._passes > _LAZY_PASSES:
            self._store_mapped_rows()
        return super().iterate_blocks(function, args, per_row, edges)

    def greedy_picks(self, task: GreedyTask) -> tuple[Indices, Matrix]:
        """Pick rows in memory, from as many groups at a time as it may hold.

        A group that is too large by itself is picked from a temporary file; without room for that, with a pass over
        the files per pick.
        """
        release_freed_memory()
        by_group = np.flatnonzero(task.available & (task.codes >= 0))
        by_group = by_group[np.argsort(task.codes[by_group], kind="stable")]
        bounds = np.searchsorted(task.codes[by_group], np.arange(len(task.quotas) + 1))
        row_bytes = self.n_features * self._dtype.itemsize
        orders, thetas = [], task.thetas.copy()
        for first, stop in _runs_within(np.diff(bounds) * row_bytes, self.memory_limit):
            index = by_group[bounds[first] : bounds[stop]]
            available = (
                self._take(index) if len(index) * row_bytes <= self.memory_limit else self._save(index)
            )
            run: dict[str, Any] = {
                "quotas": task.quotas[first:stop],
                "targets": task.targets[first:stop],
                "thetas": task.thetas[first:stop],
            }
            if available is None:
                codes = np.where((task.codes >= first) & (task.codes < stop), task.codes - first, -1)
                order, thetas[first:stop] = super().greedy_picks(replace(task, codes=codes, **run))
            else:
                run |= {"codes": task.codes[index] - first, "available": np.ones(len(index), dtype=bool)}
                picks, thetas[first:stop] = ArrayRows(available, self.n_jobs).greedy_picks(
                    replace(task, **run)
                )
                order = index[picks]
            orders.append(order)
        return np.concatenate(orders), thetas

    def provenance(self) -> dict[str, Any]:
        """Return what is recorded about the rows."""
        return {**super().provenance(), "files": [str(file.path) for file in self._reader.files]}

    def close(self) -> None:
        """Delete the temporary files."""
        self._scratch.close()

    def _take(self, index: Indices) -> NDArray[Any]:
        index = index + self._span[0]
        return self._map(len(index), lambda low, high: self._reader.take(index[low:high]))

    def _map(self, n: int, read: Callable[[int, int], NDArray[Any]]) -> NDArray[Any]:
        """Read rows and map them, some at a time."""
        if not self._row_maps:
            return read_only(read(0, n))
        rows = np.empty((n, self.n_features), dtype=self._dtype)
        size = max(1, _MAP_ELEMENTS // self._reader.shape[1])
        with one_blas_thread():  # pieces are small, and waiting threads spin
            for first in range(0, n, size):
                rows[first : first + size] = self._apply_maps(read(first, min(first + size, n)))
        return read_only(rows)

    def _apply_maps(self, block: NDArray[Any]) -> NDArray[Any]:
        for row_map in self._row_maps:
            block = to_numpy(row_map(block))
        return block

    def _store_mapped_rows(self) -> None:
        """Compute the mapped rows into a temporary file, which is read from now on."""
        saved = self._save(None)
        if saved is not None:
            self._reader = ShardReader([RowFile.of(self._scratch.newest)])
            self._span, self._row_maps = (0, len(saved)), ()

    def _save(self, index: Indices | None) -> NDArray[Any] | None:
        """Write these rows, or all, to a temporary file and return it mapped; None if there is no room for it."""
        n = len(self) if index is None else len(index)
        blocks = (
            self.block(first, stop) if index is None else self._take(index[first:stop])
            for first, stop in pairwise(block_edges(n, self.n_features).tolist())
        )
        return self._scratch.save(blocks, (n, self.n_features), self._dtype)


class ScratchFolder:
    """A temporary folder for rows, made when it is first needed."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._numbers = count()
        self.newest = Path()

    def save(
        self, blocks: Iterator[NDArray[Any]], shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> NDArray[Any] | None:
        """Write rows to a new ``.npy`` file and return it mapped; None if the disk is full."""
        try:
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="gmmatch-")
            self.newest = Path(self._folder.name, f"{next(self._numbers)}.npy")
            with self.newest.open("wb") as file:
                header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                # Not by a writable map, where a full disk would end the process by a signal.
                for block in blocks:
                    file.write(np.ascontiguousarray(block, dtype=dtype).data)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            if self.newest.is_file():
                self.newest.unlink()
            return None
        return np.asarray(mapped(self.newest))

    def close(self) -> None:
        """Delete the folder."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _runs_within(sizes: Indices, limit: int) -> Iterator[tuple[int, int]]:
    """Yield runs of neighboring groups whose sizes add up to at most a limit; a larger group is a run by itself.

    Examples
    --------
    >>> list(_runs_within(np.array([1, 2, 9, 1]), 3))
    [(0, 2), (2, 3), (3, 4)]
    """
    first = total = 0
    for group, size in enumerate(sizes.tolist()):
        if group > first and total + size > limit:
            yield first, group
            first, total = group, 0
        total += size
    yield first, len(sizes)
