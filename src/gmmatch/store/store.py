"""Reading a store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, start_indices
from gmmatch.errors import InvalidInputError
from gmmatch.files import as_path, is_remote
from gmmatch.rows.shards import RowFile, ShardReader, check_file
from gmmatch.store.commits import WriterLock
from gmmatch.store.manifest import (
    MANIFEST_NAME,
    Manifest,
    check_files,
    is_store_file,
    load_manifest,
)
from gmmatch.store.shard import RowTable, as_array


class Store:
    """Embeddings on disk, with their ids and labels; made by :func:`open_store`.

    Attributes
    ----------
    path
        The folder.
    manifest
        What it says about itself.

    Examples
    --------
    >>> import tempfile
    >>> from gmmatch.store import StoreWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with StoreWriter(f"{folder}/x.emb", encoder="mine", encoder_fingerprint="1") as writer:
    ...         writer.append(np.eye(3), ids=["a", "b", "c"])
    ...         writer.finish()
    ...     len(open_store(f"{folder}/x.emb"))
    3
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    def __len__(self) -> int:
        return self.manifest.n_rows

    def __bool__(self) -> bool:
        return True  # an open store is one even if it has no rows

    @property
    def n_features(self) -> int:
        """Numbers per row; 0 if that is not known because there are no rows."""
        return self.manifest.n_features or 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers: float16 or float32."""
        return np.dtype(self.manifest.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return len(self), self.n_features

    @property
    def complete(self) -> bool:
        """Whether all rows of the source are in."""
        return self.manifest.complete

    @property
    def encoder(self) -> str:
        """The name of the encoder that made the rows."""
        return self.manifest.encoder

    @property
    def source(self) -> dict[str, Any]:
        """What was encoded, as the source described itself."""
        return self.manifest.source

    def __repr__(self) -> str:
        state = "" if self.complete else ", incomplete"
        return f"<Store {str(self.path)!r}: {len(self):,} rows of {self.n_features} by {self.encoder}{state}>"

    @cached_property
    def ids(self) -> NDArray[Any]:
        """The names of the rows, shape (n,): int64, or an array of Python objects."""
        return as_array([name for table in self._tables() for name in table.ids])

    def ids_of(self, rows: Indices) -> NDArray[Any]:
        """Return the ids of these rows, in their order; of the ids of millions of rows no others are kept."""
        starts = start_indices([shard.n_rows for shard in self.manifest.shards])
        shard_of = np.searchsorted(starts, rows, side="right") - 1
        names = np.empty(len(rows), dtype=object)
        for number in np.unique(shard_of).tolist():  # no other shards are read
            ids = self.manifest.shards[number].read_table(self.path).ids
            for position in np.flatnonzero(shard_of == number).tolist():
                names[position] = ids[rows[position] - starts[number]]
        return as_array(names.tolist())

    @cached_property
    def labels(self) -> NDArray[Any] | None:
        """The labels, shape (n,): of a number type, or an array of Python objects; None if there are none."""
        if not self.manifest.has_labels:
            return None
        known: dict[tuple[type, Any], Any] = {}  # one object per class instead of one per row
        labels = (label for table in self._tables() for label in table.labels or ())
        return as_array([known.setdefault((type(label), label), label) for label in labels])

    @cached_property
    def source_rows(self) -> Indices:
        """The number of each row in the source, shape (n,); rows that could not be encoded are left out."""
        return np.array([row for table in self._tables() for row in table.source_rows], dtype=np.int64)

    def _tables(self) -> Iterator[RowTable]:
        return (shard.read_table(self.path) for shard in self.manifest.shards)

    @cached_property
    def row_files(self) -> list[RowFile]:
        """Where the vectors are; each file is compared with its checksum when it is first opened."""
        if not len(self):
            raise InvalidInputError(f"{self.path} has no rows: embed some first.")
        return [self.manifest.row_file(self.path, shard) for shard in self.manifest.shards if shard.n_rows]

    def to_numpy(self, index: Any = None) -> NDArray[Any]:
        """Return the rows with these numbers, or all, as an array in memory of shape (m, s).

        Parameters
        ----------
        index : int64 array of shape (m,), optional
        """
        numbers = np.arange(len(self)) if index is None else np.asarray(index, dtype=np.int64)
        if not len(self):
            return np.empty(self.shape, dtype=self.dtype)
        return ShardReader(self.row_files).take(numbers).astype(self.dtype)

    def verify(self) -> None:
        """Read every file and compare its checksum; raise an error that names the first wrong one."""
        for shard in self.manifest.shards:
            for name, _, sha256 in shard.files:
                check_file(self.path / name, sha256)
        for name, contents in self.manifest.library_files.items():
            path = self.path / name
            if not path.is_file() or path.read_bytes() != contents:
                raise InvalidInputError(
                    f"{path} is missing or damaged: run the command that made the store again, which replaces it."
                )


def open_store(
    path: str | os.PathLike[str], *, verify: bool = False, allow_incomplete: bool = False
) -> Store:
    """Open a store for reading.

    The manifest is checked, and that all files are there with their right sizes; a file is compared with its
    checksum when it is first read, or at once on request, which reads everything.

    Parameters
    ----------
    path
        The folder, or its address. Files at an address are copied to this machine when they are first read.
    verify
        Whether to compare all checksums now.
    allow_incomplete
        Whether to accept a store that is still being written, or whose writing was interrupted.

    Returns
    -------
    Store

    Examples
    --------
    >>> import tempfile
    >>> from gmmatch.store import StoreWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with StoreWriter(f"{folder}/x.emb", encoder="my-encoder", encoder_fingerprint="1") as writer:
    ...         writer.append(np.eye(3), ids=["a", "b", "c"], labels=[0, 1, 0])
    ...         writer.finish()
    ...     store = open_store(f"{folder}/x.emb", verify=True)
    ...     store.to_numpy([1]), store.ids, store.labels
    (array([[0., 1., 0.]], dtype=float16), array(['a', 'b', 'c'], dtype=object), array([0, 1, 0]))
    """
    folder = as_path(path)
    manifest = load_manifest(folder)
    if not manifest.complete and not allow_incomplete:
        raise InvalidInputError(
            f"{folder} is not complete ({manifest.n_rows:,} rows so far): run the command that makes it again to "
            "finish it, or pass allow_incomplete=True to use what is there."
        )
    check_files(folder, manifest)
    store = Store(folder, manifest)
    if verify:
        store.verify()
    return store


def sibling_path(path: Path, name: str) -> Path:
    """Return where a store lies that rows are added by, such as ``photos.emb.adding``."""
    return path.with_name(f"{path.name}.{name}")


def delete_store(path: str | os.PathLike[str]) -> None:
    """Delete a store, but no other files in its folder.

    Parameters
    ----------
    path
        The folder. It must be a store, and nobody may be writing to it.

    Examples
    --------
    >>> delete_store("nowhere.emb")
    Traceback (most recent call last):
    gmmatch.errors.DataFileNotFoundError: nowhere.emb: there is no such folder.
    """
    folder = as_path(path)
    load_manifest(folder)
    clear_store(folder)


def clear_store(folder: Path) -> None:
    """Delete what is left of a store, also after a deletion that was interrupted; harmless where there is nothing."""
    if not folder.is_dir():
        return
    with closing(WriterLock(folder)):
        for name in () if is_remote(folder) else ("adding", "joined"):
            clear_store(sibling_path(folder, name))
        # The manifest goes first: without it, what remains after a crash is no store, but leftovers of one.
        (folder / MANIFEST_NAME).unlink(missing_ok=True)
        for file in list(folder.iterdir()):
            if is_store_file(file.name):
                file.unlink(missing_ok=True)
    if not is_remote(folder) and not any(folder.iterdir()):
        folder.rmdir()
