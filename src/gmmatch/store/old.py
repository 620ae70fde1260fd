"""Reading stores of gmmatch 0.2, whose shards are pairs of a ``.npy`` and a Parquet file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gmmatch.files import parquet_table
from gmmatch.store.shard import RowTable, decode_columns, read_checked

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
    """What the manifest of an old store says of a shard; ``files`` are the vectors and the table."""

    number: int
    n_rows: int
    files: list[tuple[str, int, str]]
    offset = None  # the header of a .npy file says it

    @classmethod
    def of(cls, number: int, document: Mapping[str, Any]) -> OldShard:
        """Read what a manifest holds."""
        start, n_rows = document["start"], document["n_rows"]
        name = f"shard-{start:012d}-{start + n_rows:012d}"
        entries = {"npy": document["array"], "parquet": document["table"]}
        files = [(f"{name}.{suffix}", file["bytes"], file["sha256"]) for suffix, file in entries.items()]
        return cls(number, n_rows, files)

    def read_table(self, folder: Path) -> RowTable:
        """Read the ids, labels and source rows."""
        name, _, sha256 = self.files[1]
        return decode_columns(parquet_table(read_checked(folder / name, sha256)))
