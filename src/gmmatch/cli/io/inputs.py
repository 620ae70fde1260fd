"""From what a user names to rows, labels and ids: a store or a file of embeddings, and labels beside them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.cli.io.output import note
from gmmatch.data.files import is_store
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError, first_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gmmatch.data.source import BaseSource
    from gmmatch.embeddings.store import Store
    from gmmatch.types import Indices

_PLURALS = {"image": "images", "text": "texts"}
_ID_NAMES = ("id", "path", "file", "file_name", "filename", "key", "uid")
_SUFFIXES = (".npy", ".npz", ".txt", ".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".pq")


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Rows to select from; nothing but the labels is in memory, if the format allows it."""

    path: str
    rows: Any  # what gmmatch.select takes
    shape: tuple[int, int]
    labels: Any  # one per row, or None
    origin: dict[str, Any]  # for the provenance
    store: Store | None = None
    source_ids: Sequence[Any] | None = None  # of a source with ids of its own

    def __len__(self) -> int:
        return self.shape[0]

    def ids_of(self, rows: Indices) -> NDArray[Any] | None:
        """Return the ids of these rows, in their order; None where ids are no more than row numbers."""
        from gmmatch.embeddings.row_tables import as_array

        if self.store is not None:
            return self.store.ids_of(rows)
        return None if self.source_ids is None else as_array([self.source_ids[row] for row in rows.tolist()])


def open_embeddings(
    path: str,
    *,
    labels: str | None = None,
    memory: int | None = None,
    embedding_column: str | None = None,
    id_column: str | None = None,
) -> Embeddings:
    """Open a store or a file of embeddings."""
    opened_as: Any
    if is_store(path):
        from gmmatch.embeddings import open_store

        refuse_columns(path, embedding_column, id_column)
        store = opened_as = open_store(path)
        if not len(store):
            raise InvalidInputError(f"{path} has no rows: there is nothing to select from.")
        origin = store.manifest.origin(str(store.path))
        opened = Embeddings(path, store.as_array(), store.shape, None, origin, store=store)
    else:
        from gmmatch.data.opening import format_of

        # A column of text that is the labels' does not make a table one of texts.
        column = None if labels in (None, "", "none") or _names_file(str(labels)) else labels
        column = column if format_of(path) in ("csv", "json", "parquet") else None
        try:
            source = opened_as = _open_vectors(path, embedding_column, id_column, column)
        except InvalidInputError as error:
            raise type(error)(str(error).replace("label_column=", "--labels ", 1)) from None
        rows, shape = _read_rows(source, memory)
        ids = None if isinstance(source.ids, range) else source.ids
        opened = Embeddings(path, rows, shape, None, {"source": source.describe()}, source_ids=ids)
    if labels == "none":
        return opened
    columns = getattr(opened_as, "columns", None)
    if labels is None and opened_as.labels is None and columns and (unused := columns.unused_labels()):
        note(
            f"{path}: no labels are used. If column {unused!r} holds some, pass --labels {shlex.quote(unused)}."
        )
    return replace(opened, labels=opened_as.labels if labels is None else labels_for(opened, labels))


def refuse_columns(path: str, embedding_column: str | None, id_column: str | None) -> None:
    """Raise if columns were named of what has none."""
    for option, name in (("--embedding-column", embedding_column), ("--id-column", id_column)):
        if name:
            raise InvalidInputError(f"{option} {name!r}: {path} has no columns; leave it out.")


def labels_for(embeddings: Embeddings, text: str, *, option: str = "--labels") -> Any:
    """Return the labels of some embeddings that a file or a column of their source holds."""
    if not text:
        raise InvalidInputError(f"{option} '': give a file or the name of a column, or 'none' for no labels.")
    store = embeddings.store
    file, column = text.rpartition("::")[::2] if "::" in text else (text, None)
    if _names_file(text):
        labels, named = _read_labels(Path(file), column, f"{option} {text}")
        joined = _joined(embeddings, labels, named, f"{option} {text}")
        if joined is not None:
            return joined
        if len(labels) == len(embeddings):
            return labels
        # The source of a store may have more rows than could be encoded.
        if store is not None and store.source.get("n_rows") == len(labels):
            return [labels[row] for row in store.source_rows.tolist()]
        raise InvalidInputError(
            f"{option} {text} holds {len(labels):,} labels, but there are {len(embeddings):,} rows: give one per row."
        )
    if store is not None or embeddings.path.lower().endswith(".npy"):
        raise InvalidInputError(
            f"{option} {text}: there is no such file, and {embeddings.path} has no columns; "
            "give a file with one label per row."
        )
    try:
        return _open_as_vectors(
            embeddings.path, {**embeddings.origin["source"]["opened_with"], "label_column": text}
        ).labels
    except InvalidInputError as error:
        # By the name that was typed, as `embed` has an option of the other one.
        raise InvalidInputError(str(error).replace("label_column=", f"{option} ", 1)) from None


def _names_file(text: str) -> bool:
    """Whether what was given for labels names a file, with or without one of its columns."""
    file = text.rpartition("::")[0] if "::" in text else text
    return Path(file).suffix.lower() in _SUFFIXES or Path(file).exists()


def _open_vectors(
    path: str, embedding_column: str | None, id_column: str | None, label_column: str | None
) -> BaseSource:
    """Open a file of embeddings; by default with a column that is named like ids, if it can serve as that."""
    options: dict[str, Any] = {"prefer": "embedding", "embedding_column": embedding_column}
    options["label_column"] = label_column
    source = _open_as_vectors(path, {**options, "id_column": id_column or None})
    name = getattr(getattr(source, "columns", None), "id_like", None)
    if id_column is not None or name is None or source.n_rows is None:
        return source
    named = _open_as_vectors(path, {**options, "id_column": name})
    try:
        distinct = len(set(named.ids)) == source.n_rows
    except InvalidTypeError:  # some are missing, or no ids at all
        distinct = False
    if not distinct:
        note(f"{path}: column {name!r} is not taken as ids, as some of its values are missing or the same.")
    return named if distinct else source


def has_changed(source: BaseSource, before: Mapping[str, Any], fingerprint: str | None) -> bool:
    """Tell whether a source is another than the one that was embedded, as a store describes it."""
    # The fingerprint depends on the columns that were asked for: only like is compared with like.
    same_columns = before.get("how") == source.describe()["how"]
    return fingerprint is not None and same_columns and source.fingerprint() != fingerprint


def _open_as_vectors(path: str, options: Mapping[str, Any]) -> BaseSource:
    """Open a source, and raise if it holds anything but embeddings."""
    from gmmatch.data import open_source
    from gmmatch.data.columns import UndecidedColumnsError

    try:
        source = open_source(path, **options)
    except UndecidedColumnsError as error:
        if "embedding" in error.candidates or not error.candidates:
            raise
        kind, names = next(iter(error.candidates.items()))
        raise _not_vectors(path, kind, names[0]) from None
    if source.kind != "embedding":
        raise _not_vectors(path, source.kind)
    return source


def _not_vectors(path: str, kind: str, column: str | None = None) -> InvalidInputError:
    from gmmatch.data.opening import format_of

    named = "" if column is None else f" --{kind}-column {column}"
    # A table of numbers is the likeliest thing to be taken for embeddings.
    hint = (
        " A table is read as vectors if it has nothing but numbers, labels and ids."
        if format_of(path) == "csv"
        else ""
    )
    return InvalidInputError(
        f"{path} holds {_PLURALS[kind]}, not embeddings: make some first, as `gmmatch embed {path}{named} "
        f"-o rows.emb`.{hint}"
    )


def _read_rows(source: BaseSource, memory: int | None) -> tuple[Any, tuple[int, int]]:
    """Return the rows as ``gmmatch.select`` takes them, mapped if the format allows it, and their shape."""
    import numpy as np

    from gmmatch.data.arrays import ArraySource
    from gmmatch.rows.rows import Rows

    n_rows = source.n_rows
    if n_rows is None:
        raise InvalidInputError(
            f"{source.location} is a stream: write it to a store first, with `gmmatch embed --encoder identity`."
        )
    if not n_rows:
        raise InvalidInputError(f"{source.location} has no rows: there is nothing to select from.")
    if isinstance(source, ArraySource):
        array = source.array
        bits = source.is_bfloat16 and array.dtype.name == "uint16"  # of a safetensors file
        return (Rows(array, bfloat16=True) if bits else array), tuple(array.shape)
    out: NDArray[Any] | None = None
    for batch in source.batches(4096):
        if out is None:
            shape = (n_rows, batch.rows.shape[1])
            needed = n_rows * shape[1] * batch.rows.dtype.itemsize
            if memory is not None and needed > memory // 2:
                raise InvalidInputError(
                    f"{source.location} would take {needed:,} bytes of memory, and --memory allows half of "
                    f"{memory:,} for it: write it to a store first, as `gmmatch embed {source.location} -o "
                    "rows.emb --encoder identity`."
                )
            out = np.empty(shape, dtype=batch.rows.dtype)
        out[batch.start : batch.start + len(batch)] = batch.rows
    assert out is not None
    return out, (out.shape[0], out.shape[1])


def _joined(embeddings: Embeddings, labels: Any, named: Sequence[Any] | None, typed: str) -> Any:
    """Return labels in the order of the rows, by the ids that the file has beside them; None if these are others."""
    import numpy as np

    if named is None:
        return None
    ids, labels = embeddings.ids_of(np.arange(len(embeddings))), list(labels)
    known = dict(zip(map(str, named), labels, strict=True))
    wanted = list(map(str, range(len(embeddings)) if ids is None else ids.tolist()))
    missing = [name for name in wanted if name not in known]
    if len(missing) == len(wanted) or (missing and ids is None):
        note(
            f"{typed}: its ids are not those of {embeddings.path}, so labels are taken in the order of the rows."
        )
        return None
    if missing:
        raise InvalidInputError(
            f"{typed} has no label for {len(missing):,} of {len(wanted):,} rows, the first of them with the id "
            f"{missing[0]!r}: give one for each."
        )
    for name, label in zip(map(str, named), labels, strict=True):
        if known[name] is not label and known[name] != label:
            raise InvalidInputError(
                f"{typed} has two labels for the id {name!r}, {label!r} and {known[name]!r}: give one."
            )
    return [known[name] for name in wanted]


def _read_labels(file: Path, column: str | None, typed: str) -> tuple[Any, Sequence[Any] | None]:
    """Read one label per row from a file, and ids beside them; ``typed`` is the option with its value."""
    if file.is_dir():
        raise InvalidInputError(f"{typed} is a folder: give a file with one label per row.")
    if not file.is_file():
        raise DataFileNotFoundError(f"{typed}: there is no such file.")
    try:
        labels, named = _read(file, column)
    except InvalidInputError as error:
        raise InvalidInputError(f"{typed}: {error}") from None
    except (ValueError, OSError, KeyError, EOFError, TypeError) as error:
        raise InvalidInputError(f"{typed} cannot be read: {first_line(error)}.") from None
    if len(getattr(labels, "shape", (0,))) != 1:
        raise InvalidInputError(f"{typed} has shape {labels.shape}, where one label per row is expected.")
    odd = next((label for label in labels if isinstance(label, (list, dict, bytes))), None)
    if odd is not None:
        raise InvalidInputError(f"{typed} holds {str(odd)[:60]} where one label is expected.")
    return labels, named


def _read(file: Path, column: str | None) -> tuple[Any, Sequence[Any] | None]:
    import numpy as np

    suffix = file.suffix.lower()
    if suffix == ".npy":
        return np.load(file, allow_pickle=False), None
    if suffix == ".txt":
        return [line or None for line in file.read_text(encoding="utf-8-sig").splitlines()], None
    names, values = _table(file, suffix)
    ids = next((values(name) for name in _id_columns(names)), None)
    return values(_column(names, column)), ids


def _table(file: Path, suffix: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return the names of a table's columns, and how to get one."""
    import numpy as np

    from gmmatch.data.text_tables import csv_records, json_lines, parsed_json

    if suffix == ".npz":
        members = np.load(file, allow_pickle=False)
        return members.files, members.__getitem__
    if suffix in (".parquet", ".pq"):
        import pyarrow.parquet as pq

        names = pq.read_schema(file).names
        return names, lambda name: pq.read_table(file, columns=[name]).column(name).to_pylist()
    if suffix in (".csv", ".tsv"):
        lines = csv_records(file)
        _, names, _ = next(lines, (0, [], ""))
        rows = [cells for _, cells, _ in lines]

        def cells_of(name: str) -> list[str | None]:
            place = names.index(name)
            return [(cells[place] or None) if place < len(cells) else None for cells in rows]

        return names, cells_of
    if suffix in (".jsonl", ".ndjson"):
        records = [parsed_json(file, number, line) for number, line in json_lines(file)]
        names = list(dict.fromkeys(key for record in records for key in record))
        return names, lambda name: [record.get(name) for record in records]
    raise InvalidInputError(f"give a file that ends in {', '.join(_SUFFIXES)}.")


def _column(names: list[str], wanted: str | None) -> str:
    listed = ", ".join(repr(name) for name in names) or "none"
    if wanted is not None:
        if wanted not in names:
            raise InvalidInputError(f"there is no column {wanted!r}; its columns are {listed}.")
        return wanted
    for name in ("label", "labels"):
        if name in names:
            return name
    others = [name for name in names if name not in _id_columns(names)]
    if len(others) != 1:
        raise InvalidInputError(f"say which column, as file::column; its columns are {listed}.")
    return others[0]


def _id_columns(names: list[str]) -> list[str]:
    """Return the columns that are named like ids or paths."""
    return [name for name in names if name.lower() in _ID_NAMES]
