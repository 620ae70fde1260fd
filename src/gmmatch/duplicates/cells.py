"""Candidates for near-duplicates: all pairs of short vectors that are near enough, with few products to find them.

Vectors are sorted into cells, each around one of them. Between two cells runs the plane of points that are as near to
one center as to the other. A vector at distance h from it on one side and one at distance h' on the other have a
distance of at least h + h': only vectors with h + h' ≤ radius are multiplied. No pair within the radius is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from gmmatch._array import Indices
from gmmatch._threads import resolve_jobs, run_parallel
from gmmatch.duplicates.sketch import READ_NUMBERS, Points

Vectors: TypeAlias = NDArray[Any]
"""Float32, or float64 for rows of few columns."""

Consume: TypeAlias = Callable[[Indices, Indices], None]
"""Takes candidates: rows on the left and on the right. Several threads call it."""

# Cells of this size sort and multiply well; more of them would cost more to compare than they save.
ROWS_PER_CELL, _MAX_CELLS = 4_000, 1_024
# Of pairs of rows of 1,024 independent columns with a cosine of 0.95, the least of copies, 98% share one of their 4
# nearest cells, and 99.9% with one of 0.98, whatever the size of the cells.
_N_SHARED, _ROWS_SHARED = 4, 500
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
        Those of all rows: a copy by cell would take as much memory again.
    centers : array of shape (C, c)
    members : list of C int64 arrays
        The rows of each cell, ascending.
    """

    vectors: Vectors
    centers: Vectors
    members: list[Indices]

    @classmethod
    def of(cls, points: Points, centers: Vectors, n_nearest: int = 1) -> Cells:
        """Put each vector into the cells of its nearest centers."""
        nearest = np.empty((len(points.numbers), min(n_nearest, len(centers))), dtype=np.int32)
        size = max(1, READ_NUMBERS // len(centers))
        for first in range(0, len(nearest), size):
            scores = _scores(points.short[points.numbers[first : first + size]], centers)
            for rank in range(nearest.shape[1]):
                best = scores.argmax(axis=1)
                nearest[first : first + size, rank] = best
                scores[np.arange(len(best)), best] = -np.inf
        # Sorted by counting, in less memory than argsort takes.
        ones, ends = np.ones(nearest.size, dtype=np.int8), np.arange(0, nearest.size + 1, nearest.shape[1])
        cells = csr_array((ones, nearest.ravel(), ends), shape=(len(nearest), len(centers))).tocsc()
        return cls(points.short, centers, np.split(points.numbers[cells.indices], cells.indptr[1:-1]))

    def margins(self) -> Vectors:
        """Return how near vectors of cell a come to the plane between a and b, shape (C, C)."""
        nearest = [
            self.plane_distances(a, slice(None)).min(axis=0, initial=np.inf) for a in range(len(self.centers))
        ]
        return np.array(nearest)

    def plane_distances(self, a: int, others: Any) -> Vectors:
        """Return the distance of each vector of a cell from the planes between it and other cells."""
        vectors, centers = self.vectors[self.members[a]], self.centers[others]
        distances = cdist(self.centers[[a]], centers)
        # No vector lies between centers that are the same.
        distances[distances < 1e-6] = 1.0
        gaps: Vectors = (_scores(vectors, self.centers[[a]]) - _scores(vectors, centers)) / distances
        return gaps


def candidate_pairs(
    left: Points, right: Points | None, least: float, consume: Consume, n_jobs: int | None, exact: bool
) -> None:
    """Pass on all pairs of rows whose short vectors are similar enough for a cosine of ``least``.

    Without ``right``, pairs are those of ``left``, each once. If not ``exact``, only vectors that share one of their
    nearest cells are multiplied, and a pair is passed on for each such cell: in many dimensions all cells are near
    each other, and all pairs would be multiplied.
    """
    level = left.sketch.level(least, left.short)
    radius = float(np.sqrt(max(2.0 - 2.0 * level, 0.0))) + _ROUNDING
    larger = left if right is None or len(left.numbers) >= len(right.numbers) else right
    n = len(larger.numbers)
    # As many cells as make products with centers cost as much as products within cells.
    count = min(n // ROWS_PER_CELL, _MAX_CELLS) if exact else min(n // _ROWS_SHARED, int((8 * n) ** 0.5))
    centers = larger.short[np.random.default_rng(0).permutation(larger.numbers)[: max(1, count)]]
    rows = Cells.of(left, centers, 1 if exact else _N_SHARED)
    columns = rows if right is None else Cells.of(right, centers)
    if exact:
        reachable = rows.margins() + columns.margins().T <= radius
        np.fill_diagonal(reachable, True)

    def search(a: int) -> None:
        others = np.flatnonzero(reachable[a]) if exact else np.array([a])
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

    run_parallel(search, range(len(centers)), resolve_jobs(n_jobs))


def _compare(
    left: Cells, right: Cells, a: int, b: int, radius: float, level: float
) -> Iterator[tuple[Indices, Indices]]:
    """Multiply vectors of two cells that may be near each other, those nearest to the plane first."""
    rows, columns = left.members[a], right.members[b]
    if not len(rows) or not len(columns):
        return
    reach, depth = np.full(len(rows), np.inf), np.zeros(len(columns))
    if a != b:
        reach, depth = radius - left.plane_distances(a, [b])[:, 0], right.plane_distances(b, [a])[:, 0]
        order, back = np.flatnonzero(reach >= depth.min()), np.flatnonzero(depth <= reach.max())
        order, back = order[np.argsort(-reach[order])], back[np.argsort(depth[back])]
        rows, columns, reach, depth = rows[order], columns[back], reach[order], depth[back]
    within = left is right and a == b
    others = right.vectors[columns]
    for first in range(0, len(rows), TILE_ROWS):
        count = int(np.searchsorted(depth, reach[first], side="right"))
        tile = left.vectors[rows[first : first + TILE_ROWS]]
        for start in range(first if within else 0, count, TILE_COLUMNS):
            products = tile @ others[start : min(start + TILE_COLUMNS, count)].T
            some = np.flatnonzero(products.max(axis=1) >= level)
            i, j = np.nonzero(products[some] >= level)
            i, j = rows[first + some[i]], columns[start + j]
            if within:
                once = i < j
                i, j = i[once], j[once]
            if len(i):
                yield i, j


def _nearest(vectors: Vectors, centers: Vectors, count: int) -> Indices:
    """Return the nearest centers of each vector, shape (m, count)."""
    scores, nearest = _scores(vectors, centers), np.empty((len(vectors), count), dtype=np.int64)
    for rank in range(count):
        nearest[:, rank] = scores.argmax(axis=1)
        np.put_along_axis(scores, nearest[:, [rank]], -np.inf, axis=1)
    return nearest


def _scores(vectors: Vectors, centers: Vectors) -> Vectors:
    """Return ⟨x, c⟩ − ‖c‖²/2, which is highest for the nearest center."""
    scores: Vectors = vectors @ centers.T - 0.5 * np.einsum("ij,ij->i", centers, centers)
    return scores
