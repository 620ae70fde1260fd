"""Opening ``.npy`` files from several threads."""

from __future__ import annotations

import threading
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

# NumPy reads a file's header as a Python expression, and the parser of CPython 3.11 fails now and then ("AST
# constructor recursion depth mismatch") where two threads parse at once.
_PARSER = threading.Lock()


@contextmanager
def reading_header() -> Iterator[None]:
    """Let one thread at a time read the header of a ``.npy`` file; one that is no header is a ValueError.

    Examples
    --------
    >>> with reading_header():
    ...     raise tokenize.TokenError("EOF in multi-line statement", (2, 0))
    Traceback (most recent call last):
    ValueError: its header is damaged
    """
    with _PARSER:
        try:
            yield
        except (
            tokenize.TokenError,
            SyntaxError,
        ):  # what NumPy lets through where a bracket or a quote is missing
            raise ValueError("its header is damaged") from None


def mapped(path: str | PathLike[str]) -> NDArray[Any]:
    """Return the array of a ``.npy`` file, memory-mapped and read-only.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.arange(3))
    ...     int(mapped(f"{folder}/x.npy").sum())
    3
    """
    with reading_header():
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape of the array in an open ``.npy`` file, whether it is stored column by column, and its type."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its format version {version} is not supported")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with reading_header():
        return read(file)
