"""What `select`, `compare` and `info` read: a store, or a file of embeddings, with its labels and ids."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.cli._output import note
from gmmatch.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gmmatch.data.source import BaseSource
    from gmmatch.embeddings.row_tables import RowTable
    from gmmatch.embeddings.store import Store
    from gmmatch.types import Indices


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Rows to select from; nothing but the labels is in memory, if the format allows it.

    Attributes
    ----------
    path
        What was opened.
    rows
        What ``gmmatch.select`` takes.
    shape
        Rows and features.
    labels
        One per row, or None.
    origin
        Where the rows come from, for a selection's provenance.
    store
        The store, if that is what they lie in.
    source_ids
        The ids of a source with ids of its own.
    opened_with
        The options that the source was opened with, to open it the same way again.
    """

    path: str
    rows: Any
    shape: tuple[int, int]
    labels: Any
    origin: dict[str, Any]
    store: Store | None = None
    source_ids: Sequence[Any] | None = None
    opened_with: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.shape[0]

    def ids_of(self, rows: Indices) -> NDArray[Any] | None:
        """Return the ids of these rows, in their order; None where ids are no more than row numbers."""
        import numpy as np

        from gmmatch.embeddings.row_tables import as_array

        if self.store is None:
            return (
                None if self.source_ids is None else as_array([self.source_ids[row] for row in rows.tolist()])
            )
        # Of the ids of millions of rows only those of the picks are kept.
        found: dict[int, Any] = {}
        wanted = np.unique(rows)
        for start, stop, table in store_tables(self.store):
            first, last = np.searchsorted(wanted, [start, stop])
            found.update((row, table.ids[row - start]) for row in wanted[first:last].tolist())
        return as_array([found[row] for row in rows.tolist()])


def is_store(path: str | Path) -> bool:
    """Tell whether a path is a store, even if its manifest cannot be read.

    Examples
    --------
    >>> is_store("nowhere.emb")
    False
    """
    manifest = Path(path) / "manifest.json"
    if not manifest.is_file():
        return False
    try:
        document = json.loads(manifest.read_bytes())
    except (OSError, ValueError, RecursionError):
        return True
    return isinstance(document, dict) and document.get("format") == "gmmatch-embeddings"


def open_embeddings(
    path: str,
    *,
    labels: str | None = None,
    memory: int | None = None,
    embedding_column: str | None = None,
    id_column: str | None = None,
) -> Embeddings:
    """Open a store or a file of embeddings.

    Parameters
    ----------
    path
        A store, or what :func:`gmmatch.data.open_source` takes, if it holds embeddings.
    labels
        Labels in place of its own: a file (see :func:`gmmatch.cli._labels.read_labels`) or the name of a
        column; ``"none"`` for none.
    memory
        The most bytes that rows may take which have to be read into memory, because their format has no
        row that can be looked up (Parquet, ``.npz``).
    embedding_column
        The column of vectors, where there are several.
    id_column
        The column of ids, ``""`` for none; by default one of a table that is named like ``id``, if its
        values can tell the rows apart.

    Returns
    -------
    Embeddings

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.zeros((3, 2)))
    ...     open_embeddings(f"{folder}/x.npy").shape
    (3, 2)
    """
    if is_store(path):
        refuse_columns(path, embedding_column, id_column)
        opened = _open_store(path)
    else:
        options: dict[str, Any] = {"prefer": "embedding"}
        if embedding_column is not None:
            options["embedding_column"] = embedding_column
        if id_column:
            options["id_column"] = id_column
        source = _open_source(path, options)
        if id_column is None:
            source, options = _with_ids(source, path, options)
        rows, shape = _rows_of(source, memory)
        ids = None if isinstance(source.ids, range) else source.ids
        origin = {"source": {**source.describe(), "opened_with": options}}
        opened = Embeddings(path, rows, shape, None, origin, source_ids=ids, opened_with=options)
        if labels is None:
            return replace(opened, labels=source.labels)
    if labels is None:
        return replace(opened, labels=None if opened.store is None else _store_labels(opened.store))
    return opened if labels == "none" else replace(opened, labels=labels_for(opened, labels))


def refuse_columns(path: str, embedding_column: str | None, id_column: str | None) -> None:
    """Raise if columns were named of what has none.

    Examples
    --------
    >>> refuse_columns("photos.emb", None, "key")
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: --id-column 'key': photos.emb has no columns; leave it out.
    """
    for option, name in (("--embedding-column", embedding_column), ("--id-column", id_column)):
        if name:
            raise InvalidInputError(f"{option} {name!r}: {path} has no columns; leave it out.")


def labels_for(embeddings: Embeddings, text: str, *, option: str = "--labels") -> Any:
    """Return the labels of some embeddings that a file or a column of their source holds.

    Parameters
    ----------
    embeddings
        The rows.
    text
        A file (see :func:`gmmatch.cli._labels.read_labels`) or the name of a column.
    option
        What to call the argument in messages.

    Returns
    -------
    array or list
        One label per row.
    """
    from gmmatch.cli._labels import is_label_file, read_labels

    store = embeddings.store
    if is_label_file(text):
        positions = None if store is None else partial(_source_rows, store)
        return read_labels(text, len(embeddings), option=option, positions=positions)
    if store is not None:
        raise InvalidInputError(
            f"{option} {text}: there is no such file, and a store has no columns; "
            "give a file with one label per row."
        )
    return _open_source(embeddings.path, {**embeddings.opened_with, "label_column": text}).labels


def store_tables(store: Store) -> Iterator[tuple[int, int, RowTable]]:
    """Yield the ids, labels and source rows of a store a shard at a time, with the shard's bounds."""
    from gmmatch.embeddings.row_tables import read_table

    for shard in store.manifest.shards:
        yield (
            shard.start,
            shard.stop,
            read_table(store.path / shard.table_file, shard.table_sha256, shard.n_rows),
        )


def _open_store(path: str) -> Embeddings:
    from gmmatch.embeddings import open_store

    store = open_store(path)
    if not len(store):
        raise InvalidInputError(f"{path} has no rows.")
    manifest = store.manifest
    origin = {
        "store": str(store.path),
        "encoder": manifest.encoder,
        "encoder_fingerprint": manifest.encoder_fingerprint,
        "source": manifest.source,
        "source_fingerprint": manifest.source_fingerprint,
    }
    return Embeddings(path, store.as_array(), store.shape, None, origin, store=store)


def _store_labels(store: Store) -> NDArray[Any] | None:
    import numpy as np

    if not store.manifest.has_labels:
        return None
    # One object per class instead of one per row.
    known: dict[tuple[type, Any], Any] = {}
    labels: NDArray[Any] = np.empty(len(store), dtype=object)
    for start, stop, table in store_tables(store):
        labels[start:stop] = [known.setdefault((type(label), label), label) for label in table.labels or []]
    return labels


def _source_rows(store: Store, n_labels: int) -> NDArray[np.int64] | None:
    """Where to find the labels of a store's rows among those of its source, which may have more rows."""
    import numpy as np

    if store.source.get("n_rows") != n_labels:
        return None
    return np.concatenate([np.array(table.source_rows) for _, _, table in store_tables(store)])


def _open_source(path: str, options: Mapping[str, Any]) -> BaseSource:
    from gmmatch.data import open_source

    source = open_source(path, **options)
    if source.kind != "embedding":
        rows = {"image": "images", "text": "texts"}[source.kind]
        raise InvalidInputError(
            f"{path} holds {rows}, not embeddings: make some first, as `gmmatch embed {path} -o rows.emb`."
        )
    return source


def _with_ids(source: BaseSource, path: str, options: dict[str, Any]) -> tuple[BaseSource, dict[str, Any]]:
    """Open a source again with a column that is named like ids, if it can serve as that."""
    name = getattr(getattr(source, "columns", None), "id_like", None)
    if name is None or source.n_rows is None:
        return source, options
    asked = {**options, "id_column": name}
    named = _open_source(path, asked)
    try:
        distinct = len(set(named.ids)) == source.n_rows
    except InvalidTypeError:  # some are missing, or no ids at all
        distinct = False
    if distinct:
        return named, asked
    note(f"{path}: column {name!r} is not taken as ids, as some of its values are missing or the same.")
    return source, options


def _rows_of(source: BaseSource, memory: int | None) -> tuple[Any, tuple[int, int]]:
    import numpy as np

    from gmmatch.data.arrays import ArraySource

    if isinstance(source, ArraySource):
        array = source.array
        wrapped = (
            MappedBfloat16(array)
            if source.describe()["format"] == "safetensors file" and _is_bfloat16(source)
            else array
        )
        return wrapped, tuple(array.shape)
    n_rows = source.n_rows
    if n_rows is None:
        raise InvalidInputError(
            f"{source.location} is a stream: write it to a store first, with `gmmatch embed --encoder identity`."
        )
    out: NDArray[Any] | None = None
    for batch in source.batches(4096):
        if out is None:
            shape = (n_rows, batch.rows.shape[1])
            needed = n_rows * shape[1] * batch.rows.dtype.itemsize
            if memory is not None and needed > memory // 2:
                raise InvalidInputError(
                    f"{source.location} would take {needed:,} bytes of memory, and --memory allows half of "
                    f"{memory:,} for it: write it to a store first, as `gmmatch embed {source.location} -o rows.emb "
                    "--encoder identity`."
                )
            out = np.empty(shape, dtype=batch.rows.dtype)
        out[batch.start : batch.start + len(batch)] = batch.rows
    if out is None:
        raise InvalidInputError(f"{source.location} has no rows.")
    return out, (out.shape[0], out.shape[1])


def _is_bfloat16(source: Any) -> bool:
    return bool(source._bfloat16) and source.array.dtype.name == "uint16"


class MappedBfloat16:
    """Rows of a safetensors file of bfloat16 numbers, as selectors read them.

    Examples
    --------
    >>> import numpy as np
    >>> MappedBfloat16(np.zeros((3, 2), dtype=np.uint16)).row_source().shape
    (3, 2)
    """

    bfloat16 = True
    on_disk = True

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.shape, self.dtype = array.shape, array.dtype

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        picked: NDArray[Any] = self.array[rows]
        return picked

    def row_source(self) -> MappedBfloat16:
        """Return itself."""
        return self
