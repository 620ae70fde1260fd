"""The rows that one worker owns, piece by piece."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cluster.sources import ShardFile, UnreadableShardError, check_contents, read_rows
from gmmatch.embeddings.sharded_array import ShardedArray
from gmmatch.rows.rows import RowMap, Rows, read_only
from gmmatch.types import Indices, Matrix


@dataclass(frozen=True)
class View:
    """What a method sees of stored rows: the outcome of some steps, and then of a map for each class.

    Attributes
    ----------
    steps
        Maps of all rows, one after another.
    by_class
        Maps of the rows of each class; what they make may differ in length, and is filled up with zeros.
    width
        Numbers in a row that is seen; 0 for those that are stored.
    held
        Whether a worker keeps what it made: it is costly to make, and not longer than what is stored.
    """

    steps: tuple[RowMap, ...] = ()
    by_class: tuple[RowMap, ...] = ()
    width: int = 0
    held: bool = False


STORED = View()


@dataclass(frozen=True)
class WorkerSpec:
    """All that a worker needs to know to be made, and made again.

    Attributes
    ----------
    number
        Which worker it is.
    first_piece
        The number of its first piece.
    bounds
        Where its pieces begin, as rows of the whole, and where the last one ends.
    files
        The files that hold these rows.
    absent
        Locations of files to do without: their rows belong to no class.
    codes
        The class of each of its rows, -1 for none; None if all are of class 0.
    n_classes, batches, seeds
        Classes; batches and seed of the partition for each of them.
    device
        What sums are made on: "cpu", "cuda", or "auto" for a GPU where there is one.
    view
        How its rows are seen.
    """

    number: int
    first_piece: int
    bounds: Indices
    files: tuple[ShardFile, ...]
    n_features: int
    dtype: str
    n_classes: int = 1
    batches: tuple[int, ...] = (1,)
    seeds: tuple[int, ...] = (0,)
    absent: frozenset[str] = frozenset()
    codes: NDArray[Any] | None = None
    device: str = "cpu"
    view: View = STORED

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return int(self.bounds[-1] - self.bounds[0])

    def share_of(self, file: ShardFile) -> tuple[int, int]:
        """Return the first of its rows in a file, and the one after the last."""
        return max(int(self.bounds[0]), file.start), min(int(self.bounds[-1]), file.stop)

    @property
    def last_piece(self) -> int:
        """The number of the piece after its last."""
        return self.first_piece + len(self.bounds) - 1


@dataclass
class Piece:
    """A run of rows, or a sample of one, and which of them are of which class.

    Attributes
    ----------
    rows
        An array or a ShardedArray that holds them.
    where
        The slice of ``rows`` that the piece is.
    first_row
        The number, in the whole, of the piece's first row.
    order, ends
        Positions sorted by class (None: all are of class 0), and where each class ends among them.
    positions
        For a sample: the positions of its rows in the run that they were taken from.
    longest
        The length of the longest row, once that is known.
    there, index_there
        The rows, and where those of a class stand, on a device that keeps them.
    """

    rows: Any
    where: slice
    first_row: int
    order: NDArray[np.int32] | None
    ends: Indices
    view: View = STORED
    positions: Indices | None = None
    longest: float = -1.0
    there: Any = field(default=None, repr=False)
    index_there: dict[int, Any] = field(default_factory=dict, repr=False)
    _made: Matrix | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return int(self.where.stop - self.where.start)

    @property
    def stop_row(self) -> int:
        """The number of the row after the last."""
        return self.first_row + len(self)

    def block(self) -> Matrix:
        """Return the rows that a method sees as float32 or float64, C-ordered, read-only."""
        if self._made is not None:
            return self._made
        seen = prepared(self.rows[self.where], self.view.steps)
        if self.view.by_class:
            made = np.zeros((len(self), self.view.width), dtype=np.float32)
            for number, row_map in enumerate(self.view.by_class):
                index = self.of_class(number)
                if len(index):
                    found = row_map(seen[index])
                    made[index, : found.shape[1]] = found
            seen = read_only(made)
        if self.view.held:
            self._made = seen
        return seen

    def taken(self, positions: Indices) -> Matrix:
        """Return some of the rows that a method sees."""
        if self.view.held:
            return self.block()[positions]
        return prepared(np.asarray(self.rows[self.where.start + positions]), self.view.steps)

    def chunk(self, number: int) -> tuple[Matrix, Indices]:
        """Return ``(block, index)`` such that ``block[index]`` are the rows of a class."""
        index = self.of_class(number)
        if self.view.held or 4 * len(index) >= len(self):
            return self.block(), read_only(index)
        return self.taken(index), read_only(np.arange(len(index)))

    def of_class(self, number: int) -> Indices:
        """Return the positions of a class's rows, ascending."""
        if self.order is None:
            return np.arange(len(self) if number == 0 else 0, dtype=np.int64)
        start = int(self.ends[number - 1]) if number else 0
        return self.order[start : int(self.ends[number])].astype(np.int64)

    def size_of_class(self, number: int) -> int:
        """Return how many rows of a class there are."""
        return int(self.ends[number]) - (int(self.ends[number - 1]) if number else 0)

    def row_number(self, position: int) -> int:
        """Return a row's number in the whole."""
        return self.first_row + (position if self.positions is None else int(self.positions[position]))

    def sampled(self, every: int) -> Piece:
        """Return every so many rows of each class as a piece that is held in memory."""
        parts = [self.of_class(number)[::every] for number in range(len(self.ends))]
        chosen, ends = np.concatenate(parts), np.cumsum([len(part) for part in parts])
        order, stored = np.arange(len(chosen), dtype=np.int32), np.asarray(self.rows[self.where])[chosen]
        return Piece(stored, slice(0, len(chosen)), self.first_row, order, ends, self.view, chosen)


def prepared(stored: NDArray[Any], steps: tuple[RowMap, ...] = ()) -> Matrix:
    """Return stored rows as the loops read them, after some steps.

    Examples
    --------
    >>> from gmmatch.rows.preprocessing import UnitLength
    >>> prepared(np.array([[3, 4]], dtype=np.int8), (UnitLength(),))
    array([[0.6, 0.8]], dtype=float32)
    """
    rows = np.asarray(stored)
    block = Rows(rows).block(0) if len(rows) else np.empty(rows.shape, dtype=Rows(rows).dtype)
    for step in steps:
        # Of no rows there is still to be known how long they would be.
        block = step(block) if len(block) else step(np.zeros((1, block.shape[1]), dtype=block.dtype))[:0]
    return read_only(block)


def open_rows(spec: WorkerSpec) -> tuple[Any, int]:
    """Open a worker's files; return its rows as one array, and the number in the whole of the first of them."""
    parts: list[Any] = []
    lengths: list[int] = []
    for file in spec.files:
        # Local files are mapped whole, as many at a time as may be open; of others, only the rows are read.
        low, high = (file.start, file.stop) if file.mapped else spec.share_of(file)
        lengths.append(high - low)
        if file.location in spec.absent:
            nothing = np.zeros((1, spec.n_features), dtype=spec.dtype)
            parts.append(np.broadcast_to(nothing, (high - low, spec.n_features)))
        elif file.mapped:
            parts.append(Path(file.location))
        else:
            parts.append(read_rows(file, low, high, spec.n_features, spec.dtype))
    rows = ShardedArray(parts, lengths=lengths, n_features=spec.n_features, dtype=spec.dtype)
    first = spec.files[0] if spec.files else None
    return rows, first.start if first is not None and first.mapped else int(spec.bounds[0])


def cut_pieces(spec: WorkerSpec, rows: Any, offset: int) -> list[Piece]:
    """Cut a worker's rows into its pieces."""
    found = []
    for start, stop in pairwise(spec.bounds.tolist()):
        where, order, ends = slice(start - offset, stop - offset), None, np.array([stop - start])
        if spec.codes is not None:
            codes = spec.codes[start - int(spec.bounds[0]) : stop - int(spec.bounds[0])].astype(np.int64)
            by_class = np.argsort(codes, kind="stable")
            cuts = np.searchsorted(codes[by_class], np.arange(spec.n_classes + 1))
            order, ends = by_class[cuts[0] :].astype(np.int32), cuts[1:] - cuts[0]
        found.append(Piece(rows, where, start, order, ends, spec.view))
    return found


def taken(pieces: list[Piece], rows: Indices) -> Matrix:
    """Return the rows that a method sees with these numbers, which lie in some pieces."""
    piece_of_row = np.searchsorted([piece.first_row for piece in pieces], rows, side="right") - 1
    parts = {}
    for number in np.unique(piece_of_row).tolist():
        # A piece without rows begins where the next one does, which is the one that is found.
        where = np.flatnonzero(piece_of_row == number)
        parts[number] = where, pieces[number].taken(rows[where] - pieces[number].first_row)
    first = next(iter(parts.values()))[1]
    out = np.empty((len(rows), first.shape[1]), dtype=first.dtype)
    for where, part in parts.values():
        out[where] = part
    return out


def unreadable_files(spec: WorkerSpec) -> list[tuple[str, str]]:
    """Return location and reason of each file that a worker needs and cannot read."""
    found = []
    for file in spec.files:
        if file.location in spec.absent:
            continue
        low, high = spec.share_of(file)
        try:
            # One row will do here: of a remote file all are read when it is opened.
            read_rows(file, low, min(low + 1, high), spec.n_features, spec.dtype)
            check_contents(file)
        except UnreadableShardError as error:
            found.append((file.location, str(error)))
    return found
