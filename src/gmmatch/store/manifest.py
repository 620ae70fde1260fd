"""The manifest: what a store holds, who made it, and which files belong to it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, get_origin, get_type_hints

from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.files import explain_damage, is_leftover, read_header, write_file
from gmmatch.rows.shards import RowFile, damaged_file
from gmmatch.store.shard import ArrowShard, OldShard

FORMAT_VERSION = 2
"""Raised when an older gmmatch would misread a store."""

OLD_VERSION = 1
"""Of gmmatch 0.2, whose shards are pairs of a ``.npy`` and a Parquet file; its stores are read, but not written."""

MANIFEST_NAME = "manifest.json"
DTYPES = ("float16", "float32")
_FORMAT = "gmmatch-embeddings"
_SHARD_NAME = re.compile(r"^shard-[0-9]{6,}-[0-9]{6,}\.(arrow|npy|parquet)$")
# What `datasets.load_from_disk` asks for, in a store that is complete.
_LIBRARY_FILES = ("dataset_info.json", "state.json")


def is_store_file(name: str) -> bool:
    """Tell whether a store, also an older one, gives a file this name, if only for a while; but for the manifest."""
    return name in _LIBRARY_FILES or _SHARD_NAME.match(name) is not None or is_leftover(name)


@dataclass(frozen=True)
class Manifest:
    """What a store holds; written as ``manifest.json``.

    ``n_features``, ``rows_per_shard`` and ``has_labels`` are None until the first rows are known. Shards are in the
    order of their numbers, and have at most ``rows_per_shard`` rows. Some may be missing until it is complete.
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
    shards: tuple[ArrowShard | OldShard, ...] = ()
    format_version: int = FORMAT_VERSION

    @property
    def n_rows(self) -> int:
        """How many rows the shards hold."""
        return sum(shard.n_rows for shard in self.shards)

    @property
    def is_old(self) -> bool:
        """Whether the store was written by gmmatch 0.2, and can only be read."""
        return self.format_version == OLD_VERSION

    @property
    def n_unbroken(self) -> int:
        """How many shards there are before the first that is missing."""
        return next((i for i, shard in enumerate(self.shards) if shard.number != i), len(self.shards))

    def row_file(self, folder: Path, shard: ArrowShard | OldShard) -> RowFile:
        """Return where the vectors of a shard are."""
        name, _, sha256 = shard.files[0]
        shape = shard.n_rows, self.n_features or 0
        return RowFile(folder / name, shape, self.dtype, sha256, shard.offset)

    def origin(self, location: str) -> dict[str, Any]:
        """Return where the rows come from, for the provenance of a selection."""
        names = ("encoder", "encoder_fingerprint", "source", "source_fingerprint")
        return {"store": location, **{name: getattr(self, name) for name in names}}

    def save(self, folder: Path) -> None:
        """Replace the manifest of a store, in one step, and let other libraries open a store that is complete."""
        if self.complete:
            self.save_library_files(folder)
        version = self.format_version
        document = {"format": _FORMAT, "format_version": version, "n_rows": self.n_rows, **vars(self)}
        document["shards"] = [{"file": shard.files[0][0], **vars(shard)} for shard in self.shards]
        text = json.dumps({**document, "sha256": _checksum(document)}, indent=1, allow_nan=False) + "\n"
        write_file(folder / MANIFEST_NAME, text.encode("ascii"))
        if not self.complete:
            self.save_library_files(folder)

    @property
    def library_files(self) -> dict[str, bytes]:
        """What the files besides the manifest and the shards hold; there are none unless the store is complete."""
        if not self.complete or not self.shards or self.is_old:
            return {}
        state: dict[str, Any] = {
            "_data_files": [{"filename": name} for shard in self.shards for name, _, _ in shard.files],
            "_fingerprint": _checksum({"shards": [shard.files for shard in self.shards]})[:16],
            **dict.fromkeys(("_format_columns", "_format_type", "_split")),
            "_format_kwargs": {},
            "_output_all_columns": False,
        }
        info = {"description": f"Embeddings by {self.encoder}, written by gmmatch"}
        return {
            name: f"{json.dumps(document, indent=1)}\n".encode("ascii")
            for name, document in zip(_LIBRARY_FILES, (info, state), strict=True)
        }

    def save_library_files(self, folder: Path) -> None:
        """Make the other files what they should be, or remove them."""
        for name in _LIBRARY_FILES:
            if name in self.library_files:
                write_file(folder / name, self.library_files[name])
            else:
                (folder / name).unlink(missing_ok=True)


def find_manifest(folder: Path) -> Manifest | None:
    """Read and check the manifest of a store; None if there is no store."""
    return load_manifest(folder) if (folder / MANIFEST_NAME).exists() else None


def load_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of a store."""
    path = folder / MANIFEST_NAME
    if not folder.exists():
        raise DataFileNotFoundError(f"{folder}: there is no such folder.")
    if not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file, not an embedding store, which is a folder.")
    if not path.exists():
        raise InvalidInputError(f"{folder} is not an embedding store: it has no {MANIFEST_NAME}.")
    with explain_damage(path, "manifest of an embedding store"):
        document = read_header(path.read_bytes(), path, _FORMAT, FORMAT_VERSION)
        # Whatever has its checksum was written by gmmatch; stores of before 0.2 have none.
        if document.pop("sha256", None) not in (None, _checksum(document)):
            raise ValueError("its checksum is wrong")
        return _from_document(document)


def check_files(folder: Path, manifest: Manifest) -> None:
    """Raise unless all shards of a store are there and have their sizes; contents are not read."""
    for shard in manifest.shards:
        for name, size, _ in shard.files:
            path = folder / name
            if not path.is_file():
                raise DataFileNotFoundError(f"{path} is missing: the store is damaged; make it again.")
            if path.stat().st_size != size:
                raise damaged_file(path, f"it has {path.stat().st_size:,} bytes instead of {size:,}")


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, allow_nan=False).encode()).hexdigest()


def _from_document(document: dict[str, Any]) -> Manifest:
    if document["format_version"] == OLD_VERSION:
        document = _as_new_document(document)
    else:
        # File names are made, never taken from a manifest: it cannot point outside of the store.
        names = ArrowShard.__dataclass_fields__
        document["shards"] = [
            ArrowShard(**{name: entry[name] for name in names}) for entry in document["shards"]
        ]
    values = {name: document[name] for name in Manifest.__dataclass_fields__}
    manifest = Manifest(**{**values, "shards": tuple(values["shards"])})
    for record in (manifest, *manifest.shards):
        _check_types(record)
    if manifest.dtype not in DTYPES or (manifest.n_rows and not manifest.n_features):
        raise ValueError("it does not say what its rows are")
    return manifest


def _check_types(record: Any) -> None:
    """Raise unless the values of a dataclass have the types that it declares; numbers count something."""
    for name, hint in get_type_hints(type(record)).items():
        value = getattr(record, name)
        kind = hint if isinstance(hint, UnionType) else get_origin(hint) or hint
        is_flag, is_number = isinstance(value, bool), isinstance(value, int)
        if not isinstance(value, kind) or is_flag != ("bool" in str(hint) and value is not None):
            raise ValueError(f"its {name} is of another type: {value!r:.50}")
        if is_number and not 0 <= value < 1 << 63:
            raise ValueError(f"its {name} is {value!r:.50}")


def _as_new_document(document: Mapping[str, Any]) -> dict[str, Any]:
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
