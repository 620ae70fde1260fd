"""Short texts that tell whether data changed, without reading all of it.

Every file's size counts, and the content of its first and last 64 KiB; dates and places do not, so a
copy has the fingerprint of its original. An edit in the middle of a large file that keeps its size
goes unnoticed: that is the price of not reading terabytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

END_BYTES = 1 << 16
"""How much of each end of a file counts."""


def fingerprint_of(parts: Iterable[str | int | bytes | None]) -> str:
    """Hash a sequence of values, so that different sequences get different texts.

    Parameters
    ----------
    parts
        Text, integers, bytes or None, in an order that matters.

    Returns
    -------
    str
        32 hexadecimal digits.

    Examples
    --------
    >>> fingerprint_of(["ab", "c"]) == fingerprint_of(["a", "bc"])
    False
    >>> fingerprint_of(["ab", 1]) == fingerprint_of(["ab", 1])
    True
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape")
        # The type and the length come first, so that no two sequences run together to the same bytes.
        digest.update(f"{type(part).__name__} {len(data)} ".encode())
        digest.update(data)
    return digest.hexdigest()


def file_ends(path: str | os.PathLike[str]) -> tuple[int, bytes]:
    """Return a file's size and a hash of its first and last 64 KiB.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     file_ends(file.name)[0]
    0
    """
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


def evenly_spaced(n: int, at_most: int) -> list[int]:
    """Return up to ``at_most`` positions among n, the first and the last included.

    Examples
    --------
    >>> evenly_spaced(10, 4)
    [0, 3, 6, 9]
    >>> evenly_spaced(2, 4)
    [0, 1]
    """
    return np.unique(np.linspace(0, n - 1, min(n, at_most)).astype(np.int64)).tolist() if n else []


def canonical(value: Any) -> str:
    """Write a value of rows, ids or labels as text, the same in every process.

    Examples
    --------
    >>> canonical({"label": 3, "bytes": b"ab"})
    "{'bytes': b'ab', 'label': 3}"
    """
    if isinstance(value, dict):
        items = ", ".join(f"{key!r}: {canonical(value[key])}" for key in sorted(value))
        return "{" + items + "}"
    if isinstance(value, np.ndarray):
        return canonical(value.tolist())
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(canonical(item) for item in value) + "]"
    return repr(value)
