"""Opening ``.npy`` files from several threads."""

from __future__ import annotations

import threading
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any

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
