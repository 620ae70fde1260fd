"""Files and folders that are either whole or not there: made under a temporary name, flushed, then renamed.

At an address (``s3://``, ``gs://``, whatever fsspec knows) a file is put in one piece: it is whole or not there, too.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

from gmmatch.errors import (
    DataFileNotFoundError,
    GMMatchError,
    InvalidInputError,
    MissingDependencyError,
    first_line,
    install_command,
)

_PREFIX, _SUFFIX = ".gmmatch-", ".tmp"
_PIECE = 1 << 22
# What damaged files lead the standard library and NumPy to. RuntimeError is that of an encrypted archive, of an
# unknown compression (NotImplementedError), and of too many brackets (RecursionError).
DAMAGE = (
    OSError, EOFError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError,
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


def is_remote(location: str | os.PathLike[str]) -> bool:
    """Tell whether a location is an address.

    Examples
    --------
    >>> is_remote("s3://bucket/x.npy"), is_remote("x.npy")
    (True, False)
    """
    return "://" in str(location)


def as_path(location: str | os.PathLike[str]) -> Path:
    """Return a path; that of an address reads and writes through fsspec."""
    if not is_remote(location):
        return Path(location)
    try:
        from upath import UPath

        path = UPath(str(location))
        _ = path.fs  # finds out whether the protocol's own package, such as s3fs, is there
    except ImportError as error:
        remedy = install_command("cloud") if error.name in ("upath", "fsspec") else str(error)
        raise MissingDependencyError(f"{location} is an address; it needs more packages: {remedy}") from None
    return cast(Path, path)  # it has the methods of one


def resolved(path: str | Path) -> Path:
    """Return a path with its links followed; of ``table::column``, the table."""
    return as_path(path) if is_remote(path) else Path(str(path).partition("::")[0]).expanduser().resolve()


def overlap(path: Path, other: Path) -> bool:
    """Return whether one path lies at or below the other, links resolved."""
    first, second = resolved(path), resolved(other)
    return first == second or first in second.parents or second in first.parents


@contextmanager
def explain_damage(
    path: object, kind: str, *more: type[Exception], position: Callable[[], str] = str
) -> Iterator[None]:
    """Make one sentence of whatever is raised by a file that is not what its suffix says, or not whole."""
    kinds: tuple[type[Exception], ...] = (*DAMAGE, *more)
    try:
        yield
    except GMMatchError:
        raise
    except kinds as error:
        if isinstance(error, FileNotFoundError):
            raise DataFileNotFoundError(f"{path}: there is no such file.") from None
        if isinstance(error, OSError) and error.strerror:  # it may not be read
            raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from None
        raise InvalidInputError(
            f"{path} is not a {kind}, or is truncated or damaged: {position()}{first_line(error)}."
        ) from None


def read_header(text: bytes, path: object, format: str, newest: int) -> dict[str, Any]:
    """Return the header (JSON) of a file that gmmatch wrote; raise for another one, or one of a newer version.

    Examples
    --------
    >>> read_header(b'{"format": "ours", "format_version": 2}', "a.file", "ours", 1)
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: a.file was written by a newer gmmatch (format 2, not 1): upgrade to read it.
    """
    header = json.loads(text)
    if not isinstance(header, dict) or header.get("format") != format:
        raise ValueError(f"it does not say format: {format}")
    version = header["format_version"]
    if type(version) is not int or version < 1:
        raise ValueError(f"its format_version is {version!r}")
    if version > newest:
        written = f"was written by a newer gmmatch (format {version}, not {newest})"
        raise InvalidInputError(f"{path} {written}: upgrade to read it.")
    return header


def parquet_table(contents: bytes) -> Any:
    """Return the table that the bytes of a Parquet file hold, read by this thread alone.

    A thread of PyArrow may let go of the bytes after the table is returned. That needs the interpreter; if it is
    about to end, the process aborts.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = pa.BufferReader(contents)
    with pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True) as file:
        return file.read(use_threads=False)


def fetched(path: Path) -> Path:
    """Return a file that can be mapped: the file itself, or a copy of what lies at an address, for this process."""
    if not is_remote(path):
        return path
    remote = cast(Any, path)
    # What lies there now: a file that was replaced since is another one.
    copy = Path(_copies().name, remote.fs.ukey(remote.path)[:32], path.name)
    if not copy.exists():
        copy.parent.mkdir(exist_ok=True)
        with replacing(copy) as [temporary]:
            remote.fs.get_file(remote.path, str(temporary))
    return copy


@cache
def _copies() -> tempfile.TemporaryDirectory[str]:
    """Return the folder of what was fetched, which goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix=_PREFIX)


@contextmanager
def replacing(*paths: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Yield a temporary name next to each path; the files written there take the paths' places if all goes well.

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
    if any(map(is_remote, paths)):
        with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
            yield [Path(folder, str(number)) for number in range(len(paths))]
            for number, path in enumerate(paths):
                remote = cast(Any, as_path(path))
                remote.fs.put_file(f"{folder}/{number}", remote.path)
        return
    targets = [Path(path).resolve() for path in paths]
    temporary = [_temporary_path(target) for target in targets]
    try:
        yield temporary
        for path in temporary:
            with path.open("rb+") as file:
                os.fsync(file.fileno())
        for path, target in zip(temporary, targets, strict=True):
            os.replace(path, target)  # noqa: PTH105 (the call that the promise rests on)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)  # on a full disk its space is what the user needs most
    for parent in {target.parent for target in targets}:
        _flush_folder(parent)


class OutputError(GMMatchError, OSError):
    """A result could not be written (a full disk, missing rights); nothing half-written is left."""

    def __str__(self) -> str:
        return str(self.strerror)


@contextmanager
def explain_failure(path: Path) -> Iterator[None]:
    """Turn a failed write into one sentence that names the output."""
    try:
        yield
    except GMMatchError:
        raise
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        reason = (error.strerror or str(error)).rstrip(".")
        raise OutputError(error.errno, f"{path} could not be written: {reason}.") from error


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name for a file that takes its place if all goes well; failures are explained."""
    with explain_failure(path), replacing(path) as [temporary]:
        yield temporary


def write_file(path: str | os.PathLike[str], *pieces: Any) -> None:
    """Write bytes to a file so that it is never half there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(f"{folder}/a", b"ab", b"c")
    ...     Path(folder, "a").read_bytes()
    b'abc'
    """
    if is_remote(path):
        remote = cast(Any, as_path(path))
        remote.fs.pipe_file(remote.path, b"".join(pieces))
    else:
        with replacing(path) as [temporary], temporary.open("wb") as file:
            file.writelines(pieces)


def write_text(path: Path, text: str) -> None:
    """Write a page or another text for people, whole or not at all; a failure is explained."""
    with explain_failure(path):
        write_file(path, text.encode("utf-8", "replace"))


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new folder next to ``path`` that takes its place if all goes well; an older one goes last."""
    target = Path(path).absolute()
    temporary, old = _temporary_path(target), _temporary_path(target)
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


def csv_bytes(lines: Iterable[Iterable[Any]], delimiter: str = ",") -> bytes:
    """Return lines of a CSV file, in which a text that a spreadsheet would run as a formula gets a quote.

    Examples
    --------
    >>> csv_bytes([["name", "good"], ["=1+1", False], ["cat.png", None]])
    b"name,good\\n'=1+1,false\\ncat.png,\\n"
    """
    import csv

    def to_cell(cell: Any) -> Any:
        if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")):
            return f"'{cell}"
        return str(cell).lower() if isinstance(cell, bool) else cell

    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(map(to_cell, line) for line in lines)
    return out.getvalue().encode()


def table_csv(table: Any) -> bytes:
    """Return a pyarrow Table as the bytes of a CSV file."""
    columns = (column.to_pylist() for column in table.columns)
    return csv_bytes([table.column_names, *zip(*columns, strict=True)])


def write_table(table: Any, path: Path) -> None:
    """Write a pyarrow Table as Parquet or, for any other ending, as CSV."""
    with write_whole(path) as temporary:
        save_table(table, temporary, path.suffix)


def save_table(table: Any, path: Path, suffix: str) -> None:
    """Write a table to a file in the format that belongs to a suffix, whatever the file is called."""
    import pyarrow.parquet as pq

    if suffix.lower() == ".parquet":
        pq.write_table(table, path, write_page_checksum=True)
    else:
        path.write_bytes(table_csv(table))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's contents."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _temporary_path(target: Path) -> Path:
    return target.with_name(f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}")


def _flush_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
