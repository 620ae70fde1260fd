"""Rows of a tensor, block by block on the device that holds them; only small results come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.tensor_source import TensorSource
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Vector

# 256 MB of float32, or of float64 differences, at a time.
_BLOCK_BYTES = 1 << 28


def on_device(rows: Rows) -> bool:
    """Return whether the rows are those of a tensor on a device."""
    return isinstance(rows.source, TensorSource)


def tensor_beside(tensor: Any, array: NDArray[Any], dtype: Any = None) -> Any:
    """Return a host array as a tensor on the device of another, of its own type or of ``dtype``.

    Examples
    --------
    >>> import torch
    >>> tensor_beside(torch.zeros(1), np.arange(3)[::2]).tolist()
    [0, 2]
    """
    import torch

    # torch shares the memory of what it is given, and wants to be able to write to it.
    shared = np.require(array, requirements=["C", "W"])
    return torch.from_numpy(shared).to(tensor.device, dtype)


class TensorRows:
    """Some rows of a tensor, as float32, or float64 where they are stored so.

    Examples
    --------
    >>> import torch
    >>> rows = TensorRows(Rows(TensorSource(torch.arange(6.0).reshape(3, 2)), np.array([2, 0])))
    >>> rows.gather(np.array([1])).tolist()
    [[0.0, 1.0]]
    """

    def __init__(self, rows: Rows) -> None:
        import torch

        assert isinstance(rows.source, TensorSource)
        self.tensor = rows.source.tensor
        self.index = rows.index
        self.dtype = torch.float64 if rows.dtype == np.float64 else torch.float32

    def gather(self, positions: Indices | slice) -> Any:
        """Return a tensor of the rows at these positions; a view where they are stored like that, one by one."""
        wanted = self.index[positions]
        if (
            len(wanted)
            and int(wanted[-1]) - int(wanted[0]) + 1 == len(wanted)
            and np.all(np.diff(wanted) == 1)
        ):
            found = self.tensor[int(wanted[0]) : int(wanted[-1]) + 1]
        else:
            found = self.tensor[self.to_device(wanted)]
        return found.to(self.dtype)

    def spans(self, itemsize: int = 4) -> Iterator[slice]:
        """Yield runs of positions that are read together."""
        step = max(1, _BLOCK_BYTES // itemsize // int(self.tensor.shape[1]))
        for first in range(0, len(self.index), step):
            yield slice(first, min(first + step, len(self.index)))

    def to_device(self, array: NDArray[Any]) -> Any:
        """Return a host array as a tensor beside the rows."""
        return tensor_beside(self.tensor, array)

    def distances_to(self, point: Vector) -> Vector:
        """Return the Euclidean distance of every row to ``point``, from float64 differences."""
        centre = self.to_device(point)
        found = [(self.gather(span) - centre).square().sum(dim=1).sqrt().cpu() for span in self.spans(8)]
        return np.concatenate(found)

    def coordinates(self, point: Vector, axes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return every row's coordinates along the axes, seen from ``point``."""
        centre, directions = self.to_device(point), self.to_device(axes)
        found = [((self.gather(span) - centre) @ directions).cpu() for span in self.spans(8)]
        return np.concatenate(found)


@contextmanager
def whole_precision() -> Iterator[None]:
    """Keep products of float32 matrices from being rounded to 11 bits, whatever the program around it allows.

    Examples
    --------
    >>> import torch
    >>> with whole_precision():
    ...     torch.get_float32_matmul_precision()
    'highest'
    """
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
