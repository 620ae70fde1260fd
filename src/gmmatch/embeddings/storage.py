"""Files that are either whole or not there: written to a temporary name, flushed, then renamed."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import GMMatchError

_PIECE = 1 << 22
_PREFIX, _SUFFIX = ".gmmatch-", ".tmp"


class StoreWriteError(GMMatchError, OSError):
    """A store could not be written (a full disk, missing rights); what was complete before is safe."""

    def __str__(self) -> str:
        return str(self.strerror)


def write_file(path: Path, pieces: Iterable[bytes | memoryview]) -> tuple[int, str]:
    """Write a file so that it is never half there, and return its size and its SHA-256.

    Parameters
    ----------
    path
        Replaced if it exists.
    pieces
        The contents, one piece after another.

    Returns
    -------
    (size, sha256)

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size, digest = write_file(Path(folder, "a"), [b"ab", b"c"])
    ...     size, digest == hashlib.sha256(b"abc").hexdigest()
    (3, True)
    """
    temporary = path.with_name(f"{_PREFIX}{path.name}{_SUFFIX}")
    digest = hashlib.sha256()
    size = 0
    try:
        with temporary.open("wb") as file:
            for piece in pieces:
                digest.update(piece)
                file.write(piece)
                size += len(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105 (the call that the promise rests on)
    except BaseException:
        temporary.unlink(missing_ok=True)  # on a full disk its space is what the user needs most
        raise
    flush_folder(path.parent)
    return size, digest.hexdigest()


def flush_folder(folder: Path) -> None:
    """Make renames and deletions in a folder survive a power cut, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_leftover(name: str) -> bool:
    """Tell whether a file name is one of the temporary names of :func:`write_file`.

    Examples
    --------
    >>> is_leftover(".gmmatch-manifest.json.tmp"), is_leftover("manifest.json")
    (True, False)
    """
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def npy_pieces(array: NDArray[Any]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of an array as a ``.npy`` file, without copying them.

    Examples
    --------
    >>> data = b"".join(npy_pieces(np.arange(6.0).reshape(3, 2)))
    >>> np.load(io.BytesIO(data)).shape
    (3, 2)
    """
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    yield header.getvalue()
    flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    for start in range(0, len(flat), _PIECE):
        yield flat[start : start + _PIECE]


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's contents.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     sha256_of(Path(file.name))[:8]
    'e3b0c442'
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


@contextmanager
def explained(path: Path, n_safe: int) -> Iterator[None]:
    """Turn a failed write into one sentence that says what is safe and how to go on.

    Parameters
    ----------
    path
        The store.
    n_safe
        How many of its rows are on disk and complete.

    Examples
    --------
    >>> with explained(Path("x.emb"), 8192):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    gmmatch.embeddings.storage.StoreWriteError: x.emb could not be written: No space left on device.
    8,192 rows are safe in it; free some space and run the same again to go on from there.
    """
    try:
        yield
    except StoreWriteError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).rstrip(".")
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space" if full else "put that right"
        raise StoreWriteError(
            error.errno,
            f"{path} could not be written: {reason}. {n_safe:,} rows are safe in it; {remedy} and run the same "
            "again to go on from there.",
        ) from None
