"""New rows for a store whose source has grown: rows that it has, by their ids, are not encoded again.

The new rows are encoded into a second store next to it, which can be interrupted and resumed like any other.
Both are then joined, in the order of the source, to what a new store of the source would be: which then replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch._array import Indices
from gmmatch.data.files import fingerprint_of
from gmmatch.data.source import BaseSource, Batch, Id, Source
from gmmatch.errors import InvalidInputError
from gmmatch.files import is_remote
from gmmatch.groups import Label
from gmmatch.store.beginning import writer_lock
from gmmatch.store.manifest import MANIFEST_NAME, Manifest
from gmmatch.store.store import Store, clear_store, open_store, sibling_path
from gmmatch.store.writer import StoreWriter

_ROWS = 4096


class Rest(BaseSource):
    """Some rows of a source, numbered from 0.

    Examples
    --------
    >>> from gmmatch.data.arrays import ArraySource
    >>> rest = Rest(ArraySource(np.eye(4), ids=["a", "b", "c", "d"]), np.array([1, 3]))
    >>> [(batch.start, batch.ids) for batch in rest.batches(3)]
    [(0, ['b', 'd'])]
    """

    n_rows: int
    ids: list[Id]
    labels: list[Label] | None

    def __init__(self, source: Source, rows: Indices) -> None:
        self.source, self.rows, self.n_rows = source, rows, len(rows)
        self.kind, description = source.kind, source.describe()
        self.format, self.location, self.how = (
            description["format"],
            description["location"],
            description["how"],
        )
        self.opened_with = description.get("opened_with", {})
        names, labels = source.ids, source.labels
        self.ids = [names[row] for row in rows.tolist()]
        self.labels = None if labels is None else [labels[row] for row in rows.tolist()]

    def fingerprint(self) -> str:
        """Hash the source's own fingerprint and the choice of rows."""
        return fingerprint_of(["rest", self.source.fingerprint(), self.rows.tobytes()])

    def _pieces(self, start: int, size_hint: int) -> Iterator[Batch]:
        if start >= len(self.rows):
            return
        for batch in self.source.batches(size_hint, start=int(self.rows[start])):
            first, stop = np.searchsorted(self.rows, [batch.start, batch.start + len(batch)]).tolist()
            positions = (self.rows[first:stop] - batch.start).tolist()
            if positions:
                array = isinstance(batch.rows, np.ndarray)
                yield Batch(
                    batch.rows[positions] if array else [batch.rows[i] for i in positions],
                    [batch.ids[i] for i in positions],
                    None if batch.labels is None else [batch.labels[i] for i in positions],
                    first,
                )


def has_grown(existing: Manifest, source: Source, encoder_fingerprint: str, path: Path) -> bool:
    """Return whether a store was made by the same encoder from an earlier state of a source.

    Raises an error where the rows that are new cannot be recognized. Other obstacles are left to the writer.
    """
    now = source.describe()
    same = all(existing.source.get(name) == now.get(name) for name in ("format", "kind", "opened_with"))
    same = same and _first_words(existing.source) == _first_words(now)
    if existing.source_fingerprint in (None, source.fingerprint()) or not same or source.n_rows is None:
        return False
    if existing.is_old or existing.encoder_fingerprint != encoder_fingerprint:
        return False
    why = None
    if isinstance(source.ids, range):
        why = "its rows have no ids by which to tell those that are new: name a column of ids (--id-column)"
    elif len(set(source.ids)) < source.n_rows:
        why = "several of its rows have the same id"
    elif is_remote(path):
        why = "a store at an address cannot be replaced"
    if why is not None:
        raise InvalidInputError(
            f"{path} cannot be continued: {now['location']} has changed since, and {why}. Or choose another folder, "
            "or begin again (--force)."
        )
    return True


def _first_words(description: dict[str, Any]) -> str:
    """Return what is read, without the labels and how many there are."""
    return str(description.get("how", "")).partition(",")[0]


def add_rows(source: Source, path: Path, embed_rest: Callable[[Source, Path], Any]) -> int:
    """Bring a store up to its source, and return how many of its rows were in the store already.

    ``embed_rest`` encodes the other rows, given as a source, into a store.
    """
    lock = writer_lock(path)
    try:
        store = open_store(path, allow_incomplete=True)
        row_of = {name: row for row, name in enumerate(store.ids.tolist())}
        _refuse_another(row_of, source, store)
        for name in _changed_since(source, (path / MANIFEST_NAME).stat().st_mtime):
            row_of.pop(name, None)
        new = np.array([row for row, name in enumerate(source.ids) if name not in row_of], dtype=np.int64)
        if len(new):
            embed_rest(Rest(source, new), sibling_path(path, "adding"))
        _join(
            source,
            store,
            row_of,
            sibling_path(path, "adding") if len(new) else None,
            sibling_path(path, "joined"),
        )
        path.rename(sibling_path(path, "old"))
        sibling_path(path, "joined").rename(path)
    finally:
        lock.release()
    finish_replacing(path)
    return sum(name in row_of for name in source.ids)


def finish_replacing(path: Path) -> None:
    """Put a joined store in the place of the old one where that was interrupted, and delete what it was made of."""
    if is_remote(path) or not sibling_path(path, "old").exists():
        return
    if not path.exists():
        sibling_path(path, "joined").rename(path)
    # What is left of the old one says that there is something to do: it goes last.
    for name in ("adding", "old"):
        clear_store(sibling_path(path, name))


def _refuse_another(row_of: dict[Any, int], source: Source, store: Store) -> None:
    """Raise where rows of the store are not in the source, which is another one: that is likely a slip."""
    known = set(source.ids)
    gone = [name for name in row_of if name not in known]
    was, now = store.source.get("location"), source.describe()["location"]
    if gone and was != now:
        raise InvalidInputError(
            f"{store.path} cannot be continued: {len(gone):,} of its rows ({gone[0]!r}, ...) are not in {now}; it "
            f"was made from {was}. Choose another folder, or begin again (--force)."
        )


def _changed_since(source: Source, moment: float) -> list[Id]:
    """Return the ids of image files that were written after a moment."""
    folder = getattr(source, "folder", None)
    paths = {} if folder is None else {name: Path(folder, str(name)) for name in source.ids}
    return [name for name, path in paths.items() if path.exists() and path.stat().st_mtime > moment]


def _join(source: Source, store: Store, row_of: dict[Any, int], adding: Path | None, path: Path) -> None:
    """Write the rows of a store and the added ones as one store, in the order of the source."""
    clear_store(path)  # of a run that was interrupted; perhaps of another state of the source
    stores: list[tuple[Store, dict[Any, int]]] = [(store, row_of)]
    if adding is not None:
        added = open_store(adding)
        stores.append((added, {name: row for row, name in enumerate(added.ids.tolist())}))
    manifest, ids, labels = store.manifest, list(source.ids), source.labels
    with StoreWriter(
        path,
        encoder=manifest.encoder,
        encoder_fingerprint=manifest.encoder_fingerprint,
        encoder_details=manifest.encoder_details,
        source=source.describe(),
        source_fingerprint=source.fingerprint(),
        n_features=manifest.n_features,
        dtype=manifest.dtype,
        rows_per_shard=manifest.rows_per_shard,
    ) as writer:
        for start in range(0, len(ids), _ROWS):
            chunk = list(enumerate(ids[start : start + _ROWS], start))
            rows = [row for row, name in chunk if any(name in numbers for _, numbers in stores)]
            block = np.empty((len(rows), store.n_features), dtype=store.dtype)
            for opened, numbers in stores:
                positions = [i for i, row in enumerate(rows) if ids[row] in numbers]
                if positions:
                    block[positions] = opened.to_numpy([numbers[ids[rows[i]]] for i in positions])
            tags = None if labels is None else [labels[row] for row in rows]
            writer.append(block, [ids[row] for row in rows], tags, source_rows=rows)
        writer.finish()
