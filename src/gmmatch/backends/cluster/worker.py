"""What a worker does: sums over its rows, and the best of its rows for each batch.

Every method may be called twice with the same outcome, so a call whose worker died is simply made again. All that
a worker remembers beyond its files is which of its rows are picked, and :meth:`ShardWorker.mark` restores that.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cluster.compute import Compute, compute_for
from gmmatch.backends.cluster.layout import fold, subtrees
from gmmatch.backends.cluster.pieces import (
    STORED,
    Piece,
    View,
    WorkerSpec,
    cut_pieces,
    open_rows,
    prepared,
    taken,
    unreadable_files,
)
from gmmatch.matching.batches import batch_of_rows
from gmmatch.median.passes import add_sums
from gmmatch.rows.checks import LARGEST
from gmmatch.rows.compiled import has_unusable
from gmmatch.rows.rows import read_only
from gmmatch.types import Indices, Vector

# After the s numbers of the pull: scalar sums, and what is known of the nearest row.
INVERSE, OBJECTIVE, COINCIDENT, DISTANCE, ROW, WEIGHT, CHECKSUM, COUNT = range(8)
N_SCALARS = 8
# Before the s numbers of a point: its class, the paper's δ, and whether it is near the origin.
N_HEADER = 3
# Distances are counted in bins of a quarter of a power of two.
BINS_PER_OCTAVE, N_BINS = 4, 512
_SAMPLE_EVERY = 32


class ShardWorker:
    """Answers questions about the rows of its pieces.

    Parameters
    ----------
    spec : WorkerSpec
        Which rows these are. Files are opened when they are first needed.
    compute : Compute, optional
        What sums are made with; by default what the spec's device asks for.
    """

    def __init__(self, spec: WorkerSpec, compute: Compute | None = None) -> None:
        self.spec, self.view = spec, STORED
        self._given = compute

    def assign(self, spec: WorkerSpec) -> None:
        """Take another spec for the same rows: their classes and batches."""
        self.spec = spec
        self._forget()

    def look(self, view: View) -> None:
        """See the rows in another way."""
        self.view = view
        self._forget()

    def _forget(self) -> None:
        for known in ("_pieces", "_samples", "_compute"):
            self.__dict__.pop(known, None)

    @property
    def _width(self) -> int:
        return self.view.width or self.spec.n_features

    @cached_property
    def _compute(self) -> Compute:
        n_rows = int(self.spec.bounds[-1] - self.spec.bounds[0])
        return self._given or compute_for(self.spec.device, self.spec.number, n_rows)

    @cached_property
    def _opened(self) -> tuple[Any, int]:
        return open_rows(self.spec)

    @cached_property
    def _pieces(self) -> list[Piece]:
        return cut_pieces(self.spec, self.view, *self._opened)

    @property
    def _offsets(self) -> Indices:
        return np.concatenate([[0], np.cumsum(self.spec.batches)])

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
            block = prepared(piece.rows[piece.where])
            if has_unusable(block, LARGEST):
                good = np.isfinite(block).all(axis=1) & (np.abs(block, dtype=np.float64) <= LARGEST).all(
                    axis=1
                )
                bad.extend((piece.first_row + np.flatnonzero(~good)).tolist())
        return [], len(bad), np.array(bad[:5], dtype=np.int64)

    def device(self) -> str:
        """Return the name of the device that sums are made on."""
        return self._compute.name

    def sums(self, classes: Indices, sample: bool) -> NDArray[np.float64]:
        """Return Σx and the number of rows of some classes, for :func:`add_sums`: (subtrees, 2, classes, s + 1)."""

        def leaf(piece: Piece) -> NDArray[np.float64]:
            out = np.zeros((2, len(classes), self._width + 1))
            rows = self._compute.rows_of(piece)
            for place, number in enumerate(classes.tolist()):
                if piece.size_of_class(number):
                    out[:, place] = rows.total(number)
            return out

        return self._folded(leaf, add_sums, sample)

    def evaluate(self, request: NDArray[np.float64], sample: bool) -> NDArray[np.float64]:
        """Return what this worker's rows add to the evaluation of points, shape (subtrees, classes, s + 8)."""
        points = [self._compute.point(asked[N_HEADER:]) for asked in request]
        return self._folded(
            lambda piece: self._evaluate_piece(piece, request, points), combine_evaluations, sample
        )

    def _evaluate_piece(
        self, piece: Piece, request: NDArray[np.float64], points: list[Any]
    ) -> NDArray[np.float64]:
        s = self._width
        out = np.zeros((len(request), s + N_SCALARS))
        out[:, s + DISTANCE], out[:, s + ROW] = np.inf, -1.0
        rows = self._compute.rows_of(piece)
        for place, (asked, point) in enumerate(zip(request, points, strict=True)):
            number = int(asked[0])
            count = piece.size_of_class(number)
            if count == 0:
                continue
            part = rows.evaluate(number, point, float(asked[1]), bool(asked[2]))
            out[place, :s] = part.pull
            scalars = out[place, s:]
            scalars[INVERSE], scalars[OBJECTIVE] = part.inverse, part.objective
            scalars[COINCIDENT], scalars[COUNT] = part.coincident, count
            if part.row is not None:
                scalars[DISTANCE], scalars[WEIGHT] = part.distance, part.weight
                scalars[ROW] = piece.row_number(part.nearest)
                scalars[CHECKSUM] = zlib.crc32(np.ascontiguousarray(part.row).tobytes())
        return out

    def distances(self, request: NDArray[np.float64]) -> tuple[Vector, Indices, NDArray[np.int64]]:
        """Return, per class: the largest distance of an available row, that row, and counts of distances by size.

        Distances are counted in units of the request's second number.
        """
        count = len(request)
        farthest, row = np.full(count, -1.0), np.full(count, -1, dtype=np.int64)
        bins = np.zeros((count, N_BINS), dtype=np.int64)
        points = [self._compute.point(asked[N_HEADER:]) for asked in request]
        for piece in self._pieces:
            rows = self._compute.rows_of(piece)
            for place, number in enumerate(request[:, 0].astype(np.int64).tolist()):
                if piece.size_of_class(number) == 0:
                    continue
                found = rows.distances(number, points[place])
                bins[place] += np.bincount(distance_bins(found / request[place, 1]), minlength=N_BINS)
                positions = piece.of_class(number)
                found[~self._available(piece)[positions]] = -1.0
                best = int(np.argmax(found))
                if found[best] > farthest[place]:
                    farthest[place], row[place] = found[best], piece.row_number(int(positions[best]))
        return farthest, row, bins

    def scan(
        self, group_of_batch: NDArray[np.int32], thetas: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], Indices]:
        """Return the best score and its row (-1: there is none) of each group of batches."""
        for piece in self._pieces:
            self._batches(piece)
            self._available(piece)
        # The last one is for rows that belong to no class.
        table = np.append(group_of_batch, np.int32(-1)).astype(np.int32)
        return self._compute.scan(self._pieces, table, read_only(np.ascontiguousarray(thetas)))

    def take(self, rows: Indices, picked: bool, stored: bool) -> NDArray[Any]:
        """Return rows by their numbers."""
        if picked:
            self.mark(rows)
        if stored:
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
        piece_of_row = np.searchsorted(self.spec.bounds, rows, side="right") - 1
        for number in np.unique(piece_of_row).tolist():
            piece = self._pieces[number]
            self._available(piece)[rows[piece_of_row == number] - piece.first_row] = False
        self._compute.mark(rows)

    def _available(self, piece: Piece) -> NDArray[np.bool_]:
        if piece.available is None:
            piece.available = np.ones(len(piece), dtype=bool)
        return piece.available

    def _batches(self, piece: Piece) -> NDArray[np.uint32]:
        if piece.batch is None:
            none = int(self._offsets[-1])
            batch = np.full(len(piece), none, dtype=np.uint32)
            for number in range(self.spec.n_classes):
                index = piece.of_class(number)
                if len(index):
                    chosen = batch_of_rows(
                        piece.first_row + index, int(self.spec.batches[number]), self.spec.seeds[number]
                    )
                    batch[index] = self._offsets[number] + chosen
            piece.batch = batch
        return piece.batch

    def _folded(
        self,
        leaf: Callable[[Piece], NDArray[np.float64]],
        combine: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]],
        sample: bool,
    ) -> NDArray[np.float64]:
        pieces, first = self._samples if sample else self._pieces, self.spec.first_piece
        return np.stack([
            fold(begin, end, lambda number: leaf(pieces[number - first]), combine)
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
