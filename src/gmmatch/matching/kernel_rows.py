"""Rows of a kernel matrix, one at a time: what a pick in a kernel's space needs."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.kernels.kernels import RBF, Kernel
from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.types import Vector


class KernelRows(Protocol):
    """A source of kernel-matrix rows."""

    def row(self, position: int) -> Vector:
        """Return k(x, xᵢ) for all i, where x stands at ``position``."""
        ...


class StoredGram:
    """A Gram matrix that fits in memory."""

    def __init__(self, gram: NDArray[np.float64]) -> None:
        self.gram = gram

    def row(self, position: int) -> Vector:
        """Return a row of the matrix."""
        values: Vector = self.gram[position]
        return values


class ComputedRows:
    """Kernel rows computed when they are asked for; memory stays linear in the number of rows."""

    def __init__(self, kernel: Kernel, rows: Rows, threads: int) -> None:
        self.kernel, self.rows, self.threads = kernel, rows, threads
        self._values = np.empty(len(rows))

    def row(self, position: int) -> Vector:
        """Return the kernel of one row with all rows; overwritten by the next call."""
        point = self.rows.row(position)

        def work(number: int) -> None:
            start, stop = self.rows.bounds(number)
            part = self._values[start:stop]
            if isinstance(self.kernel, RBF):
                block, index = self.rows.chunk(number)
                negative_half_squared(block, index, point, 1.0 / self.kernel.scale**2, part)
                np.exp(part, out=part)
            else:
                part[:] = self.kernel(self.rows.block(number, np.float64), point[None, :])[:, 0]

        map_in_order(work, self.rows.n_chunks, self.threads)
        return self._values


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, boundscheck=False)
def negative_half_squared(
    block: NDArray[Any],
    index: NDArray[np.int64],
    point: NDArray[np.float64],
    inverse_square: float,
    out: NDArray[np.float64],
) -> None:
    """Write −‖x − point‖² · inverse_square / 2, the exponent of the Gaussian kernel."""
    s = point.shape[0]
    factor = -0.5 * inverse_square
    for i in range(index.shape[0]):
        row = block[index[i]]
        squared = 0.0
        for j in range(s):
            difference = np.float64(row[j]) - point[j]
            squared += difference * difference
        out[i] = factor * squared
