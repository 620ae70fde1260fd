"""Before a store is written: a folder for it, and a lock that keeps other writers out."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from gmmatch.errors import DataFileNotFoundError, GMMatchError, InvalidInputError
from gmmatch.files import is_leftover, is_remote
from gmmatch.store.manifest import MANIFEST_NAME, is_store_file

LOCK_NAME = "writer.lock"


class StoreLockedError(GMMatchError, RuntimeError):
    """Another writer is at work on the store."""


class StoreWriteError(GMMatchError, OSError):
    """A store could not be written (a full disk, missing rights); what was complete before is safe."""

    def __str__(self) -> str:
        return str(self.strerror)


class WriterLock:
    """The right to write to a folder, held until :meth:`release` or the end of the process, however it dies."""

    def __init__(self, folder: Path) -> None:
        from filelock import FileLock, Timeout  # it loads asyncio, which readers do not need

        self.path = folder / LOCK_NAME
        self._process = os.getpid()
        self._lock = FileLock(self.path, thread_local=False)
        holder = "another process"
        # Before the try, as older versions of filelock empty the file that they fail to lock.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            holder_record = json.loads(self.path.read_bytes())
            holder = f"process {holder_record['pid']} on {holder_record['host']}"
        try:
            # Not a single try: a holder that ends meanwhile deletes the file that was opened.
            self._lock.acquire(timeout=0.1, poll_interval=0.02)
        except Timeout:
            raise StoreLockedError(
                f"{folder} is being written by {holder}: wait for it to end, or choose another folder."
            ) from None
        with contextlib.suppress(OSError):  # who holds it is a courtesy, and the disk may be full
            self.path.write_text(json.dumps({"pid": self._process, "host": socket.gethostname()}))

    @property
    def is_held(self) -> bool:
        """Whether this process still holds the lock; a forked child never does."""
        return self._process == os.getpid() and self._lock.is_locked

    def release(self) -> None:
        """Delete the lock file and give the lock up; harmless if that was done already."""
        if self.is_held:
            # Deleted while still locked: a file that nobody holds is never in the way.
            with contextlib.suppress(OSError):
                self.path.unlink()
            self._lock.release()


class NoLock:
    """Stands in for a lock where there are none: on object storage."""

    is_held = True

    def release(self) -> None:
        """Give up what was never held."""
        self.is_held = False


def writer_lock(folder: Path) -> WriterLock | NoLock:
    """Return the right to write to a folder, or raise if another process has it."""
    return NoLock() if is_remote(folder) else WriterLock(folder)


@contextlib.contextmanager
def explained(path: Path, n_safe: int) -> Iterator[None]:
    """Turn a failed write into one sentence that says how many rows are safe and how to resume.

    Examples
    --------
    >>> with explained(Path("."), 8192):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    gmmatch.store.beginning.StoreWriteError: . could not be written: No space left on device.
    8,192 rows are safe in it; free some space and run the same again to resume.
    """
    try:
        yield
    except StoreWriteError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).rstrip(".")
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space" if full else "correct this"
        n_safe = n_safe if is_remote(path) or path.exists() else 0  # the whole store may have been removed
        raise StoreWriteError(
            error.errno,
            f"{path} could not be written: {reason}. {n_safe:,} rows are safe in it; {remedy} and run the same "
            "again to resume.",
        ) from None


def prepare_folder(folder: Path) -> None:
    """Make the folder of a store, or raise if something else is in its place.

    Examples
    --------
    >>> prepare_folder(Path("nowhere/x.emb"))
    Traceback (most recent call last):
    gmmatch.errors.DataFileNotFoundError: nowhere/x.emb: the folder nowhere does not exist; make it first.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file: an embedding store is a folder.")
    if not folder.is_dir():
        if is_remote(folder):
            return  # there are no folders, only names of files
        if not folder.parent.is_dir():
            raise DataFileNotFoundError(
                f"{folder}: the folder {folder.parent} does not exist; make it first."
            )
        with explained(folder, 0):
            folder.mkdir(exist_ok=True)
    elif not (folder / MANIFEST_NAME).exists():
        foreign = sorted(
            path.name
            for path in folder.iterdir()
            if path.name != LOCK_NAME and not is_leftover(path.name) and not is_store_file(path.name)
        )
        if foreign:
            raise InvalidInputError(
                f"{folder} exists and is not an embedding store (it holds {foreign[0]!r}): "
                "choose another folder."
            )
