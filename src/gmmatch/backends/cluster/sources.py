"""Rows on storage that every worker can reach: stores and ``.npy`` files, at a path or an address."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.embeddings.manifest import ShardEntry, check_sha256, load_manifest
from gmmatch.embeddings.row_tables import RowTable, ids_of, labels_of, read_table
from gmmatch.embeddings.store import Store
from gmmatch.errors import (
    DataFileNotFoundError,
    InvalidInputError,
    InvalidTypeError,
    first_line,
)
from gmmatch.files import as_path, is_remote
from gmmatch.rows import npy_files
from gmmatch.rows.rows import as_rows

if TYPE_CHECKING:
    from gmmatch.embeddings.manifest import Manifest
    from gmmatch.types import Indices

_HEADER = 1 << 16  # bytes; the most that the header of a .npy file of format 1.0 takes


class UnreadableShardError(InvalidInputError):
    """A file of rows cannot be read; the message names it."""


@dataclass(frozen=True)
class ShardFile:
    """One ``.npy`` file of rows: where it lies, and which rows of the whole it holds.

    Attributes
    ----------
    location
        A path, or an address such as ``s3://bucket/rows.npy``.
    start, stop
        Its rows' numbers; ``stop`` is the one after the last.
    array
        The rows themselves, where they come from memory and not from a file.
    sha256
        The checksum of a store's file.
    """

    location: str
    start: int
    stop: int
    array: NDArray[Any] | None = None
    sha256: str | None = None

    @property
    def mapped(self) -> bool:
        """Whether a worker maps the file, instead of being given its share of the rows."""
        return self.array is None and not is_remote(self.location)

    def between(self, start: int, stop: int) -> ShardFile:
        """Return the file for a worker that owns the rows from ``start`` to ``stop``."""
        if self.array is None:
            return self
        low, high = max(start, self.start), min(stop, self.stop)
        return ShardFile(self.location, low, high, self.array[low - self.start : high - self.start])


@dataclass(frozen=True)
class Shards:
    """Files of rows that make up one matrix.

    Attributes
    ----------
    files
        In the order of their rows.
    n_features, dtype
        What they have in common.
    origin
        Where they come from, for a selection's provenance.
    unreadable
        Location and reason of what was left out already.
    """

    files: tuple[ShardFile, ...]
    n_features: int
    dtype: str
    origin: dict[str, Any] = field(default_factory=dict)
    unreadable: tuple[tuple[str, str], ...] = ()
    manifest: Manifest | None = None

    def __len__(self) -> int:
        return self.files[-1].stop if self.files else 0

    def labels(self, *, skip_unreadable: bool = False) -> NDArray[Any] | None:
        """Return the labels that a store has for its rows; None if it has none.

        Parameters
        ----------
        skip_unreadable
            Whether rows whose labels cannot be read have none; otherwise that is an error.
        """
        if self.manifest is None or not self.manifest.has_labels:
            return None

        def read(shard: ShardEntry) -> RowTable:
            try:
                return self._table(shard)
            except InvalidInputError:
                if not skip_unreadable:
                    raise
                return RowTable()

        return labels_of(self.manifest.shards, read)

    def ids_of(self, rows: Indices) -> NDArray[Any] | None:
        """Return the ids that a store has for these rows, in their order; None if the source is no store.

        Of the tables only those of shards with such a row are read.
        """
        return None if self.manifest is None else ids_of(self.manifest.shards, self._table, rows)

    def _table(self, shard: ShardEntry) -> RowTable:
        """Read what a store knows of a shard's rows, which lies beside them."""
        return read_table(as_path(self.files[0].location.rpartition("/")[0]), shard)


def open_shards(source: Any, *, skip_unreadable: bool = False) -> Shards:
    """Find out which files make up a source, without reading their rows.

    Parameters
    ----------
    source
        A store or its path, a ``.npy`` file, or a list of such files whose rows follow one another; or an array. A
        path must mean the same on every machine of a cluster; addresses (``s3://...``) are read with fsspec.
    skip_unreadable
        Whether to go on without a ``.npy`` file whose header cannot be read. Its rows are not counted then.

    Returns
    -------
    Shards

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/a.npy", np.zeros((3, 2)))
    ...     shards = open_shards([f"{folder}/a.npy", f"{folder}/a.npy"])
    >>> len(shards), shards.n_features
    (6, 2)
    """
    if isinstance(source, Shards):
        return source
    if isinstance(source, Store):
        return _of_store(str(source.path.absolute()), source.manifest)
    if isinstance(source, (str, os.PathLike)):
        location = located(os.fspath(source))
        if not location.lower().endswith(".npy"):
            return _of_store(location, _manifest(location))
        return _of_files([location], skip_unreadable)
    if isinstance(source, Sequence) and source and all(isinstance(x, (str, os.PathLike)) for x in source):
        return _of_files([located(os.fspath(item)) for item in source], skip_unreadable)
    rows = as_rows(source)
    if not isinstance(rows.source, np.ndarray) or rows.bfloat16:
        raise InvalidTypeError(
            f"X has type {type(source).__name__}: an engine takes an array, the path or address of a store or a .npy "
            "file, or a list of .npy files."
        )
    array = np.ascontiguousarray(rows.source)
    return Shards((ShardFile("X", 0, len(array), array),), rows.n_features, str(array.dtype), {})


def located(location: str) -> str:
    """Return a location that does not depend on the folder one is in."""
    return location if is_remote(location) else str(Path(location).expanduser().absolute())


def read_header(location: str) -> tuple[tuple[int, int], np.dtype[Any], int]:
    """Return the shape and type of the rows in a ``.npy`` file, and where in it they begin."""
    try:
        file = io.BytesIO(_between(as_path(location), 0, _HEADER))
        shape, fortran, dtype = npy_files.read_header(file)
        offset = file.tell()
    except (OSError, ValueError, EOFError) as error:
        raise unreadable(location, error) from None
    if len(shape) != 2 or dtype.kind not in "fiu" or fortran:
        order = "column by column" if fortran else "row by row"
        raise UnreadableShardError(
            f"{location} cannot be used: it holds {dtype} of shape {shape}, stored {order}; "
            "expected a matrix of numbers, stored row by row."
        )
    return (int(shape[0]), int(shape[1])), dtype, offset


def read_rows(file: ShardFile, start: int, stop: int, n_features: int, dtype: str) -> NDArray[Any]:
    """Read the rows ``start`` to ``stop`` of the whole, which the file holds, after checking the file."""
    if file.array is not None:
        return file.array[start - file.start : stop - file.start]
    shape, found, offset = read_header(file.location)
    if shape != (file.stop - file.start, n_features) or found != np.dtype(dtype):
        raise UnreadableShardError(
            f"{file.location} cannot be used: it holds {found} of shape {shape}, where {dtype} of shape "
            f"{(file.stop - file.start, n_features)} was expected."
        )
    size = n_features * found.itemsize
    first, last = (offset + (row - file.start) * size for row in (start, stop))
    try:
        path = as_path(file.location)
        whole = path.stat().st_size >= offset + shape[0] * size
        data = _between(path, first, last) if whole else b""
    except (OSError, ValueError) as error:
        raise unreadable(file.location, error) from None
    if not whole or len(data) != last - first:
        raise UnreadableShardError(f"{file.location} cannot be read: it ends too early.")
    return np.frombuffer(data, dtype=found).reshape(-1, n_features)


def check_contents(file: ShardFile) -> None:
    """Raise unless a mapped file of a store has its checksum; of one at an address a worker reads a part alone."""
    if file.mapped and file.sha256 is not None:
        try:
            check_sha256(Path(file.location), file.sha256)
        except InvalidInputError as error:
            raise UnreadableShardError(str(error)) from None
        except OSError as error:
            raise unreadable(file.location, error) from None


def unreadable(location: str, error: BaseException) -> UnreadableShardError:
    """Make the error for a file that cannot be read.

    Examples
    --------
    >>> unreadable("a.npy", OSError(5, "Input/output error"))
    UnreadableShardError('a.npy cannot be read: Input/output error.')
    """
    return UnreadableShardError(
        f"{location} cannot be read: {first_line(getattr(error, 'strerror', None) or error)}."
    )


def _between(path: Any, start: int, stop: int) -> bytes:
    """Read some bytes of a file; at an address by one request of its own: workers may read one file at a time."""
    if is_remote(path):
        found: bytes = path.fs.cat_file(path.path, start, stop)
        return found
    with path.open("rb") as file:
        file.seek(start)
        return bytes(file.read(stop - start))


def _manifest(location: str) -> Manifest:
    try:
        return load_manifest(as_path(location))
    except DataFileNotFoundError as error:
        raise DataFileNotFoundError(f"{error} A single array needs a name that ends in .npy.") from None


def _of_store(location: str, manifest: Manifest) -> Shards:
    if not manifest.complete:
        raise InvalidInputError(
            f"{location} is not complete ({manifest.n_rows:,} rows so far): run the command that makes it again "
            "to finish it."
        )
    if not manifest.shards:
        raise InvalidInputError(f"{location} has no rows.")
    files = tuple(
        ShardFile(
            f"{location.rstrip('/')}/{shard.array_file}", shard.start, shard.stop, sha256=shard.array_sha256
        )
        for shard in manifest.shards
    )
    return Shards(
        files, manifest.n_features or 0, manifest.dtype, manifest.origin(location), manifest=manifest
    )


def _of_files(locations: list[str], skip_unreadable: bool) -> Shards:
    files: list[ShardFile] = []
    left_out: list[tuple[str, str]] = []
    common: tuple[int, np.dtype[Any]] | None = None
    for location in locations:
        try:
            (rows, width), dtype, _ = read_header(location)
        except UnreadableShardError as error:
            if not skip_unreadable:
                raise
            left_out.append((location, str(error)))
            continue
        if common is not None and common != (width, dtype):
            raise InvalidInputError(
                f"{location} holds rows of {width} {dtype}, and {files[0].location} of {common[0]} {common[1]}: "
                "files of one source must agree."
            )
        common = (width, dtype)
        start = files[-1].stop if files else 0
        files.append(ShardFile(location, start, start + rows))
    if common is None or files[-1].stop == 0:
        raise UnreadableShardError(
            f"None of the {len(locations)} files could be read: {left_out[0][1]}"
            if left_out
            else f"{locations[0]} has no rows."
        )
    return Shards(tuple(files), common[0], str(common[1]), {"files": locations}, tuple(left_out))
