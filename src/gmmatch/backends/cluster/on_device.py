"""A worker's sums by torch, on a GPU that holds as many of its rows as fit.

Sums are float64, and each is made over one piece, so the number of workers does not change their bits. Scores find
the few rows that may be the best; the compiled loop of the processor decides between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cluster.compute import Compute, ScanState, scan_batches
from gmmatch.backends.cluster.pieces import Piece, taken
from gmmatch.backends.cuda.blocks import near_best, weiszfeld_block
from gmmatch.errors import install_command
from gmmatch.median import loops
from gmmatch.rows.rows import read_only
from gmmatch.types import Indices, Vector, on_host

# Of a GPU's memory, what is left for the sums themselves, and for others.
_KEPT_FREE = 0.2
# Bytes that a scan needs for each row beside it: its batch, its group, its score, and whether it is free.
_SCAN_BYTES = 24
_AS_STORED = ("float16", "float32", "float64")


def usable_gpus() -> tuple[int, str]:
    """Return how many GPUs this process can use through torch, and what is wrong if there is none.

    Examples
    --------
    >>> count, trouble = usable_gpus()
    >>> (count > 0) == (trouble == "")
    True
    """
    try:
        import torch
    except ImportError:
        return 0, f"it needs torch ({install_command('torch')})"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return count, "" if count else "torch finds no CUDA device here"


class OnDevice(Compute):
    """Sums on a torch device.

    Parameters
    ----------
    device : str
        As torch spells it. "cpu" works as well, more slowly than the compiled loops.
    n_rows : int
        Rows of the worker, for which a scan needs memory.
    room : int, optional
        Bytes of rows that may stay on the device; the others are sent there each time. By default what is
        free on a GPU, less a fifth of it all and what a scan needs.
    """

    def __init__(self, device: str, n_rows: int = 0, room: int | None = None) -> None:
        import torch

        self._torch = torch
        self.device = torch.device(device)
        self.name = str(self.device)
        self._room, self._reserved = room, _SCAN_BYTES * n_rows
        self._scanned: tuple[Any, Any, float] | None = None

    def block(self, piece: Piece) -> Any:
        """Return a piece's rows on the device; they stay there if there is room."""
        if piece.there is not None:
            return piece.there
        stored = piece.rows[piece.where]
        known = stored.dtype.name in _AS_STORED and stored.dtype.isnative
        block = self.put(
            piece.block() if piece.view.steps or piece.view.by_class or not known else np.asarray(stored)
        )
        # With the rows' places by class.
        if self._fits(int(block.numel() * block.element_size() + 8 * len(block))):
            piece.there = block
        return block

    def index(self, piece: Piece, number: int) -> Any:
        """Return where the rows of a class stand in the block, kept beside it."""
        if piece.order is None:
            return slice(None)
        if number in piece.index_there:
            return piece.index_there[number]
        index = self.put(piece.of_class(number))
        if piece.there is not None:
            piece.index_there[number] = index
        return index

    def _fits(self, count: int) -> bool:
        if self._room is not None:
            self._room -= count
            return self._room >= 0
        if self.device.type != "cuda":
            return True
        free, total = self._torch.cuda.mem_get_info(self.device)
        return bool(free > _KEPT_FREE * total + self._reserved)

    def put(self, values: NDArray[Any]) -> Any:
        """Return numbers on the device."""
        return self._torch.from_numpy(np.array(values)).to(self.device)

    def scan(
        self, pieces: Sequence[Piece], state: ScanState, table: NDArray[np.int32], thetas: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], Indices]:
        """Score all rows, and let the exact scores of those near the best decide."""
        score, row = np.full(len(thetas), -np.inf), np.full(len(thetas), -1, dtype=np.int64)
        pieces = [piece for piece in pieces if len(piece)]
        if not pieces:
            return score, row
        if self._scanned is None:
            squared = [float(self.block(piece).double().square().sum(dim=1).max()) for piece in pieces]
            batch, available = self.put(state.batch.astype(np.int32)), self.put(state.available)
            self._scanned = batch, available, 1.001 * max(squared) ** 0.5
        batch, free, longest = self._scanned
        group = self.put(table).index_select(0, batch).masked_fill(~free, -1)
        blocks = ((state.part(piece), self.block(piece)) for piece in pieces)
        every, all_of_them = np.arange(len(thetas), dtype=np.int32), np.full(len(thetas), np.inf)
        for near, own in near_best(blocks, group, thetas, longest):
            rows = state.first + near
            scan_batches(
                read_only(taken(pieces, rows)), rows, np.ones(len(rows), dtype=bool), own.astype(np.uint32), every,
                thetas, all_of_them, score, row,
            )  # fmt: skip
        return score, row

    def mark(self, positions: Indices) -> None:
        """Take picked rows out of the next scan."""
        if self._scanned is not None:
            self._scanned[1][self.put(positions)] = False


def pass_on_device(rows: Any, point: Any, delta: float) -> tuple[Vector, Vector, NDArray[Any]]:
    """Return the pull of rows on a device, their scalar sums, and the nearest row."""
    pull, sums, _, row = weiszfeld_block(rows, None, point, delta)
    block = row.astype(np.float64 if rows.element_size() == 8 else np.float32)[None]
    if sums[loops.NEAREST_ROW] >= 0:
        # Computed here, it is the same for copies on all workers.
        distance = sums[loops.NEAREST_DISTANCE :][:1]
        loops.distances_chunk(
            read_only(block), read_only(np.zeros(1, dtype=np.int64)), on_host(point), distance
        )
    return pull, sums, block[0]
