"""Reading stores of gmmatch 0.2, whose shards are pairs of a ``.npy`` and a Parquet file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gmmatch.files import parquet_table
from gmmatch.store.shard import RowTable, decode_columns, read_checked

OLD_VERSION = 1


@dataclass(frozen=True)
class OldShard:
    """What the manifest of an old store says of a shard; ``files`` are the vectors and the table."""

    number: int
    n_rows: int
    files: list[tuple[str, int, str]]
    offset = None  # the header of a .npy file says it

    def read_table(self, folder: Path) -> RowTable:
        """Read the ids, labels and source rows."""
        name, _, sha256 = self.files[1]
        return decode_columns(parquet_table(read_checked(folder / name, sha256)))


def as_new_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an old manifest with the names of now, and its shards."""
    encoder, source = document["encoder"], document["source"]
    return {
        **document,
        "encoder": encoder["name"],
        "encoder_fingerprint": encoder["fingerprint"],
        "encoder_details": encoder["details"],
        "source": source["description"],
        "source_fingerprint": source["fingerprint"],
        "shards": [_shard_of(*entry) for entry in enumerate(document["shards"])],
    }


def _shard_of(number: int, entry: Mapping[str, Any]) -> OldShard:
    # File names are made, never taken from a manifest: it cannot point outside of the store.
    name = f"shard-{entry['start']:012d}-{entry['start'] + entry['n_rows']:012d}"
    files = {f"{name}.npy": entry["array"], f"{name}.parquet": entry["table"]}
    return OldShard(
        number, entry["n_rows"], [(name, file["bytes"], file["sha256"]) for name, file in files.items()]
    )
