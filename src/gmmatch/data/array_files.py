"""Files with several named arrays: ``.npz`` archives and safetensors.

Both may hold labels and ids beside the embeddings, as one-dimensional members.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.arrays import ArraySource, VectorSource
from gmmatch.data.columns import ColumnRequest, Columns, ColumnType, choose_columns
from gmmatch.data.fingerprints import files_fingerprint
from gmmatch.errors import DataFileNotFoundError, InvalidInputError

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


class NpzSource(VectorSource):
    """A two-dimensional member of a ``.npz`` archive, compressed or not, read from front to back.

    Parameters
    ----------
    path
        The archive.
    request
        ``embedding`` names the member; by default it is the only one with two dimensions. ``label`` and
        ``id`` name one-dimensional members; by default one named like ``label`` holds the labels.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/x.npz", x=np.zeros((3, 2)), label=[1, 0, 1])
    ...     source = NpzSource(f"{folder}/x.npz")
    ...     source.n_rows, source.labels
    (3, [1, 0, 1])
    """

    def __init__(self, path: str | os.PathLike[str], request: ColumnRequest | None = None) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise DataFileNotFoundError(f"{path}: there is no such file.")
        try:
            with zipfile.ZipFile(self.path) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
                headers = {name: _read_header(archive, name) for name in names}
        except _DAMAGE as error:
            raise _damaged(path, ".npz archive", error) from None
        shapes = {name: header[0] for name, header in headers.items()}
        self._columns = _choose(shapes, request, str(path))
        self._member = self._columns.data
        shape, fortran, dtype = headers[self._member]
        if fortran and min(shape) > 1:
            raise InvalidInputError(
                f"{path}: the array {self._member!r} is stored column by column, so its rows cannot be read "
                "one after another: save np.ascontiguousarray of it."
            )
        self._dtype = dtype
        self.format = ".npz archive"
        self.how = f"an array, by its suffix: {self._columns.how}"
        labels, ids = self._loaded(self._columns.label), self._loaded(self._columns.id)
        super().__init__(shape, dtype, f"{path}::{self._member}", labels=labels, ids=ids)

    def _loaded(self, name: str | None) -> NDArray[Any] | None:
        if name is None:
            return None
        try:
            with np.load(self.path, allow_pickle=False) as members:
                return np.asarray(members[name])
        except _DAMAGE as error:
            raise _damaged(self.path, ".npz archive", error) from None

    def fingerprint(self) -> str:
        """Hash the file's size and ends, and the choice of members."""
        return files_fingerprint([self.path], "npz", *self._columns.settings())

    def _blocks(self, start: int, size_hint: int) -> Iterator[NDArray[Any]]:
        row_bytes = self.n_features * self._dtype.itemsize
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(f"{self._member}.npy") as file:
                _read_npy_header(file)
                _skip(file, start * row_bytes)
                for first in range(start, self.n_rows, size_hint):
                    count = min(self.n_rows - first, size_hint)
                    flat = np.frombuffer(file.read(count * row_bytes), dtype=self._dtype)
                    yield flat.reshape(count, self.n_features)
        except _DAMAGE as error:
            raise _damaged(self.path, ".npz archive", error) from None


def open_safetensors(path: str | os.PathLike[str], request: ColumnRequest | None = None) -> ArraySource:
    """Open a two-dimensional tensor of a safetensors file, memory-mapped.

    The format is a length, a JSON header and plain numbers, so it is mapped directly: that needs no
    package, and reads bfloat16, for which NumPy has no type.

    Parameters
    ----------
    path
        The file.
    request
        As for :class:`NpzSource`.

    Returns
    -------
    ArraySource
    """
    if not Path(path).exists():
        raise DataFileNotFoundError(f"{path}: there is no such file.")
    try:
        header, data_start = _safetensors_header(Path(path))
        shapes = {name: tuple(entry["shape"]) for name, entry in header.items()}
        columns = _choose(shapes, request, str(path))
        arrays = {name: _mapped(Path(path), header[name], data_start) for name in columns.names()}
    except InvalidInputError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, OSError) as error:
        raise _damaged(path, "safetensors file", error) from None
    return ArraySource(
        arrays[columns.data],
        labels=None if columns.label is None else arrays[columns.label],
        ids=None if columns.id is None else arrays[columns.id],
        bfloat16=header[columns.data]["dtype"] == "BF16",
        location=f"{path}::{columns.data}",
        format="safetensors file",
        how=f"an array, by its suffix: {columns.how}",
    )


def _safetensors_header(path: Path) -> tuple[dict[str, Any], int]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= path.stat().st_size - 8:
            raise ValueError("its header is cut off")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return header, 8 + length


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


def _choose(shapes: Mapping[str, tuple[int, ...]], request: ColumnRequest | None, where: str) -> Columns:
    request = request or ColumnRequest()
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    n_rows = shapes[matrices[0]][0] if matrices else None
    wanted = request.embedding
    if wanted is not None and len(shapes.get(wanted, ())) == 2:
        n_rows = shapes[wanted][0]
    types: dict[str, ColumnType] = {}
    for name, shape in shapes.items():
        # A vector of another length belongs to something else.
        beside = len(shape) == 1 and shape[0] == n_rows
        types[name] = "embedding" if len(shape) == 2 else "number" if beside else "other"
    if not matrices:
        listed = ", ".join(f"{name!r} {shape}" for name, shape in shapes.items()) or "none"
        raise InvalidInputError(f"{where} has no two-dimensional array; its arrays are {listed}.")
    return choose_columns(types, request, where)


def _read_header(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    with archive.open(f"{name}.npy") as file:
        return _read_npy_header(file)


def _read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"its format version {version} is not supported")


def _skip(file: IO[bytes], n_bytes: int) -> None:
    while n_bytes > 0:
        read = len(file.read(min(n_bytes, 1 << 20)))
        if not read:
            return
        n_bytes -= read


def _damaged(path: str | os.PathLike[str], kind: str, error: BaseException) -> InvalidInputError:
    reason = next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__
    return InvalidInputError(f"{path} is not a {kind}, or is truncated or damaged: {reason}.")
