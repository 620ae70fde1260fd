"""Who may change which shards a store has: one process at a time, however many write the shards."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from gmmatch.errors import DataFileNotFoundError, GMMatchError, InvalidInputError
from gmmatch.files import OutputError, explain_failure, is_remote
from gmmatch.store.manifest import MANIFEST_NAME, Manifest, check_files, find_manifest, is_store_file
from gmmatch.store.shard import ArrowShard

LOCK_NAME = "writer.lock"

# What a store and a run that continues it must have in common.
_SAME = ("encoder", "encoder_fingerprint", "dtype", "n_features", "rows_per_shard", "source_fingerprint")


class StoreLockedError(GMMatchError, RuntimeError):
    """Another writer is at work on the store."""


class StoreWriteError(OutputError):
    """A store could not be written (a full disk, missing rights); what was complete before is safe."""


class WriterLock:
    """The right to write to a store's folder, or to a file that is read, changed and written again.

    It is held until :meth:`close` or the end of the process, however it dies. On object storage there are no locks,
    and nothing keeps two writers apart.
    """

    def __init__(self, target: Path) -> None:
        self.target, self._process, self._lock = target, os.getpid(), None
        self.path = target / LOCK_NAME if target.is_dir() else target.with_name(f"{target.name}.lock")
        if not is_remote(target):
            self._lock = self._acquire()
        self._is_open = True

    def _acquire(self) -> Any:
        from filelock import FileLock, Timeout  # it loads asyncio, which readers do not need

        lock, holder = FileLock(self.path, thread_local=False), "another process"
        # Before the try, as older versions of filelock empty the file that they fail to lock.
        with suppress(OSError, ValueError, KeyError, TypeError):
            holder_record = json.loads(self.path.read_bytes())
            holder = f"process {holder_record['pid']} on {holder_record['host']}"
        try:
            # Not a single try: a holder that ends meanwhile deletes the file that was opened.
            lock.acquire(timeout=0.1, poll_interval=0.02)
        except Timeout:
            raise StoreLockedError(
                f"{self.target} is being written by {holder}: wait for it to end, or choose another name."
            ) from None
        with suppress(OSError):  # who holds it is a courtesy, and the disk may be full
            self.path.write_text(json.dumps({"pid": self._process, "host": socket.gethostname()}))
        return lock

    @property
    def is_held(self) -> bool:
        """Whether this process still holds the lock; a forked child never does."""
        return self._is_open and self._process == os.getpid()

    def close(self) -> None:
        """Delete the lock file and give the lock up; harmless if that was done already."""
        if self._lock is not None and self.is_held:
            # Deleted while still locked: a file that nobody holds is never in the way.
            with suppress(OSError):
                self.path.unlink()
            self._lock.release()
        self._is_open = False


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
    ...     with Commits(folder, requested) as commits:
    ...         last = write_shard(folder, 1, RowTable([2], ["c"]), rows[2:])
    ...         commits.add([last])
    ...         commits.add([write_shard(folder, 0, RowTable([0, 1], ["a", "b"]), rows[:2])], complete=True)
    ...     open_store(folder).ids.tolist()
    ['a', 'b', 'c']
    """

    def __init__(self, path: Path, requested: Manifest) -> None:
        self.path, self.manifest, self._failed = path, requested, False
        with self._writing():
            _prepare_folder(path)
            self._lock = WriterLock(path)
            try:
                self._begin()
            except BaseException:
                self._lock.close()
                raise

    @property
    def complete(self) -> bool:
        """Whether the store was finished."""
        return self.manifest.complete

    def add(self, shards: Iterable[ArrowShard] = (), *, complete: bool = False) -> None:
        """Add shards that were written, in place of those with the same number; or say that there are no more."""
        added = {shard.number: shard for shard in shards}
        by_number = {shard.number: shard for shard in self.manifest.shards} | added
        ordered = tuple(by_number[number] for number in sorted(by_number))
        self._save(replace(self.manifest, shards=ordered, complete=complete))

    def close(self) -> None:
        """Let others write."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_usable(self) -> None:
        """Raise if shards can no longer be added."""
        if self._failed:
            raise GMMatchError(f"{self.path}: writing failed before; open the store again to go on.")
        if not self._lock.is_held:
            raise GMMatchError(f"{self.path}: this writer is closed.")

    def _save(self, manifest: Manifest) -> None:
        """Replace the manifest; then delete the shards that it has no longer."""
        self._check_usable()
        if manifest.complete and manifest.n_unbroken < len(manifest.shards):
            raise GMMatchError(f"{self.path}: shard {manifest.n_unbroken} is missing; add it first.")
        with self._writing():
            manifest.save(self.path)
            for name in _names(self.manifest) - _names(manifest):
                (self.path / name).unlink(missing_ok=True)
        self.manifest = manifest

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn a failed write into one sentence that says how many rows are safe, and refuse to go on after it."""
        try:
            with explain_failure(self.path):
                yield
        except OutputError as error:
            self._failed = True  # what is in memory and what is on disk may have come apart
            remedy = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "correct this"
            # The whole store may have been removed.
            n_safe = self.manifest.n_rows if is_remote(self.path) or self.path.exists() else 0
            raise StoreWriteError(
                error.errno,
                f"{error} {n_safe:,} rows are safe in it; {remedy} and run the same again to resume.",
            ) from None

    def _begin(self) -> None:
        """Write the first manifest, or go on with the one that is there; then delete what a killed writer left."""
        folder, existing = self.path, find_manifest(self.path)
        if existing is None:
            self.manifest.save(folder)
        else:
            self.manifest = _continue(existing, self.manifest, folder)
            check_files(folder, self.manifest)
            self.manifest.save_library_files(folder)
        keep = _names(self.manifest) | set(self.manifest.library_files)
        for path in list(folder.iterdir()):
            if is_store_file(path.name) and path.name not in keep:
                path.unlink(missing_ok=True)


def _names(manifest: Manifest) -> set[str]:
    return {name for shard in manifest.shards for name, _, _ in shard.files}


def cannot_continue(folder: Path, reason: str) -> InvalidInputError:
    """Return the error for a store to which these rows cannot be added."""
    remedy = "Choose another folder, or begin again (--force)."
    return InvalidInputError(f"{folder} cannot be continued: {reason}. {remedy}")


def _continue(existing: Manifest, requested: Manifest, folder: Path) -> Manifest:
    if existing.is_old:
        raise cannot_continue(folder, "it is of the format of gmmatch 0.2, which is read, but not written")
    for name in _SAME:
        old, new = getattr(existing, name), getattr(requested, name)
        if old is None:
            existing = replace(existing, **{name: new})
        elif new is not None and old != new:
            another = f"it has another {name.replace('_', ' ')}"
            raise cannot_continue(folder, f"{another} ({old!r}, and {new!r} now)")
    return existing


def _prepare_folder(folder: Path) -> None:
    """Make the folder of a store, or raise if something else is in its place.

    Examples
    --------
    >>> _prepare_folder(Path("nowhere/x.emb"))
    Traceback (most recent call last):
    gmmatch.errors.DataFileNotFoundError: nowhere/x.emb: there is no folder nowhere; make it first.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file: an embedding store is a folder.")
    if not folder.is_dir():
        if is_remote(folder):
            return  # there are no folders, only names of files
        if not folder.parent.is_dir():
            raise DataFileNotFoundError(f"{folder}: there is no folder {folder.parent}; make it first.")
        folder.mkdir(exist_ok=True)
    names = [] if (folder / MANIFEST_NAME).exists() else sorted(path.name for path in folder.iterdir())
    foreign = [name for name in names if name != LOCK_NAME and not is_store_file(name)]
    if foreign:
        raise InvalidInputError(
            f"{folder} exists and is not an embedding store (it holds {foreign[0]!r}): choose another folder."
        )
