"""Many files of rows that read as one two-dimensional array."""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.embeddings.manifest import check_sha256
from gmmatch.errors import InvalidInputError, first_line
from gmmatch.files import fetched
from gmmatch.rows.checks import check_whole_number
from gmmatch.rows.npy_files import mapped
from gmmatch.rows.rows import read_only
from gmmatch.types import Indices

# A memory map keeps a file open, and a process may have 1,024 files open by default.
_OPEN_SHARDS = 128
_BLOCK_BYTES = 1 << 25
_OF_THE_PROCESS = ("_open", "_sound", "_guard", "_checking")


class ShardedArray:
    """Rows of several arrays, one after another, that are read where they lie.

    It is indexed like a two-dimensional NumPy array; what comes out is a NumPy array. A slice within
    one shard is a read-only view, anything else a copy of the rows that were asked for. Rows asked for
    by number are read shard by shard and in the order of the file, whatever their order. It can be
    used by several threads, and copied to other processes at the cost of its file names.

    Parameters
    ----------
    shards
        Two-dimensional arrays, or paths of ``.npy`` files that hold them.
    lengths
        Rows per shard. Needed, with ``n_features`` and ``dtype``, if there are paths; then a file is
        opened only when its rows are wanted.
    n_features, dtype
        What the shards have in common.
    checksums
        The SHA-256 of each file, compared when it is first opened.

    Attributes
    ----------
    shape, ndim, size, dtype, itemsize, nbytes
        As for a NumPy array.

    Examples
    --------
    >>> rows = ShardedArray([np.arange(6.0).reshape(3, 2), np.array([[6.0, 7.0]])])
    >>> rows.shape
    (4, 2)
    >>> rows[[3, 0]]
    array([[6., 7.],
           [0., 1.]])
    """

    ndim = 2
    bfloat16 = False  # what gmmatch.rows.rows.Rows asks for

    def __init__(
        self,
        shards: Sequence[NDArray[Any] | Path],
        *,
        lengths: Sequence[int] | None = None,
        n_features: int | None = None,
        dtype: Any = None,
        checksums: Sequence[str] | None = None,
    ) -> None:
        arrays = [shard for shard in shards if isinstance(shard, np.ndarray)]
        if len(arrays) < len(shards) and (lengths is None or n_features is None or dtype is None):
            raise InvalidInputError("shards given as paths need lengths, n_features and dtype.")
        if not shards and (n_features is None or dtype is None):
            raise InvalidInputError("without shards, n_features and dtype must be given.")
        lengths = [len(array) for array in arrays] if lengths is None else list(lengths)
        self._shards = tuple(shards)
        self._ends = np.cumsum([0, *lengths], dtype=np.int64)
        self.dtype: np.dtype[Any] = np.dtype(arrays[0].dtype if dtype is None else dtype)
        width = int(arrays[0].shape[1] if n_features is None else n_features)
        self.shape: tuple[int, int] = (int(self._ends[-1]), width)
        for number, array in enumerate(shards):
            if isinstance(array, np.ndarray):
                self._check(array, number)
        self._checksums = None if checksums is None else tuple(checksums)
        self._sound: set[int] = set()
        self._open: OrderedDict[int, NDArray[Any]] = OrderedDict()
        self._guard, self._checking = threading.Lock(), threading.Lock()

    def _check(self, array: NDArray[Any], number: int) -> None:
        shape = (int(self._ends[number + 1] - self._ends[number]), self.shape[1])
        if array.shape != shape or array.dtype != self.dtype:
            shard = self._shards[number]
            name = f"shards[{number}]" if isinstance(shard, np.ndarray) else str(shard)
            raise InvalidInputError(
                f"{name} has shape {array.shape} and dtype {array.dtype}: expected {shape} and {self.dtype}."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _OF_THE_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._sound, self._open = set(), OrderedDict()
        self._guard, self._checking = threading.Lock(), threading.Lock()

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.shape[0] * self.shape[1]

    @property
    def itemsize(self) -> int:
        """Bytes of one number."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.size * self.itemsize

    @property
    def on_disk(self) -> bool:
        """Whether rows are read from files."""
        return any(not isinstance(shard, np.ndarray) for shard in self._shards)

    def row_source(self) -> ShardedArray:
        """Return the rows as selectors and metrics read them, which is as they are."""
        return self

    @property
    def n_shards(self) -> int:
        """How many shards there are."""
        return len(self._shards)

    @property
    def shard_bounds(self) -> list[tuple[int, int]]:
        """The first row of each shard, and the one after its last."""
        ends = self._ends.tolist()
        return list(pairwise(ends))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<ShardedArray of shape {self.shape}, {self.dtype}, in {self.n_shards} shards>"

    def shard(self, number: int) -> NDArray[Any]:
        """Return one shard, read-only and memory-mapped if it is a file."""
        shard = self._shards[number]
        if isinstance(shard, np.ndarray):
            return read_only(shard)
        with self._guard:
            if number in self._open:
                self._open.move_to_end(number)
                return self._open[number]
        try:
            file = fetched(shard)
            self._verify(number, file)
            array = mapped(file)
        except (OSError, ValueError, EOFError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise InvalidInputError(f"{shard} cannot be read: {first_line(error)}.") from None
        self._check(array, number)
        plain: NDArray[Any] = np.asarray(array)  # without the memmap class, whose slices are slow
        with self._guard:
            self._open[number] = plain
            while len(self._open) > _OPEN_SHARDS:
                self._open.popitem(last=False)  # closed once no view of it is left
        return plain

    def _verify(self, number: int, file: Path) -> None:
        """Compare a file with its checksum, once in this process: a byte that changed since would change picks."""
        if self._checksums is None:
            return
        with self._checking:
            if number not in self._sound:
                check_sha256(file, self._checksums[number], self._shards[number])
                self._sound.add(number)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        if not isinstance(key, tuple):
            return self._rows(key, slice(None))
        rows, columns = (*key, slice(None))[:2]
        one_array = isinstance(rows, slice) or isinstance(columns, (slice, int, np.integer))
        if len(key) > 2 or any(part is None or part is Ellipsis for part in key) or not one_array:
            raise IndexError("index by [rows] or [rows, columns], with an array for one of the two at most.")
        return self._rows(rows, columns)

    def _rows(self, key: Any, columns: Any) -> NDArray[Any]:
        if key is Ellipsis:
            key = slice(None)
        if isinstance(key, slice):
            return self._slice(*key.indices(len(self)), columns)
        if not isinstance(key, list) and not hasattr(key, "__array__"):
            row: NDArray[Any] = self._gather(np.array([_row_number(key)]), columns)[0]
            return row
        rows = np.asarray(key)
        if rows.dtype == np.bool_:
            if rows.shape != (len(self),):
                raise IndexError(f"a mask of shape {rows.shape} does not fit {len(self)} rows.")
            return self._gather(np.flatnonzero(rows), columns)
        if rows.dtype.kind not in "iu":
            if rows.size:
                raise IndexError(f"rows are indexed by integers or booleans, not by {rows.dtype}.")
            rows = rows.astype(np.int64)  # NumPy makes floats of an empty list
        out = self._gather(rows.reshape(-1), columns)
        shaped: NDArray[Any] = out.reshape(rows.shape + out.shape[1:])[()]  # a scalar if nothing is left
        return shaped

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for _, block in self.row_blocks():
            yield from block

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("the rows lie in several files, so an array of all of them is always a copy.")
        out = np.empty(self.shape, dtype=self.dtype if dtype is None else dtype)
        for start, block in self.row_blocks():
            out[start : start + len(block)] = block
        return out

    def row_blocks(self, n_rows: int | None = None) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield ``(start, block)`` for all rows in order: blocks of ``n_rows`` rows, by default of about 32 MiB.

        Examples
        --------
        >>> rows = ShardedArray([np.zeros((3, 2)), np.ones((2, 2))])
        >>> [(start, len(block)) for start, block in rows.row_blocks(2)]
        [(0, 2), (2, 2), (4, 1)]
        """
        if n_rows is None:
            n_rows = max(1, _BLOCK_BYTES // max(1, self.shape[1] * self.itemsize))
        check_whole_number(n_rows, "n_rows")
        for start in range(0, len(self), n_rows):
            yield start, self[start : start + n_rows]

    def _slice(self, start: int, stop: int, step: int, columns: Any) -> NDArray[Any]:
        rows = range(start, stop, step)
        if step != 1 or not rows:
            return self._gather(np.arange(start, stop, step), columns)
        first = int(np.searchsorted(self._ends, start, side="right")) - 1
        last = int(np.searchsorted(self._ends, stop, side="left")) - 1
        if first == last:
            offset = int(self._ends[first])
            return self.shard(first)[start - offset : stop - offset, columns]
        out = self._empty(len(rows), columns)
        for number in range(first, last + 1):
            low, high = int(self._ends[number]), int(self._ends[number + 1])
            begin, end = max(start, low), min(stop, high)
            if begin < end:
                out[begin - start : end - start] = self.shard(number)[begin - low : end - low, columns]
        return out

    def _gather(self, rows: Indices, columns: Any) -> NDArray[Any]:
        wrapped = self._checked(rows)
        ordered = bool(np.all(wrapped[1:] >= wrapped[:-1]))
        order = np.arange(len(wrapped)) if ordered else np.argsort(wrapped, kind="stable")
        ascending = wrapped if ordered else wrapped[order]
        # Where the rows of each shard begin among the wanted ones.
        cuts = np.searchsorted(ascending, self._ends)
        out = self._empty(len(wrapped), columns)
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            part = slice(int(cuts[number]), int(cuts[number + 1]))
            wanted = self.shard(number)[ascending[part] - self._ends[number]][:, columns]
            out[part if ordered else order[part]] = wanted
        return out

    def _empty(self, n_rows: int, columns: Any) -> NDArray[Any]:
        # NumPy itself says which shape the chosen columns have.
        return np.empty((n_rows, *np.empty(self.shape[1], dtype=np.bool_)[columns].shape), dtype=self.dtype)

    def _checked(self, rows: Indices) -> Indices:
        n = len(self)
        if len(rows) and (rows.max() >= n or rows.min() < -n):
            bad = rows[(rows >= n) | (rows < -n)][0]
            raise IndexError(f"row {bad} is out of bounds for {n} rows.")
        signed = rows.astype(np.int64, copy=False)
        return np.where(signed < 0, signed + n, signed)


def _row_number(key: Any) -> int:
    try:
        if isinstance(key, bool):  # NumPy gives it another meaning than 0 and 1
            raise TypeError
        return operator.index(key)
    except TypeError:
        raise IndexError(
            f"rows are indexed by integers, slices, and arrays of integers or booleans, not by {key!r}."
        ) from None
