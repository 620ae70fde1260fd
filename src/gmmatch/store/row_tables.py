"""What is known of each row besides its embedding, in Parquet: source row, id and label."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices
from gmmatch.files import parquet_table
from gmmatch.groups import Label
from gmmatch.store.manifest import ShardEntry, damaged_file

_AS_JSON = b"json"


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


ReadTable: TypeAlias = Callable[[ShardEntry], RowTable]
"""Reads the table of a shard, wherever the store lies."""


def encode_table(table: RowTable) -> bytes:
    """Write a table as the bytes of a Parquet file; equal tables give equal bytes.

    Values of one type make a column of that type. A mixture, or text that is no valid Unicode (as file
    names can be), is written as JSON, and the column's metadata say so.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: list[tuple[str, Any, Any]] = [
        ("source_row", pa.array(table.source_rows, pa.int64()), None),
        ("id", *_encoded(table.ids)),
    ]
    if table.labels is not None:
        columns.append(("label", *_encoded(table.labels)))
    fields = [pa.field(name, array.type, metadata=metadata) for name, array, metadata in columns]
    data = pa.Table.from_arrays([array for _, array, _ in columns], schema=pa.schema(fields))
    buffer = io.BytesIO()
    pq.write_table(data, buffer, compression="zstd")
    return buffer.getvalue()


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
    return pa.array(texts, pa.string()), {b"encoding": _AS_JSON}


def decode_table(data: bytes) -> RowTable:
    """Read what :func:`encode_table` wrote; see its example."""
    table = parquet_table(data)
    columns = {}
    for name in table.column_names:
        values = table.column(name).to_pylist()
        metadata = table.schema.field(name).metadata or {}
        if metadata.get(b"encoding") == _AS_JSON:
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


def read_table(folder: Path, shard: ShardEntry) -> RowTable:
    """Read the table of a shard from its file."""
    path = folder / shard.table_file
    try:
        data = path.read_bytes()
    except OSError as error:
        raise damaged_file(path, error.strerror or error) from None
    return parse_table(data, path, shard)


def parse_table(data: bytes, path: Path | str, shard: ShardEntry) -> RowTable:
    """Decode the table of a shard, after comparing its checksum and its number of rows."""
    import pyarrow as pa

    if hashlib.sha256(data).hexdigest() != shard.table_sha256:
        raise damaged_file(path, "its checksum is wrong")
    try:
        table = decode_table(data)
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise damaged_file(path, error) from None
    if len(table) != shard.n_rows:
        raise damaged_file(path, f"it has {len(table)} rows instead of {shard.n_rows}")
    return table


def ids_of(shards: Iterable[ShardEntry], read: ReadTable, rows: Indices) -> NDArray[Any]:
    """Return the ids of these rows, in their order; only tables with such a row are read, one at a time."""
    distinct = np.unique(rows)
    names: dict[int, Any] = {}
    for shard in shards:
        first, last = np.searchsorted(distinct, [shard.start, shard.stop])
        if first < last:
            ids = read(shard).ids
            names.update((row, ids[row - shard.start]) for row in distinct[first:last].tolist())
    return as_array([names[row] for row in rows.tolist()])


def labels_of(shards: Iterable[ShardEntry], read: ReadTable) -> NDArray[Any]:
    """Return the labels of all rows, with one object per class instead of one per row."""
    known: dict[tuple[type, Any], Any] = {}
    labels: list[Any] = []
    for shard in shards:
        values = read(shard).labels or [None] * shard.n_rows
        labels.extend(known.setdefault((type(label), label), label) for label in values)
    return as_array(labels)
