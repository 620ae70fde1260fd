"""From what a user names to rows, labels and ids: a store or a file of embeddings, and tables joined by id."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.cli.io.output import note
from gmmatch.errors import (
    DataFileNotFoundError,
    GMMatchError,
    InvalidInputError,
    InvalidTypeError,
    first_line,
)
from gmmatch.files import explain_damage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gmmatch._array import Indices
    from gmmatch.data.tables import BaseSource
    from gmmatch.store.store import Store

_TABLES = (".csv", ".parquet", ".pq")
_ID_NAMES = ("id", "path", "file", "file_name", "filename", "key", "uid", "row")
_BATCH_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Rows to work on, with their labels and ids."""

    path: str
    X: Any  # what gmmatch.select takes
    n_rows: int
    y: Any = None
    origin: dict[str, Any] = field(default_factory=dict)  # for the provenance
    store: Store | None = None
    file_ids: NDArray[Any] | None = None  # None where ids are no more than row numbers

    def __len__(self) -> int:
        return self.n_rows

    @property
    def ids(self) -> NDArray[Any] | None:
        """The ids of all rows."""
        return self.file_ids if self.store is None else self.store.ids

    def ids_of(self, rows: Indices) -> NDArray[Any] | None:
        """Return the ids of these rows, in their order; those of millions of others are not kept."""
        if self.store is not None:
            return self.store.ids_of(rows)
        return None if self.file_ids is None else self.file_ids[rows]

    @property
    def select_ids(self) -> Any:
        """The ids as ``gmmatch.select`` takes them."""
        return None if self.store is None and self.file_ids is None else self.ids_of


def open_embeddings(
    path: str, *, labels: str | None = None, embedding_column: str | None = None, id_column: str | None = None
) -> Embeddings:
    """Open a store or a file of embeddings.

    Parameters
    ----------
    path : str
    labels : str, optional
        A column of the file, a table with ids and labels, or "none"; by default the labels that it has.
    embedding_column, id_column : str, optional
    """
    from gmmatch.data.files import is_store

    if labels == "":
        raise InvalidInputError("--labels '': give a column or a table, or 'none' for no labels.")
    in_table = labels not in (None, "none") and _names_table(str(labels))
    if is_store(path):
        for option, name in (("--embedding-column", embedding_column), ("--id-column", id_column)):
            if name:
                raise InvalidInputError(f"{option} {name!r}: {path} has no columns; leave it out.")
        embeddings = _open_store(path, without_labels=labels == "none")
    else:
        # A column of text that holds the labels does not make a table one of texts.
        column = "" if labels == "none" or in_table else labels
        embeddings = _open_file(path, embedding_column, id_column, column)
    if labels in (None, "none") or not (in_table or embeddings.store):
        return embeddings
    return replace(embeddings, y=read_column(embeddings, str(labels), "label", "--labels"))


def _open_store(path: str, *, without_labels: bool) -> Embeddings:
    from gmmatch.store import open_store

    store = open_store(path, allow_incomplete=True)
    if not store.complete:
        raise InvalidInputError(f"{path} is not complete: run the `gmmatch embed` that makes it again.")
    if not len(store):
        raise InvalidInputError(f"{path} has no rows: there is nothing to work on.")
    X, labels = (store.row_files, None) if without_labels else (store, store.labels)
    return Embeddings(path, X, len(store), labels, store.manifest.origin(str(store.path)), store)


def _open_file(
    path: str, embedding_column: str | None, id_column: str | None, label_column: str | None
) -> Embeddings:
    """Open a file of embeddings; by default with a column that is named like ids, if it can serve as that."""
    import numpy as np

    options = {"prefer": "embedding", "embedding_column": embedding_column, "label_column": label_column}
    source = open_with_ids(partial(_open_source, path, options), id_column)
    columns = getattr(source, "columns", None)
    unused = columns.unused_labels() if columns is not None and label_column is None else None
    if source.labels is None and unused is not None:
        note(f"{path}: if column {unused!r} holds labels, pass --labels {shlex.quote(unused)}.")
    y = None if source.labels is None else np.array(source.labels, dtype=object)
    ids = None if isinstance(source.ids, range) else np.array(source.ids, dtype=object)
    return Embeddings(path, _read_rows(source), len(source), y, {"source": source.describe()}, file_ids=ids)


def _open_source(path: str, options: Mapping[str, Any], id_column: str | None = None) -> BaseSource:
    """Open a source, and raise if it holds anything but embeddings."""
    from gmmatch.data import open_source
    from gmmatch.data.columns import UndecidedColumnsError

    kind, column = "", ""
    try:
        source = open_source(path, **{**options, **({} if id_column is None else {"id_column": id_column})})
        kind = source.kind
    except UndecidedColumnsError as error:
        if "embedding" in error.candidates or not error.candidates:
            raise
        kind, names = next(iter(error.candidates.items()))
        column = f" {'--text' if kind == 'text' else f'--{kind}-column'} {shlex.quote(names[0])}"
    if is_selection(path):
        raise InvalidInputError(f"{path} holds picks: give the store or file that they were picked from.")
    if kind != "embedding":
        command = f"`gmmatch embed {path}{column} -o rows.emb`"
        raise InvalidInputError(f"{path} holds {kind}s, not embeddings: make some first, as {command}.")
    if not source.n_rows:
        raise InvalidInputError(f"{path} has no rows.")
    return source


def open_with_ids(open_table: Callable[..., BaseSource], id_column: str | None) -> BaseSource:
    """Open a source with a column of ids: the one that is named, or one named like ids if it tells the rows apart.

    ``open_table`` opens it with ``id_column``; ``''`` means that no column is to be taken.
    """
    source = open_table(id_column=id_column or None)
    column = getattr(getattr(source, "columns", None), "id_like", None)
    if id_column is not None or column is None:
        return source
    named = open_table(id_column=column)
    try:
        if len(set(named.ids)) == source.n_rows:
            return named
    except InvalidTypeError:  # some are missing, or no ids at all
        pass
    note(f"{source.location}: column {column!r} is not taken as ids, as values are missing or the same.")
    return source


def _read_rows(source: BaseSource) -> Any:
    """Return the rows as ``gmmatch.select`` takes them, mapped if the format allows it."""
    import numpy as np

    from gmmatch.data.arrays import ArraySource

    if isinstance(source, ArraySource) and source.location.lower().endswith(".npy"):
        return source.location
    if isinstance(source, ArraySource) and not source.is_bfloat16:
        return source.array
    return np.concatenate([batch.rows for batch in source.batches(_BATCH_ROWS)])


def _names_table(text: str) -> bool:
    """Return whether an option names a table, with or without one of its columns, rather than a column."""
    file = text.rpartition("::")[0] or text
    return Path(file).suffix.lower() in _TABLES or Path(file).exists()


def read_column(embeddings: Embeddings, text: str, column: str, option: str) -> NDArray[Any]:
    """Return a value for each row: a column of the input, or of a table that has ids.

    Parameters
    ----------
    embeddings : Embeddings
    text : str
        ``COLUMN``, ``TABLE`` or ``TABLE::COLUMN``; a table is CSV or Parquet.
    column : str
        The column of the table to take if none is named.
    option : str
        What the table was given by.

    Returns
    -------
    array of shape (n,)
        In the order of the rows.
    """
    import numpy as np

    if not _names_table(text):
        options = embeddings.origin.get("source", {}).get("opened_with", {})
        if embeddings.store is not None or embeddings.path.lower().endswith(".npy"):
            raise InvalidInputError(f"{option} {text}: {embeddings.path} has no columns; give a table.")
        try:
            source = _open_source(embeddings.path, {**options, "label_column": text})
        except InvalidInputError as error:
            raise InvalidInputError(str(error).replace("label_column=", f"{option} ")) from None
        return np.array(source.labels, dtype=object)
    file, _, name = text.rpartition("::") if "::" in text else (text, "", "")
    by_id = _read_table(Path(file), name or column, f"{option} {text}")
    ids: Any = range(len(embeddings)) if embeddings.ids is None else embeddings.ids.tolist()
    missing = [key for key in map(str, ids) if key not in by_id]
    if missing:
        counts = f"{len(missing):,} of the {len(ids):,} rows, such as that with the id {missing[0]!r}"
        raise InvalidInputError(f"{option} {text} has nothing for {counts}: give a row for each.")
    return np.array([by_id[key] for key in map(str, ids)], dtype=object)


def _read_table(file: Path, column: str, given: str) -> dict[str, Any]:
    """Return the values of a column by their ids; ``given`` is the option with its value."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if file.suffix.lower() not in _TABLES:
        raise InvalidInputError(f"{given}: expected a .csv or .parquet table with columns id and {column}.")
    if not file.is_file():
        raise DataFileNotFoundError(f"{given}: there is no such file.")
    with explain_damage(given, "table", pa.ArrowException):
        if file.suffix.lower() == ".csv":
            types = {name: pa.string() for name in _ID_NAMES}
            convert = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
            table = pa.csv.read_csv(file, convert_options=convert)
        else:
            table = pa.parquet.read_table(file)
    names = table.column_names
    key = next((name for name in names if name.lower() in _ID_NAMES), None)
    for name, present in ((column, column in names), ("id", key)):
        if not present:
            raise InvalidInputError(f"{given} has no column {name!r}; its columns are {', '.join(names)}.")
    ids = list(map(str, table.column(key).to_pylist()))
    by_id = dict(zip(ids, table.column(column).to_pylist(), strict=True))
    if len(by_id) < len(ids):
        repeated = Counter(ids).most_common(1)[0][0]
        raise InvalidInputError(f"{given} has two rows with the id {repeated!r}: give one for each id.")
    return by_id


def is_selection(path: str) -> bool:
    """Return whether a file is a saved selection, by the mark that it carries."""
    if not (path.lower().endswith(".parquet") and Path(path).is_file()):
        return False
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return b"gmmatch" in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def read_array(path: str, option: str) -> Any:
    """Return the probabilities of a ``.npy`` file."""
    from gmmatch.data import open_source
    from gmmatch.data.arrays import ArraySource

    try:
        source = open_source(path)
        if isinstance(source, ArraySource):
            return source.array
        reason = f"it is {source.format}"
    except GMMatchError as error:
        reason = first_line(error)
    raise InvalidInputError(f"{option} {path}: give a .npy file with probabilities for each row; {reason}.")


def check_encoders(origin: Mapping[str, Any], other: Mapping[str, Any], given: str) -> None:
    """Raise if two sets of embeddings are known to come from different encoders; ``given`` names the other."""
    for key in ("encoder_fingerprint", "encoder"):
        if None not in (names := (origin.get(key), other.get(key))) and names[0] != names[1]:
            encoders = f"{other.get('encoder')!r}, not by {origin.get('encoder')!r}"
            raise InvalidInputError(f"{given} was made by encoder {encoders}: embed both by the same one.")


def read_origin(origin: Mapping[str, Any], start: int, rows: Indices) -> tuple[NDArray[Any], int]:
    """Return those of some rows that a provenance says came from here, and where the next rows start.

    Parameters
    ----------
    origin : mapping
        What :attr:`Embeddings.origin` was.
    start : int
        The number of its first row.
    rows : int64 array of shape (m,)
        Ascending row numbers.
    """
    import gmmatch as gm
    from gmmatch.data.opening import read_description

    if "store" in origin:
        X: Any = gm.open_store(origin["store"])
    elif "source" in origin:
        X = _read_rows(_open_source(*read_description(origin["source"])))
    else:
        raise InvalidInputError("The picks do not say which rows they were made from: select again.")
    with gm.open_rows(X) as opened:
        stop = start + len(opened)
        return opened.take(rows[(rows >= start) & (rows < stop)] - start), stop
