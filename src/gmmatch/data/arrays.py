"""Vectors that exist already: arrays and tensors in memory, and ``.npy``, ``.npz`` and safetensors files.

The last two may hold labels and ids beside the embeddings, as one-dimensional members.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import is_torch_array, sample_indices, to_numpy
from gmmatch.data.columns import ColumnRequest, Columns, ColumnType, choose_columns
from gmmatch.data.files import fingerprint_of
from gmmatch.data.tables import BaseSource, Records
from gmmatch.data.values import plain_values
from gmmatch.errors import InvalidInputError
from gmmatch.files import explain_damage
from gmmatch.rows.npy import Header, read_header, read_npy

_SAMPLED_ROWS = 1024
_SAFETENSORS_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_LONGEST_HEADER = 100_000_000
"""Bytes, as in the package safetensors."""


class ArraySource(BaseSource):
    """The rows of a two-dimensional array or torch tensor, in memory or memory-mapped, maybe with labels and ids.

    Batches are views where the type allows it; bfloat16 rows, which NumPy arrays can hold only as the bits of another
    type, come out as float32.

    Attributes
    ----------
    n_features
        Numbers per row.
    """

    n_rows: int

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
        self.array, self.format, self.location = array, format, location
        self.is_bfloat16 = bfloat16 or str(array.dtype) == "bfloat16"  # the latter is ml_dtypes' name
        shape = tuple(array.shape)
        if len(shape) != 2 or not shape[1]:
            expected = (
                "need at least one feature" if len(shape) == 2 else "are two-dimensional, rows by features"
            )
            raise InvalidInputError(f"{location} has shape {shape}: embeddings {expected}.")
        self.n_rows, self.n_features = shape
        if (dtype := self._block(0, 0).dtype).kind not in "fiub":
            raise InvalidInputError(f"{location} has dtype {dtype}: embeddings are floats or integers.")
        given = {"labels": labels, "ids": ids}
        self._values = {name: plain_values(values) for name, values in given.items() if values is not None}
        for name, values in self._values.items():
            if len(values) != self.n_rows:
                raise InvalidInputError(
                    f"{name} has {len(values):,} entries for {self.n_rows:,} rows of {location}."
                )
        label, id = (name if name in self._values else None for name in given)
        self._take(Columns("embedding", "rows", ("rows",), label, id, how))

    def fingerprint(self) -> str:
        """Hash the shape, the type, up to 1,024 rows spread over the array, and all ids and labels."""
        parts: list[str | int | bytes | None] = ["array", self.n_rows, self.n_features, str(self.array.dtype)]
        parts.append(int(self.is_bfloat16))
        parts += (self._block(row, row + 1).tobytes() for row in sample_indices(self.n_rows, _SAMPLED_ROWS))
        return fingerprint_of([*parts, repr(self.labels), repr(self.ids)])

    def _block(self, start: int, stop: int) -> NDArray[Any]:
        block = self.array[start:stop]
        if self.is_bfloat16 and not is_torch_array(block):
            wide = np.ascontiguousarray(block).view(np.uint16).astype(np.uint32) << 16
            return wide.view(np.float32)
        return to_numpy(block)

    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        for first in range(start, self.n_rows, size):
            stop = min(self.n_rows, first + size)
            columns: dict[str, Any] = {name: values[first:stop] for name, values in self._values.items()}
            if "rows" in names:
                columns["rows"] = self._block(first, stop)
            yield Records(columns, stop - first, first, self.location)


def open_arrays(path: Path, format: str, request: ColumnRequest) -> BaseSource:
    """Open a ``.npy``, ``.npz`` or safetensors file, memory-mapped but for ``.npz``.

    ``request.embedding`` names the array; by default it is the only one with two dimensions. Labels and ids are
    one-dimensional arrays; by default one named like ``label`` holds the labels.
    """
    kind, read_headers = _FORMATS[format]
    how, location = "an array, by its suffix", str(path)
    with explain_damage(path, f"{kind} of numbers"):
        headers = read_headers(path)
        if format == "npy":
            request.refuse(location, "has no columns")
            return ArraySource(headers[""].map(path), location=location, format=kind, how=how)
        columns = _choose({name: header.shape for name, header in headers.items()}, request, location)
        for name in columns.names():
            if headers[name].dtype.hasobject:
                raise InvalidInputError(
                    f"{path}: the array {name!r} holds Python objects, which are not read, as they could run code: "
                    f"save it as text or numbers, such as np.asarray({name}, dtype=str)."
                )
        if format == "npz":
            with zipfile.ZipFile(path) as archive:
                arrays = {name: headers[name].load(archive.open(f"{name}.npy")) for name in columns.names()}
        else:
            arrays = {name: headers[name].map(path) for name in columns.names()}
        source = ArraySource(
            arrays[columns.data], labels=arrays.get(columns.label or ""), ids=arrays.get(columns.id or ""),
            bfloat16=headers[columns.data].bfloat16, location=location, format=kind,
            how=f"{how}: {columns.how}",
        )  # fmt: skip
        source.columns = replace(source.columns, id_like=columns.id_like, available=columns.available)
        return source


def _read_npz(path: Path) -> dict[str, Header]:
    headers = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as file:
                    headers[member.filename.removesuffix(".npy")] = read_header(file, member.file_size)
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
    "npy": (".npy file", lambda path: {"": read_npy(path)}),
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
