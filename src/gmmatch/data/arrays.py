"""Vectors that exist already: arrays and tensors in memory, and ``.npy``, ``.npz`` and safetensors files.

The last two may hold labels and ids beside the embeddings, as one-dimensional members.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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
from gmmatch.errors import InvalidInputError
from gmmatch.groups import Label
from gmmatch.rows.npy import mapped, read_header

_SAMPLED_ROWS = 1024
_SAFETENSORS_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}
_DAMAGE = (zipfile.BadZipFile, ValueError, OSError, EOFError, zlib.error)


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
    try:
        array = mapped(path)
    except (ValueError, OSError, EOFError) as error:
        raise damaged(path, ".npy file of numbers", error) from None
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

    def __init__(self, path: Path, request: ColumnRequest) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(self.path) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
                headers = {}
                for name in names:
                    with archive.open(f"{name}.npy") as file:
                        headers[name] = read_header(file)
        except _DAMAGE as error:
            raise damaged(path, ".npz archive", error) from None
        shapes = {name: header[0] for name, header in headers.items()}
        self.columns = _choose(shapes, request, str(path))
        for name in self.columns.names():
            if headers[name][2].hasobject:
                raise InvalidInputError(
                    f"{path}: the array {name!r} holds Python objects, which are not read, as they could run code: "
                    f"save it as text or numbers, such as np.asarray({name}, dtype=str)."
                )
        self.member = self.columns.data
        shape, fortran, dtype = headers[self.member]
        if fortran and min(shape) > 1:
            raise InvalidInputError(
                f"{path}: the array {self.member!r} is stored column by column, so its rows cannot be read "
                "one after another: save np.ascontiguousarray of it."
            )
        self._dtype = dtype
        self.format = ".npz archive"
        self.how = f"an array, by its suffix: {self.columns.how}"
        labels, ids = self._loaded(self.columns.label), self._loaded(self.columns.id)
        super().__init__(shape, dtype, f"{path}::{self.member}", labels=labels, ids=ids)

    def _loaded(self, name: str | None) -> NDArray[Any] | None:
        if name is None:
            return None
        try:
            with np.load(self.path, allow_pickle=False) as members:
                return np.asarray(members[name])
        except _DAMAGE as error:
            raise damaged(self.path, ".npz archive", error) from None

    def fingerprint(self) -> str:
        """Hash the file's size and ends, and the choice of members."""
        return files_fingerprint([self.path], "npz", *self.columns.settings())

    def _blocks(self, start: int, size_hint: int) -> Iterator[NDArray[Any]]:
        row_bytes = self.n_features * self._dtype.itemsize
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(f"{self.member}.npy") as file:
                read_header(file)
                file.seek(start * row_bytes, os.SEEK_CUR)
                for first in range(start, self.n_rows, size_hint):
                    count = min(self.n_rows - first, size_hint)
                    flat = np.frombuffer(file.read(count * row_bytes), dtype=self._dtype)
                    yield flat.reshape(count, self.n_features)
        except _DAMAGE as error:
            raise damaged(self.path, ".npz archive", error) from None


def open_safetensors(path: Path, request: ColumnRequest) -> ArraySource:
    """Open a two-dimensional tensor of a safetensors file, memory-mapped; ``request`` as for :class:`NpzSource`.

    The format is a length, a JSON header and plain numbers, so it is mapped directly: that needs no
    package, and reads bfloat16, for which NumPy has no type.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= path.stat().st_size - 8:
                raise ValueError("its header is cut off")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        shapes = {name: tuple(entry["shape"]) for name, entry in header.items()}
        columns = _choose(shapes, request, str(path))
        arrays = {name: _mapped(path, header[name], 8 + length) for name in columns.names()}
    except InvalidInputError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, OSError) as error:
        raise damaged(path, "safetensors file", error) from None
    return ArraySource(
        arrays[columns.data],
        labels=None if columns.label is None else arrays[columns.label],
        ids=None if columns.id is None else arrays[columns.id],
        bfloat16=header[columns.data]["dtype"] == "BF16",
        location=f"{path}::{columns.data}",
        format="safetensors file",
        how=f"an array, by its suffix: {columns.how}",
    )


def _mapped(path: Path, entry: Mapping[str, Any], data_start: int) -> NDArray[Any]:
    if entry["dtype"] not in _SAFETENSORS_TYPES:
        raise ValueError(f"its type {entry['dtype']} is not supported; use float32, float16 or bfloat16")
    start, stop = entry["data_offsets"]
    dtype, shape = np.dtype(_SAFETENSORS_TYPES[entry["dtype"]]), tuple(entry["shape"])
    if stop - start != dtype.itemsize * int(np.prod(shape)) or data_start + stop > path.stat().st_size:
        raise ValueError("its data are cut off")
    if stop == start:
        return np.empty(shape, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=data_start + start, shape=shape)


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
