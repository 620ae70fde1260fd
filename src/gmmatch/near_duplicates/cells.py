"""Candidates for near-duplicates: all pairs of short vectors that are near enough, and few products to find them.

Vectors are sorted into cells, each around a center. Between two cells runs the plane of points that are as near to
one center as to the other. A vector that lies h from it on one side, and one that lies h' from it on the other, are
at least h + h' apart: only vectors with h + h' ≤ radius are multiplied. Nothing within the radius is ever missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.rows.parallel import map_in_order
from gmmatch.types import Indices

Take = Callable[[Indices, Indices], None]
"""What is done with candidates: numbers of rows on the left, and of rows on the right."""

# Cells of this size sort and multiply well; more of them would cost more to compare than they save.
_ROWS_PER_CELL, _MOST_CELLS = 4_000, 1_024
_SAMPLE_PER_CELL, _ROUNDS = 50, 3
# Products of this many vectors at once stay in a core's cache.
_LINES, _COLUMNS = 256, 2_048
_PIECE = 1 << 15


@dataclass(frozen=True, eq=False)
class Cells:
    """Short vectors sorted by cell; ``least[a, b]`` is how near vectors of a come to the plane between a and b."""

    vectors: NDArray[np.float32]
    numbers: Indices
    starts: Indices
    centres: NDArray[np.float32]
    least: NDArray[np.float32]

    def cell(self, number: int) -> slice:
        """Return where the vectors of a cell stand."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    def gaps(self, number: int, other: int, apart: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return how far each vector of a cell lies from the plane between it and another cell."""
        mine, theirs = self.centres[number], self.centres[other]
        level = 0.5 * (mine @ mine - theirs @ theirs)
        found: NDArray[np.float32] = (self.vectors[self.cell(number)] @ (mine - theirs) - level) / apart
        return found


def cell_centres(vectors: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.float32]:
    """Return the centers of cells: a few rounds of k-means on a sample."""
    count = int(np.clip(len(vectors) // _ROWS_PER_CELL, 1, _MOST_CELLS))
    sample = vectors[np.sort(random.permutation(len(vectors))[: count * _SAMPLE_PER_CELL])]
    centres = sample[random.permutation(len(sample))[:count]].copy()
    for _ in range(_ROUNDS):
        nearest = _nearest(sample, centres)
        order = np.argsort(nearest, kind="stable")
        present, firsts = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(sample[order], firsts, axis=0)
        centres[present] = sums / np.diff([*firsts, len(sample)])[:, None]
    return centres


def into_cells(vectors: NDArray[np.float32], centres: NDArray[np.float32], threads: int) -> Cells:
    """Return vectors sorted by the center that they are nearest to."""
    pieces = -(-len(vectors) // _PIECE)
    parts = [slice(first * _PIECE, (first + 1) * _PIECE) for first in range(pieces)]
    nearest = np.concatenate(
        map_in_order(lambda number: _nearest(vectors[parts[number]], centres), pieces, threads)
    )
    numbers = np.argsort(nearest, kind="stable")
    starts = np.searchsorted(nearest[numbers], np.arange(len(centres) + 1))
    cells = Cells(vectors[numbers], numbers, starts, centres, np.empty((len(centres),) * 2, np.float32))
    apart = centre_distances(centres)

    def work(number: int) -> None:
        mine = cells.vectors[cells.cell(number)]
        scores = mine @ centres.T - 0.5 * np.einsum("ij,ij->i", centres, centres)
        gaps = (scores[:, number, None] - scores) / apart[number]
        cells.least[number] = gaps.min(axis=0, initial=np.inf)

    map_in_order(work, len(centres), threads)
    return cells


def centre_distances(centres: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return how far apart centers are; 1 where they are the same, which no vector lies between."""
    wide = centres.astype(np.float64)
    squares = np.einsum("ij,ij->i", wide, wide)
    apart = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * wide @ wide.T, 0.0))
    apart[apart < 1e-6] = 1.0
    narrow: NDArray[np.float32] = apart.astype(np.float32)
    return narrow


def candidate_pairs(
    left: Cells, right: Cells, threshold: float, take: Take, threads: int, rounding: float
) -> None:
    """Pass on all pairs whose vectors have a product of at least the threshold, less what rounding may hide.

    Both sides have the same centers. If they are the same vectors, each pair is passed on once, in some order.

    Examples
    --------
    >>> vectors = np.eye(3, dtype=np.float32)[[0, 1, 0, 2]]
    >>> cells = into_cells(vectors, cell_centres(vectors, np.random.default_rng(0)), 1)
    >>> candidate_pairs(cells, cells, 0.9, lambda i, j: print(i, j), 1, 1e-4)
    [0] [2]
    """
    level = threshold - rounding
    radius = float(np.sqrt(max(2.0 - 2.0 * level, 0.0))) + rounding
    apart = centre_distances(left.centres)
    reachable = left.least + right.least.T <= radius
    np.fill_diagonal(reachable, True)

    def work(number: int) -> None:
        others = np.flatnonzero(reachable[number])
        for other in others[others >= number] if left is right else others:
            _compare(left, right, number, int(other), apart[number, other], radius, level, take)

    map_in_order(work, len(left.centres), threads)


def _compare(
    left: Cells,
    right: Cells,
    a: int,
    b: int,
    apart: NDArray[np.float32],
    radius: float,
    level: float,
    take: Take,
) -> None:
    """Multiply the vectors of two cells that may be near each other, those nearest to the plane first."""
    mine, theirs = left.cell(a), right.cell(b)
    lines, columns = np.arange(mine.start, mine.stop), np.arange(theirs.start, theirs.stop)
    reach = np.full(len(lines), np.inf, dtype=np.float32)
    near = np.zeros(len(columns), dtype=np.float32)
    if a != b:
        reach, near = radius - left.gaps(a, b, apart), right.gaps(b, a, apart)
        order, back = np.flatnonzero(reach >= near.min()), np.flatnonzero(near <= reach.max())
        order, back = order[np.argsort(-reach[order])], back[np.argsort(near[back])]
        lines, columns, reach, near = lines[order], columns[back], reach[order], near[back]
    others = right.vectors[columns]
    for first in range(0, len(lines), _LINES):
        count = int(np.searchsorted(near, reach[first], side="right"))
        if count == 0:
            return
        block = left.vectors[lines[first : first + _LINES]]
        for start in range(0, count, _COLUMNS):
            stop = min(start + _COLUMNS, count)
            products = block @ others[start:stop].T
            some = np.flatnonzero(products.max(axis=1) >= level)
            if not len(some):
                continue
            i, j = np.nonzero(products[some] >= level)
            i, j = lines[first + some[i]], columns[start + j]
            if left is right and a == b:
                once = i < j
                i, j = i[once], j[once]
            if len(i):
                take(left.numbers[i], right.numbers[j])


def _nearest(vectors: NDArray[np.float32], centres: NDArray[np.float32]) -> Indices:
    scores = vectors @ centres.T - 0.5 * np.einsum("ij,ij->i", centres, centres)
    nearest: Indices = scores.argmax(axis=1)
    return nearest
