"""Files and folders that are either whole or not there: made under a temporary name, flushed, then renamed."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX, _SUFFIX = ".gmmatch-", ".tmp"
_PIECE = 1 << 22


@contextmanager
def replacing(*paths: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Yield a temporary name beside each path; the files written there take the paths' places if all goes well.

    What stood at the paths stays there until all files are safe on disk. After an error nothing of the new
    files remains. A link stays a link: the file that it points to is replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/a.txt") as [temporary]:
    ...         _ = temporary.write_text("whole")
    ...     Path(folder, "a.txt").read_text()
    'whole'
    """
    targets = [Path(path).resolve() for path in paths]
    temporary = [_beside(target) for target in targets]
    try:
        yield temporary
        for made in temporary:
            with made.open("rb+") as file:
                os.fsync(file.fileno())
        for made, target in zip(temporary, targets, strict=True):
            os.replace(made, target)  # noqa: PTH105 (the call that the promise rests on)
    finally:
        for made in temporary:
            made.unlink(missing_ok=True)  # on a full disk its space is what the user needs most
    for folder in {target.parent for target in targets}:
        _flush_folder(folder)


def write_file(path: str | os.PathLike[str], pieces: Iterable[bytes | memoryview]) -> tuple[int, str]:
    """Write a file so that it is never half there, and return its size and its SHA-256.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size, digest = write_file(f"{folder}/a", [b"ab", b"c"])
    ...     size, digest == hashlib.sha256(b"abc").hexdigest()
    (3, True)
    """
    digest = hashlib.sha256()
    size = 0
    with replacing(path) as [temporary], temporary.open("xb") as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
            size += len(piece)
    return size, digest.hexdigest()


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new folder beside ``path`` that takes its place if all goes well; an older one goes last."""
    target = Path(path).absolute()
    temporary, old = _beside(target), _beside(target)
    try:
        temporary.mkdir()
        yield temporary
        if target.exists():
            target.rename(old)
        try:
            temporary.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if old.exists():
        shutil.rmtree(old)


def is_leftover(name: str) -> bool:
    """Tell whether a file name is one of the temporary names of this module.

    Examples
    --------
    >>> is_leftover(".gmmatch-8f3a.tmp"), is_leftover("manifest.json")
    (True, False)
    """
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's contents."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _beside(target: Path) -> Path:
    return target.with_name(f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}")


def _flush_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
