"""The rows of an array as every computation reads them: chunk by chunk, as float32 or float64.

A plain C-ordered float32 or float64 array is read in place. Anything else (float16, bfloat16, integers,
another memory order, a list of lists) is converted one chunk at a time, so that nothing is copied
wholesale.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.rows.parallel import map_in_order
from gmmatch.types import Indices, Matrix, Vector, is_tensor

if TYPE_CHECKING:
    from gmmatch.backends.cuda.blocks import TensorRows

# Large enough that a thread's start does not show, small enough to balance a handful of cores.
CHUNK_ELEMENTS = 1 << 21

RowMap = Callable[[Matrix], Matrix]
"""Makes a row of each row of a block, of which it knows nothing else."""


class Rows:
    """A read-only view of some rows of a matrix.

    Parameters
    ----------
    source : array, or rows that lie elsewhere, of shape (n, s)
        Float or integer, or ``uint16`` holding bfloat16 bits when ``bfloat16`` is true. Rows in files or on a GPU
        have a length, ``shape``, ``dtype`` and ``bfloat16``, and ``source[rows]`` is a run of rows, or those with
        these numbers, as an array. What has a method ``row_source()`` that returns them is taken like an array.
    index : int64 array, optional
        Which rows of ``source`` these are; all of them by default.
    bfloat16 : bool
        Whether ``source`` holds the upper halves of float32 numbers.

    Examples
    --------
    >>> rows = Rows(np.arange(6.0).reshape(3, 2), index=np.array([2, 0]))
    >>> rows.gather(np.array([0]))
    array([[4., 5.]])
    """

    def __init__(self, source: Any, index: Indices | None = None, *, bfloat16: bool = False) -> None:
        in_memory = isinstance(source, np.ndarray)
        self.source = read_only(source) if in_memory else source
        self.bfloat16 = bfloat16
        self.whole = index is None  # all rows of the source, in their order
        if index is not None:
            self.index = read_only(np.ascontiguousarray(index, dtype=np.int64))
        wide = source.dtype.itemsize > 4 or (source.dtype.kind in "iu" and source.dtype.itemsize > 2)
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if wide else np.float32)
        self.in_place = in_memory and not bfloat16 and source.dtype == self.dtype and source.dtype.isnative
        if self.in_place:
            self.in_place = bool(source.flags.c_contiguous and source.flags.aligned)

    @cached_property
    def index(self) -> Indices:
        """Which rows of the source these are."""
        return read_only(np.arange(len(self.source), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.source) if self.whole else len(self.index)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.source.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of these rows as they are stored."""
        return len(self) * self.n_features * int(self.source.dtype.itemsize)

    @property
    def on_disk(self) -> bool:
        """Whether the rows are read from files, and reading them again costs time."""
        return isinstance(self.source, np.memmap) or bool(getattr(self.source, "on_disk", False))

    @property
    def readable(self) -> Indices | None:
        """The rows whose files can be read, where an engine does without the others; None if all can."""
        absent = getattr(self.source, "absent", None)
        return None if absent is None else np.flatnonzero(~absent)

    def held(self, limit: int) -> Rows:
        """Return the rows in memory if they lie on disk and take at most ``limit`` bytes, else themselves."""
        if not self.on_disk or self.nbytes > limit:
            return self
        return Rows(np.asarray(self._raw(self.index)), bfloat16=self.bfloat16)

    def subset(self, positions: Indices) -> Rows:
        """Return the rows at these positions, still without a copy."""
        return Rows(self.source, positions if self.whole else self.index[positions], bfloat16=self.bfloat16)

    @property
    def rows_per_chunk(self) -> int:
        """Chunk length; a function of the shape alone, so that sums do not depend on the threads."""
        return max(32, CHUNK_ELEMENTS // max(1, self.n_features))

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return max(1, -(-len(self) // self.rows_per_chunk))

    def bounds(self, chunk: int) -> tuple[int, int]:
        """Return the first position of a chunk and the one after its last."""
        start = chunk * self.rows_per_chunk
        return start, min(len(self), start + self.rows_per_chunk)

    def chunk(self, number: int) -> tuple[Matrix, Indices]:
        """Return ``(block, index)`` such that ``block[index]`` are the rows of this chunk."""
        start, stop = self.bounds(number)
        if self.in_place:
            return self.source, self.index[start:stop]
        block = self._convert(self.index[start:stop], self.dtype)
        return read_only(block), read_only(np.arange(stop - start, dtype=np.int64))

    def block(self, number: int, dtype: Any = None) -> Matrix:
        """Return the rows of a chunk as a contiguous matrix."""
        start, stop = self.bounds(number)
        return self._convert(self.index[start:stop], np.dtype(dtype or self.dtype))

    def copied(self) -> NDArray[Any]:
        """Return all rows as one new, contiguous, writable matrix of the working dtype."""
        out = np.empty((len(self), self.n_features), dtype=self.dtype)
        for number in range(self.n_chunks):
            start, stop = self.bounds(number)
            out[start:stop] = self.block(number)
        return out

    def gather(self, positions: Indices, dtype: Any = np.float64) -> NDArray[Any]:
        """Return the rows at these positions, in float64; a read-only view where they are stored so."""
        return self._convert(self.index[positions], np.dtype(dtype))

    def each(self, score: Callable[..., NDArray[Any]], *arguments: Any, threads: int = 1) -> NDArray[Any]:
        """Return a number per row, or several: ``score(block, index, *arguments)`` of every chunk.

        Like :meth:`total` it runs wherever the rows lie; workers are sent the function, so let it be a module's.
        """
        device = self._on_device()
        if device is not None:
            return device.each(score, *arguments)
        found = map_in_order(lambda number: score(*self.chunk(number), *arguments), self.n_chunks, threads)
        return np.concatenate(found)

    def total(
        self,
        part: Callable[..., NDArray[Any]],
        weights: NDArray[Any],
        *arguments: Any,
        threads: int = 1,
        add: Callable[[Any, Any], Any] = np.add,
    ) -> NDArray[np.float64]:
        """Return the sum over all chunks of ``part(block, index, weights, *arguments)``, added in their order."""
        device = self._on_device()
        if device is not None:
            return device.total(part, weights, *arguments, add=add)

        def work(number: int) -> NDArray[Any]:
            start, stop = self.bounds(number)
            return part(*self.chunk(number), weights[start:stop], *arguments)

        total: Any = None
        for first in range(0, self.n_chunks, threads):  # few parts at a time: a scatter is large
            few = min(threads, self.n_chunks - first)
            for found in map_in_order(lambda number, first=first: work(first + number), few, threads):  # type: ignore[misc]
                total = found if total is None else add(total, found)
        return np.asarray(total)

    def mapped(self, row_map: RowMap) -> Rows:
        """Return the rows as a map makes them, each time that they are read; on a device, at once."""
        device = self._on_device()
        if device is not None and getattr(row_map, "takes_tensors", False):
            return Rows(device.mapped(row_map))
        return Rows(MappedSource(self, row_map))

    def made(self) -> Rows:
        """Return mapped rows as an array, unless they are made of what lies on disk."""
        if isinstance(self.source, MappedSource) and not self.on_disk:
            return Rows(read_only(self.copied()))
        return self

    def here(self) -> Rows:
        """Return rows that lie on a device, or with workers, as an array; others as they are."""
        return Rows(read_only(self.copied())) if hasattr(self.source, "tensor") else self

    def _on_device(self) -> TensorRows | None:
        """Return the rows of a tensor, whose blocks stay where they are: functions of blocks take tensors too."""
        if not hasattr(self.source, "tensor"):
            return None
        from gmmatch.backends.cuda.blocks import TensorRows

        return TensorRows(self)

    def row(self, position: int) -> Vector:
        """Return a copy of one row in float64."""
        if self.in_place:
            return np.array(self.source[self.index[position]], dtype=np.float64)
        return np.array(self.gather(np.array([position]))[0])

    def _raw(self, index: Indices) -> NDArray[Any]:
        # Only a converted chunk is ever copied; a run of rows is sliced, which spares a gather.
        run = (
            len(index) > 0
            and int(index[-1]) - int(index[0]) + 1 == len(index)
            and bool(np.all(np.diff(index) == 1))
        )
        rows: NDArray[Any] = self.source[int(index[0]) : int(index[-1]) + 1] if run else self.source[index]
        return rows

    def _convert(self, index: Indices, dtype: np.dtype[Any]) -> NDArray[Any]:
        picked = self._raw(index)
        if picked.dtype == np.float16 and picked.dtype.isnative and picked.flags.c_contiguous:
            from gmmatch.rows.compiled import widened  # compiled: loaded where it is needed

            return widened(picked).astype(dtype, copy=False)
        if self.bfloat16:
            return from_bfloat16(picked).astype(dtype, copy=False)
        return np.ascontiguousarray(picked, dtype=dtype)


class MappedSource:
    """Rows that a map makes of others as they are read: preprocessed, or as a kernel's features."""

    bfloat16 = False

    def __init__(self, rows: Rows, row_map: RowMap) -> None:
        example = row_map(np.zeros((1, rows.n_features), dtype=rows.dtype))
        self.rows, self.row_map = rows, row_map
        self.shape = (len(rows), int(example.shape[1]))
        self.dtype: np.dtype[Any] = example.dtype
        self.on_disk = rows.on_disk

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Indices) -> NDArray[Any]:
        wanted = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        out = np.empty((len(wanted), self.shape[1]), dtype=self.dtype)
        # What a row is made of may be longer than the row.
        step = max(32, CHUNK_ELEMENTS // max(self.shape[1], self.rows.n_features))
        for start in range(0, len(wanted), step):
            part = wanted[start : start + step]
            out[start : start + step] = self.row_map(self.rows.gather(part, self.rows.dtype))
        return out


def as_rows(X: Any, *, name: str = "X") -> Rows:
    """Return any two-dimensional numeric input as :class:`Rows`, without checking its values.

    NumPy arrays, memory maps, lists, DataFrames and CPU torch tensors are read in place where
    their type allows it. A column of vectors, of pandas, polars or Arrow, is stacked.
    """
    if isinstance(X, Rows):
        return X
    if hasattr(X, "row_source"):
        X = X.row_source()
        return Rows(X, bfloat16=X.bfloat16)
    if is_tensor(X) and X.is_cuda and X.ndim == 2:
        from gmmatch.backends.cuda.blocks import TensorSource

        return as_rows(TensorSource(X.detach()), name=name)
    array, bfloat16 = _as_array(X, name)
    if array.ndim != 2:
        shape = f"shape {array.shape}" if array.ndim else "a single value"
        remedy = f"{name}.reshape(-1, 1) if it has one feature, {name}.reshape(1, -1) if it is one row"
        if array.ndim > 2:
            remedy = f"{name}.reshape(len({name}), -1) makes a row of each entry"
        raise InvalidInputError(
            f"{name} must be two-dimensional (rows by features); got {shape}. Reshape your data: {remedy}."
        )
    if array.shape[0] == 0:
        raise InvalidInputError(
            f"Found array with 0 sample(s) (shape={array.shape}) while a minimum of 1 is required: "
            f"{name} has no rows."
        )
    if array.shape[1] == 0:
        raise InvalidInputError(
            f"Found array with 0 feature(s) (shape={array.shape}) while a minimum of 1 is required: "
            f"{name} has no columns."
        )
    return Rows(array, bfloat16=bfloat16)


def from_bfloat16(bits: NDArray[Any]) -> NDArray[np.float32]:
    """Return bfloat16 numbers, given as 16 bits each, as float32."""
    wide = np.ascontiguousarray(bits).view(np.uint16).astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view, so that compiled loops see one array type and never write to input."""
    view = array.view()
    view.flags.writeable = False
    return view


def _as_array(X: Any, name: str) -> tuple[NDArray[Any], bool]:
    if type(X).__module__.startswith("scipy.sparse"):
        raise InvalidTypeError(
            f"Sparse data was passed as {name}, but dense data is required. "
            f"Use {name}.toarray() if it fits in memory, or reduce it first (TruncatedSVD)."
        )
    if type(X).__name__ == "LazyFrame":
        raise InvalidTypeError(f"{name} is a LazyFrame, which has no rows yet: pass {name}.collect().")
    if is_tensor(X):
        return _from_torch(X.detach().cpu(), name)
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise InvalidInputError(
            f"{name} has masked entries; drop these rows or fill them in ({name}.filled)."
        )
    try:
        # A memory map stays one, so that it is known to lie on disk.
        array = X if isinstance(X, np.memmap) else np.asarray(X)
    except ValueError as error:
        raise InvalidInputError(f"{name} is not a matrix of numbers: {error}") from error
    if array.ndim == 0 and array.dtype.kind in "OUS":  # None, a path, a mapping, an iterator
        kind = type(X).__name__
        raise InvalidTypeError(f"{name} has type {kind}: expected rows by features, such as an array.")
    if array.dtype.name == "bfloat16":  # the type of ml_dtypes, used by JAX and others
        return array.view(np.uint16), True
    return _numeric(array, name), False


def _numeric(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.dtype.kind == "c":
        raise InvalidInputError(
            f"Complex data not supported: {name} has dtype {array.dtype}. Pass real numbers."
        )
    if array.dtype.kind == "O" and array.size and array.size == len(array) and np.ndim(array.flat[0]):
        return _stacked(array.ravel(), name)
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            kind = InvalidTypeError if isinstance(error, TypeError) else InvalidInputError
            raise kind(
                f"{name} has entries that are not numbers ({error}); argument must be numeric."
            ) from error
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} has dtype {array.dtype}; expected floats or integers.")
    if array.dtype == np.longdouble and array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array


def _stacked(column: NDArray[Any], name: str) -> NDArray[Any]:
    """Return a column of vectors, as a table holds them, as a matrix."""
    vectors = [np.asarray(vector) for vector in column]
    odd = next((i for i, vector in enumerate(vectors) if vector.shape != vectors[0].shape), None)
    if odd is not None:
        shapes = f"shape {vectors[odd].shape} in row {odd}, {vectors[0].shape} in row 0"
        raise InvalidInputError(f"{name} is a column of vectors of different lengths: {shapes}.")
    return _numeric(np.stack(vectors), name)


def _from_torch(X: Any, name: str) -> tuple[NDArray[Any], bool]:
    import torch

    if X.dtype == torch.bfloat16:
        return X.view(torch.uint16).numpy(), True
    try:
        array = X.numpy()
    except (TypeError, RuntimeError) as error:  # sparse and quantised tensors, float8
        raise InvalidTypeError(f"{name} is a tensor that NumPy cannot read: {error}") from error
    return _numeric(array, name), False
