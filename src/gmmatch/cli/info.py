"""``gmmatch info``: what a path is."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gmmatch.cli.io.arguments import JsonOption, reads
from gmmatch.cli.io.inputs import is_selection
from gmmatch.cli.io.output import print_facts, print_json, translate
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.data.tables import BaseSource

# What a column could serve as, in words; whole numbers and texts can also be labels or ids.
_USES = {
    "embedding": "embeddings", "image": "images", "text": "texts", "number": "integers", "float": "numbers",
    "other": "others",
}  # fmt: skip
_ENTRIES_SHOWN = 20
# What only a program can use: it is in the JSON.
_FOR_PROGRAMS = (
    "provenance", "has_ids", "encoder_details", "encoder_fingerprint", "source_fingerprint", "opened_with"
)  # fmt: skip
_BATCH_ROWS = 4096


def info(
    path: Annotated[str, typer.Argument(help="A store, picks, or anything that `gmmatch embed` takes.")],
    verify: Annotated[bool, reads("Read everything and compare it with its checksums.", "--verify")] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what a path holds: a store, a selection or a source.

    \b
    Examples:
      gmmatch info photos.emb --verify
      gmmatch info picks.parquet
      gmmatch info vectors.parquet --json
    """
    description = describe_path(path, verify=verify)
    if as_json:
        print_json(description)
    else:
        print_facts(_lines({**description, **_how_it_was_made(description.get("provenance", {}))}))


def describe_path(path: str, *, verify: bool = False) -> dict[str, Any]:
    """Return what is known about a path, as JSON can hold it."""
    from gmmatch.data.files import is_store

    if is_store(path):
        return {"what": "store", "path": path, **_describe_store(path, verify)}
    if is_selection(path):
        from gmmatch.cli.select import describe_selection
        from gmmatch.selection.selection import Selection

        # Reading a selection compares the checksums that its format has.
        return {"what": "selection", "path": path, **describe_selection(Selection.load(path))}
    if verify:
        raise InvalidInputError(f"--verify: {path} is neither a store nor a selection, and has no checksums.")
    return {"what": "source", "path": path, **_describe_source(path)}


def _describe_store(path: str, verify: bool) -> dict[str, Any]:
    from gmmatch.store import open_store

    store = open_store(path, allow_incomplete=True, verify=verify)
    counts = None if store.labels is None else Counter(store.labels.tolist()).most_common()
    manifest = store.manifest
    names = ("encoder", "encoder_fingerprint", "encoder_details", "source", "source_fingerprint")
    return {
        "format": "of gmmatch 0.2, which is read, but not written" if manifest.is_old else "Arrow files",
        "complete": store.complete,
        "n_rows": len(store),
        "n_features": store.n_features,
        "dtype": str(store.dtype),
        "bytes": sum(file.stat().st_size for file in store.path.iterdir()),
        "shards": len(manifest.shards),
        "has_labels": store.labels is not None,
        "labels": None if counts is None else [{"label": name, "n_rows": count} for name, count in counts],
        **{name: getattr(manifest, name) for name in names},
        **({"verified": True} if verify else {}),
    }


def _describe_source(path: str) -> dict[str, Any]:
    from gmmatch.data import open_source
    from gmmatch.data.columns import UndecidedColumnsError

    try:
        source = open_source(path)
    except UndecidedColumnsError as error:
        how = translate(str(error), ["--text", *(f"--{kind}-column" for kind in _USES)])
        return {"location": path, "kind": None, "how": how, "columns": _by_use(error.available)}
    description, available = source.describe(), source.columns.available
    description.pop("opened_with", None)  # nothing was asked for
    description |= {"columns": _by_use(available)} if available else {}
    return description | ({"texts": _count_texts(source)} if source.kind == "text" else {})


def _count_texts(source: BaseSource) -> dict[str, int]:
    """Return how many texts are empty, the same as an earlier one, or cannot be used, by their 64-bit hashes."""
    import numpy as np

    hashes, empty, unusable = array("q"), 0, 0
    for batch in source.batches(_BATCH_ROWS):
        texts = [text for text in batch.rows if isinstance(text, str)]
        hashes.extend(hash(text) for text in texts if text.strip())
        unusable += len(batch) - len(texts)
        empty += sum(not text.strip() for text in texts)
    identical = len(hashes) - len(np.unique(np.array(hashes, dtype=np.int64)))
    return {"empty": empty, "identical": identical, "unusable": unusable}


def _by_use(available: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the columns by what they could serve as, embeddings first."""
    columns = {use: [name for name in available if available[name] == kind] for kind, use in _USES.items()}
    return {use: names for use, names in columns.items() if names}


def _how_it_was_made(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return what people may want to know of how a selection was made."""
    names = ("method", "preprocess", "seed", "version")
    sentences = {
        name: provenance.get(name, {}).get(key)
        for name, key in (("screening", "summary"), ("certificate", "statement"))
    }
    known = {name: provenance.get(name) for name in names} | sentences | provenance.get("embeddings", {})
    return {**known, "updates": len(provenance.get("updates", [])) or None}


def _lines(description: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the facts as lines for people; nested ones get a name with a dot."""
    for name, value in description.items():
        if name in _FOR_PROGRAMS:
            continue
        label = prefix + name.removeprefix("n_").replace("_", " ")
        if isinstance(value, Mapping):
            yield from _lines(value, f"{label}.")
        elif isinstance(value, list) and value:
            entries = [_entry(entry, alone=len(value) == 1) for entry in value[:_ENTRIES_SHOWN]]
            more = f", and {len(value) - _ENTRIES_SHOWN:,} more" if len(value) > _ENTRIES_SHOWN else ""
            yield label, ", ".join(entries) + more
        elif isinstance(value, bool):
            yield label, "yes" if value else "no"
        elif value is not None and value != [] and value != "":
            yield label, f"{value:,}" if isinstance(value, int) else str(value)


def _entry(entry: Any, *, alone: bool) -> str:
    """Return a column, a step, or a class with its rows."""
    if not isinstance(entry, dict):
        return str(entry)
    label = ("all" if alone else "no label") if entry["label"] is None else entry["label"]
    picked = f"{entry['picked']:,} of " if "picked" in entry else ""
    return f"{label}: {picked}{entry['n_rows']:,}"
