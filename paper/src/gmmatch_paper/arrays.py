"""Names of the kinds of arrays that the package passes around, and what it computes of large ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

_BLOCK_ELEMENTS = 1 << 21


def float_blocks(rows: NDArray[Any]) -> Iterator[Matrix]:
    """Yield a matrix in blocks of float64, so that no copy of a large or mapped one is made."""
    size = max(1, _BLOCK_ELEMENTS // rows.shape[1])
    for first in range(0, len(rows), size):
        yield np.asarray(rows[first : first + size], dtype=np.float64)


def mean_of(rows: NDArray[Any]) -> Vector:
    """Return the mean of the rows in float64, exact also where they are far from the origin."""
    origin = np.asarray(rows[0], dtype=np.float64)
    offset = sum((block - origin).sum(axis=0) for block in float_blocks(rows))
    return np.asarray(origin + offset / len(rows))
