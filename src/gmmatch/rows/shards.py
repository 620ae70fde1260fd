"""Files of rows as one array: ``.npy`` files or shards of a store, mapped into memory when their rows are needed.

What every other room needs of files is here, without compiled code, which takes long to import.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, start_indices
from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.files import as_path, explain_damage, fetched, sha256_of
from gmmatch.rows.npy import mapped, read_npy

# A mapped file is an open file, of which a process may have 1,024 by default.
_OPEN_FILES = 128


@dataclass(frozen=True)
class RowFile:
    """A file of rows and what it holds, so that it is opened only when its rows are needed.

    Attributes
    ----------
    path : path, or an address such as ``s3://bucket/x.npy``
        A file at an address is copied to the machine that reads it.
    shape : pair of ints
    dtype : str
    sha256 : str, optional
        Compared with the file when it is first opened.
    offset : int, optional
        Where in the file the rows begin, which follow one another; the header of a ``.npy`` file says it.
    """

    path: Path
    shape: tuple[int, int]
    dtype: str
    sha256: str | None = None
    offset: int | None = None

    @classmethod
    def of(cls, path: str | PathLike[str]) -> RowFile:
        """Read what a ``.npy`` file holds from its header."""
        location = as_path(path)
        if not location.is_file():
            raise DataFileNotFoundError(f"X: there is no file {location}.")
        with explain_damage(f"X: {location}", ".npy file of numbers"):
            header = read_npy(location)
            header.check()
        shape, dtype = header.shape, header.dtype
        if len(shape) != 2 or dtype.kind not in "fiub":
            raise InvalidInputError(
                f"X: {location} has shape {shape} and dtype {dtype}: expected numbers, rows by features."
            )
        return cls(location, (shape[0], shape[1]), dtype.str)

    def load(self) -> NDArray[Any]:
        """Return the rows, memory-mapped; raise if the file is not what it should be."""
        with explain_damage(self.path, "file of rows"):
            local = fetched(self.path)
            if self.sha256 is not None:
                status = local.stat()
                _check_once(self.path, self.sha256, local, status.st_size, status.st_mtime_ns)
            if self.offset is None:
                rows = mapped(local)
            else:
                rows = np.memmap(local, self.dtype, "r", self.offset, self.shape)
        if rows.shape != self.shape or rows.dtype != np.dtype(self.dtype):
            raise InvalidInputError(
                f"{self.path} has shape {rows.shape} and dtype {rows.dtype}: expected {self.shape} and {self.dtype}."
            )
        # Slices of the class memmap are slow.
        return np.asarray(rows)


@cache
def _check_once(path: Path, sha256: str, local: Path, size: int, written: int) -> None:
    """Raise unless a file has its checksum; once in a process, as long as the file is not written again."""
    check_file(path, sha256, local)


def check_file(path: Path, sha256: str, local: Path | None = None) -> None:
    """Read a file of a store, or its local copy, and raise unless it has its checksum."""
    if sha256_of(local or path) != sha256:
        raise damaged_file(path, "its checksum is wrong")


def damaged_file(path: Path | str, reason: object) -> InvalidInputError:
    """Make the error for a file of a store whose contents are not what was written."""
    return InvalidInputError(f"{path} is damaged ({reason}): delete the store and make it again.")


class ShardReader:
    """Read rows of several files as if they were one array; for any number of threads.

    Parameters
    ----------
    files : sequence of RowFile
        All with the same number of features.

    Attributes
    ----------
    shape : pair of ints
    dtype : numpy dtype
        What rows are read as: float32 where it holds all values, else float64.
    """

    def __init__(self, files: Sequence[RowFile]) -> None:
        if not files:
            raise InvalidInputError("X is an empty list: give at least one file.")
        self.files = tuple(files)
        odd = next((file for file in files if file.shape[1] != files[0].shape[1]), None)
        if odd is not None:
            raise InvalidInputError(
                f"X: {odd.path} has {odd.shape[1]} features, but {files[0].path} has {files[0].shape[1]}."
            )
        self._starts = start_indices([file.shape[0] for file in files])
        self.shape = int(self._starts[-1]), files[0].shape[1]
        self.dtype = np.result_type(np.float32, *(np.dtype(file.dtype) for file in files))
        self._open: OrderedDict[int, NDArray[Any]] = OrderedDict()
        self._guard = threading.Lock()
        # A file is checked by one thread, while others may open other files.
        self._loading = [threading.Lock() for _ in files]

    def shard(self, number: int) -> NDArray[Any]:
        """Return the rows of one file, memory-mapped."""
        with self._loading[number]:
            with self._guard:
                if number in self._open:
                    self._open.move_to_end(number)
                    return self._open[number]
            rows = self.files[number].load()
            with self._guard:
                self._open[number] = rows
                if len(self._open) > _OPEN_FILES:
                    self._open.popitem(last=False)  # closed once no view of it is left
            return rows

    def slice(self, first: int, stop: int) -> NDArray[Any]:
        """Return a run of rows; without a copy where they lie in one file and have the working type."""
        low = int(np.searchsorted(self._starts, first, side="right")) - 1
        high = int(np.searchsorted(self._starts, stop, side="left"))
        pieces = []
        for number in range(low, max(high, low + 1)):
            start = int(self._starts[number])
            pieces.append(self.shard(number)[max(0, first - start) : stop - start])
        if len(pieces) == 1:
            return pieces[0].astype(self.dtype, order="C", copy=False)
        return np.concatenate(pieces, dtype=self.dtype)

    def take(self, index: Indices) -> NDArray[Any]:
        """Return rows by number; each file is read from its beginning to its end."""
        order = np.argsort(index, kind="stable")
        ascending = index[order]
        rows = np.empty((len(index), self.shape[1]), dtype=self.dtype)
        bounds = np.searchsorted(ascending, self._starts)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            chosen = slice(bounds[number], bounds[number + 1])
            rows[order[chosen]] = self.shard(number)[ascending[chosen] - self._starts[number]]
        return rows
