"""``gmmatch info``: what a path is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gmmatch.cli.io.arguments import JsonOption
from gmmatch.cli.io.output import console, print_json
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.data.source import Kind

# What a column could serve as, in words; whole numbers and texts can also be labels or ids.
_USES = {
    "embedding": "embeddings",
    "image": "images",
    "text": "texts",
    "number": "integers",
    "float": "numbers",
    "other": "others",
}


def info(
    path: Annotated[
        str, typer.Argument(help="A store, a selection, or anything that `gmmatch embed` takes.")
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Read everything and compare it with its checksums.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what a path holds: a store, a selection or a source.

    \b
    Examples:
      gmmatch info photos.emb --verify
      gmmatch info picks.parquet
      gmmatch info vectors.parquet --json
    """
    facts = describe_path(path, verify=verify)
    if as_json:
        print_json(facts)
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _flat(facts):
        table.add_row(name, value)
    console().print(table)


def describe_path(path: str, *, verify: bool = False) -> dict[str, Any]:
    """Return what is known about a path, in what JSON can hold."""
    from gmmatch.data.files import is_store

    if is_store(path):
        return _describe_store(path, verify)
    if is_selection(path):
        from gmmatch.cli.select import describe_selection
        from gmmatch.selection.selection import Selection

        # Reading a selection compares the checksums that its format has.
        return {"what": "selection", "path": path, **describe_selection(Selection.load(path), None, None)}
    if verify:
        raise InvalidInputError(f"--verify: {path} is neither a store nor a selection, and has no checksums.")
    return {"what": "source", "path": path, **_describe_source(path)}


def _describe_source(path: str) -> dict[str, Any]:
    from gmmatch.data import open_source
    from gmmatch.data.columns import UndecidedColumnsError

    try:
        source = open_source(path)
    except UndecidedColumnsError as error:
        facts: dict[str, Any] = {}
        if error.candidates:  # the rest does not depend on which column is taken
            kind, names = next(iter(error.candidates.items()))
            facts = open_source(path, **{f"{kind}_column": names[0]}).describe()  # type: ignore[arg-type]
        undecided = {"location": path, "kind": None, "how": _choices(error.candidates)}
        return {**facts, **undecided, "columns": _by_use(error.available)}
    columns = getattr(source, "columns", None)
    listed = {} if columns is None else {"columns": _by_use(columns.available)}
    return {**source.describe(), **listed}


def _by_use(available: Mapping[str, str]) -> dict[str, list[str]]:
    """The columns by what they could serve as, embeddings first; what nothing could be is left out."""
    columns = {use: [name for name in available if available[name] == kind] for kind, use in _USES.items()}
    return {use: names for use, names in columns.items() if names}


def _choices(candidates: Mapping[Kind, Sequence[str]]) -> str:
    """Say what has to be named, to which commands."""
    if not candidates:
        return "no column holds embeddings (lists of numbers), images or text"
    options = " or ".join(f"--{kind}-column {names[0]!r}" for kind, names in candidates.items())
    said = [f"tell `gmmatch embed` which column to take, as {options}"]
    vectors = candidates.get("embedding", ())
    if len(vectors) == 1:
        said.insert(0, f"`gmmatch select` takes column {vectors[0]!r}")
    elif vectors:
        said.insert(0, f"tell `gmmatch select` which column to take, as --embedding-column {vectors[0]!r}")
    return "; ".join(said)


def is_selection(path: str) -> bool:
    """Tell whether a file is a saved selection, by the mark that it carries."""
    import json

    file = Path(path)
    if not file.is_file():
        return False
    suffix = file.suffix.lower()
    if suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return b"gmmatch" in (pq.read_schema(file).metadata or {})
        except (pa.ArrowException, OSError):
            return False
    if suffix == ".npy":
        file = file.with_name(file.name + ".json")
        suffix = file.suffix if file.is_file() else ""
    if suffix != ".json":
        return False
    try:
        document = json.loads(file.read_bytes())
    except (ValueError, RecursionError, OSError):
        return False
    return isinstance(document, dict) and document.get("format") == "gmmatch-selection"


def _describe_store(path: str, verify: bool) -> dict[str, Any]:
    from gmmatch.embeddings import open_store

    store = open_store(path, allow_incomplete=True, verify=verify)
    manifest = store.manifest
    labels = None
    if manifest.has_labels:
        counts = Counter(store.labels.tolist() if store.labels is not None else [])
        labels = [{"label": label, "n_rows": count} for label, count in counts.most_common()]
    facts: dict[str, Any] = {
        "what": "store",
        "path": path,
        "complete": store.complete,
        "n_rows": len(store),
        "n_features": store.n_features,
        "dtype": str(store.dtype),
        "bytes": sum(shard.array_bytes + shard.table_bytes for shard in manifest.shards),
        "shards": len(manifest.shards),
        "has_labels": bool(manifest.has_labels),
        "labels": labels,
        "encoder": manifest.encoder,
        "encoder_fingerprint": manifest.encoder_fingerprint,
        "encoder_details": manifest.encoder_details,
        "source": manifest.source,
        "source_fingerprint": manifest.source_fingerprint,
    }
    if verify:
        facts["verified"] = True
    return facts


def _flat(facts: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """The facts as lines for people; nested ones get a name with a dot."""
    from rich.markup import escape

    lines: list[tuple[str, str]] = []
    for name, value in facts.items():
        label = f"{prefix}{name}".replace("_", " ").removeprefix("n ")
        if isinstance(value, dict):
            lines += _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], (dict, str)):
            more = f", and {len(value) - 20:,} more" if len(value) > 20 else ""
            shown = [_entry(entry, alone=len(value) == 1) for entry in value[:20]]
            lines.append((label, escape(", ".join(shown) + more)))
        elif isinstance(value, bool):
            lines.append((label, "yes" if value else "no"))
        elif value is not None and value != [] and value != "":
            lines.append((label, f"{value:,}" if isinstance(value, int) else escape(str(value))))
    return lines


def _entry(entry: Any, *, alone: bool) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    if "label" in entry:
        nameless = "all" if alone else "no label"
        picked = f"{entry['picked']:,} of " if "picked" in entry else ""
        return f"{nameless if entry['label'] is None else entry['label']}: {picked}{entry['n_rows']:,}"
    return ", ".join(f"{name}: {value}" for name, value in entry.items() if not isinstance(value, dict))
