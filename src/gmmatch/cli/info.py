"""``gmmatch info``: what a path is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gmmatch.cli._output import console, print_json
from gmmatch.errors import InvalidInputError


def info(
    path: Annotated[
        str, typer.Argument(help="A store, a selection, or anything that `gmmatch embed` takes.")
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Read everything and compare it with its checksums.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say what a store, a selection or a source is.

    \b
    Examples:
      gmmatch info photos.emb --verify
      gmmatch info picks.parquet
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
    """Return what is known about a path, in what JSON can hold.

    Parameters
    ----------
    path
        A store, a selection or a source.
    verify
        Whether to compare checksums.

    Returns
    -------
    dict
        ``"what"`` is ``"store"``, ``"selection"`` or ``"source"``.

    Examples
    --------
    >>> import tempfile
    >>> from gmmatch import Selection
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Selection([1], n_rows=2).save(f"{folder}/picks.json")
    ...     describe_path(f"{folder}/picks.json")["what"]
    'selection'
    """
    from gmmatch.cli._stores import is_store

    if is_store(path):
        return _describe_store(path, verify)
    if is_selection(path):
        from gmmatch.cli.select import describe_selection
        from gmmatch.selection import Selection

        # Reading a selection compares the checksums that its format has.
        return {"what": "selection", "path": path, **describe_selection(Selection.load(path), None, None)}
    if verify:
        raise InvalidInputError(f"--verify: {path} is neither a store nor a selection, and has no checksums.")
    from gmmatch.data import open_source

    source = open_source(path)
    return {"what": "source", "path": path, **source.describe()}


def is_selection(path: str) -> bool:
    """Tell whether a file is a saved selection, by the mark that it carries.

    Examples
    --------
    >>> is_selection("nowhere.parquet")
    False
    """
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
        "labels": _count_labels(store) if manifest.has_labels else None,
        "encoder": manifest.encoder,
        "encoder_fingerprint": manifest.encoder_fingerprint,
        "encoder_details": manifest.encoder_details,
        "source": manifest.source,
        "source_fingerprint": manifest.source_fingerprint,
    }
    if verify:
        facts["verified"] = True
    return facts


def _count_labels(store: Any) -> list[dict[str, Any]]:
    from collections import Counter

    from gmmatch.cli._stores import store_tables

    counts: Counter[Any] = Counter()
    for _, _, table in store_tables(store):
        counts.update(table.labels or [])
    return [{"label": label, "n_rows": count} for label, count in counts.most_common()]


def _flat(facts: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """The facts as lines for people; nested ones get a name with a dot."""
    from rich.markup import escape

    lines: list[tuple[str, str]] = []
    for name, value in facts.items():
        label = f"{prefix}{name}".replace("_", " ").removeprefix("n ")
        if isinstance(value, dict):
            lines += _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            shown = [_entry(entry) for entry in value[:20]]
            more = f", and {len(value) - 20:,} more" if len(value) > 20 else ""
            lines.append((label, escape(", ".join(shown) + more)))
        elif isinstance(value, bool):
            lines.append((label, "yes" if value else "no"))
        elif value is not None and value != [] and value != "":
            lines.append((label, f"{value:,}" if isinstance(value, int) else escape(str(value))))
    return lines


def _entry(entry: dict[str, Any]) -> str:
    if "picked" in entry:
        name = "all" if entry["label"] is None else entry["label"]
        return f"{name}: {entry['picked']:,} of {entry['n_rows']:,}"
    if "n_rows" in entry:
        return f"{entry['label']}: {entry['n_rows']:,}"
    return ", ".join(f"{name}: {value}" for name, value in entry.items())
