"""Who may change which shards a store has: one process at a time, however many write the shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gmmatch.errors import GMMatchError, InvalidInputError
from gmmatch.files import is_leftover
from gmmatch.store.beginning import StoreWriteError, explained, prepare_folder, writer_lock
from gmmatch.store.manifest import MANIFEST_NAME, Manifest, check_files, is_store_file, load_manifest
from gmmatch.store.shard import ArrowShard

_EXPLANATIONS = {
    "encoder": "another encoder made it",
    "encoder_fingerprint": "its encoder has the same name, but other weights or settings",
    "dtype": "it holds numbers of another type",
    "n_features": "it holds rows of another length",
    "rows_per_shard": "it has shards of another size",
    "source_fingerprint": "it was made from other data, or its source has changed since",
}


class Commits:
    """Begin a store, or continue one, and add shards to its manifest.

    Shards are written by :func:`~gmmatch.store.shard.write_shard`, here or in other processes, in any order; they
    are part of the store once they are added. Numbers that are missing can be added later, also by a process that
    continues the store. If no row of a shard could be encoded, it is written all the same, with no rows.

    Parameters
    ----------
    path
        The folder; made if it is missing.
    requested
        What the store is to hold. If there is one already that holds something else, it is refused.

    Attributes
    ----------
    path
    manifest
        As it is on disk, and with what is known of the rows before the first are there.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from gmmatch.store import open_store
    >>> from gmmatch.store.shard import RowTable, write_shard
    >>> rows = np.eye(3, dtype=np.float32)
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name, "x.emb")
    ...     requested = Manifest("mine", "1", "float32", n_features=3, rows_per_shard=2, has_labels=False)
    ...     commits = Commits(folder, requested)
    ...     last = write_shard(folder, 1, RowTable([2], ["c"]), rows[2:])
    ...     commits.add([last])
    ...     commits.add([write_shard(folder, 0, RowTable([0, 1], ["a", "b"]), rows[:2])], complete=True)
    ...     commits.close()
    ...     open_store(folder).ids.tolist()
    ['a', 'b', 'c']
    """

    def __init__(self, path: Path, requested: Manifest) -> None:
        self.path, self.failed = path, False
        prepare_folder(path)
        with explained(path, 0):
            self._lock = writer_lock(path)
        try:
            with explained(path, 0):
                self.manifest = self._begin(requested)
        except BaseException:
            self._lock.release()
            raise

    @property
    def is_open(self) -> bool:
        """Whether this process may still add shards."""
        return self._lock.is_held

    def check_usable(self) -> None:
        """Raise if shards can no longer be added."""
        if self.failed:
            raise GMMatchError(f"{self.path}: writing failed before; open the store again to go on.")
        if not self.is_open:
            raise GMMatchError(f"{self.path}: this writer is closed.")

    def add(self, shards: Iterable[ArrowShard] = (), *, complete: bool = False) -> None:
        """Add shards that were written, in place of those with the same number; or say that there are no more."""
        added = {shard.number: shard for shard in shards}
        by_number = {shard.number: shard for shard in self.manifest.shards} | added
        ordered = tuple(by_number[number] for number in sorted(by_number))
        self.save(replace(self.manifest, shards=ordered, complete=complete))

    def save(self, manifest: Manifest) -> None:
        """Replace the manifest; then delete the shards that it has no longer."""
        self.check_usable()
        if manifest.complete and manifest.n_unbroken < len(manifest.shards):
            raise GMMatchError(f"{self.path}: shard {manifest.n_unbroken} is missing; add it first.")
        with self.writing():
            manifest.save(self.path)
            for name in _names(self.manifest) - _names(manifest):
                (self.path / name).unlink(missing_ok=True)
        self.manifest = manifest

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn a failed write into one sentence, and refuse to go on after it."""
        try:
            with explained(self.path, self.manifest.n_rows):
                yield
        except StoreWriteError:
            self.failed = True  # what is in memory and what is on disk may have come apart
            raise

    def close(self) -> None:
        """Let others write."""
        self._lock.release()

    def _begin(self, requested: Manifest) -> Manifest:
        """Return the manifest to go on with, after deleting what a killed writer left."""
        manifest, folder = requested, self.path
        if (folder / MANIFEST_NAME).exists():
            manifest = _continue(load_manifest(folder), requested, folder)
            check_files(folder, manifest)
            manifest.save_library_files(folder)
        else:
            requested.save(folder)
        keep = _names(manifest) | set(manifest.library_files)
        for path in list(folder.iterdir()):
            if is_leftover(path.name) or (is_store_file(path.name) and path.name not in keep):
                path.unlink(missing_ok=True)
        return manifest


def _names(manifest: Manifest) -> set[str]:
    return {name for shard in manifest.shards for name, _, _ in shard.files}


def _continue(existing: Manifest, requested: Manifest, folder: Path) -> Manifest:
    if existing.is_old:
        raise InvalidInputError(
            f"{folder} cannot be continued: it is of the format of gmmatch 0.2, which is read, but not written. "
            "Choose another folder, or begin again (--force)."
        )
    for name, explanation in _EXPLANATIONS.items():
        old, new = getattr(existing, name), getattr(requested, name)
        if old is not None and new is not None and old != new:
            raise InvalidInputError(
                f"{folder} cannot be continued: {explanation} ({name} {old!r} there, {new!r} now). "
                "Choose another folder, or begin again (--force)."
            )
    return replace(
        existing,
        n_features=existing.n_features or requested.n_features,
        rows_per_shard=existing.rows_per_shard or requested.rows_per_shard,
    )
