"""Where copies are written: refuse early, write completely, explain failures."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gmmatch.errors import DataFileNotFoundError, GMMatchError, InvalidInputError
from gmmatch_paper.files import replacing, replacing_folder

# Hidden from readers of image folders. Its presence is what lets --force delete a folder.
MARK = ".gmmatch-copy.json"


class OutputError(GMMatchError, OSError):
    """A copy could not be written (a full disk, missing rights); nothing incomplete is left."""

    def __str__(self) -> str:
        return str(self.strerror)


def check_output(path: Path, *, force: bool, option: str = "--output") -> None:
    """Raise unless a file may be written to ``path``; called before the work, not after it."""
    if path.is_dir():
        raise InvalidInputError(f"{option} {path} is a folder: give the name of a file.")
    _check_exists(path, force=force, option=option)


def check_folder(path: Path, source: Path, *, force: bool) -> None:
    """Raise unless a copy of a folder may be written to ``path``."""
    if overlap(path, source):
        raise InvalidInputError(f"--output {path} and {source} lie within each other: choose another folder.")
    if path.exists() and not path.is_dir():
        raise InvalidInputError(f"--output {path} is a file: give a folder.")
    _check_exists(path, force=force)
    if path.is_dir() and any(path.iterdir()) and not (path / MARK).is_file():
        raise InvalidInputError(
            f"--output {path} holds files that gmmatch did not write, so not even --force replaces it: choose "
            "another folder."
        )


def _check_exists(path: Path, *, force: bool, option: str = "--output") -> None:
    if not path.absolute().parent.is_dir():
        raise DataFileNotFoundError(f"{option} {path}: there is no folder {path.parent}; make it first.")
    if os.path.lexists(path) and not force:
        raise InvalidInputError(f"{option} {path} exists already: choose another name, or pass --force.")


def overlap(path: Path, other: Path) -> bool:
    """Return whether one path lies at or below the other, links resolved."""
    first, second = path.expanduser().resolve(), other.expanduser().resolve()
    return first == second or first in second.parents or second in first.parents


@contextmanager
def explain_failure(path: Path) -> Iterator[None]:
    """Turn a failed write into one sentence that names the output."""
    try:
        yield
    except GMMatchError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).rstrip(".")
        raise OutputError(error.errno, f"{path} could not be written: {reason}.") from error


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a temporary name for a file that replaces ``path`` if no error occurs."""
    with explain_failure(path), replacing(path) as temporary:
        yield temporary


@contextmanager
def writing_folder(path: Path, source: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces ``path`` if no error occurs, marked as written by this command."""
    with explain_failure(path), replacing_folder(path) as temporary:
        yield temporary
        (temporary / MARK).write_text(json.dumps({"source": str(source.resolve())}) + "\n", encoding="utf-8")


def copy_image(image: Path, target: Path, *, link: bool) -> None:
    """Copy an image, or link to it; a link that the file system refuses becomes a symbolic one."""
    if not image.is_file():
        raise InvalidInputError(f"{image} is missing: the folder has changed since its files were listed.")
    if not link:
        shutil.copy2(image, target)
        return
    try:
        target.hardlink_to(image.resolve())
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        target.symlink_to(image.resolve())
