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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import is_torch_array, sample_indices, to_numpy
from gmmatch.data.columns import ColumnRequest, Columns, ColumnType, choose_columns
from gmmatch.data.files import damaged, files_fingerprint, fingerprint_of
from gmmatch.data.source import BaseSource, Batch, Id
from gmmatch.data.values import plain_ids, plain_labels, plain_values
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
def _explain_damage(path: Path, kind: str) -> Iterator[None]:
    """Make one sentence of whatever a damaged file raises."""
    try:
        yield
    except GMMatchError:
        raise
    except _DAMAGE as error:
        raise damaged(path, f"{kind} of numbers", error) from None


class Header(NamedTuple):
    """What a file says of an array: what it is, where it begins (in the file, or in a member of an archive), and how
    many bytes are there for it.
    """

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int
    n_bytes: int
    bfloat16: bool = False

    def check(self) -> None:
        """Raise if it cannot be true: a false header could ask for all memory."""
        if self.dtype.hasobject:
            raise ValueError("it holds Python objects, which are not read, as they could run code")
        if not all(type(n) is int and n >= 0 for n in self.shape):
            raise ValueError(f"its header has the shape {self.shape}")
        n_bytes = math.prod(self.shape) * self.dtype.itemsize
        if n_bytes > self.n_bytes:
            raise ValueError(f"its header claims {n_bytes:,} bytes, and {self.n_bytes:,} are there")


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
        if len(shape) != 2 or shape[1] == 0:
            wanted = (
                "need at least one feature" if len(shape) == 2 else "are two-dimensional, rows by features"
            )
            raise InvalidInputError(f"{location} has shape {shape}: embeddings {wanted}.")
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
        self.is_bfloat16 = bfloat16 or str(array.dtype) == "bfloat16"  # the latter is ml_dtypes' name
        shape = tuple(array.shape)
        dtype = self._block(0, 0).dtype if shape else np.dtype(float)
        super().__init__(shape, dtype, location, labels=labels, ids=ids)

    def fingerprint(self) -> str:
        """Hash the shape, the type, up to 1,024 rows spread over the array, and all ids and labels."""
        parts: list[str | int | bytes | None] = ["array", self.n_rows, self.n_features, str(self.array.dtype)]
        parts.append(int(self.is_bfloat16))
        sampled = sample_indices(self.n_rows, _SAMPLED_ROWS).tolist()
        parts.extend(self._block(row, row + 1).tobytes() for row in sampled)
        return fingerprint_of([*parts, repr(self.labels), repr(self.ids)])

    def _block(self, start: int, stop: int) -> NDArray[Any]:
        block = self.array[start:stop]
        if self.is_bfloat16 and not is_torch_array(block):
            wide = np.ascontiguousarray(block).view(np.uint16).astype(np.uint32) << 16
            return wide.view(np.float32)
        return to_numpy(block)

    def _blocks(self, start: int, size_hint: int) -> Iterator[NDArray[Any]]:
        for first in range(start, self.n_rows, size_hint):
            yield self._block(first, min(self.n_rows, first + size_hint))


class NpzSource(VectorSource):
    """A two-dimensional member of a ``.npz`` archive, compressed or not, read from front to back."""

    format = ".npz archive"

    def __init__(self, path: Path, columns: Columns, headers: Mapping[str, Header]) -> None:
        self.path, self.columns, self.headers = path, columns, headers
        self.how = f"an array, by its suffix: {columns.how}"
        for name in columns.names():
            if headers[name].dtype.hasobject:
                raise InvalidInputError(
                    f"{path}: the array {name!r} holds Python objects, which are not read, as they could run code: "
                    f"save it as text or numbers, such as np.asarray({name}, dtype=str)."
                )
        rows = headers[columns.data]
        if rows.fortran and min(rows.shape) > 1:
            raise InvalidInputError(
                f"{path}: the array {columns.data!r} is stored column by column, so its rows cannot be read "
                "one after another: save np.ascontiguousarray of it."
            )
        labels, ids = (None if name is None else self._load(name) for name in (columns.label, columns.id))
        super().__init__(rows.shape, rows.dtype, f"{path}::{columns.data}", labels=labels, ids=ids)
        with self._open(columns.data):
            pass

    @contextmanager
    def _open(self, name: str) -> Iterator[IO[bytes]]:
        """Yield the file of a member where its numbers begin."""
        with _explain_damage(self.path, self.format), zipfile.ZipFile(self.path) as archive:
            self.headers[name].check()
            with archive.open(f"{name}.npy") as file:
                file.seek(self.headers[name].start)
                yield file

    def _load(self, name: str) -> NDArray[Any]:
        with self._open(name) as file:
            return np.frombuffer(file.read(), dtype=self.headers[name].dtype)

    def fingerprint(self) -> str:
        """Hash the file's size and ends, and the choice of members."""
        return files_fingerprint([self.path], "npz", *self.columns.settings())

    def _blocks(self, start: int, size_hint: int) -> Iterator[NDArray[Any]]:
        dtype = self.headers[self.columns.data].dtype
        row_bytes = self.n_features * dtype.itemsize
        with self._open(self.columns.data) as file:
            file.seek(start * row_bytes, os.SEEK_CUR)
            for first in range(start, self.n_rows, size_hint):
                count = min(self.n_rows - first, size_hint)
                flat = np.frombuffer(file.read(count * row_bytes), dtype=dtype)
                yield flat.reshape(count, self.n_features)


def open_arrays(path: Path, format: str, request: ColumnRequest) -> VectorSource:
    """Open a ``.npy``, ``.npz`` or safetensors file, memory-mapped but for ``.npz``.

    ``request.embedding`` names the array; by default it is the only one with two dimensions. Labels and ids are
    one-dimensional arrays; by default one named like ``label`` holds the labels.
    """
    kind, read_headers = _FORMATS[format]
    with _explain_damage(path, kind):
        headers = read_headers(path)
        if format == "npy":
            request.refuse(str(path), "has no columns")
            array = _mapped(path, headers[""])
            return ArraySource(array, location=str(path), format=kind, how="an array, by its suffix")
        columns = _choose({name: header.shape for name, header in headers.items()}, request, str(path))
        if format == "npz":
            return NpzSource(path, columns, headers)
        arrays = {name: _mapped(path, headers[name]) for name in columns.names()}
    return ArraySource(
        arrays[columns.data],
        labels=arrays.get(columns.label or ""),
        ids=arrays.get(columns.id or ""),
        bfloat16=headers[columns.data].bfloat16,
        location=f"{path}::{columns.data}",
        format=kind,
        how=f"an array, by its suffix: {columns.how}",
    )


def _mapped(path: Path, header: Header) -> NDArray[Any]:
    """Return an array that lies in a file, memory-mapped and read-only."""
    header.check()
    shape, fortran, dtype, start, *_ = header
    if 0 in shape:
        return np.empty(shape, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape, order="F" if fortran else "C")


def _read_npy(path: Path) -> dict[str, Header]:
    with path.open("rb") as file:
        return {"": _read_header(file, path.stat().st_size)}


def _read_header(file: IO[bytes], size: int) -> Header:
    header = read_header(file)
    return Header(*header, file.tell(), size - file.tell())


def _read_npz(path: Path) -> dict[str, Header]:
    headers = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as file:
                    headers[member.filename.removesuffix(".npy")] = _read_header(file, member.file_size)
    return headers


def _read_safetensors(path: Path) -> dict[str, Header]:
    # A length, a JSON header and plain numbers: that needs no package, and bfloat16, for which NumPy has no type, can
    # be mapped as well.
    size, headers = path.stat().st_size, {}
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(size - 8, _LONGEST_HEADER):
            raise ValueError("its header is cut off")
        entries = json.loads(file.read(length))
    entries.pop("__metadata__", None)
    for name, entry in entries.items():
        if entry["dtype"] not in _SAFETENSORS_TYPES:
            raise ValueError(f"its type {entry['dtype']} is not supported; use float32, float16 or bfloat16")
        shape, (start, stop) = tuple(entry["shape"]), entry["data_offsets"]
        dtype = np.dtype(_SAFETENSORS_TYPES[entry["dtype"]])
        if not 0 <= start <= stop <= size - 8 - length or math.prod(shape) * dtype.itemsize != stop - start:
            raise ValueError("its data are cut off, or not where its header says")
        bfloat16 = entry["dtype"] == "BF16"
        headers[name] = Header(shape, False, dtype, 8 + length + start, stop - start, bfloat16)
    return headers


_FORMATS: dict[str, tuple[str, Callable[[Path], dict[str, Header]]]] = {
    "npy": (".npy file", _read_npy),
    "npz": (".npz archive", _read_npz),
    "safetensors": ("safetensors file", _read_safetensors),
}


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
