"""Rows of a tensor: chunk by chunk as a source of rows, or block by block on the device that holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.matching.loops import score_slack
from gmmatch.median import loops
from gmmatch.rows.checks import LARGEST
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Vector, beside

# 256 MB of float32, or of float64 differences, at a time.
_BLOCK_BYTES = 1 << 28
# Rows that are looked through at a time for those near the best.
_SPAN = 1 << 24
# Distances closer together than this may be those of copies of one row: their sums may differ in order.
_SAME = 1.0 + 1e-12


class TensorSource:
    """Rows of a two-dimensional tensor on a device."""

    def __init__(self, tensor: Any) -> None:
        import torch

        self.tensor = tensor if tensor.stride(1) == 1 else tensor.contiguous()
        self.bfloat16 = tensor.dtype == torch.bfloat16
        self.shape = (int(tensor.shape[0]), int(tensor.shape[1]))
        if 0 in self.shape:
            raise InvalidInputError(
                f"X has no {'rows' if self.shape[0] == 0 else 'columns'}: shape {self.shape}."
            )
        plain = torch.empty(0, dtype=torch.uint16 if self.bfloat16 else tensor.dtype)
        self.dtype: np.dtype[Any] = plain.numpy().dtype

    def row_source(self) -> TensorSource:
        """Return itself."""
        return self

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Indices) -> NDArray[Any]:
        import torch

        if isinstance(rows, slice):
            part = self.tensor[int(rows.start or 0) : rows.stop]
        else:
            part = self.tensor[torch.from_numpy(np.array(rows, dtype=np.int64)).to(self.tensor.device)]
        host = part.cpu()
        values: NDArray[Any] = (host.view(torch.uint16) if self.bfloat16 else host).numpy()
        return values

    def beside(self, values: Any) -> Any:
        """Return an array of numbers as a tensor on the device of the rows; anything else as it is."""
        plain = isinstance(values, np.ndarray) and values.dtype.kind in "iuf" and values.dtype.itemsize <= 8
        if not plain or not self.tensor.is_cuda or isinstance(values, np.ma.MaskedArray):
            return values
        wide = np.float64 if values.dtype.kind == "f" else np.int64
        return (
            values
            if values.dtype == np.uint64
            else tensor_beside(self.tensor, values.astype(wide, copy=False))
        )

    def bad_rows(self) -> Indices:
        """Return the rows that are not finite, or too large to square."""
        import torch

        lowest, highest = extremes(self.tensor)
        if lowest >= -LARGEST and highest <= LARGEST:
            return np.empty(0, dtype=np.int64)
        parts = self.tensor.split(max(1, _BLOCK_BYTES // 8 // self.shape[1]))
        good = torch.cat([(part.abs() <= LARGEST).all(dim=1) for part in parts])
        found: Indices = torch.nonzero(~good)[:, 0].cpu().numpy()
        return found


def extremes(tensor: Any) -> tuple[float, float]:
    """Return the lowest and the highest number of a tensor; NaN if any number is."""
    import torch

    lowest, highest = torch.stack(torch.aminmax(tensor)).tolist()
    return lowest, highest


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
    found = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    if tensor.device.type == "cuda":
        # From memory that the device reads by itself, without waiting for what it is doing.
        found = found.pin_memory()
    return found.to(tensor.device, dtype, non_blocking=True)


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

    def each(self, score: Callable[..., Any], *arguments: Any) -> Vector:
        """Return a number per row: ``score(block, index, *arguments)`` of every block, all of them tensors."""
        found = [score(block, every, *there).cpu() for _, block, every, *there in self._blocks(arguments)]
        return np.concatenate(found)

    def total(
        self,
        part: Callable[..., Any],
        weights: Vector,
        *arguments: Any,
        add: Callable[[Any, Any], Any] = np.add,
    ) -> NDArray[np.float64]:
        """Return the sum over all blocks of ``part(block, index, weights, *arguments)``, all of them tensors."""
        heavy = self.to_device(weights)
        total: Any = None
        for span, block, every, *there in self._blocks(arguments):
            own = part(block, every, heavy[span], *there)
            total = own if total is None else add(total, own)
        found: NDArray[np.float64] = total.cpu().numpy()
        return found

    def mapped(self, row_map: Callable[[Any], Any]) -> TensorSource:
        """Return the rows as a map makes them."""
        out = None
        for span in self.spans():
            made = row_map(self.gather(span))
            if out is None:
                out = made.new_empty((len(self.index), made.shape[1]))
            out[span] = made
        return TensorSource(out)

    def _blocks(self, arguments: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Yield runs of positions, their rows, the positions of these in the block, and the arguments as tensors."""
        import torch

        there = [self.to_device(one) if isinstance(one, np.ndarray) else one for one in arguments]
        for span in self.spans(8):
            every = torch.arange(span.stop - span.start, device=self.tensor.device)
            yield (span, self.gather(span), every, *there)

    def weiszfeld(
        self, weights: Vector, point: Vector, delta: float
    ) -> tuple[Indices, NDArray[np.float64], NDArray[np.float64], Vector]:
        """Return where each block begins, its pull and its scalar sums, and the distance of every row to a point."""
        heavy = self.to_device(weights)
        spans = list(self.spans(8))
        found = [weiszfeld_block(self.gather(span), heavy[span], point, delta) for span in spans]
        pulls, sums, distances, _ = zip(*found, strict=True)
        return (
            np.array([span.start for span in spans]),
            np.stack(pulls),
            np.stack(sums),
            np.concatenate([part.cpu() for part in distances]),
        )


def weiszfeld_block(
    block: Any, weights: Any, point: Any, delta: float
) -> tuple[Vector, Vector, Any, NDArray[np.float64]]:
    """Return the pull of a block of rows, its scalar sums and distances, as by a compiled pass, and the nearest row.

    Examples
    --------
    >>> import torch
    >>> pull, sums, distances, row = weiszfeld_block(torch.tensor([[3.0], [0.0]]), None, np.array([1.0]), 0.0)
    >>> pull, float(sums[loops.OBJECTIVE]), row, distances.tolist()
    (array([0.]), 3.0, array([0.]), [2.0, 1.0])
    """
    import torch

    rows = block.double()
    difference = rows - beside(point, block)
    distances = difference.norm(dim=1)
    weights = torch.ones_like(distances) if weights is None else weights
    away = distances > loops.TINY
    inverse = torch.where(away, weights / (distances + delta).clamp(min=loops.TINY), 0.0)
    others = torch.where(away & (weights > 0.0), distances, torch.inf)
    least, nearest = others.min(dim=0)
    close = (others <= least * _SAME).sum()
    scalars = [inverse.sum(), weights @ distances, torch.where(away, 0.0, weights).sum()]
    scalars += [least, nearest.double(), weights[nearest], close.double()]
    # One copy for all of it, and the only time that the host waits.
    row_there = rows.index_select(0, nearest.reshape(1))[0]
    found = torch.cat([inverse @ difference, row_there, torch.stack(scalars)]).cpu().numpy()
    pull, row, sums, close = np.split(found, [len(point), 2 * len(point), len(found) - 1])
    if not np.isfinite(sums[loops.NEAREST_DISTANCE]):
        sums[[loops.NEAREST_ROW, loops.NEAREST_WEIGHT]] = -1.0, 0.0
    elif close > 1:
        same = torch.nonzero((rows == row_there).all(dim=1) & (weights > 0.0)).squeeze(1)
        sums[[loops.NEAREST_ROW, loops.NEAREST_WEIGHT]] = int(same[0]), float(weights[same].sum())
    return pull, sums, distances, row


def near_best(
    blocks: Iterable[tuple[slice, Any]], group: Any, thetas: NDArray[np.float64], longest: float
) -> Iterator[tuple[Indices, Indices]]:
    """Yield the rows, ascending, whose score may be the best of their group, and the group of each.

    Parameters
    ----------
    blocks : pairs of a slice and a tensor
        Some rows, and where they stand among all of them.
    group : integer tensor of shape (n,)
        The group of each row; -1 for rows that may not be picked.
    thetas : float64 array of shape (groups, s)
    longest : float
        The length of the longest row.

    Examples
    --------
    >>> import torch
    >>> rows, group = torch.tensor([[1.0], [3.0], [3.0], [9.0]]), torch.tensor([0, 0, 0, -1])
    >>> list(near_best([(slice(0, 4), rows)], group, np.array([[2.0]]), 9.0))
    [(array([1, 2]), array([0, 0]))]
    """
    import torch

    theta = tensor_beside(group, thetas)
    scores = torch.empty(len(group), dtype=torch.float64, device=group.device)
    best = torch.full((len(thetas),), -torch.inf, dtype=torch.float64, device=group.device)
    for part, block in blocks:
        place = group[part].clamp(min=0).long()
        found = (block.double() * (theta[place] if len(thetas) > 1 else theta)).sum(dim=1)
        scores[part] = found
        known = found.masked_fill((group[part] < 0) | torch.isnan(found), -torch.inf)
        best.scatter_reduce_(0, place, known, "amax")
    # Twice: the best one's score may be too high, and the right one's too low.
    least = best - 2.0 * tensor_beside(group, score_slack(thetas, longest))
    for first in range(0, len(scores), _SPAN):
        own = group[first : first + _SPAN].long()
        # A row is left out only if it is known to be below: NaN leaves it in.
        near = torch.nonzero((own >= 0) & ~(scores[first : first + _SPAN] < least[own.clamp(min=0)])).squeeze(
            1
        )
        if len(near):
            yield first + near.cpu().numpy(), own[near].cpu().numpy()


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
