"""New rows for a store whose source has grown: rows that it has, by their ids, are not encoded again.

The new rows are encoded into a second store next to it, which can be interrupted and resumed like any other.
Both are then joined, in the order of the source, to what a new store of the source would be: which then replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch._array import Indices
from gmmatch.data.files import fingerprint_of
from gmmatch.data.source import Batch, Id, Source, regroup
from gmmatch.files import is_remote
from gmmatch.rows.shards import ShardReader
from gmmatch.store.commits import WriterLock, cannot_continue
from gmmatch.store.manifest import MANIFEST_NAME, Manifest
from gmmatch.store.store import Store, clear_store, open_store, sibling_path
from gmmatch.store.writer import StoreWriter

_ROWS = 4096


class Rest:
    """Some rows of a source, numbered from 0.

    Examples
    --------
    >>> from gmmatch.data.arrays import ArraySource
    >>> rest = Rest(ArraySource(np.eye(4), ids=["a", "b", "c", "d"]), np.array([1, 3]))
    >>> [(batch.start, batch.ids) for batch in rest.batches(3)]
    [(0, ['b', 'd'])]
    """

    def __init__(self, source: Source, rows: Indices) -> None:
        self.source, self.rows, self.n_rows = source, rows, len(rows)
        self.kind, self.has_labels, self.describe = source.kind, source.has_labels, source.describe
        names, labels = source.ids, source.labels
        self.ids = [names[row] for row in rows.tolist()]
        self.labels = None if labels is None else [labels[row] for row in rows.tolist()]

    def fingerprint(self) -> str:
        """Hash the source's own fingerprint and the choice of rows."""
        return fingerprint_of(["rest", self.source.fingerprint(), self.rows.tobytes()])

    def batches(self, batch_size: int, start: int = 0) -> Iterator[Batch]:
        """Yield the rows from number ``start`` on; all batches but the last have ``batch_size`` rows."""
        return regroup(self._pieces(batch_size, start), batch_size)

    def _pieces(self, batch_size: int, start: int) -> Iterator[Batch]:
        if start >= self.n_rows:
            return
        for batch in self.source.batches(batch_size, start=int(self.rows[start])):
            first, stop = np.searchsorted(self.rows, [batch.start, batch.start + len(batch)]).tolist()
            if first == stop:
                continue
            positions = (self.rows[first:stop] - batch.start).tolist()
            as_array = isinstance(batch.rows, np.ndarray)
            rows = batch.rows[positions] if as_array else [batch.rows[i] for i in positions]
            yield Batch(rows, self.ids[first:stop], self.labels and self.labels[first:stop], first)


def has_grown(existing: Manifest, source: Source, requested: dict[str, Any], path: Path) -> bool:
    """Return whether a store was made as requested from an earlier state of a source.

    Raises an error where the rows that are new cannot be recognized. Other obstacles are left to the writer.
    """
    names = ("encoder_fingerprint", "dtype")
    same = not existing.is_old and all(getattr(existing, name) == requested[name] for name in names)
    same = same and _what_is_read(existing.source) == _what_is_read(requested["source"])
    has_changed = existing.source_fingerprint not in (None, requested["source_fingerprint"])
    if not (same and has_changed):
        return False
    why = None
    if isinstance(source.ids, range):
        why = "its rows have no ids by which to tell those that are new: name a column of ids (--id-column)"
    elif len(set(source.ids)) < source.n_rows:
        why = "several of its rows have the same id"
    elif is_remote(path):
        why = "a store at an address cannot be replaced"
    if why is not None:
        raise cannot_continue(path, f"{requested['source']['location']} has changed since, and {why}")
    return True


def _what_is_read(description: dict[str, Any]) -> list[Any]:
    """Return what is read of a source, without the labels and how many there are."""
    how = str(description.get("how", "")).partition(",")[0]
    return [how, *(description.get(name) for name in ("format", "kind", "opened_with"))]


def add_rows(
    source: Source, path: Path, requested: dict[str, Any], embed_rest: Callable[[Source, Path], Any]
) -> int:
    """Bring a store up to its source, and return how many of its rows were in the store already.

    ``requested`` is what a writer of the new store is to be given, and ``embed_rest`` encodes the rows that are new,
    given as a source, into a store.
    """
    with closing(WriterLock(path)):
        store, adding = open_store(path, allow_incomplete=True), sibling_path(path, "adding")
        row_of = {name: row for row, name in enumerate(store.ids.tolist())}
        _refuse_another(row_of, source, store)
        for name in _changed_since(source, (path / MANIFEST_NAME).stat().st_mtime):
            row_of.pop(name, None)
        new = np.array([row for row, name in enumerate(source.ids) if name not in row_of], dtype=np.int64)
        n_known = len(source.ids) - len(new)
        files = list(store.row_files)
        if len(new):
            embed_rest(Rest(source, new), adding)
            added = open_store(adding)
            row_of |= {name: len(store) + row for row, name in enumerate(added.ids.tolist())}
            files += added.row_files if len(added) else []
        _join(source, ShardReader(files), row_of, sibling_path(path, "joined"), requested)
        path.rename(sibling_path(path, "old"))
        sibling_path(path, "joined").rename(path)
    finish_replacing(path)
    return n_known


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
        lost = f"{len(gone):,} of its rows ({gone[0]!r}, ...)"
        raise cannot_continue(store.path, f"{lost} are not in {now}; it was made from {was}")


def _changed_since(source: Source, moment: float) -> list[Id]:
    """Return the ids of image files that were written after a moment."""
    folder = getattr(source, "folder", None)
    paths = {} if folder is None else {name: Path(folder, str(name)) for name in source.ids}
    return [name for name, path in paths.items() if path.exists() and path.stat().st_mtime > moment]


def _join(
    source: Source, reader: ShardReader, row_of: dict[Any, int], path: Path, requested: dict[str, Any]
) -> None:
    """Write rows that are known by their ids as one store, in the order of the source."""
    clear_store(path)  # of a run that was interrupted; perhaps of another state of the source
    ids, labels = source.ids, source.labels
    kept = [row for row, name in enumerate(ids) if name in row_of]
    with StoreWriter(path, **requested) as writer:
        for start in range(0, len(kept), _ROWS):
            rows = kept[start : start + _ROWS]
            names = [ids[row] for row in rows]
            tags = None if labels is None else [labels[row] for row in rows]
            block = reader.take(np.array([row_of[name] for name in names]))
            writer.append(block, names, tags, source_rows=rows)
        writer.finish()
