"""Finding files, and telling whether they changed."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.files import as_path, is_remote

_DIGITS = re.compile(r"([0-9]+)")
_SPLITS = ("train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval")
END_BYTES = 1 << 16
"""How much of each end of a file counts."""


def natural_key(path: str) -> tuple[object, ...]:
    """Sort key under which ``img2`` comes before ``img10``, folder by folder."""
    # Splitting puts text at even places and digits at odd ones, so that like is compared with like.
    folders = (_DIGITS.split(name) for name in path.split("/"))
    keys = (tuple(int(text) if i % 2 else text for i, text in enumerate(parts)) for parts in folders)
    return tuple(keys), path


def list_files(folder: str | os.PathLike[str]) -> list[str]:
    """List the files below a folder in natural order, without hidden ones, pipes and devices."""
    # Strings, because a folder may hold millions of files.
    names: list[str] = []
    above: dict[str, frozenset[tuple[int, int]]] = {}
    for path, folders, files in os.walk(folder, onerror=_refuse_folder, followlinks=True):
        status = os.stat(path)  # noqa: PTH116
        identity, ancestors = (status.st_dev, status.st_ino), above.pop(path, frozenset())
        if identity in ancestors:  # a link to a folder that this lies in
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__MACOSX"]
        above |= dict.fromkeys((os.path.join(path, name) for name in folders), ancestors | {identity})  # noqa: PTH118
        prefix = "" if path == os.fspath(folder) else f"{os.path.relpath(path, folder)}/"
        for name in files:
            full = os.path.join(path, name)  # noqa: PTH118
            # A dangling link is listed too: better an error that names it than a row that vanishes.
            if not name.startswith(".") and (os.path.isfile(full) or not os.path.exists(full)):  # noqa: PTH110, PTH113
                names.append(prefix + name)
    return sorted(names, key=natural_key)


def _refuse_folder(error: OSError) -> None:
    raise InvalidInputError(f"{error.filename} cannot be read: {error.strerror}.")


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
    """Return the files that a pattern (``*``, ``?``, ``[...]``) or an address names, or None if it is neither."""
    if not is_remote(spec) and os.path.lexists(spec):
        return None
    names = [spec]
    if glob.has_magic(spec) and is_remote(spec):
        path: Any = as_path(spec)
        names = list(map(path.fs.unstrip_protocol, path.fs.glob(path.path)))
    elif glob.has_magic(spec):
        names = glob.glob(spec, recursive=True)  # noqa: PTH207
    elif not is_remote(spec):
        return None
    files = [path for name in sorted(names, key=natural_key) if (path := as_path(name)).is_file()]
    if not files:
        problem = "no file matches this pattern" if glob.has_magic(spec) else "there is no such file"
        raise DataFileNotFoundError(f"{spec}: {problem}.")
    return files


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
    """Fingerprint files in their order, by their sizes and ends, and the settings they are read with."""
    return fingerprint_of([*settings, *(value for path in paths for value in file_ends(path))])


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
