"""Files and folders that are either complete or not there: written under a temporary name, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary name in the same folder; the file written there replaces ``path`` if no error occurs.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/a.txt") as temporary:
    ...         _ = temporary.write_text("complete")
    ...     Path(folder, "a.txt").read_text()
    'complete'
    """
    target = Path(path).resolve()
    temporary = target.with_name(f".gmmatch-{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_file(path: str | os.PathLike[str], contents: bytes | memoryview) -> None:
    """Write a file so that it is never incomplete."""
    with replacing(path) as temporary:
        temporary.write_bytes(contents)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new folder that replaces ``path`` if no error occurs; an older one is deleted last."""
    target = Path(path).absolute()
    temporary, old = (target.with_name(f".gmmatch-{secrets.token_hex(8)}.tmp") for _ in range(2))
    try:
        temporary.mkdir()
        yield temporary
        if target.exists():
            target.rename(old)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if old.exists() and target.exists():
            shutil.rmtree(old)
        elif old.exists():
            old.rename(target)


@contextmanager
def setting_aside(path: str | os.PathLike[str]) -> Iterator[None]:
    """Take a file away while what it describes is replaced; it comes back after an error, and else it is deleted."""
    target = Path(path).absolute()
    old = target.with_name(f".gmmatch-{secrets.token_hex(8)}.tmp")
    if target.exists():
        target.rename(old)
    try:
        yield
    except BaseException:
        if old.exists():
            old.rename(target)
        raise
    old.unlink(missing_ok=True)
