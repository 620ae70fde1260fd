"""What commands ask of a store: whether a path is one, and the ids and labels of its rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gmmatch.embeddings.row_tables import RowTable
    from gmmatch.embeddings.store import Store
    from gmmatch.types import Indices


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


def store_tables(store: Store) -> Iterator[tuple[int, int, RowTable]]:
    """Yield the ids, labels and source rows of a store a shard at a time, with the shard's bounds."""
    from gmmatch.embeddings.row_tables import read_table

    for shard in store.manifest.shards:
        yield (
            shard.start,
            shard.stop,
            read_table(store.path / shard.table_file, shard.table_sha256, shard.n_rows),
        )


def store_ids(store: Store, rows: Indices) -> NDArray[Any]:
    """Return the ids of these rows, in their order; of the ids of millions of rows no others are kept."""
    import numpy as np

    from gmmatch.embeddings.row_tables import as_array

    found: dict[int, Any] = {}
    wanted = np.unique(rows)
    for start, stop, table in store_tables(store):
        first, last = np.searchsorted(wanted, [start, stop])
        found.update((row, table.ids[row - start]) for row in wanted[first:last].tolist())
    return as_array([found[row] for row in rows.tolist()])


def store_labels(store: Store) -> NDArray[Any] | None:
    """Return the labels of all rows, or None if the store has none."""
    import numpy as np

    if not store.manifest.has_labels:
        return None
    # One object per class instead of one per row.
    known: dict[tuple[type, Any], Any] = {}
    labels: NDArray[Any] = np.empty(len(store), dtype=object)
    for start, stop, table in store_tables(store):
        labels[start:stop] = [known.setdefault((type(label), label), label) for label in table.labels or []]
    return labels


def source_rows(store: Store, n_labels: int) -> NDArray[np.int64] | None:
    """Say where to find the labels of a store's rows among those of its source, which may have more rows."""
    import numpy as np

    if store.source.get("n_rows") != n_labels:
        return None
    return np.concatenate([np.array(table.source_rows) for _, _, table in store_tables(store)])
