"""Rows block by block, where they lie: NumPy arrays on the host, tensors on a device.

All that screening learns from every row is a sum over blocks or a score per row. Whatever is searched for is searched
for in a bounded sample on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import TensorRows, on_device, tensor_beside, whole_precision
from gmmatch.kernels.feature_maps import FourierFeatures
from gmmatch.rows.rows import Rows, read_only
from gmmatch.types import Indices, namespace

Array = Any
"""A NumPy array, or a tensor where the rows are on a device."""

# Rows that everything is searched for in: ten for each of a thousand columns.
SAMPLE = 10_000
# Rows that describe a class: five in every fold. Smaller ones are believed.
FEWEST = 20
# Wider rows are seen along their widest directions: eigenvectors of wider scatters cost more than all else.
_WIDTH = 1024
# Different values that a column of categories, grades or counts has at the most.
_VALUES = 16
# Float32 holds squares and sums of numbers up to this one, whatever marks a missing value in the rows.
_LARGEST = 1e15


class Blocks:
    """Rows as float32 blocks: seen from a center, each column in its own unit, maybe along some axes.

    Examples
    --------
    >>> blocks = Blocks(Rows(np.arange(6.0).reshape(3, 2)))
    >>> blocks.scores(lambda block, codes: block[:, 0] / block[2, 0]).tolist()
    [-1.0, 0.0, 1.0]
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.axes: NDArray[Any] | None = None
        self.waves: FourierFeatures | None = None
        self.shape = (len(rows), rows.n_features)
        self._tensors = TensorRows(rows) if on_device(rows) else None
        some = rows.gather(spread(len(rows), 1000))
        self._center = np.median(some, axis=0)
        self._units = _units(some - self._center)

    def along(self, axes: NDArray[Any]) -> Blocks:
        """Return the rows' coordinates along some axes."""
        found = copy(self)
        found.axes = host(axes) if self.axes is None else self.axes @ host(axes)
        found.shape = (self.shape[0], axes.shape[1])
        return found

    def waved(self, waves: FourierFeatures) -> Blocks:
        """Return features of the rows."""
        found = copy(self)
        found.waves, found.shape = waves, (self.shape[0], waves.n_features_out_)
        return found

    def sample(self, positions: Indices) -> Blocks:
        """Return some rows, seen in the same way, on the device that has them or on the host."""
        found, some = copy(self), self.rows.subset(positions)
        found._tensors = None if self._tensors is None else TensorRows(some)
        found.rows = Rows(self.rows.gather(positions)) if self._tensors is None else some
        found.shape = (len(positions), self.shape[1])
        return found

    def __iter__(self) -> Iterator[tuple[slice, Array]]:
        axes = None if self.axes is None else self.put(self.axes)
        if self._tensors is None:
            for number in range(self.rows.n_chunks):
                yield slice(*self.rows.bounds(number)), self.of(self.rows.block(number), axes)
            return
        with whole_precision():
            for span in self._tensors.spans():
                yield span, self.of(self._tensors.gather(span), axes)

    def take(self, positions: Indices) -> Array:
        """Return some rows, as a block is."""
        if self._tensors is None:
            some = self.rows.subset(positions)
            return np.concatenate([self.of(some.block(number)) for number in range(some.n_chunks)])
        with whole_precision():
            return self.of(self._tensors.gather(positions))

    def _seen(self, stored: Array) -> Array:
        center = beside(stored, self._center)
        if isinstance(stored, np.ndarray):
            seen = np.empty(stored.shape, dtype=np.float32)
            # Else 0 would become 0 · ∞.
            scales = np.minimum(1.0 / self._units, float(np.finfo(stored.dtype).max))
            see(read_only(stored), center, beside(stored, scales), seen)
            return seen
        return ((stored - center) / beside(stored, self._units)).clip(-_LARGEST, _LARGEST).float()

    def put(self, array: Array) -> Array:
        """Return an array where the blocks are, floats as float32."""
        if self._tensors is not None and isinstance(array, np.ndarray):
            array = self._tensors.to_device(np.ascontiguousarray(array))
        floating = array.dtype.kind == "f" if isinstance(array, np.ndarray) else array.is_floating_point()
        return single(array) if floating else array

    def scores(self, function: Callable[[Array, Array], Array], codes: Indices | None = None) -> NDArray[Any]:
        """Return on the host what a function makes of every row, and of its code."""
        if self.with_workers:
            known = np.zeros(len(self.rows), dtype=np.int64) if codes is None else codes
            return self.rows.each(_seen_by_worker, self.apart(), function, beside=known)  # type: ignore[call-arg]
        return np.concatenate([
            host(function(block, None if codes is None else beside(block, codes[where])))
            for where, block in self
        ])  # fmt: skip

    def total(self, function: Callable[[Array, Array], Array], codes: Indices) -> Array:
        """Return the sum of what a function makes of blocks and the codes of their rows."""
        if self.with_workers:
            return self.rows.total(_seen_by_worker, codes, self.apart(), function)
        return sum(function(block, beside(block, codes[where])) for where, block in self)

    @property
    def with_workers(self) -> bool:
        """Whether workers hold the rows, and make sums and scores of them."""
        return hasattr(self.rows.source, "cluster")

    def apart(self) -> Blocks:
        """Return how rows are seen, without the rows: what workers are sent."""
        found = copy(self)
        del found.rows
        return found

    def of(self, stored: Array, axes: Array | None = None) -> Array:
        """Return stored rows as a block has them; the axes, if they were put there for all blocks."""
        seen = self._seen(stored)
        if self.axes is not None:
            seen = seen @ (self.put(self.axes) if axes is None else axes)
        return seen if self.waves is None else self.waves(seen)

    def measured(self) -> Blocks | None:
        """Return the columns that are measured, or None if there are none.

        Others hold a category, a grade or a count, whose gaps and rare values are natural.
        """
        few = np.sort(host(self.take(spread(self.shape[0], 500))), axis=0)
        many = 1 + (np.diff(few, axis=0) != 0.0).sum(axis=0) > min(_VALUES, len(few) - 1)
        if many.all():
            return self
        return self.along(np.eye(len(many))[:, many]) if many.any() else None

    def class_sums(self, codes: Indices, n_classes: int) -> Array:
        """Return the sum of the rows of each class; rows with a code below 0 belong to none."""
        if self.waves is not None:
            return self.total(partial(class_sums, n_classes=n_classes), codes)
        whole, axes = copy(self), self.axes
        whole.axes = None
        total = whole.total(partial(class_sums, n_classes=n_classes), codes)
        return total if axes is None else total @ beside(total, axes)

    def class_means(self, codes: Indices, n_classes: int) -> Array:
        """Return the mean of each class."""
        counts = np.bincount(codes[codes >= 0], minlength=n_classes)
        total = self.class_sums(codes, n_classes)
        return total / beside(total, np.maximum(counts, 1).astype(np.float64))[:, None]

    def spectrum(self, positions: Indices) -> Spectrum:
        """Return the scatter of a sample of some rows."""
        points = self.take(positions[spread(len(positions), SAMPLE)])
        points = points - points.mean(0)
        xp, width = namespace(points), self.shape[1]
        if width <= _WIDTH:
            widths, axes = xp.linalg.eigh(points.T @ points / len(points))
            return Spectrum(self, double(widths).clip(0.0), double(axes))
        from sklearn.utils.extmath import randomized_svd

        some = host(points)[spread(len(points), 4 * _WIDTH)]
        _, sizes, turned = randomized_svd(some, min(_WIDTH, *some.shape), n_iter=2, random_state=0)
        # Widths ascend, as those of eigh do.
        widths, along = sizes[::-1].astype(np.float64) ** 2 / len(some), self.along(turned[::-1].T)
        return Spectrum(along, beside(points, widths), beside(points, np.eye(len(widths))))


def _units(apart: NDArray[Any]) -> NDArray[Any]:
    """Return a unit for each column, such that some rows, as seen from a center, are usually 1 away.

    Columns may be kilometers and grams: none is to drown the others. So the unit of a wide column is the width of its
    shortest half, which corrupted rows widen little; that of the narrower half of the columns, which in images and
    words are mostly zero, is the one of the middle column. A half of which two thirds are one value has almost no
    width: if the middle column is so, units are the widths of nine tenths, or of all.
    """
    apart = np.clip(apart, -1e300, 1e300)
    values, units = np.sort(apart, axis=0), np.zeros(apart.shape[1])
    for share in (0.5, 0.9, 1.0):
        count = max(int(share * len(values)), min(2, len(values))) - 1
        most = 2 * count // 3
        even = (values[most:] == values[: len(values) - most]).any(axis=0) & (share < 1.0)
        units = (values[count:] - values[: len(values) - count]).min(axis=0)
        units = np.where(even, 0.0, units)
        units = np.maximum(units, np.median(units))
        if np.all(units > 1e-300):
            break
    units = np.maximum(units, max(float(units.max()), 1e-300) * (units <= 1e-300))
    with np.errstate(over="ignore"):
        seen = np.clip(apart / units, -_LARGEST, _LARGEST)
    usual = float(np.median(np.linalg.norm(seen, axis=1))) / np.sqrt(len(units))
    # Not so small that one divided by it overflows.
    found: NDArray[Any] = np.maximum(units * (usual or 1.0), 1e-300)
    return found


def _seen_by_worker(
    stored: Array, index: Indices, codes: Indices, blocks: Blocks, function: Callable[[Array, Array], Array]
) -> Array:
    return function(blocks.of(stored[index]), codes)


class Spectrum(NamedTuple):
    """Rows, maybe along their widest directions, and their scatter there: widths, ascending, and axes as columns."""

    blocks: Blocks
    widths: Array
    axes: Array


def class_sums(block: Array, codes: Array, n_classes: int) -> Array:
    """Return the sum of the rows of each class in float64; rows with a code below 0 belong to none.

    Examples
    --------
    >>> class_sums(np.array([[1.0], [2.0], [4.0]], np.float32), np.array([1, -1, 1]), 2).tolist()
    [[0.0], [5.0]]
    """
    if isinstance(block, np.ndarray):
        total = np.zeros((n_classes, block.shape[1]))
        add_rows(block, codes, total)
        return total
    import torch

    kept = codes >= 0
    total = torch.zeros((n_classes, block.shape[1]), dtype=torch.float64, device=block.device)
    return total.index_add_(0, codes[kept], block[kept].double())


@njit(nogil=True, cache=True, boundscheck=False)
def see(stored: NDArray[Any], center: NDArray[Any], scales: NDArray[Any], out: NDArray[np.float32]) -> None:
    """Write rows as seen from a center, in other units, no number larger than float32 can square."""
    largest = stored.dtype.type(_LARGEST)
    for i in range(stored.shape[0]):
        for j in range(stored.shape[1]):
            out[i, j] = min(max((stored[i, j] - center[j]) * scales[j], -largest), largest)


@njit(nogil=True, cache=True, boundscheck=False)
def add_rows(block: NDArray[Any], codes: Indices, total: NDArray[np.float64]) -> None:
    """Add each row of a block to the total of its class."""
    for i in range(len(codes)):
        if codes[i] >= 0:
            for j in range(block.shape[1]):
                total[codes[i], j] += block[i, j]


def beside(like: Array, array: NDArray[Any]) -> Array:
    """Return an array where another one is, floats as the same type."""
    if isinstance(like, np.ndarray):
        return array.astype(like.dtype, copy=False) if array.dtype.kind == like.dtype.kind else array
    found = tensor_beside(like, array)
    return found.to(like.dtype) if found.is_floating_point() and like.is_floating_point() else found


def single(values: Array) -> Array:
    """Return values as float32."""
    return values.astype(np.float32, copy=False) if isinstance(values, np.ndarray) else values.float()


def double(values: Array) -> Array:
    """Return values as float64."""
    return values.astype(np.float64) if isinstance(values, np.ndarray) else values.double()


def host(values: Array) -> NDArray[Any]:
    """Return values as an array on the host."""
    return values if isinstance(values, np.ndarray) else np.asarray(values.cpu())


def definite(matrices: Array) -> bool:
    """Return whether all of some symmetric matrices are positive definite; much cheaper than their eigenvalues.

    Examples
    --------
    >>> definite(np.eye(2)[None]), definite(-np.eye(2)[None])
    (True, False)
    """
    try:
        namespace(matrices).linalg.cholesky(matrices)
    except (np.linalg.LinAlgError, RuntimeError):  # torch's own is a RuntimeError
        return False
    return True


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
