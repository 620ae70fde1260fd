"""Vectors that exist already: arrays and tensors in memory, and ``.npy``, ``.npz`` and safetensors files.

The last two may hold labels and ids beside the embeddings, as one-dimensional members.
"""

from __future__ import annotations

import json
import lzma
import math
import os
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import is_torch_array, sample_indices, to_numpy
from gmmatch.data.columns import (
    ColumnRequest,
    Columns,
    ColumnType,
    choose_columns,
    plain_ids,
    plain_labels,
    plain_values,
)
from gmmatch.data.files import canonical, damaged, files_fingerprint, fingerprint_of
from gmmatch.data.source import BaseSource, Batch, Id
from gmmatch.errors import GMMatchError, InvalidInputError
from gmmatch.groups import Label
from gmmatch.rows.npy import read_header

_SAMPLED_ROWS = 1024
_SAFETENSORS_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_LONGEST_HEADER = 100_000_000
"""Bytes, as in the package safetensors."""
# What damaged files lead the standard library and NumPy to. RuntimeError is that of an encrypted archive, of an
# unknown compression (NotImplementedError), and of too many brackets (RecursionError).
_DAMAGE = (
    OSError, EOFError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError,
    zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Make one sentence of whatever a damaged file raises."""
    try:
        yield
    except GMMatchError:
        raise
    except _DAMAGE as error:
        raise damaged(path, kind, error) from None


def _count_bytes(shape: tuple[int, ...], dtype: np.dtype[Any], available: int) -> int:
    """Return how many bytes an array takes, if its header can be true: a false one could ask for all memory."""
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read, as they could run code")
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"its header has the shape {shape}")
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes > available:
        raise ValueError(f"its header claims {n_bytes:,} bytes, and {available:,} are there")
    return n_bytes


def _mapped(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], start: int, stop: int, *, fortran: bool = False
) -> NDArray[Any]:
    """Return an array that lies in a file, memory-mapped and read-only."""
    if not _count_bytes(shape, dtype, stop - start):
        return np.empty(shape, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape, order="F" if fortran else "C")


class VectorSource(BaseSource):
    """What all sources of vectors share: a shape, and maybe labels and ids held in memory.

    Attributes
    ----------
    n_features
        Numbers per row.
    """

    kind = "embedding"
    n_rows: int
    ids: Sequence[Id]
    labels: list[Label] | None

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], location: str, *, labels: Any, ids: Any
    ) -> None:
        self.location = location
        _check_shape(shape, location)
        if dtype.kind not in "fiub":
            raise InvalidInputError(f"{location} has dtype {dtype}: embeddings are floats or integers.")
        self.n_rows, self.n_features = shape
        self.labels = None if labels is None else plain_labels(plain_values(labels), "labels", self._row_name)
        self.ids = range(self.n_rows) if ids is None else plain_ids(plain_values(ids), "ids", self._row_name)
        for name, values in (("labels", self.labels), ("ids", self.ids)):
            if values is not None and len(values) != self.n_rows:
                raise InvalidInputError(
                    f"{name} has {len(values):,} entries, but {location} has {self.n_rows:,} rows."
                )

    def _row_name(self, row: int) -> str:
        return f"row {row} of {self.location}"

    @abstractmethod
    def _blocks(self, start: int, size_hint: int) -> Iterator[NDArray[Any]]:
        """Yield the rows from ``start`` on, ``size_hint`` at a time."""

    def _pieces(self, start: int, size_hint: int) -> Iterator[Batch]:
        first = start
        for block in self._blocks(start, size_hint):
            stop = first + len(block)
            labels = None if self.labels is None else self.labels[first:stop]
            yield Batch(block, list(self.ids[first:stop]), labels, first)
            first = stop


class ArraySource(VectorSource):
    """The rows of a two-dimensional array or torch tensor, in memory or memory-mapped.

    Batches are views where the type allows it; bfloat16 rows, which NumPy arrays can hold only as the bits of another
    type, come out as float32.
    """

    def __init__(
        self,
        array: Any,
        *,
        labels: Any = None,
        ids: Any = None,
        bfloat16: bool = False,
        location: str = "an array in memory",
        format: str = "array",
        how: str = "",
    ) -> None:
        self.array, self.format, self.how = array, format, how
        _check_shape(tuple(array.shape), location)  # before anything is sliced
        self.is_bfloat16 = bfloat16 or str(array.dtype) == "bfloat16"  # the latter is ml_dtypes' name
        super().__init__(tuple(array.shape), self._block(0, 0).dtype, location, labels=labels, ids=ids)

    def fingerprint(self) -> str:
        """Hash the shape, the type, up to 1,024 rows spread over the array, and all ids and labels."""
        n, s = self.array.shape
        parts: list[str | int | bytes | None] = ["array", int(n), int(s), str(self.array.dtype)]
        parts.append(int(self.is_bfloat16))
        sampled = sample_indices(n, _SAMPLED_ROWS).tolist()
        parts.extend(self._block(row, row + 1).tobytes() for row in sampled)
        parts.append(canonical(self.labels))
        parts.append(repr(self.ids) if isinstance(self.ids, range) else canonical(self.ids))
        return fingerprint_of(parts)

    def _block(self, start: int, stop: int) -> NDArray[Any]:
        block = self.array[start:stop]
        if self.is_bfloat16 and not is_torch_array(block):
            wide = np.ascontiguousarray(block).view(np.uint16).astype(np.uint32) << 16
            return wide.view(np.float32)
        return to_numpy(block)

    def _blocks(self, start: int, size_hint: int) -> Iterator[NDArray[Any]]:
        for first in range(start, self.n_rows, size_hint):
            yield self._block(first, min(self.n_rows, first + size_hint))


def open_npy(path: Path) -> ArraySource:
    """Open a ``.npy`` file, memory-mapped."""
    with _reading(path, ".npy file of numbers"), path.open("rb") as file:
        shape, fortran, dtype = read_header(file)
        array = _mapped(path, shape, dtype, file.tell(), path.stat().st_size, fortran=fortran)
    return ArraySource(array, location=str(path), format=".npy file", how="an array, by its suffix")


def _check_shape(shape: tuple[int, ...], where: str) -> None:
    if len(shape) != 2:
        raise InvalidInputError(
            f"{where} has shape {shape}: embeddings are two-dimensional, rows by features."
        )
    if shape[1] == 0:
        raise InvalidInputError(f"{where} has shape {shape}: embeddings need at least one feature.")


class NpzSource(VectorSource):
    """A two-dimensional member of a ``.npz`` archive, compressed or not, read from front to back.

    ``request.embedding`` names the member; by default it is the only one with two dimensions. Labels and ids
    are one-dimensional members; by default one named like ``label`` holds the labels.
    """

    format = ".npz archive"

    def __init__(self, path: Path, request: ColumnRequest) -> None:
        self.path = path
        self._headers: dict[str, tuple[tuple[int, ...], bool, np.dtype[Any]]] = {}
        with _reading(path, self.format), zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".npy"):
                    with archive.open(name) as file:
                        self._headers[name.removesuffix(".npy")] = read_header(file)
        shapes = {name: shape for name, (shape, _, _) in self._headers.items()}
        self.columns = _choose(shapes, request, str(path))
        for name in self.columns.names():
            if self._headers[name][2].hasobject:
                raise InvalidInputError(
                    f"{path}: the array {name!r} holds Python objects, which are not read, as they could run code: "
                    f"save it as text or numbers, such as np.asarray({name}, dtype=str)."
                )
        shape, fortran, self._dtype = self._headers[self.columns.data]
        if fortran and min(shape) > 1:
            raise InvalidInputError(
                f"{path}: the array {self.columns.data!r} is stored column by column, so its rows cannot be read "
                "one after another: save np.ascontiguousarray of it."
            )
        self.how = f"an array, by its suffix: {self.columns.how}"
        labels, ids = (self._load(name) for name in (self.columns.label, self.columns.id))
        with self._opened(self.columns.data):  # which checks the header against what is there
            super().__init__(shape, self._dtype, f"{path}::{self.columns.data}", labels=labels, ids=ids)

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        """Yield the file of a member where its numbers begin."""
        member = f"{name}.npy"
        with (
            _reading(self.path, self.format),
            zipfile.ZipFile(self.path) as archive,
            archive.open(member) as file,
        ):
            shape, _, dtype = read_header(file)
            _count_bytes(shape, dtype, archive.getinfo(member).file_size - file.tell())
            yield file

    def _load(self, name: str | None) -> NDArray[Any] | None:
        if name is None:
            return None
        shape, _, dtype = self._headers[name]
        with self._opened(name) as file:
            return np.frombuffer(file.read(), dtype=dtype).reshape(shape)

    def fingerprint(self) -> str:
        """Hash the file's size and ends, and the choice of members."""
        return files_fingerprint([self.path], "npz", *self.columns.settings())

    def _blocks(self, start: int, size_hint: int) -> Iterator[NDArray[Any]]:
        row_bytes = self.n_features * self._dtype.itemsize
        with self._opened(self.columns.data) as file:
            file.seek(start * row_bytes, os.SEEK_CUR)
            for first in range(start, self.n_rows, size_hint):
                count = min(self.n_rows - first, size_hint)
                flat = np.frombuffer(file.read(count * row_bytes), dtype=self._dtype)
                yield flat.reshape(count, self.n_features)


def open_safetensors(path: Path, request: ColumnRequest) -> ArraySource:
    """Open a two-dimensional tensor of a safetensors file, memory-mapped; ``request`` as for :class:`NpzSource`.

    The format is a length, a JSON header and plain numbers, so it is mapped directly: that needs no
    package, and reads bfloat16, for which NumPy has no type.
    """
    with _reading(path, "safetensors file"):
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= min(size - 8, _LONGEST_HEADER):
                raise ValueError("its header is cut off")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        columns = _choose({name: tuple(entry["shape"]) for name, entry in header.items()}, request, str(path))
        arrays = {name: _tensor(path, header[name], 8 + length, size) for name in columns.names()}
    return ArraySource(
        arrays[columns.data],
        labels=None if columns.label is None else arrays[columns.label],
        ids=None if columns.id is None else arrays[columns.id],
        bfloat16=header[columns.data]["dtype"] == "BF16",
        location=f"{path}::{columns.data}",
        format="safetensors file",
        how=f"an array, by its suffix: {columns.how}",
    )


def _tensor(path: Path, entry: Mapping[str, Any], data_start: int, size: int) -> NDArray[Any]:
    if entry["dtype"] not in _SAFETENSORS_TYPES:
        raise ValueError(f"its type {entry['dtype']} is not supported; use float32, float16 or bfloat16")
    start, stop = entry["data_offsets"]
    dtype, shape = np.dtype(_SAFETENSORS_TYPES[entry["dtype"]]), tuple(entry["shape"])
    if not 0 <= start <= stop <= size - data_start or _count_bytes(shape, dtype, stop - start) < stop - start:
        raise ValueError("its data are cut off, or not where its header says")
    return _mapped(path, shape, dtype, data_start + start, data_start + stop)


def _choose(shapes: Mapping[str, tuple[int, ...]], request: ColumnRequest, where: str) -> Columns:
    matrices = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    if not matrices:
        listed = ", ".join(f"{name!r} {shape}" for name, shape in shapes.items()) or "none"
        raise InvalidInputError(f"{where} has no two-dimensional array; its arrays are {listed}.")
    n_rows, _ = matrices.get(request.embedding or "", next(iter(matrices.values())))
    types: dict[str, ColumnType] = {}
    for name, shape in shapes.items():
        # A vector of another length belongs to something else.
        per_row = len(shape) == 1 and shape[0] == n_rows
        types[name] = "embedding" if len(shape) == 2 else "number" if per_row else "other"
    return choose_columns(types, request, where)
