"""Finding files, and telling whether they changed."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch.errors import DataFileNotFoundError, InvalidInputError, first_line
from gmmatch.files import as_path

_DIGITS = re.compile(r"([0-9]+)")
_RANGE = re.compile(r"\{([0-9]+)\.\.([0-9]+)\}")
_SPLITS = ("train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval")
END_BYTES = 1 << 16
"""How much of each end of a file counts."""


def damaged(path: object, kind: str, error: object) -> InvalidInputError:
    """Make the error for a file that is not what its suffix says, or not whole."""
    return InvalidInputError(f"{path} is not a {kind}, or is truncated or damaged: {first_line(error)}.")


def natural_key(path: str) -> tuple[object, ...]:
    """Sort key under which ``img2`` comes before ``img10``, folder by folder."""
    # Splitting puts text at even places and digits at odd ones, so that like is compared with like.
    folders = (_DIGITS.split(name) for name in path.split("/"))
    keys = (tuple(int(text) if i % 2 else text for i, text in enumerate(parts)) for parts in folders)
    return tuple(keys), path


def list_files(folder: Path, wanted: Callable[[str], bool]) -> list[str]:
    """List the files below a folder whose names are wanted, in natural order."""
    return sorted(iter_files(folder, wanted), key=natural_key)


def iter_files(folder: Path, wanted: Callable[[str], bool]) -> Iterator[str]:
    """Yield what :func:`list_files` lists, in no particular order and without holding it."""
    return _iterate(str(folder), "", wanted, frozenset())


def _iterate(
    folder: str, prefix: str, wanted: Callable[[str], bool], above: frozenset[tuple[int, int]]
) -> Iterator[str]:
    status = os.stat(folder)  # noqa: PTH116 (strings, because a folder may hold millions of files)
    identity = (status.st_dev, status.st_ino)
    if identity in above:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "__MACOSX":
                continue
            if entry.is_dir():
                yield from _iterate(entry.path, f"{prefix}{entry.name}/", wanted, above | {identity})
            # A dangling link is listed too: better an error that names it than a row that vanishes.
            elif wanted(entry.name) and (entry.is_file() or entry.is_symlink()):
                yield prefix + entry.name


def pick_split(
    files: Sequence[str], split: str | None, where: str, *, by_name: bool = True
) -> tuple[list[str], str | None]:
    """Keep the files of one split, and say which it was.

    A file belongs to the split ``train`` if it lies in a top folder of that name, or, with ``by_name``,
    is named ``train.parquet`` or ``train-00000-of-00002.parquet``, as Hugging Face does.
    """
    if split is not None:
        picked = [file for file in files if _belongs_to(file, split, by_name)]
        if picked:
            return picked, split
    of_file = {next((name for name in _SPLITS if _belongs_to(file, name, by_name)), None) for file in files}
    known = sorted(name for name in of_file if name is not None)
    names = ", ".join(repr(name) for name in known)
    if split is not None:
        raise InvalidInputError(f"split={split!r}: {where} has {names or 'no splits'}.")
    if None in of_file or not known:
        return list(files), None
    if len(known) > 1:
        raise InvalidInputError(f"{where} holds several splits ({names}): say which, as split={known[0]!r}.")
    return list(files), known[0]


def _belongs_to(file: str, split: str, by_name: bool) -> bool:
    top, _, below = file.partition("/")
    if below and (top == split or top in _SPLITS or not by_name):
        return top == split
    name = file.rpartition("/")[2]
    return by_name and name.startswith((f"{split}.", f"{split}-", f"{split}_"))


def expand(spec: str) -> list[Path] | None:
    """Return the files that a pattern names, or None if ``spec`` is no pattern.

    Patterns are the shell's ``*``, ``?`` and ``[...]``, and WebDataset's ``{000..012}``.
    """
    if os.path.lexists(spec) or not any(mark in spec for mark in ("*", "?", "[", "{")):
        return None
    if not any(mark in spec for mark in ("*", "?", "[")):
        paths = [Path(name) for name in _expand_ranges(spec)]
        if len(paths) == 1:
            return None
        missing = [path for path in paths if not path.exists()]
        if missing:
            raise DataFileNotFoundError(
                f"{spec}: {len(missing)} of {len(paths)} files do not exist, the first of them {missing[0]}."
            )
        return paths
    patterns = _expand_ranges(spec)
    names: Iterable[str] = (name for pattern in patterns for name in glob.glob(pattern, recursive=True))  # noqa: PTH207
    files = sorted({name for name in names if Path(name).is_file()}, key=natural_key)
    if not files:
        raise DataFileNotFoundError(f"{spec}: no file matches this pattern.")
    return [Path(name) for name in files]


def _expand_ranges(spec: str) -> list[str]:
    match = _RANGE.search(spec)
    if match is None:
        return [spec]
    low, high = match.groups()
    numbers = range(int(low), int(high) + 1)
    return [
        name
        for number in numbers
        for name in _expand_ranges(spec[: match.start()] + str(number).zfill(len(low)) + spec[match.end() :])
    ]


def fingerprint_of(parts: Iterable[str | int | bytes | None]) -> str:
    """Hash a sequence of values, so that different sequences get different texts."""
    digest = hashlib.blake2b(digest_size=16)
    for value in parts:
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
        # The type and the length come first, so that no two sequences run together to the same bytes.
        digest.update(f"{type(value).__name__} {len(data)} ".encode())
        digest.update(data)
    return digest.hexdigest()


def file_ends(path: str | os.PathLike[str]) -> tuple[int, bytes]:
    """Return a file's size and a hash of its first and last 64 KiB."""
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        content = file.read(END_BYTES)
        file.seek(max(0, size - END_BYTES))
        content += file.read(END_BYTES)
    return size, hashlib.blake2b(content, digest_size=16).digest()


def files_fingerprint(paths: Iterable[str | os.PathLike[str]], *settings: str | None) -> str:
    """Fingerprint files in their order, and the settings they are read with; see the module's note."""
    parts: list[str | int | bytes | None] = list(settings)
    for path in paths:
        parts.extend(file_ends(path))
    return fingerprint_of(parts)


def canonical(value: Any) -> str:
    """Write a value of rows, ids or labels as text, the same in every process."""
    if isinstance(value, dict):
        items = ", ".join(f"{key!r}: {canonical(value[key])}" for key in sorted(value))
        return "{" + items + "}"
    if isinstance(value, np.ndarray):
        return canonical(value.tolist())
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(canonical(item) for item in value) + "]"
    return repr(value)


def is_store(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a store of embeddings, even if its manifest cannot be read."""
    folder = as_path(path)
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        return False
    try:
        document = json.loads(manifest.read_bytes())
    except (OSError, ValueError, RecursionError):
        return any(folder.glob("shard-*-*.*"))
    return isinstance(document, dict) and document.get("format") == "gmmatch-embeddings"
