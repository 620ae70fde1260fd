"""What a worker does: sums over its rows, and the best of its rows for each batch.

Every method may be called twice with the same outcome, so a call whose worker died is simply made again. All that
a worker remembers beyond its files is which of its rows are picked, and :meth:`ShardWorker.mark` restores that.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cluster.compute import Compute, ScanState, compute_for, pass_over
from gmmatch.backends.cluster.layout import fold, subtrees
from gmmatch.backends.cluster.pieces import (
    STORED,
    Piece,
    WorkerSpec,
    cut_pieces,
    open_rows,
    prepared,
    taken,
    unreadable_files,
)
from gmmatch.matching.batches import batch_of_rows
from gmmatch.median import loops
from gmmatch.median.loops import NEAREST_DISTANCE as DISTANCE
from gmmatch.median.loops import NEAREST_ROW as ROW
from gmmatch.median.loops import NEAREST_WEIGHT as WEIGHT
from gmmatch.median.passes import add_sums, distances_of, weighted_sums
from gmmatch.rows.checks import unusable
from gmmatch.rows.rows import read_only
from gmmatch.types import Indices, Vector, offsets_of, on_host

# After the s numbers of the pull: the scalar sums of a pass, the nearest row's checksum, and the number of rows.
CHECKSUM, COUNT, N_SCALARS = loops.N_SUMS, loops.N_SUMS + 1, loops.N_SUMS + 2
# Before the s numbers of a point: its class, and the paper's δ or the unit of distances.
N_HEADER = 2
# Distances are counted in bins of a quarter of a power of two.
BINS_PER_OCTAVE, N_BINS = 4, 512
_SAMPLE_EVERY = 32


class ShardWorker:
    """Answers questions about the rows of its pieces.

    Parameters
    ----------
    spec : WorkerSpec
        Which rows these are. Files are opened when they are first needed.
    compute : callable, optional
        Makes what computes; by default what the spec's device asks for.
    """

    def __init__(self, spec: WorkerSpec, compute: Callable[[], Compute] | None = None) -> None:
        self.spec = spec
        self._make_compute = compute

    def assign(self, *changes: dict[str, Any]) -> None:
        """Change what the spec says of the same rows: classes, batches, how they are seen, files to do without."""
        for change in changes:
            self.spec = replace(self.spec, **change)
        for known in ("_pieces", "_samples", "_compute", "_available", "_scanned"):
            self.__dict__.pop(known, None)

    @cached_property
    def _compute(self) -> Compute:
        if self._make_compute is not None:
            return self._make_compute()
        return compute_for(self.spec.device, self.spec.number, self.spec.n_rows)

    @cached_property
    def _opened(self) -> tuple[Any, int]:
        return open_rows(self.spec)

    @cached_property
    def _pieces(self) -> list[Piece]:
        return cut_pieces(self.spec, *self._opened)

    @cached_property
    def _samples(self) -> list[Piece]:
        return [piece.sampled(_SAMPLE_EVERY) for piece in self._pieces]

    def check(self) -> tuple[list[tuple[str, str]], int, Indices]:
        """Return the files that cannot be read, how many rows are not finite, and the first of these."""
        broken = unreadable_files(self.spec)
        if broken:
            return broken, 0, np.empty(0, dtype=np.int64)
        bad: list[int] = []
        for piece in self._pieces:
            if len(piece) == 0 or np.dtype(self.spec.dtype).kind in "iu":
                continue
            bad.extend((piece.first_row + unusable(prepared(piece.rows[piece.where]))).tolist())
        return [], len(bad), np.array(bad[:5], dtype=np.int64)

    def device(self) -> str:
        """Return the name of the device that sums are made on."""
        return self._compute.name

    def evaluate(self, request: NDArray[np.float64], sample: bool) -> NDArray[np.float64]:
        """Return what this worker's rows add to the evaluation of points, shape (subtrees, classes, s + 8)."""
        points = [self._compute.put(asked[N_HEADER:]) for asked in request]

        def leaf(piece: Piece) -> NDArray[np.float64]:
            block = self._compute.block(piece)
            return np.stack([
                self._evaluate(piece, block, asked, point) for asked, point in zip(request, points, strict=True)
            ])  # fmt: skip

        return self._folded(leaf, combine_evaluations, sample)

    def _evaluate(self, piece: Piece, block: Any, asked: NDArray[np.float64], point: Any) -> Vector:
        """Return what the rows of a class in a piece add to the evaluation of a point."""
        number, s = int(asked[0]), len(asked) - N_HEADER
        count, out = piece.size_of_class(number), np.zeros(s + N_SCALARS)
        scalars = out[s:]
        scalars[[DISTANCE, ROW, COUNT]] = np.inf, -1.0, count
        if count:
            index = self._compute.index(piece, number)
            out[:s], scalars[: loops.N_SUMS], row = pass_over(block, index, point, float(asked[1]))
        if scalars[ROW] >= 0.0:
            scalars[ROW] = piece.row_number(int(piece.of_class(number)[int(scalars[ROW])]))
            scalars[CHECKSUM] = zlib.crc32(np.ascontiguousarray(row).tobytes())
        return out

    def distances(self, request: NDArray[np.float64]) -> tuple[Vector, Indices, NDArray[np.int64]]:
        """Return, per class: the largest distance of an available row, that row, and counts of distances by size.

        Distances are counted in units of the request's second number.
        """
        count = len(request)
        farthest, row = np.full(count, -1.0), np.full(count, -1, dtype=np.int64)
        bins = np.zeros((count, N_BINS), dtype=np.int64)
        points = [self._compute.put(asked[N_HEADER:]) for asked in request]
        for piece in self._pieces:
            block, available = self._compute.block(piece), self._available[self._scanned.part(piece)]
            for place, number in enumerate(request[:, 0].astype(np.int64).tolist()):
                if piece.size_of_class(number) == 0:
                    continue
                found = on_host(distances_of(block, self._compute.index(piece, number), points[place]))
                bins[place] += np.bincount(distance_bins(found / request[place, 1]), minlength=N_BINS)
                positions = piece.of_class(number)
                found[~available[positions]] = -1.0
                best = int(np.argmax(found))
                if found[best] > farthest[place]:
                    farthest[place], row[place] = found[best], piece.row_number(int(positions[best]))
        return farthest, row, bins

    def scan(
        self, group_of_batch: NDArray[np.int32], thetas: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], Indices]:
        """Return the best score and its row (-1: there is none) of each group of batches."""
        # The last one is for rows that belong to no class.
        table = np.append(group_of_batch, np.int32(-1)).astype(np.int32)
        return self._compute.scan(self._pieces, self._scanned, table, read_only(np.ascontiguousarray(thetas)))

    def take(self, rows: Indices, picked: bool) -> NDArray[Any]:
        """Return rows by their numbers."""
        if picked:
            self.mark(rows)
        if self.spec.view == STORED:
            array, offset = self._opened
            found: NDArray[Any] = np.asarray(array[rows - offset])
            return found
        return taken(self._pieces, rows)

    def total(
        self,
        number: int,
        beside: NDArray[Any] | None,
        add: Callable[[Any, Any], Any],
        part: Callable[..., NDArray[Any]],
        *arguments: Any,
    ) -> NDArray[np.float64]:
        """Return the sum of ``part(block, index, beside, *arguments)`` over a class, for each subtree.

        ``beside`` has a number for each of the worker's rows of the class: ones by default.
        """
        starts = self._starts(number)

        def leaf(piece: Piece) -> NDArray[np.float64]:
            block, index = piece.chunk(number)
            start = starts[piece.first_row]
            own = np.ones(len(index)) if beside is None else beside[start : start + len(index)]
            return np.asarray(part(block, index, own, *arguments))

        return self._folded(leaf, add, False)

    def sums(self, classes: Indices, sample: bool) -> NDArray[np.float64]:
        """Return Σx and the number of rows of some classes, for :func:`add_sums`: (subtrees, 2, classes, s + 1)."""

        def leaf(piece: Piece) -> NDArray[np.float64]:
            block, indices = piece.block(), [read_only(piece.of_class(number)) for number in classes.tolist()]
            return np.stack([weighted_sums(block, index, np.ones(len(index))) for index in indices], axis=1)

        return self._folded(leaf, add_sums, sample)

    def each(
        self, number: int, beside: NDArray[Any] | None, score: Callable[..., Vector], *arguments: Any
    ) -> NDArray[Any]:
        """Return ``score(block, index, *arguments)`` of the rows of a class, one after another.

        What is ``beside`` the rows comes after the index, where it is given.
        """
        starts, found = self._starts(number), []
        for piece in self._pieces:
            block, index = piece.chunk(number)
            if len(index):
                own = () if beside is None else (beside[starts[piece.first_row] :][: len(index)],)
                found.append(score(block, index, *own, *arguments))
        return np.concatenate(found) if found else np.empty(0)

    def _starts(self, number: int) -> dict[int, int]:
        """Return where the rows of a class in each piece, known by its first row, stand among all of the worker's."""
        counts = np.cumsum([0, *(piece.size_of_class(number) for piece in self._pieces)])
        return {piece.first_row: int(start) for piece, start in zip(self._pieces, counts, strict=False)}

    def mark(self, rows: Indices) -> None:
        """Remember that these rows are picked."""
        positions = rows - int(self.spec.bounds[0])
        self._available[positions] = False
        self._compute.mark(positions)

    @cached_property
    def _available(self) -> NDArray[np.bool_]:
        return np.ones(self.spec.n_rows, dtype=bool)

    @cached_property
    def _scanned(self) -> ScanState:
        offsets = offsets_of(self.spec.batches)
        state = ScanState(
            int(self.spec.bounds[0]), np.full(self.spec.n_rows, offsets[-1], dtype=np.uint32), self._available
        )
        for piece in self._pieces:
            batch = state.batch[state.part(piece)]
            for number in range(self.spec.n_classes):
                index = piece.of_class(number)
                if len(index):
                    count, seed = int(self.spec.batches[number]), self.spec.seeds[number]
                    batch[index] = offsets[number] + batch_of_rows(piece.first_row + index, count, seed)
        return state

    def _folded(
        self,
        leaf: Callable[[Piece], NDArray[np.float64]],
        combine: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]],
        sample: bool,
    ) -> NDArray[np.float64]:
        pieces, first = self._samples if sample else self._pieces, self.spec.first_piece
        return np.stack([
            fold(begin, end, lambda at, end: leaf(pieces[at - first]) if end == at + 1 else None, combine)
            for begin, end in subtrees(first, self.spec.last_piece)
        ])  # fmt: skip


def combine_evaluations(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add two parts of evaluations; of two nearest rows at the same distance, copies add their weights.

    Examples
    --------
    >>> near, far = np.zeros((2, 1, 9))
    >>> near[0, 1 + DISTANCE], far[0, 1 + DISTANCE], far[0, 1 + ROW] = 2.0, 3.0, 7.0
    >>> float(combine_evaluations(near, far)[0, 1 + DISTANCE])
    2.0
    """
    s = left.shape[1] - N_SCALARS
    out: NDArray[np.float64] = left + right
    nearest = slice(s + DISTANCE, s + CHECKSUM + 1)
    closer = right[:, s + DISTANCE] < left[:, s + DISTANCE]
    out[:, nearest] = np.where(closer[:, None], right[:, nearest], left[:, nearest])
    tie = (
        (left[:, s + DISTANCE] == right[:, s + DISTANCE])
        & (left[:, s + ROW] >= 0.0)
        & (left[:, s + CHECKSUM] == right[:, s + CHECKSUM])
    )
    out[tie, s + WEIGHT] = left[tie, s + WEIGHT] + right[tie, s + WEIGHT]
    return out


def distance_bins(distances: Vector) -> Indices:
    """Return the bin of each distance, the first for those that are zero or nearly so.

    Examples
    --------
    >>> distance_bins(np.array([0.0, 1.0, 2.0]))
    array([  0, 256, 260])
    """
    with np.errstate(divide="ignore"):
        place = np.floor(BINS_PER_OCTAVE * np.log2(distances)) + N_BINS // 2
    bins: Indices = np.clip(place, 0, N_BINS - 1).astype(np.int64)
    return bins
