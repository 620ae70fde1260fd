"""What `select` and `compare` read: a store, or a file of embeddings, with its labels and ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from gmmatch.data.files import is_store
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    """Open a store or a file of embeddings.

    Parameters
    ----------
    path
        A store, or what :func:`gmmatch.data.open_source` takes, if it holds embeddings.
    labels
        Labels in place of its own: a file (see :func:`gmmatch.cli.io.labels.read_labels`) or the name of a
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
    own_labels: Callable[[], Any]
    if is_store(path):
        refuse_columns(path, embedding_column, id_column)
        store, opened = _open_store(path)
        own_labels = partial(getattr, store, "labels")
    else:
        from gmmatch.cli.io.vector_files import open_vectors, read_rows

        source, options = open_vectors(path, embedding_column, id_column)
        rows, shape = read_rows(source, memory)
        ids = None if isinstance(source.ids, range) else source.ids
        origin = {"source": {**source.describe(), "opened_with": options}}
        opened = Embeddings(path, rows, shape, None, origin, source_ids=ids, opened_with=options)
        own_labels = partial(getattr, source, "labels")
    if labels == "none":
        return opened
    return replace(opened, labels=own_labels() if labels is None else labels_for(opened, labels))


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
        A file (see :func:`gmmatch.cli.io.labels.read_labels`) or the name of a column.
    option
        What to call the argument in messages.

    Returns
    -------
    array or list
        One label per row.
    """
    from gmmatch.cli.io.labels import is_label_file, read_labels

    store = embeddings.store
    if is_label_file(text):

        def positions(n_labels: int) -> Indices | None:
            # The source of a store may have more rows than could be encoded.
            same = store is not None and store.source.get("n_rows") == n_labels
            return store.source_rows if store is not None and same else None

        return read_labels(text, len(embeddings), option=option, positions=positions)
    if store is not None or embeddings.path.lower().endswith(".npy"):
        raise InvalidInputError(
            f"{option} {text}: there is no such file, and {embeddings.path} has no columns; "
            "give a file with one label per row."
        )
    from gmmatch.cli.io.vector_files import open_as_vectors

    try:
        return open_as_vectors(embeddings.path, {**embeddings.opened_with, "label_column": text}).labels
    except InvalidInputError as error:
        # By the name that was typed, as `embed` has an option of the other one.
        raise InvalidInputError(str(error).replace("label_column=", f"{option} ", 1)) from None


def _open_store(path: str) -> tuple[Store, Embeddings]:
    from gmmatch.embeddings import open_store

    store = open_store(path)
    if not len(store):
        raise InvalidInputError(f"{path} has no rows: there is nothing to select from.")
    origin = store.manifest.origin(str(store.path))
    return store, Embeddings(path, store.as_array(), store.shape, None, origin, store=store)
