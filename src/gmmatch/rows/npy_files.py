"""Opening ``.npy`` files from several threads."""

from __future__ import annotations

import threading
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

# NumPy reads a file's header as a Python expression, and the parser of CPython 3.11 fails now and then ("AST
# constructor recursion depth mismatch") where two threads parse at once.
HEADERS = threading.Lock()


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
    with HEADERS:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array
