"""One shard of a store: an Arrow file with the columns id, label, source_row and vector.

It is an Arrow IPC stream of a single batch. The vectors come last and lie in one piece, row after row, so that a
memory map reads them where they are, without Arrow; what is before them, the head, is read by itself.
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.files import sha256_of, write_file
from gmmatch.groups import Label
from gmmatch.rows.shards import RowFile

_SHARD_BYTES = 1 << 26
_SHARD_ROWS = 1 << 18  # the ids and labels of a shard wait in memory, too
_AS_JSON = {b"encoding": b"json"}


@dataclass
class RowTable:
    """Source rows, ids and labels of some rows, as plain Python values."""

    source_rows: list[int] = field(default_factory=list)
    ids: list[Any] = field(default_factory=list)
    labels: list[Label] | None = None

    def __len__(self) -> int:
        return len(self.source_rows)

    def cut(self, n: int) -> None:
        """Keep the first n rows."""
        for values in (self.source_rows, self.ids, self.labels):
            if values is not None:
                del values[n:]


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

    @property
    def document(self) -> dict[str, Any]:
        """What the manifest holds."""
        return {"file": self.name, **asdict(self)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> ArrowShard:
        """Read what a manifest holds."""
        shard = cls(**{name: value for name, value in document.items() if name != "file"})
        # File names are made, never taken from the manifest: it cannot point outside of the store.
        if document["file"] != shard.name:
            raise ValueError(f"it names an unexpected file {document['file']!r}")
        return shard

    def row_file(self, folder: Path, n_features: int, dtype: np.dtype[Any]) -> RowFile:
        """Return where the vectors are."""
        return RowFile(folder / self.name, (self.n_rows, n_features), dtype.str, self.sha256, self.offset)

    def read_table(self, folder: Path) -> RowTable:
        """Read the ids, labels and source rows; the vectors are not read."""
        import pyarrow as pa

        path = folder / self.name
        try:
            with path.open("rb") as file:
                head = file.read(self.offset)
        except OSError as error:
            raise damaged_file(path, error.strerror or error) from None
        if hashlib.sha256(head).hexdigest() != self.head_sha256:
            raise damaged_file(path, "its checksum is wrong")
        # Arrow wants the bytes of the vectors, too: pages that nobody touches take no memory.
        contents = mmap.mmap(-1, self.size)
        contents[: self.offset] = head
        try:
            options = pa.ipc.IpcReadOptions(use_threads=False)
            batch = pa.ipc.open_stream(pa.py_buffer(contents), options=options).read_next_batch()
            table = decode_columns(batch)
        except (pa.ArrowException, ValueError, KeyError) as error:
            raise damaged_file(path, error) from None
        if len(table) != self.n_rows:
            raise damaged_file(path, f"it has {len(table)} rows instead of {self.n_rows}")
        return table


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
    columns = [
        *encode_columns(table),
        ("vector", pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]), None),
    ]
    schema = pa.schema([pa.field(name, array.type, metadata=metadata) for name, array, metadata in columns])
    sink = _Pieces()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), schema) as stream:
        stream.write_batch(pa.record_batch([array for _, array, _ in columns], schema=schema))
    addresses = [piece.address if isinstance(piece, pa.Buffer) else None for piece in sink.pieces]
    head = sink.pieces[: addresses.index(values.address)] if len(table) else sink.pieces
    digest = hashlib.sha256()
    for piece in head:
        digest.update(piece)
    draft = ArrowShard(number, len(table), 0, "", sum(map(len, head)), digest.hexdigest())
    size, sha256 = write_file(folder / draft.name, map(memoryview, sink.pieces))
    return ArrowShard(number, len(table), size, sha256, draft.offset, draft.head_sha256)


def default_rows_per_shard(n_features: int, dtype: str) -> int:
    """Return the power of two that makes shards of up to 64 MiB and 262,144 rows.

    Examples
    --------
    >>> default_rows_per_shard(1280, "float16")
    16384
    """
    most = max(1, _SHARD_BYTES // (n_features * np.dtype(dtype).itemsize))
    return 1 << (min(_SHARD_ROWS, most).bit_length() - 1)


class _Pieces(io.RawIOBase):
    """Keeps what is written to it, without a copy."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self.pieces.append(piece)
        return len(piece)


def encode_columns(table: RowTable) -> list[tuple[str, Any, dict[bytes, bytes] | None]]:
    """Return the name, the Arrow array and the metadata of each column.

    Values of one type make a column of that type. A mixture, or text that is no valid Unicode (as file
    names can be), is written as JSON, and the column's metadata say so.
    """
    import pyarrow as pa

    columns = [("id", *_encoded(table.ids))]
    if table.labels is not None:
        columns.append(("label", *_encoded(table.labels)))
    return [*columns, ("source_row", pa.array(table.source_rows, pa.int64()), None)]


def _encoded(values: Sequence[Any]) -> tuple[Any, dict[bytes, bytes] | None]:
    import pyarrow as pa

    types = {type(value) for value in values if value is not None}
    kinds = {int: pa.int64(), str: pa.string(), bool: pa.bool_(), float: pa.float64()}
    if len(types) <= 1:
        kind = kinds[types.pop()] if types else pa.null()
        try:
            return pa.array(values, kind), None
        except (UnicodeEncodeError, OverflowError, pa.ArrowInvalid):
            pass
    texts = [None if value is None else json.dumps(value) for value in values]
    return pa.array(texts, pa.string()), _AS_JSON


def decode_columns(table: Any) -> RowTable:
    """Return what :func:`encode_columns` made the columns of."""
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
    types = {type(value) for value in values}
    if types == {bool} or types == {float}:
        return np.array(values)
    if types <= {int} and all(-(2**63) <= value < 2**63 for value in values):
        return np.array(values, dtype=np.int64)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def check_file(folder: Path, name: str, sha256: str) -> None:
    """Read a file of a store, and raise unless it has its checksum."""
    if sha256_of(folder / name) != sha256:
        raise damaged_file(folder / name, "its checksum is wrong")


def damaged_file(path: Path | str, reason: object) -> InvalidInputError:
    """Make the error for a file of a store whose contents are not what was written."""
    return InvalidInputError(f"{path} is damaged ({reason}): delete the store and make it again.")
