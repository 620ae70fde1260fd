"""Picks from batches that are spread over workers, in rounds: every batch makes one pick per round.

A worker sees all θ and names its best row of each batch; the best of these are fetched, and only they travel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cluster.medians import Cluster
from gmmatch.matching.batches import Stage, stages
from gmmatch.matching.walk import Picks
from gmmatch.types import Indices, Start, Vector


class ClassPicks:
    """Where the picking of one class stands.

    Parameters
    ----------
    target : float64 array of shape (s,)
        The moment to match.
    k : int
        Number of picks.
    sizes : int64 array
        Rows of each batch.
    start : "target" or "zero"
        θ₀ of each batch.
    """

    def __init__(self, target: Vector, k: int, sizes: Indices, start: Start) -> None:
        self.target, self.k = target, k
        self._stages: list[Stage] = stages(k, sizes)
        self._level = 0
        n_batches = len(sizes)
        # Batches share the start: with θ₀ = μ for each, all of them would be off by μ in the same direction.
        begin = target / n_batches if start == "target" else np.zeros_like(target)
        self.theta = np.tile(begin, (n_batches, 1))
        self._left = self._stages.pop(0).quota.copy()
        self._n_batches = n_batches
        self._total_drift = np.zeros_like(target)
        self._orders: list[Indices] = []
        self._residuals: list[Vector] = []
        self.count = 0

    @property
    def done(self) -> bool:
        """Whether all picks are made."""
        return self.count >= self.k

    def active(self) -> Indices:
        """Return the groups of batches that make a pick in this round."""
        while not self._left.any() and self._stages:
            self._enter(self._stages.pop(0))
        return np.flatnonzero(self._left)

    def groups(self) -> NDArray[np.int32]:
        """Return the group of each batch."""
        return (np.arange(self._n_batches) >> self._level).astype(np.int32)

    def _enter(self, stage: Stage) -> None:
        """Merge groups of batches, which go on from what they are off by in sum."""
        while self._level < stage.level:
            odd = np.zeros((len(self.theta) % 2, self.theta.shape[1]))
            even = np.concatenate([self.theta, odd])
            self.theta = even[0::2] + even[1::2]
            self._level += 1
        left = stage.quota.copy()
        left[left < 0] = self.k - self.count
        self._left = left

    def accept(self, groups: Indices, rows: Indices, vectors: NDArray[np.float64]) -> None:
        """Record the picks of a round; a row of -1 says that a group has none left."""
        empty = rows < 0
        self._left[groups[empty]] = 0
        groups, rows, vectors = groups[~empty], rows[~empty], vectors[~empty]
        if len(rows) == 0:
            return
        change = self.target - vectors
        self.theta[groups] += change
        self._left[groups] -= 1
        along = np.cumsum(np.concatenate([self._total_drift[None], change]), axis=0)[1:]
        self._total_drift = along[-1]
        counts = self.count + 1 + np.arange(len(rows))
        self._residuals.append(np.sqrt(np.einsum("ij,ij->i", along, along)) / counts)
        self._orders.append(rows)
        self.count += len(rows)

    def picks(self) -> Picks:
        """Return all picks in the order they were made."""
        return Picks(np.concatenate(self._orders), np.concatenate(self._residuals))


@dataclass(frozen=True)
class _Round:
    """Which groups of which classes make a pick, and where their θ stand among all that are sent."""

    table: NDArray[np.int32]
    thetas: NDArray[np.float64]
    members: list[tuple[int, Indices, slice]]


def pick_classes(
    cluster: Cluster,
    targets: dict[int, Vector],
    quota: Indices,
    batches: Indices,
    start: Start,
) -> dict[int, Picks]:
    """Make the picks of all classes, in rounds that they share.

    Parameters
    ----------
    cluster
        The workers.
    targets
        The moment of each class that picks are made from.
    quota, batches
        Picks and batches of every class.
    start
        θ₀.

    Returns
    -------
    dict of class to Picks
        Positions are row numbers of the whole.
    """
    offsets = np.concatenate([[0], np.cumsum(batches)])
    sizes = np.sum(cluster.placement.call("batch_sizes"), axis=0)
    states = {
        number: ClassPicks(target, int(quota[number]), sizes[offsets[number] : offsets[number + 1]], start)
        for number, target in targets.items()
    }
    record = _Record(cluster.owners)
    cluster.placement.restore = record.of_worker
    total = sum(state.k for state in states.values())
    while any(not state.done for state in states.values()):
        this = _next_round(states, offsets)
        rows = _best_rows(cluster, this)
        chosen = rows[rows >= 0]
        vectors = np.zeros((len(rows), cluster.n_features))
        if len(chosen):
            # On the record first: a worker that dies in the middle is told about these rows, too.
            record.add(chosen)
            vectors[rows >= 0] = cluster.rows(chosen, picked=True)
        for number, groups, part in this.members:
            states[number].accept(groups, rows[part], vectors[part])
        cluster.progress("picks", sum(state.count for state in states.values()), total)
    return {number: state.picks() for number, state in states.items()}


def _next_round(states: dict[int, ClassPicks], offsets: Indices) -> _Round:
    table = np.full(int(offsets[-1]), -1, dtype=np.int32)
    thetas, members, sent = [], [], 0
    for number, state in states.items():
        if state.done:
            continue
        active = state.active()
        place = np.full(len(state.theta), -1, dtype=np.int32)
        place[active] = sent + np.arange(len(active), dtype=np.int32)
        table[offsets[number] : offsets[number + 1]] = place[state.groups()]
        thetas.append(state.theta[active])
        members.append((number, active, slice(sent, sent + len(active))))
        sent += len(active)
    return _Round(table, np.concatenate(thetas), members)


def _best_rows(cluster: Cluster, this: _Round) -> Indices:
    """Return the best row of each group over all workers; of equals, the lowest."""
    best_score = np.full(len(this.thetas), -np.inf)
    best_row = np.full(len(this.thetas), -1, dtype=np.int64)
    # Workers are in the order of their rows, so a later one has to be better, not equal.
    for score, row in cluster.placement.call("scan", this.table, this.thetas):
        better = (row >= 0) & ((best_row < 0) | (score > best_score))
        best_score[better], best_row[better] = score[better], row[better]
    return best_row


class _Record:
    """Which rows are picked, for workers that have to be told again."""

    def __init__(self, owners: Indices) -> None:
        self._owners = owners
        self._rows: list[Indices] = []

    def add(self, rows: Indices) -> None:
        self._rows.append(rows)

    def of_worker(self, number: int) -> Indices:
        rows = np.concatenate(self._rows) if self._rows else np.empty(0, dtype=np.int64)
        mine: Indices = rows[(rows >= self._owners[number]) & (rows < self._owners[number + 1])]
        return mine
