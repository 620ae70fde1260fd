"""A worker's sums by torch, on a GPU that holds as many of its rows as fit.

Sums are float64, and each is made over one piece, so the number of workers does not change their bits. Scores find
the few rows that may be the best; the compiled loop of the processor decides between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cluster.compute import PassPart, scan_batches, score_slack
from gmmatch.backends.cluster.pieces import Piece, taken
from gmmatch.errors import MissingDependencyError, install_command
from gmmatch.median import loops
from gmmatch.rows.rows import read_only
from gmmatch.types import Indices, Vector

# Of a GPU's memory, what is left for the sums themselves, and for others.
_KEPT_FREE = 0.2
# Bytes that a scan needs for each row beside it: its batch, its group, its score, and whether it is free.
_SCAN_BYTES = 24
# Rows that are looked through at a time for those near the best.
_SPAN = 1 << 24
_AS_STORED = ("float16", "float32", "float64")
# Distances closer together than this may be those of copies of one row: their sums may differ in order.
_SAME = 1.0 + 1e-12


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


class OnDevice:
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
        try:
            import torch
        except ImportError:
            raise MissingDependencyError(
                f"device={device!r} needs torch: {install_command('torch')}"
            ) from None
        self._torch = torch
        self.device = torch.device(device)
        self.name = str(self.device)
        self._room, self._reserved = room, _SCAN_BYTES * n_rows
        self._kept: dict[tuple[int, int, bool], DeviceRows] = {}
        self._scan: _ScanState | None = None

    def rows_of(self, piece: Piece) -> DeviceRows:
        """Return a piece's rows on the device; they stay there if there is room."""
        # A sample begins at the same row as its piece, and a piece without rows at that of the next.
        key = (piece.first_row, len(piece), piece.positions is None)
        if key in self._kept:
            return self._kept[key]
        rows = DeviceRows(self._torch, self.device, piece)
        if self._fits(rows.nbytes):
            self._kept[key] = rows
        return rows

    def _fits(self, count: int) -> bool:
        if self._room is not None:
            self._room -= count
            return self._room >= 0
        if self.device.type != "cuda":
            return True
        free, total = self._torch.cuda.mem_get_info(self.device)
        return bool(free > _KEPT_FREE * total + self._reserved)

    def point(self, point: Vector) -> tuple[Vector, Any]:
        """Return the point here and on the device."""
        here = np.array(point)
        return here, self._torch.from_numpy(here).to(self.device)

    def scan(
        self, pieces: Sequence[Piece], table: NDArray[np.int32], thetas: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], Indices]:
        """Score all rows, and let the exact scores of those near the best decide."""
        torch = self._torch
        score, row = np.full(len(thetas), -np.inf), np.full(len(thetas), -1, dtype=np.int64)
        pieces = [piece for piece in pieces if len(piece)]
        if not pieces:
            return score, row
        if self._scan is None:
            self._scan = _ScanState(self, pieces)
        state, theta, groups = self._scan, self._sent(thetas), self._sent(table)
        scores = torch.empty(len(state.batch), dtype=torch.float64, device=self.device)
        group = torch.empty(len(state.batch), dtype=torch.int32, device=self.device)
        best = torch.full((len(thetas),), -torch.inf, dtype=torch.float64, device=self.device)
        for piece in pieces:
            part = slice(piece.first_row - state.first, piece.first_row - state.first + len(piece))
            mine = groups[state.batch[part].long()]
            asked = state.free[part] & (mine >= 0)
            place = mine.clamp(min=0).long()
            found = (self.rows_of(piece).rows.double() * theta[place]).sum(dim=1)
            scores[part] = found
            group[part] = torch.where(asked, place, -1).int()
            known = found.masked_fill(~asked | torch.isnan(found), -torch.inf)
            best.scatter_reduce_(0, place, known, "amax")
        # Twice: the best one's score may be too high, and the right one's too low.
        least = best - 2.0 * self._sent(score_slack(thetas, state.longest))
        for first in range(0, len(scores), _SPAN):
            span = slice(first, first + _SPAN)
            own = group[span].long()
            # A row is left out only if it is known to be below: NaN leaves it in.
            near = torch.nonzero((own >= 0) & ~(scores[span] < least[own.clamp(min=0)])).squeeze(1)
            rows = state.first + first + near.cpu().numpy()
            if len(rows):
                _decide(pieces, rows, group[span][near].cpu().numpy(), thetas, score, row)
        return score, row

    def mark(self, rows: Indices) -> None:
        """Take picked rows out of the next scan."""
        if self._scan is not None:
            self._scan.free[self._sent(rows - self._scan.first)] = False

    def _sent(self, values: NDArray[Any]) -> Any:
        return self._torch.from_numpy(np.array(values)).to(self.device)


class _ScanState:
    """What a scan knows of all rows of the worker: their batches, which are free, and how long the longest is."""

    def __init__(self, compute: OnDevice, pieces: Sequence[Piece]) -> None:
        self.first = pieces[0].first_row
        self.batch = compute._sent(np.concatenate([piece.batch for piece in pieces]).astype(np.int32))
        self.free = compute._sent(np.concatenate([piece.available for piece in pieces]))
        squared = [compute.rows_of(piece).rows.double().square().sum(dim=1).max() for piece in pieces]
        self.longest = 1.001 * float(max(float(value) for value in squared)) ** 0.5


def _decide(
    pieces: list[Piece],
    rows: Indices,
    groups: Indices,
    thetas: NDArray[np.float64],
    score: NDArray[np.float64],
    row: Indices,
) -> None:
    """Update the best row of each group by the exact scores of some rows, in ascending order."""
    every, own = np.ones(len(rows), dtype=bool), np.arange(len(thetas), dtype=np.int32)
    best, place = np.full(len(thetas), -np.inf), np.full(len(thetas), -1, dtype=np.int64)
    all_of_them = np.full(len(thetas), np.inf)
    scan_batches(
        read_only(taken(pieces, rows)), 0, every, groups.astype(np.uint32), own, read_only(thetas), all_of_them,
        best, place,
    )  # fmt: skip
    better = (place >= 0) & ((row < 0) | (best > score))
    score[better], row[better] = best[better], rows[place[better]]


class DeviceRows:
    """A piece's rows on a device, as they are stored where torch knows their type."""

    def __init__(self, torch: Any, device: Any, piece: Piece) -> None:
        self._torch, self._device, self._piece = torch, device, piece
        stored = piece.rows[piece.where]
        if (
            piece.view.steps
            or piece.view.by_class
            or stored.dtype.name not in _AS_STORED
            or not stored.dtype.isnative
        ):
            stored = piece.block()
        self._width = np.dtype(np.float64 if stored.dtype == np.float64 else np.float32)
        self.rows = torch.from_numpy(np.array(stored)).to(device)
        self._index: dict[int, Any] = {}

    @property
    def nbytes(self) -> int:
        """Bytes on the device, with those of the rows' places by class."""
        return int(self.rows.numel() * self.rows.element_size() + 8 * len(self.rows))

    def total(self, number: int) -> NDArray[np.float64]:
        """Return Σ x over a class."""
        rows = self._of_class(number)
        out = np.zeros((2, rows.shape[1] + 1))
        out[0, :-1], out[0, -1] = rows.sum(dim=0).cpu().numpy(), len(rows)
        return out

    def distances(self, number: int, point: tuple[Vector, Any]) -> Vector:
        """Return the distance of each row of a class to a point."""
        found: Vector = self._lengths(self._of_class(number) - point[1]).cpu().numpy()
        return found

    def evaluate(self, number: int, point: tuple[Vector, Any], delta: float, near_origin: bool) -> PassPart:
        """Return the class's part of a pass; how far the origin is plays no part here."""
        torch, rows = self._torch, self._of_class(number)
        difference = rows - point[1]
        d = self._lengths(difference)
        away = d > loops.TINY
        inverse = torch.where(away, 1.0 / (d + delta), 0.0)
        others = torch.where(away, d, torch.inf)
        least, nearest = others.min(dim=0)
        close = (others <= least * _SAME).sum()
        scalars = torch.stack(
            [inverse.sum(), d.sum(), (~away).sum().double(), close.double(), nearest.double()]
        )
        # One copy for all of it, and the only time that the processor waits.
        row_there = rows.index_select(0, nearest.reshape(1))[0]
        found = torch.cat([inverse @ difference, row_there, scalars]).cpu().numpy()
        s = len(point[0])
        pull, row, (inverses, objective, coincident, close, nearest) = (
            found[:s],
            found[s : 2 * s],
            found[2 * s :],
        )
        if coincident == len(rows):
            return PassPart(pull, inverses, objective, coincident)
        position, weight = int(nearest), 1
        if close > 1:
            same = torch.nonzero((rows == rows[position]).all(dim=1)).squeeze(1)
            position, weight = int(same[0]), len(same)
        # Computed here, it is the same for copies on all workers.
        distance = np.empty(1)
        block = row.astype(self._width)[None]
        loops.distances_chunk(read_only(block), read_only(np.zeros(1, dtype=np.int64)), point[0], distance)
        place = int(self._piece.of_class(number)[position])
        return PassPart(pull, inverses, objective, coincident, place, float(distance[0]), weight, block[0])

    def _of_class(self, number: int) -> Any:
        if self._piece.order is None:
            return self.rows.double()
        if number not in self._index:
            index = self._torch.from_numpy(self._piece.of_class(number))
            self._index[number] = index.to(self._device)
        return self.rows[self._index[number]].double()

    def _lengths(self, difference: Any) -> Any:
        return difference.square().sum(dim=1).sqrt()
