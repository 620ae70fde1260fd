"""Reading stores of gmmatch 0.2, whose shards are pairs of a ``.npy`` and a Parquet file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch.files import parquet_table
from gmmatch.rows.shards import RowFile
from gmmatch.store.shard import RowTable, damaged_file, decode_columns

OLD_VERSION = 1


def as_new_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an old manifest with the names of now; its shards are left as they are."""
    encoder, source = document["encoder"], document["source"]
    return {
        **document,
        "encoder": encoder["name"],
        "encoder_fingerprint": encoder["fingerprint"],
        "encoder_details": encoder["details"],
        "source": source["description"],
        "source_fingerprint": source["fingerprint"],
    }


@dataclass(frozen=True)
class OldShard:
    """What the manifest of an old store says of a shard."""

    number: int
    n_rows: int
    array: tuple[str, int, str]
    table: tuple[str, int, str]

    @classmethod
    def of(cls, number: int, document: Mapping[str, Any]) -> OldShard:
        """Read what a manifest holds."""
        start, n_rows = document["start"], document["n_rows"]
        files = []
        for kind, suffix in (("array", "npy"), ("table", "parquet")):
            entry, name = document[kind], f"shard-{start:012d}-{start + n_rows:012d}.{suffix}"
            if entry["file"] != name:
                raise ValueError(f"it names an unexpected file {entry['file']!r}")
            files.append((name, entry["bytes"], entry["sha256"]))
        return cls(number, n_rows, *files)

    @property
    def files(self) -> list[tuple[str, int, str]]:
        """The name, the size and the SHA-256 of both files."""
        return [self.array, self.table]

    def row_file(self, folder: Path, n_features: int, dtype: np.dtype[Any]) -> RowFile:
        """Return where the vectors are."""
        return RowFile(folder / self.array[0], (self.n_rows, n_features), dtype.str, self.array[2])

    def read_table(self, folder: Path) -> RowTable:
        """Read the ids, labels and source rows."""
        import pyarrow as pa

        name, _, sha256 = self.table
        try:
            data = (folder / name).read_bytes()
            if hashlib.sha256(data).hexdigest() != sha256:
                raise ValueError("its checksum is wrong")
            table = decode_columns(parquet_table(data))
            if len(table) != self.n_rows:
                raise ValueError(f"it has {len(table)} rows instead of {self.n_rows}")
        except (OSError, pa.ArrowException, ValueError, KeyError) as error:
            raise damaged_file(folder / name, error) from None
        return table
