"""Rows block by block, where they lie: NumPy arrays on the host, tensors on a device.

All that screening learns from every row is a sum over blocks or a score per row. Whatever is searched for is searched
for in a bounded sample on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import TensorRows, on_device, whole_precision
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices

Array = Any
"""A NumPy array, or a tensor where the rows are on a device."""

# Eigenvectors of wider scatters cost more than all else.
_EXACT_WIDTH = 1024


# Different values that a column of categories, grades or counts has at the most.
_VALUES = 16
# Float32 holds squares and sums of numbers up to this one, whatever marks a missing value in the rows.
_LARGEST = 1e15


class Blocks:
    """Rows as float32 blocks: seen from a centre, in units of their usual distance from it, maybe along some axes.

    Examples
    --------
    >>> blocks = Blocks(Rows(np.arange(6.0).reshape(3, 2)))
    >>> blocks.scores(lambda block, where: block[:, 0] / block[2, 0]).tolist()
    [-1.0, 0.0, 1.0]
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.axes: NDArray[Any] | None = None
        self.shape = (len(rows), rows.n_features)
        self._tensors = TensorRows(rows) if on_device(rows) else None
        some = rows.gather(spread(len(rows), 1000))
        self._center = np.median(some, axis=0)
        usual = float(np.median(np.linalg.norm(some - self._center, axis=1))) / np.sqrt(rows.n_features)
        self._unit = usual if usual > 1e-300 else max(float(np.abs(some - self._center).max()), 1e-300)

    def along(self, axes: NDArray[Any]) -> Blocks:
        """Return the rows' coordinates along some axes."""
        found = copy(self)
        found.axes = axes if self.axes is None else self.axes @ axes
        found.shape = (self.shape[0], axes.shape[1])
        return found

    def __iter__(self) -> Iterator[tuple[slice, Array]]:
        axes = None if self.axes is None else self.put(self.axes)
        if self._tensors is None:
            for number in range(self.rows.n_chunks):
                block = self._seen(self.rows.block(number))
                yield slice(*self.rows.bounds(number)), block if axes is None else block @ axes
            return
        center = self._tensors.to_device(self._center)
        with whole_precision():
            for span in self._tensors.spans():
                stored = self._tensors.gather(span)
                block = ((stored - center.to(stored.dtype)) / self._unit).clip(-_LARGEST, _LARGEST).float()
                yield span, block if axes is None else block @ axes

    def sample(self, positions: Indices) -> NDArray[np.float32]:
        """Return some rows on the host."""
        some = self.rows.subset(positions)
        found = np.concatenate([self._seen(some.block(number)) for number in range(some.n_chunks)])
        along: NDArray[np.float32] = found if self.axes is None else found @ self.axes.astype(np.float32)
        return along

    def _seen(self, stored: NDArray[Any]) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):
            apart = stored - self._center.astype(stored.dtype)
            apart /= stored.dtype.type(self._unit)
            np.clip(apart, -_LARGEST, _LARGEST, out=apart)
        narrow: NDArray[np.float32] = apart.astype(np.float32, copy=False)
        return narrow

    def put(self, array: NDArray[Any]) -> Array:
        """Return an array where the blocks are, floats as float32."""
        small = array.astype(np.float32) if array.dtype.kind == "f" else array
        return small if self._tensors is None else self._tensors.to_device(np.ascontiguousarray(small))

    def scores(self, function: Callable[[Array, slice], Array]) -> NDArray[Any]:
        """Return on the host what a function makes of every row."""
        return np.concatenate([host(function(block, where)) for where, block in self])

    def measured(self) -> Blocks | None:
        """Return the columns that are measured, or None if there are none.

        Others hold a category, a grade or a count, whose gaps and rare values are natural.
        """
        few = np.sort(self.sample(spread(self.shape[0], 500)), axis=0)
        many = 1 + (np.diff(few, axis=0) != 0.0).sum(axis=0) > min(_VALUES, len(few) - 1)
        if many.all():
            return self
        return self.along(np.eye(len(many))[:, many]) if many.any() else None

    def class_means(self, codes: Indices, n_classes: int) -> NDArray[np.float64]:
        """Return the mean of each class; rows with a code below 0 belong to none."""
        total = np.zeros((n_classes, self.shape[1]))
        for where, block in self:
            total += class_sums(block, self.put(codes[where]), n_classes)
        counts = np.bincount(codes[codes >= 0], minlength=n_classes)
        return total / np.maximum(counts, 1)[:, None]


def class_sums(block: Array, codes: Array, n_classes: int) -> NDArray[np.float64]:
    """Return the sum of the rows of each class, on the host."""
    out = np.zeros((n_classes, block.shape[1]))
    if isinstance(block, np.ndarray):
        order = np.argsort(codes, kind="stable")
        order = order[np.searchsorted(codes[order], 0) :]
        if len(order):
            present, firsts = np.unique(codes[order], return_index=True)
            out[present] = np.add.reduceat(block[order], firsts, axis=0, dtype=np.float64)
        return out
    import torch

    kept = codes >= 0
    total = torch.zeros(out.shape, dtype=torch.float64, device=block.device)
    return host(total.index_add_(0, codes[kept], block[kept].double()))


def host(values: Array) -> NDArray[Any]:
    """Return values as an array on the host."""
    return values if isinstance(values, np.ndarray) else np.asarray(values.cpu())


def spread(n: int, count: int) -> Indices:
    """Return up to ``count`` of ``n`` positions, drawn with a fixed seed, ascending.

    Examples
    --------
    >>> spread(3, 10).tolist()
    [0, 1, 2]
    """
    if n <= count:
        return np.arange(n, dtype=np.int64)
    return np.sort(fixed_random("spread").choice(n, count, replace=False)).astype(np.int64)


def fixed_random(purpose: str) -> np.random.Generator:
    """Return a generator that is the same in every run, and not that of a small seed.

    Whoever made the data may have drawn from ``default_rng(0)``: a sample drawn by the same numbers would be exactly
    the rows that were corrupted.
    """
    return np.random.default_rng([*b"gmmatch screening", *purpose.encode()])


def widest_axes(points: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Return the directions in which centred points vary most, as columns.

    Examples
    --------
    >>> np.abs(widest_axes(np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]], np.float32), 1)).round(3)
    array([[1.],
           [0.]], dtype=float32)
    """
    width = points.shape[1]
    if width <= _EXACT_WIDTH:
        return np.ascontiguousarray(np.linalg.eigh(points.T @ points)[1][:, ::-1][:, :count])
    from sklearn.utils.extmath import randomized_svd

    some = points[spread(len(points), 4 * count)]
    _, _, axes = randomized_svd(some, min(count, *some.shape), n_iter=2, random_state=0)
    return np.ascontiguousarray(axes.T.astype(np.float32))
