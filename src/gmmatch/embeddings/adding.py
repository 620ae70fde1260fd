"""New rows for a store whose source has grown: rows that it has, by their ids, are not encoded again.

The new rows are encoded into a store of their own beside it, which can be interrupted and resumed like any other.
Both are then joined, in the order of the source, to what a new store of the source would be: that takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch.data.files import fingerprint_of
from gmmatch.data.source import BaseSource, Batch, Id, Source
from gmmatch.embeddings.beginning import writer_lock
from gmmatch.embeddings.manifest import MANIFEST_NAME, Manifest
from gmmatch.embeddings.store import Store, beside, clear_store, open_store
from gmmatch.embeddings.writer import StoreWriter
from gmmatch.errors import InvalidInputError
from gmmatch.files import is_remote
from gmmatch.selection.labels import Label
from gmmatch.types import Indices

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
        self.kind, facts = source.kind, source.describe()
        self.format, self.location, self.how = facts["format"], facts["location"], facts["how"]
        self.opened_with = facts.get("opened_with", {})
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
            places = (self.rows[first:stop] - batch.start).tolist()
            if places:
                array = isinstance(batch.rows, np.ndarray)
                yield Batch(
                    batch.rows[places] if array else [batch.rows[place] for place in places],
                    [batch.ids[place] for place in places],
                    None if batch.labels is None else [batch.labels[place] for place in places],
                    first,
                )


def has_grown(begun: Manifest, source: Source, encoder_fingerprint: str, path: Path) -> bool:
    """Return whether a store was made by the same encoder from an earlier state of a source.

    Raises an error where the rows that are new cannot be told. Whatever else is in the way is left to the writer.
    """
    now = source.describe()
    same = all(begun.source.get(name) == now.get(name) for name in ("format", "kind", "opened_with"))
    same = same and _first_words(begun.source) == _first_words(now)
    if begun.source_fingerprint in (None, source.fingerprint()) or not same or source.n_rows is None:
        return False
    if begun.encoder_fingerprint != encoder_fingerprint:
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


def _first_words(facts: dict[str, Any]) -> str:
    """Return what is read, without the labels and how many there are."""
    return str(facts.get("how", "")).partition(",")[0]


def add_rows(source: Source, path: Path, embed_rest: Callable[[Source, Path], Any]) -> int:
    """Bring a store up to its source, and return how many of its rows were in the store already.

    ``embed_rest`` encodes the other rows, given as a source, into a store.
    """
    lock = writer_lock(path)
    try:
        store = open_store(path, allow_incomplete=True)
        place = {name: row for row, name in enumerate(store.ids.tolist())}
        _refuse_another(place, source, store)
        for name in _changed_since(source, (path / MANIFEST_NAME).stat().st_mtime):
            place.pop(name, None)
        new = np.array([row for row, name in enumerate(source.ids) if name not in place], dtype=np.int64)
        if len(new):
            embed_rest(Rest(source, new), beside(path, "adding"))
        _join(source, store, place, beside(path, "adding") if len(new) else None, beside(path, "joined"))
        path.rename(beside(path, "old"))
        beside(path, "joined").rename(path)
    finally:
        lock.release()
    finish_replacing(path)
    return sum(name in place for name in source.ids)


def finish_replacing(path: Path) -> None:
    """Put a joined store in the place of the old one where that was interrupted, and delete what it was made of."""
    if is_remote(path) or not beside(path, "old").exists():
        return
    if not path.exists():
        beside(path, "joined").rename(path)
    # What is left of the old one says that there is something to do: it goes last.
    for name in ("adding", "old"):
        clear_store(beside(path, name))


def _refuse_another(place: dict[Any, int], source: Source, store: Store) -> None:
    """Raise where rows of the store are not in the source, which is another one: that is likely a slip."""
    known = set(source.ids)
    gone = [name for name in place if name not in known]
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


def _join(source: Source, store: Store, place: dict[Any, int], adding: Path | None, path: Path) -> None:
    """Write the rows of a store and the added ones as one store, in the order of the source."""
    clear_store(path)  # of a run that was interrupted; perhaps of another state of the source
    held: list[tuple[Store, dict[Any, int]]] = [(store, place)]
    if adding is not None:
        added = open_store(adding)
        held.append((added, {name: row for row, name in enumerate(added.ids.tolist())}))
    begun, ids, labels = store.manifest, list(source.ids), source.labels
    with StoreWriter(
        path,
        encoder=begun.encoder,
        encoder_fingerprint=begun.encoder_fingerprint,
        encoder_details=begun.encoder_details,
        source=source.describe(),
        source_fingerprint=source.fingerprint(),
        n_features=begun.n_features,
        dtype=begun.dtype,
        rows_per_shard=begun.rows_per_shard,
    ) as writer:
        for start in range(0, len(ids), _ROWS):
            part = list(enumerate(ids[start : start + _ROWS], start))
            rows = [row for row, name in part if any(name in numbers for _, numbers in held)]
            block = np.empty((len(rows), store.n_features), dtype=store.dtype)
            for one, numbers in held:
                mine = [i for i, row in enumerate(rows) if ids[row] in numbers]
                if mine:
                    block[mine] = one.as_array()[np.array([numbers[ids[rows[i]]] for i in mine])]
            tags = None if labels is None else [labels[row] for row in rows]
            writer.append(block, [ids[row] for row in rows], tags, source_rows=rows)
        writer.finish()
