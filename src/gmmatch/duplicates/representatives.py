"""Of rows that are connected by pairs of near-duplicates, those that stay: the most typical ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from gmmatch._array import Indices, Mask, Matrix, Vector
from gmmatch.duplicates.cells import TILE_COLUMNS
from gmmatch.duplicates.sketch import Points, pair_cosines

# Components of up to this many rows are read together, and all products of their rows are computed.
SMALL = 2_048
# Rows of a larger component that are compared with all others at a time.
LEADERS = 512


class Components:
    """Which rows are connected by pairs with a cosine of at least ``least``.

    Pairs of rows that are connected already are not checked: of many copies, few pairs are.
    """

    def __init__(self, points: Points, least: float) -> None:
        self.points, self.least = points, least
        # Each row has another one of its component, until one has itself.
        self.parents = np.arange(len(points.rows))
        self._lock = threading.Lock()

    def add(self, i: Indices, j: Indices) -> None:
        """Check candidates and connect their rows."""
        with self._lock:
            open_pairs = self.find(i) != self.find(j)
        i, j = i[open_pairs], j[open_pairs]
        near = pair_cosines(self.points, i, self.points, j) >= self.least
        if near.any():
            with self._lock:
                self.connect(i[near], j[near])

    def find(self, rows: Indices) -> Indices:
        """Return the row that stands for the component of each of these rows."""
        parents = self.parents[rows]
        while (self.parents[parents] != parents).any():
            parents = self.parents[parents]
        self.parents[rows] = parents
        return parents

    def connect(self, i: Indices, j: Indices) -> None:
        """Make one component of the two of each pair."""
        present, ends = np.unique([self.find(i), self.find(j)], return_inverse=True)
        ends = ends.reshape(2, -1)
        graph = coo_matrix((np.ones(len(i), dtype=np.int8), (ends[0], ends[1])), shape=(len(present),) * 2)
        _, component = connected_components(graph, directed=False)
        _, firsts = np.unique(component, return_index=True)
        self.parents[present] = present[firsts[component]]


def choose_representatives(
    points: Points, components: Indices, counts: Indices, least: float
) -> tuple[Indices, Vector]:
    """Return the row that each row is a duplicate of (-1 for none), and their cosine (NaN for none).

    Of a chain of near-duplicates the first row may have little in common with the last. So the rows of a component
    are visited in the order of how typical they are, by their mean cosine to all its rows, the lowest row first
    among equals. A row that is not a duplicate of one before it stays, and takes its duplicates.

    Parameters
    ----------
    points : Points
    components : int64 array of shape (n,)
        The component of each row.
    counts : int64 array of shape (n,)
        How many copies each row stands for.
    least : float
        The least cosine of duplicates.
    """
    original, similarity = np.full(len(components), -1), np.full(len(components), np.nan)
    for batch in _batches(components):
        if len(batch[0]) > SMALL:
            _visit_large(points, batch[0], counts, least, original, similarity)
            continue
        rows, start = points.take(np.concatenate(batch)), 0
        for members in batch:
            group = rows[start : start + len(members)]
            start += len(members)
            cosines = np.minimum(group @ group.T, 1.0)
            order = _by_typicality(cosines @ counts[members])
            _assign(members[order], cosines[np.ix_(order, order)], least, original, similarity)
    return original, similarity


def _visit_large(
    points: Points, members: Indices, counts: Indices, least: float, original: Indices, similarity: Vector
) -> None:
    """Decide about a component that is too large for all products of its rows, some rows at a time."""
    tiles = [members[first : first + TILE_COLUMNS] for first in range(0, len(members), TILE_COLUMNS)]
    total = sum(counts[tile] @ points.take(tile) for tile in tiles)
    typicality = [points.take(tile) @ total for tile in tiles]
    left, level = (
        members[_by_typicality(np.concatenate(typicality))],
        points.sketch.level(least, points.short),
    )
    while len(left):
        leaders, rest = left[:LEADERS], left[LEADERS:]
        rows = points.take(leaders)
        staying = ~_assign(leaders, np.minimum(rows @ rows.T, 1.0), least, original, similarity)
        leaders, rows = leaders[staying], rows[staying]
        for first in range(0, len(rest), TILE_COLUMNS):
            tile = rest[first : first + TILE_COLUMNS]
            tile = tile[(points.short[leaders] @ points.short[tile].T >= level).any(axis=0)]
            cosines = np.minimum(rows @ points.take(tile).T, 1.0)
            # A row goes to the first of the leaders that it is near to.
            leader, near = (cosines >= least).argmax(axis=0), (cosines >= least).any(axis=0)
            original[tile[near]] = leaders[leader[near]]
            similarity[tile[near]] = cosines[leader[near], np.flatnonzero(near)]
        left = rest[original[rest] < 0]


def _assign(members: Indices, cosines: Matrix, least: float, original: Indices, similarity: Vector) -> Mask:
    """Let each row that was not taken take the later ones that are near it; return which rows were taken."""
    taken = np.zeros(len(members), dtype=np.bool_)
    for row in range(len(members)):
        if not taken[row]:
            duplicates = np.flatnonzero((cosines[row] >= least) & ~taken)
            duplicates = duplicates[duplicates > row]
            taken[duplicates] = True
            original[members[duplicates]] = members[row]
            similarity[members[duplicates]] = cosines[row, duplicates]
    return taken


def _by_typicality(typicality: Vector) -> Indices:
    return np.argsort(-typicality.round(9), kind="stable")


def _batches(components: Indices) -> Iterator[list[Indices]]:
    """Yield components of two rows or more, the rows of each ascending: small ones together, large ones alone."""
    connected = np.flatnonzero(np.bincount(components)[components] > 1)
    by_component = connected[np.argsort(components[connected], kind="stable")]
    borders = np.flatnonzero(np.diff(components[by_component])) + 1
    batch: list[Indices] = []
    for members in np.split(by_component, borders) if len(by_component) else []:
        if len(members) > SMALL:
            yield [members]
            continue
        batch.append(members)
        if sum(map(len, batch)) >= SMALL:
            yield batch
            batch = []
    if batch:
        yield batch
