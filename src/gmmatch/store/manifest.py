"""The manifest: what a store holds, who made it, and which files belong to it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gmmatch.errors import DataFileNotFoundError, InvalidInputError, first_line
from gmmatch.files import sha256_of, write_file

FORMAT_VERSION = 1
"""Raised when an older gmmatch would misread a store."""

MANIFEST_NAME = "manifest.json"
DTYPES = ("float16", "float32")
_FORMAT = "gmmatch-embeddings"
_SHARD_NAME = re.compile(r"^shard-([0-9]{12})-([0-9]{12})\.(npy|parquet)$")


@dataclass(frozen=True)
class ShardEntry:
    """One shard: the rows from ``start`` to ``stop``, in two files."""

    start: int
    stop: int
    array_bytes: int
    array_sha256: str
    table_bytes: int
    table_sha256: str

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return self.stop - self.start

    @property
    def array_file(self) -> str:
        """The name of the ``.npy`` file."""
        return shard_name(self.start, self.stop) + ".npy"

    @property
    def table_file(self) -> str:
        """The name of the Parquet file."""
        return shard_name(self.start, self.stop) + ".parquet"


def shard_name(start: int, stop: int) -> str:
    """Name the files of a shard: with the last row, so that a shard that grows is a new file beside the old one."""
    return f"shard-{start:012d}-{stop:012d}"


def is_shard_file(name: str) -> bool:
    """Tell whether a file name is one that a store gives to its shards."""
    return _SHARD_NAME.match(name) is not None


@dataclass(frozen=True)
class Manifest:
    """What a store holds; written as ``manifest.json``.

    ``n_features``, ``rows_per_shard`` and ``has_labels`` are None until the first rows are known. All shards but
    the last have ``rows_per_shard`` rows.
    """

    encoder: str
    encoder_fingerprint: str
    dtype: str
    encoder_details: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    source_fingerprint: str | None = None
    n_features: int | None = None
    rows_per_shard: int | None = None
    has_labels: bool | None = None
    complete: bool = False
    shards: tuple[ShardEntry, ...] = ()

    @property
    def n_rows(self) -> int:
        """How many rows the shards hold."""
        return self.shards[-1].stop if self.shards else 0

    def origin(self, location: str) -> dict[str, Any]:
        """Return where the rows come from, for the provenance of a selection."""
        return {
            "store": location,
            "encoder": self.encoder,
            "encoder_fingerprint": self.encoder_fingerprint,
            "source": self.source,
            "source_fingerprint": self.source_fingerprint,
        }

    def save(self, folder: Path) -> None:
        """Replace the manifest of a store, in one step."""
        document = {
            "format": _FORMAT,
            "format_version": FORMAT_VERSION,
            "complete": self.complete,
            "n_rows": self.n_rows,
            "n_features": self.n_features,
            "dtype": self.dtype,
            "rows_per_shard": self.rows_per_shard,
            "has_labels": self.has_labels,
            "encoder": {
                "name": self.encoder,
                "fingerprint": self.encoder_fingerprint,
                "details": self.encoder_details,
            },
            "source": {"fingerprint": self.source_fingerprint, "description": self.source},
            "shards": [
                {
                    "start": shard.start,
                    "n_rows": shard.n_rows,
                    "array": {
                        "file": shard.array_file,
                        "bytes": shard.array_bytes,
                        "sha256": shard.array_sha256,
                    },
                    "table": {
                        "file": shard.table_file,
                        "bytes": shard.table_bytes,
                        "sha256": shard.table_sha256,
                    },
                }
                for shard in self.shards
            ],
        }
        text = json.dumps({**document, "sha256": _checksum(document)}, indent=1, allow_nan=False) + "\n"
        write_file(folder / MANIFEST_NAME, [text.encode("ascii")])


def load_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of a store."""
    path = folder / MANIFEST_NAME
    if not folder.exists():
        raise DataFileNotFoundError(f"{folder}: there is no such folder.")
    if not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file, not an embedding store, which is a folder.")
    if not path.exists():
        raise InvalidInputError(f"{folder} is not an embedding store: it has no {MANIFEST_NAME}.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None
    return parse_manifest(data, path)


def parse_manifest(data: bytes, path: Path | str) -> Manifest:
    """Check the contents of a manifest, which lies at ``path``."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, error) from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise InvalidInputError(f"{path} is not the manifest of an embedding store.")
    version = document.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise InvalidInputError(
            f"{path} was written by a newer gmmatch (format {version}; this one reads up to {FORMAT_VERSION}): "
            "upgrade gmmatch to read it."
        )
    try:
        manifest = _from_document(document)
        _check(manifest, document)
        expected = document.pop("sha256", None)  # stores of earlier versions have none
        if expected is not None and expected != _checksum(document):
            raise ValueError("its checksum is wrong")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(path, error) from None
    return manifest


def check_files(folder: Path, manifest: Manifest) -> None:
    """Raise unless all files of a store are there and have their sizes; contents are not read."""
    for shard in manifest.shards:
        for name, size in ((shard.array_file, shard.array_bytes), (shard.table_file, shard.table_bytes)):
            path = folder / name
            if not path.is_file():
                raise DataFileNotFoundError(f"{path} is missing: the store is damaged; make it again.")
            if path.stat().st_size != size:
                raise damaged_file(path, f"it has {path.stat().st_size:,} bytes instead of {size:,}")


def check_sha256(file: Path, expected: str, name: object = None) -> None:
    """Raise unless a file has the checksum that was written down; ``name`` is what the error calls it."""
    if sha256_of(file) != expected:
        raise damaged_file(str(name or file), "its checksum is wrong")


def damaged_file(path: Path | str, reason: object) -> InvalidInputError:
    """Make the error for a file of a store whose contents are not what was written."""
    return InvalidInputError(f"{path} is damaged ({reason}): delete the store and make it again.")


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, allow_nan=False).encode()).hexdigest()


def _shard_entry(document: Mapping[str, Any]) -> ShardEntry:
    array, table = document["array"], document["table"]
    start, n_rows = document["start"], document["n_rows"]
    entry = ShardEntry(
        start, start + n_rows, array["bytes"], array["sha256"], table["bytes"], table["sha256"]
    )
    # File names are made, never taken from the manifest: it cannot point outside of the store.
    if (array["file"], table["file"]) != (entry.array_file, entry.table_file):
        raise ValueError(f"it names an unexpected file {array['file']!r}")
    return entry


def _from_document(document: Mapping[str, Any]) -> Manifest:
    encoder, source = document["encoder"], document["source"]
    return Manifest(
        encoder=encoder["name"],
        encoder_fingerprint=encoder["fingerprint"],
        encoder_details=dict(encoder["details"]),
        dtype=document["dtype"],
        source=dict(source["description"]),
        source_fingerprint=source["fingerprint"],
        n_features=document["n_features"],
        rows_per_shard=document["rows_per_shard"],
        has_labels=document["has_labels"],
        complete=document["complete"],
        shards=tuple(_shard_entry(shard) for shard in document["shards"]),
    )


def _check(manifest: Manifest, document: Mapping[str, Any]) -> None:
    if manifest.dtype not in DTYPES:
        raise ValueError(f"its dtype is {manifest.dtype!r}")
    if document["n_rows"] != manifest.n_rows:
        raise ValueError("its number of rows is not the sum over its shards")
    whole = manifest.rows_per_shard
    sizes = (whole, manifest.n_features)
    if manifest.shards and not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ValueError("it has shards, but does not say their shape")
    for number, shard in enumerate(manifest.shards):
        last = number == len(manifest.shards) - 1
        if shard.start != number * (whole or 0) or not 0 < shard.n_rows <= (whole or 0):
            raise ValueError(f"its shard {number} is out of place")
        if not last and shard.n_rows != whole:
            raise ValueError(f"its shard {number} is not full")


def _unreadable(path: Path | str, error: Exception) -> InvalidInputError:
    reason = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
    return InvalidInputError(f"{path} cannot be read, so the store cannot be used: {reason}.")
