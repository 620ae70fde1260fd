"""Candidates for near-duplicates: all pairs of short vectors that are near enough, with few products to find them.

Vectors are sorted into cells, each around a center. Between two cells runs the plane of points that are as near to
one center as to the other. A vector at distance h from it on one side and one at distance h' on the other have a
distance of at least h + h': only vectors with h + h' ≤ radius are multiplied. No pair within the radius is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from gmmatch._array import Indices

Vectors: TypeAlias = NDArray[Any]
"""Float32, or float64 for rows of few columns."""

Consume: TypeAlias = Callable[[Indices, Indices], None]
"""Takes candidates: positions on the left and on the right. Several threads call it."""

# Cells of this size sort and multiply well; more of them would cost more to compare than they save.
ROWS_PER_CELL, _MAX_CELLS = 4_000, 1_024
_SAMPLE_PER_CELL, _ROUNDS = 50, 3
# Products of this many vectors at a time stay in a core's cache.
TILE_ROWS, TILE_COLUMNS = 256, 2_048
# Candidates of this many products are passed on together, or at once if there are as many of one.
_TILES, _CANDIDATES = 256, 1 << 14
# Distances from planes are known to this much.
_ROUNDING = 1e-4


@dataclass(frozen=True, eq=False)
class Cells:
    """Short vectors and their cells.

    Attributes
    ----------
    vectors : array of shape (n, c)
        In the order in which they came: a copy by cell would take as much memory again.
    positions : int64 array of shape (n,)
        The vectors of one cell after another.
    starts : int64 array of shape (C + 1,)
        Where the cells start in ``positions``.
    centers : array of shape (C, c)
    margins : array of shape (C, C)
        How near vectors of cell a come to the plane between a and b.
    """

    vectors: Vectors
    positions: Indices
    starts: Indices
    centers: Vectors
    margins: Vectors

    @classmethod
    def of(cls, vectors: Vectors, centers: Vectors) -> Cells:
        """Sort vectors by the center that they are nearest to."""
        pieces = np.array_split(vectors, -(-len(vectors) // ROWS_PER_CELL))
        nearest = np.concatenate([_scores(piece, centers).argmax(axis=1) for piece in pieces])
        positions = np.argsort(nearest, kind="stable")
        starts = np.searchsorted(nearest[positions], np.arange(len(centers) + 1))
        cells = cls(vectors, positions, starts, centers, np.empty((len(centers),) * 2))
        for a in range(len(centers)):
            cells.margins[a] = cells.plane_distances(a, slice(None)).min(axis=0, initial=np.inf)
        return cells

    def members(self, a: int) -> Indices:
        """Return the positions of the vectors of a cell."""
        return self.positions[self.starts[a] : self.starts[a + 1]]

    def plane_distances(self, a: int, others: Any) -> Vectors:
        """Return the distance of each vector of a cell from the planes between it and other cells."""
        vectors, centers = self.vectors[self.members(a)], self.centers[others]
        distances = cdist(self.centers[[a]], centers)
        # No vector lies between centers that are the same.
        distances[distances < 1e-6] = 1.0
        gaps: Vectors = (_scores(vectors, self.centers[[a]]) - _scores(vectors, centers)) / distances
        return gaps


def cell_centers(vectors: Vectors) -> Vectors:
    """Return the centers of cells: a few rounds of k-means on a sample."""
    random = np.random.default_rng(0)
    count = int(np.clip(len(vectors) // ROWS_PER_CELL, 1, _MAX_CELLS))
    sample = vectors[np.sort(random.permutation(len(vectors))[: count * _SAMPLE_PER_CELL])]
    centers = sample[random.permutation(len(sample))[:count]].copy()
    for _ in range(_ROUNDS):
        nearest = _scores(sample, centers).argmax(axis=1)
        order = np.argsort(nearest, kind="stable")
        present, firsts = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(sample[order], firsts, axis=0)
        centers[present] = sums / np.diff([*firsts, len(sample)])[:, None]
    return centers


def candidate_pairs(
    left: Vectors, right: Vectors | None, level: float, consume: Consume, n_jobs: int
) -> None:
    """Pass on all pairs of vectors of length 1 whose product is at least ``level``.

    Without ``right``, pairs are those of ``left``, each once.

    Examples
    --------
    >>> vectors = np.eye(3, dtype=np.float32)[[0, 1, 0, 2]]
    >>> candidate_pairs(vectors, None, 0.9, lambda i, j: print(i, j), 1)
    [0] [2]
    """
    radius = float(np.sqrt(max(2.0 - 2.0 * level, 0.0))) + _ROUNDING
    larger = left if right is None or len(left) >= len(right) else right
    centers = cell_centers(larger)
    rows = Cells.of(left, centers)
    columns = rows if right is None else Cells.of(right, centers)
    reachable = rows.margins + columns.margins.T <= radius
    np.fill_diagonal(reachable, True)

    def search(a: int) -> None:
        others = np.flatnonzero(reachable[a])
        others = others[others >= a] if right is None else others
        batch: list[tuple[Indices, Indices]] = []
        for b in others.tolist():
            for pairs in _compare(rows, columns, a, b, radius, level):
                batch.append(pairs)
                if len(batch) == _TILES or len(pairs[0]) > _CANDIDATES:
                    consume(*map(np.concatenate, zip(*batch, strict=True)))
                    batch = []
        if batch:
            consume(*map(np.concatenate, zip(*batch, strict=True)))

    with ThreadPoolExecutor(n_jobs) as pool:
        list(pool.map(search, range(len(centers))))


def _compare(
    left: Cells, right: Cells, a: int, b: int, radius: float, level: float
) -> Iterator[tuple[Indices, Indices]]:
    """Multiply vectors of two cells that may be near each other, those nearest to the plane first."""
    rows, columns = left.members(a), right.members(b)
    if not len(rows) or not len(columns):
        return
    reach, depth = np.full(len(rows), np.inf), np.zeros(len(columns))
    if a != b:
        reach, depth = radius - left.plane_distances(a, [b])[:, 0], right.plane_distances(b, [a])[:, 0]
        order, back = np.flatnonzero(reach >= depth.min()), np.flatnonzero(depth <= reach.max())
        order, back = order[np.argsort(-reach[order])], back[np.argsort(depth[back])]
        rows, columns, reach, depth = rows[order], columns[back], reach[order], depth[back]
    others = right.vectors[columns]
    for first in range(0, len(rows), TILE_ROWS):
        count = int(np.searchsorted(depth, reach[first], side="right"))
        tile = left.vectors[rows[first : first + TILE_ROWS]]
        for start in range(0, count, TILE_COLUMNS):
            products = tile @ others[start : min(start + TILE_COLUMNS, count)].T
            some = np.flatnonzero(products.max(axis=1) >= level)
            i, j = np.nonzero(products[some] >= level)
            i, j = rows[first + some[i]], columns[start + j]
            if left is right and a == b:
                once = i < j
                i, j = i[once], j[once]
            if len(i):
                yield i, j


def _scores(vectors: Vectors, centers: Vectors) -> Vectors:
    """Return ⟨x, c⟩ − ‖c‖²/2, which is highest for the nearest center."""
    scores: Vectors = vectors @ centers.T - 0.5 * np.einsum("ij,ij->i", centers, centers)
    return scores
