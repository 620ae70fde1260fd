"""What commands share about the files they write: refuse early, write whole, explain failures."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gmmatch.errors import DataFileNotFoundError, GMMatchError, InvalidInputError
from gmmatch.files import replacing


class OutputError(GMMatchError, OSError):
    """A result could not be written (a full disk, missing rights); nothing half-written is left."""

    def __str__(self) -> str:
        return str(self.strerror)


def check_output(path: Path, *, force: bool, option: str = "--output", folder: bool = False) -> None:
    """Raise unless a result may be written to ``path``; called before the work, not after it.

    Parameters
    ----------
    path
        Where the result goes.
    force
        Whether it may be there already.
    option
        What to call the argument in messages.
    folder
        Whether the result is a folder; by default it is a file. The one never replaces the other.

    Examples
    --------
    >>> check_output(Path("nowhere/picks.parquet"), force=False)
    Traceback (most recent call last):
    gmmatch.errors.DataFileNotFoundError: --output nowhere/picks.parquet: there is no folder nowhere; make it first.
    """
    if not path.absolute().parent.is_dir():
        raise DataFileNotFoundError(f"{option} {path}: there is no folder {path.parent}; make it first.")
    if folder and path.exists() and not path.is_dir():
        raise InvalidInputError(f"{option} {path} is a file: give a folder.")
    if not folder and path.is_dir():
        raise InvalidInputError(f"{option} {path} is a folder: give the name of a file.")
    if os.path.lexists(path) and not force:
        raise InvalidInputError(f"{option} {path} exists already: choose another name, or pass --force.")


def keep_inputs(output: Path, inputs: Iterable[str | Path | None], *, folder: str | None = None) -> None:
    """Raise if a result would replace what it is made from, which not even ``--force`` can mean.

    Parameters
    ----------
    output
        A file or folder.
    inputs
        Files that are read, as they were typed: ``file::member`` and None are fine.
    folder
        What is read, if that may be a folder: among its files, those of the result would be taken for some
        of them the next time.

    Examples
    --------
    >>> keep_inputs(Path("x.npz"), ["x.npz::embeddings"])
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: --output x.npz is itself what is read: choose another name.
    """
    target = output.resolve()
    for given in (*inputs, folder):
        if given and _place(given) == target:
            raise InvalidInputError(f"--output {output} is itself what is read: choose another name.")
    if folder and Path(folder).is_dir() and _place(folder) in target.parents:
        raise InvalidInputError(
            f"--output {output} lies within {folder}, which is read: choose another place."
        )


def _place(given: str | Path) -> Path:
    return Path(str(given).partition("::")[0]).expanduser().resolve()


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path``, which takes its place if all goes well; failures are explained."""
    with explained(path), replacing(path) as [temporary]:
        yield temporary


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn a failed write into one sentence that names the output.

    Examples
    --------
    >>> with explained(Path("picks.parquet")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    gmmatch.cli.io.files.OutputError: picks.parquet could not be written: No space left on device.
    """
    try:
        yield
    except GMMatchError:
        raise
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        reason = (error.strerror or str(error)).rstrip(".")
        raise OutputError(error.errno, f"{path} could not be written: {reason}.") from error


def same_place(one: Path, other: Path) -> bool:
    """Tell whether one path lies at or below the other, links resolved.

    Examples
    --------
    >>> same_place(Path("photos"), Path("photos/picked")), same_place(Path("photos"), Path("picked"))
    (True, False)
    """
    first, second = one.resolve(), other.resolve()
    return first == second or first in second.parents or second in first.parents
