"""What a file says of an array, and the array mapped into memory: ``.npy`` files, also from several threads."""

from __future__ import annotations

import math
import os
import threading
import tokenize
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# NumPy reads a file's header as a Python expression, and the parser of CPython 3.11 fails now and then ("AST
# constructor recursion depth mismatch") where two threads parse at once.
_PARSER = threading.Lock()


class Header(NamedTuple):
    """What a file says of an array: what it is, where it begins (in the file, or in a member of an archive), and how
    many bytes are there for it.
    """

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int
    n_bytes: int
    bfloat16: bool = False

    def load(self, file: IO[bytes]) -> NDArray[Any]:
        """Return the array that lies in an open file, in memory."""
        self.check()
        file.seek(self.start)
        n_bytes = math.prod(self.shape) * self.dtype.itemsize
        order: Any = "F" if self.fortran else "C"
        return np.frombuffer(file.read(n_bytes), self.dtype).reshape(self.shape, order=order)

    def check(self) -> None:
        """Raise if it cannot be true: a false header could ask for all memory."""
        if self.dtype.hasobject:
            raise ValueError("it holds Python objects, which are not read, as they could run code")
        if not all(type(n) is int and n >= 0 for n in self.shape):
            raise ValueError(f"its header has the shape {self.shape}")
        n_bytes = math.prod(self.shape) * self.dtype.itemsize
        if n_bytes > self.n_bytes:
            raise ValueError(f"its header claims {n_bytes:,} bytes, and {self.n_bytes:,} are there")

    def map(self, path: str | PathLike[str]) -> NDArray[Any]:
        """Return the array that lies in a file, memory-mapped and read-only."""
        self.check()
        if 0 in self.shape:
            return np.empty(self.shape, dtype=self.dtype)
        order: Any = "F" if self.fortran else "C"
        return np.memmap(path, self.dtype, "r", self.start, self.shape, order)


def read_header(file: IO[bytes], size: int) -> Header:
    """Return what the header of an open ``.npy`` file of so many bytes says; what is none is a ValueError."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its format version {version} is not supported")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        with _PARSER:
            header = read(file)
    except (
        tokenize.TokenError,
        SyntaxError,
    ):  # what NumPy lets through where a bracket or a quote is missing
        raise ValueError("its header is damaged") from None
    return Header(*header, file.tell(), size - file.tell())


def read_npy(path: Path) -> Header:
    """Return what the header of a ``.npy`` file says."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        return read_header(file, size)


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
    return read_npy(Path(path)).map(path)
