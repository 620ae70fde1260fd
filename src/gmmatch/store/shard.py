"""One shard of a store: an Arrow file with the columns id, label, source_row and vector.

It is an Arrow IPC stream of a single batch. The vectors come last and lie in one piece, row after row, so that a
memory map reads them where they are, without Arrow; what is before them, the head, is read by itself.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.files import parquet_table, write_file
from gmmatch.groups import Label
from gmmatch.rows.shards import damaged_file

_SHARD_BYTES = 1 << 26
_SHARD_ROWS = 1 << 18  # the ids and labels of a shard wait in memory, too
_AS_JSON = {b"encoding": b"json"}


@dataclass
class RowTable:
    """Source rows, ids and labels of some rows, as plain Python values."""

    source_rows: list[int]
    ids: list[Any]
    labels: list[Label] | None = None

    def __len__(self) -> int:
        return len(self.source_rows)

    def __getitem__(self, chosen: slice) -> RowTable:
        labels = None if self.labels is None else self.labels[chosen]
        return RowTable(self.source_rows[chosen], self.ids[chosen], labels)

    @staticmethod
    def join(tables: Sequence[RowTable]) -> RowTable:
        """Return tables of neighboring rows as one."""
        columns = zip(*((table.source_rows, table.ids, table.labels or ()) for table in tables), strict=True)
        source_rows, ids, labels = (list(chain.from_iterable(column)) for column in columns)
        return RowTable(source_rows, ids, None if tables[0].labels is None else labels)


@dataclass(frozen=True)
class ArrowShard:
    """What the manifest says of an Arrow file: enough to find the vectors in it, and every byte that was changed.

    Attributes
    ----------
    number, n_rows
        They name the file, so a shard that grows is a new file beside the old one.
    size : int
        In bytes.
    sha256 : str
        Of the whole file.
    offset : int
        Where the vectors begin.
    head_sha256 : str
        Of what is before them.
    """

    number: int
    n_rows: int
    size: int
    sha256: str
    offset: int
    head_sha256: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"shard-{self.number:06d}-{self.n_rows:06d}.arrow"

    @property
    def files(self) -> list[tuple[str, int, str]]:
        """The file's name, size and SHA-256."""
        return [(self.name, self.size, self.sha256)]

    def read_table(self, folder: Path) -> RowTable:
        """Read the ids, labels and source rows; the vectors are not read."""
        import pyarrow as pa

        # Arrow wants the bytes of the vectors, too: pages that nobody touches take no memory.
        contents = mmap.mmap(-1, self.size)
        contents[: self.offset] = read_checked(folder / self.name, self.head_sha256, self.offset)
        options = pa.ipc.IpcReadOptions(use_threads=False)
        return decode_columns(pa.ipc.open_stream(pa.py_buffer(contents), options=options).read_next_batch())


@dataclass(frozen=True)
class OldShard:
    """What the manifest of a store of gmmatch 0.2 says of a shard; ``files`` are the vectors (.npy) and the table."""

    number: int
    n_rows: int
    files: list[tuple[str, int, str]]
    offset = None  # the header of a .npy file says it

    def read_table(self, folder: Path) -> RowTable:
        """Read the ids, labels and source rows."""
        name, _, sha256 = self.files[1]
        return decode_columns(parquet_table(read_checked(folder / name, sha256)))


def write_shard(folder: Path, number: int, table: RowTable, vectors: NDArray[Any]) -> ArrowShard:
    """Write one shard, and return what the manifest is to say of it; equal rows give equal bytes.

    The file is whole or not there, and no part of the store before the manifest names it: several processes may
    write shards at a time, if their numbers differ. See :class:`~gmmatch.store.commits.Commits`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     shard = write_shard(Path(name), 7, RowTable([0, 1], ["a", "b"]), np.eye(2, dtype=np.float32))
    ...     shard.name, shard.read_table(Path(name)).ids
    ('shard-000007-000002.arrow', ['a', 'b'])
    """
    import pyarrow as pa

    values = pa.py_buffer(np.ascontiguousarray(vectors).reshape(-1))
    flat = pa.Array.from_buffers(pa.from_numpy_dtype(vectors.dtype), vectors.size, [None, values])
    labels = [] if table.labels is None else [("label", *_encode(table.labels))]
    columns = [
        ("id", *_encode(table.ids)),
        *labels,
        ("source_row", pa.array(table.source_rows, pa.int64()), None),
        ("vector", pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]), None),
    ]
    schema = pa.schema([pa.field(name, array.type, metadata=metadata) for name, array, metadata in columns])
    pieces = _Pieces()
    with pa.ipc.new_stream(pa.PythonFile(pieces, mode="w"), schema) as stream:
        stream.write_batch(pa.record_batch([array for _, array, _ in columns], schema=schema))
    addresses = [getattr(piece, "address", None) for piece in pieces]
    head = b"".join(pieces[: addresses.index(values.address)] if len(table) else pieces)
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    sha256, head_sha256 = digest.hexdigest(), hashlib.sha256(head).hexdigest()
    shard = ArrowShard(number, len(table), sum(map(len, pieces)), sha256, len(head), head_sha256)
    write_file(folder / shard.name, *pieces)
    return shard


class _Pieces(list[Any]):
    """A file for Arrow that keeps what is written to it, without a copy."""

    closed, write = False, list.append


def default_rows_per_shard(n_features: int, dtype: str) -> int:
    """Return the power of two that makes shards of up to 64 MiB and 262,144 rows.

    Examples
    --------
    >>> default_rows_per_shard(1280, "float16")
    16384
    """
    most = max(1, _SHARD_BYTES // (n_features * np.dtype(dtype).itemsize))
    return 1 << (min(_SHARD_ROWS, most).bit_length() - 1)


def _encode(values: Sequence[Any]) -> tuple[Any, dict[bytes, bytes] | None]:
    """Return the Arrow array and the metadata of a column.

    Values of one type make a column of that type. A mixture, or text that is no valid Unicode (as file
    names can be), is written as JSON, and the column's metadata say so.
    """
    import pyarrow as pa

    types = {type(value) for value in values if value is not None}
    kinds = {int: pa.int64(), str: pa.string(), bool: pa.bool_(), float: pa.float64()}
    if len(types) <= 1:
        kind = kinds[types.pop()] if types else pa.null()
        with suppress(UnicodeEncodeError, OverflowError, pa.ArrowInvalid):
            return pa.array(values, kind), None
    texts = [None if value is None else json.dumps(value) for value in values]
    return pa.array(texts, pa.string()), _AS_JSON


def decode_columns(table: Any) -> RowTable:
    """Return what the columns of a shard were made of."""
    columns = {}
    for number, name in enumerate(table.schema.names):
        if name == "vector":
            continue
        values = table.column(number).to_pylist()
        if (table.schema.field(number).metadata or {}).items() >= _AS_JSON.items():
            values = [None if value is None else json.loads(value) for value in values]
        columns[name] = values
    return RowTable(columns["source_row"], columns["id"], columns.get("label"))


def as_array(values: Sequence[Any]) -> NDArray[Any]:
    """Return values as a NumPy array: of numbers if all are of one type, of Python objects otherwise."""
    array, types = np.empty(len(values), dtype=object), {type(value) for value in values}
    array[:] = values
    if len(types) == 1 and types <= {bool, int, float}:
        with suppress(OverflowError):
            return array.astype(types.pop())
    return array


def read_checked(path: Path, sha256: str, n_bytes: int = -1) -> bytes:
    """Return the first bytes of a file, or all, if they are what was written."""
    try:
        with path.open("rb") as file:
            contents = file.read(n_bytes)
    except OSError as error:
        raise damaged_file(path, error.strerror or error) from None
    if hashlib.sha256(contents).hexdigest() != sha256:
        raise damaged_file(path, "its checksum is wrong")
    return contents
