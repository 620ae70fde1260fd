"""One writer at a time: a lock that ends with the process that holds it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import weakref
from pathlib import Path

from gmmatch.errors import GMMatchError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK_NAME = "writer.lock"


class StoreLockedError(GMMatchError, RuntimeError):
    """Another writer is at work on the store."""


class WriterLock:
    """The right to write to a folder, held until :meth:`release` or the end of the process.

    The operating system ends the lock with the process, however it dies, so that the file of a dead
    writer is simply taken over. Where the system has no such locks, the mere existence of the file
    counts, and after a crash it must be deleted by hand.

    Parameters
    ----------
    folder
        Where the lock file is made.

    Raises
    ------
    StoreLockedError
        If another writer lives; it says which.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = WriterLock(Path(folder))
    ...     try:
    ...         WriterLock(Path(folder))
    ...     except StoreLockedError:
    ...         print("refused")
    ...     lock.release()
    refused
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK_NAME
        self._descriptor: int | None = self._acquire()
        with contextlib.suppress(OSError):  # who holds it is a courtesy, and the disk may be full
            os.ftruncate(self._descriptor, 0)
            holder = {"pid": os.getpid(), "host": socket.gethostname()}
            os.write(self._descriptor, json.dumps(holder).encode())
        _HELD.add(self)

    def _acquire(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | (os.O_EXCL if fcntl is None else 0)
        while True:
            try:
                descriptor = os.open(self.path, flags, 0o644)
            except FileExistsError:
                raise self._refusal() from None
            if fcntl is None:
                return descriptor
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise self._refusal() from None
            except BaseException:
                os.close(descriptor)
                raise
            if self._is_current(descriptor):
                return descriptor
            # Between opening and locking, the previous holder deleted the file: this lock guards nothing.
            os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def _refusal(self) -> StoreLockedError:
        holder = "another process"
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(self.path.read_bytes())
            holder = f"process {known['pid']} on {known['host']}"
        advice = "" if fcntl is not None else f" If it is dead, delete {self.path}."
        return StoreLockedError(
            f"{self.path.parent} is being written by {holder}: wait for it to end, or choose another folder.{advice}"
        )

    @property
    def held(self) -> bool:
        """Whether this process still holds the lock."""
        return self._descriptor is not None

    def release(self) -> None:
        """Delete the lock file and give the lock up; harmless if that was done already."""
        if self._descriptor is not None:
            # Deleted while still locked: a file that nobody holds is never in the way.
            self.path.unlink(missing_ok=True)
            self._forget()

    def _forget(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        _HELD.discard(self)


_HELD: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_HELD):
        lock._forget()


# A forked child (a data loader's worker) shares the lock, and would keep it alive after its parent died.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
