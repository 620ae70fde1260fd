"""Greedy matching: pick rows one after another so that their mean approaches a target.

θ₀ = μ (or 0);   x = argmax ⟨θ, φ(x)⟩ over the rows left;   θ ← θ + μ − φ(x)

Batches, and what they hand on to each other, are the same wherever the rows lie; a *picker* makes the picks of some
parts of the rows: in memory, on a CUDA device, or by the workers of an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.matching.batches import (
    RUN_BYTES,
    Stage,
    automatic_batches,
    batch_of_rows,
    independent_batches,
    partition,
    shares,
    stages,
)
from gmmatch.matching.cost import check_strategy, choose_strategy, working_memory
from gmmatch.matching.strategies import pick_directly
from gmmatch.matching.walk import Picks, Walk, replay
from gmmatch.rows.checks import as_generator
from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Mask, RandomState, Start, Vector

# Row numbers that are hashed at a time.
_HASHED_ROWS = 1 << 22


@dataclass
class Pool:
    """The rows that one group's picks are made from, and where its walk stands.

    Attributes
    ----------
    rows
        Rows, or what gathers them by position.
    available
        Which of them may be picked; updated as picks are made.
    numbers
        Their numbers in the whole, by which independent batches are told apart.
    seed, random_state
        Of independent batches, and of batches that carry θ on.
    """

    rows: Any
    walk: Walk
    available: Mask
    k: int
    numbers: Indices
    seed: int
    random_state: RandomState = None
    n_total: int = 0
    batches: int = field(default=1, init=False)

    def positions(self, first: int, stop: int) -> Indices:
        """Return where the rows of some independent batches stand."""
        batch = batch_of_rows(self.numbers, self.batches, self.seed)
        return np.flatnonzero((batch >= first) & (batch < stop))

    def batch_sizes(self) -> Indices:
        """Return how many rows of each independent batch may be picked."""
        sizes = np.zeros(self.batches, dtype=np.int64)
        for first in range(0, len(self.numbers), _HASHED_ROWS):
            part = slice(first, first + _HASHED_ROWS)
            rows = self.numbers[part][self.available[part]]
            sizes += np.bincount(batch_of_rows(rows, self.batches, self.seed), minlength=self.batches)
        return sizes


@dataclass
class Part:
    """Up to ``k`` picks to be made from a pool: all of it, some positions, or some independent batches.

    Attributes
    ----------
    pool
        The number of the pool.
    walk
        Advanced by the picks.
    positions
        Positions in the pool.
    span
        The first independent batch and the one after the last.
    """

    pool: int
    walk: Walk
    k: int
    positions: Indices | None = None
    span: tuple[int, int] | None = None

    def within(self, pool: Pool) -> Indices | None:
        """Return the positions, None for all."""
        return self.positions if self.span is None else pool.positions(*self.span)


Picker = Callable[[Sequence[Part]], list[Picks]]
"""Makes the picks of parts that have no row in common; positions are those in the pool."""


def match(
    rows: Rows,
    target: Vector,
    k: int,
    *,
    available: Mask | None = None,
    already: Indices | None = None,
    start: Start = "target",
    replacement: bool = False,
    strategy: str = "auto",
    batches: int | None = 1,
    carry: bool = True,
    random_state: RandomState = None,
    memory_limit: int | None = None,
    threads: int = 1,
) -> Picks:
    """Return ``k`` positions whose mean approaches ``target``, in the order they were picked.

    Parameters
    ----------
    rows : Rows
        The n candidates.
    target : float64 array of shape (s,)
        The moment μ to match.
    k : int
        Number of picks.
    available : boolean array of shape (n,), optional
        Which rows may be picked.
    already : int64 array, optional
        Positions that count as picked before the first pick is made.
    threads : int
        Threads; the picks do not depend on it.
    start, replacement, strategy, batches, carry, random_state, memory_limit
        As in :class:`~gmmatch.MomentMatching`. Independent batches start at θ₀/B, and those of fewer than 32 picks
        are merged.

    Examples
    --------
    >>> rows = Rows(np.array([[0.0], [1.0], [2.0], [9.0]]))
    >>> match(rows, np.array([1.0]), 2, start="zero").order
    array([0, 3])
    """
    check_strategy(strategy)
    free = np.ones(len(rows), dtype=bool) if available is None else np.array(available, dtype=bool)
    walk = Walk.begin(target, start, None if already is None else rows.gather(already))
    limit = working_memory(memory_limit, rows.nbytes, on_disk=rows.on_disk)
    seed = 0 if carry else int(as_generator(random_state).integers(0, 2**63))
    pool = Pool(rows, walk, free, k, np.arange(len(rows)), seed, random_state, len(rows))
    picker = MemoryPicker([pool], replacement=replacement, strategy=strategy, memory=limit, threads=threads)
    return match_pools([pool], picker, batches=batches, carry=carry, replacement=replacement, memory=limit)[0]


def match_pools(
    pools: list[Pool],
    picker: Picker,
    *,
    batches: int | None,
    carry: bool,
    replacement: bool = False,
    memory: int = 0,
) -> list[Picks]:
    """Make the picks of every pool, in batches where that is asked for."""
    for pool in pools:
        left = int(pool.available.sum())
        if pool.k and (left == 0 or (pool.k > left and not replacement)):
            raise InvalidInputError(f"k={pool.k} picks were asked for, but only {left} rows may be picked.")
        if carry:
            pool.batches = automatic_batches(pool.rows, pool.k, memory) if batches is None else batches
        else:
            pool.batches = independent_batches(
                pool.k, len(pool.numbers), len(pool.walk.target), batches, max(pool.n_total, 1)
            )
    if not carry:
        return _independent(pools, picker)
    split = [_carried_parts(number, pool) for number, pool in enumerate(pools)]
    found: list[list[Picks]] = [[] for _ in pools]
    for turn in range(max(len(parts) for parts in split)):
        parts = [parts[turn] for parts in split if turn < len(parts)]
        for part, picks in zip(parts, picker(parts), strict=True):
            found[part.pool].append(picks)
    return [Picks.join(parts) for parts in found]


def _carried_parts(number: int, pool: Pool) -> list[Part]:
    if pool.batches == 1:
        return [Part(number, pool.walk, pool.k)]
    rows = pool.rows
    run = max(1, RUN_BYTES // (rows.nbytes // len(rows))) if rows.on_disk else 1
    positions = partition(np.flatnonzero(pool.available), pool.batches, pool.random_state, run=run)
    quota = shares(pool.k, positions)
    return [Part(number, pool.walk, int(count), part) for part, count in zip(positions, quota, strict=True)]


def _independent(pools: list[Pool], picker: Picker) -> list[Picks]:
    """Pick in batches that know nothing of each other, then correct what they err by together."""
    runs = [_IndependentRun(number, pool) for number, pool in enumerate(pools)]
    while any(run.stages for run in runs):
        parts = [run.next_parts() for run in runs]
        found = iter(picker([part for own in parts for part in own]))
        for run, own in zip(runs, parts, strict=True):
            run.accept(own, [next(found) for _ in own])
    return [run.picks() for run in runs]


class _IndependentRun:
    """How far the independent batches of one pool are.

    They share θ₀: with all of it for each, B batches would be off by B times as much, in the same direction.
    """

    def __init__(self, number: int, pool: Pool) -> None:
        self.number, self.pool = number, pool
        self.stages: list[Stage] = stages(pool.k, pool.batch_sizes()) if pool.k else []
        self.level = 0
        self.thetas = np.tile(pool.walk.theta / pool.batches, (pool.batches, 1))
        self.orders: list[Indices] = []
        self.count = 0
        self.alone: Picks | None = None

    def next_parts(self) -> list[Part]:
        """Return the parts of the next stage; merged groups go on from what their members are off by in sum."""
        if not self.stages:
            return []
        stage = self.stages.pop(0)
        while self.level < stage.level:
            odd = np.zeros((len(self.thetas) % 2, self.thetas.shape[1]))
            even = np.concatenate([self.thetas, odd])
            self.thetas = even[0::2] + even[1::2]
            self.level += 1
        target, width = self.pool.walk.target, 1 << self.level
        quota = np.where(stage.quota < 0, self.pool.k - self.count, stage.quota)
        if self.pool.batches == 1:
            return [Part(self.number, self.pool.walk, self.pool.k)]
        return [
            Part(
                self.number,
                Walk(target, self.thetas[group], np.zeros_like(target)),
                int(quota[group]),
                span=(group * width, min((group + 1) * width, self.pool.batches)),
            )
            for group in range(len(self.thetas))
        ]

    def accept(self, parts: list[Part], found: list[Picks]) -> None:
        """Record the picks of a stage round by round: the first of every group, then the second, ..."""
        if not parts:
            return
        if self.pool.batches == 1:
            self.alone = found[0]
            return
        self.thetas = np.stack([part.walk.theta for part in parts])
        rounds = np.concatenate([np.arange(len(picks.order)) for picks in found])
        order = np.concatenate([picks.order for picks in found])
        self.orders.append(order[np.argsort(rounds, kind="stable")])
        self.count += len(order)

    def picks(self) -> Picks:
        """Return all picks, with the residuals of their joined order."""
        if self.alone is not None:
            return self.alone
        order = np.concatenate([np.empty(0, dtype=np.int64), *self.orders])
        return Picks(order, replay(self.pool.rows, self.pool.walk, order))


class MemoryPicker:
    """Makes picks from rows that this process reads: in memory, or from files, one part at a time."""

    def __init__(
        self, pools: list[Pool], *, replacement: bool, strategy: str, memory: int, threads: int
    ) -> None:
        self.pools, self.replacement, self.strategy = pools, replacement, strategy
        self.memory, self.threads = memory, threads

    def __call__(self, parts: Sequence[Part]) -> list[Picks]:
        """Work on parts side by side; a single one has all threads."""
        threads = self.threads if len(parts) == 1 else 1
        return map_in_order(lambda number: self._pick(parts[number], threads), len(parts), self.threads)

    def _pick(self, part: Part, threads: int) -> Picks:
        pool = self.pools[part.pool]
        where = part.within(pool)
        if where is None:
            return self._pick_from(pool.rows, pool.available, part.walk, part.k, threads)
        unused = pool.available[where]
        found = self._pick_from(pool.rows.subset(where), unused, part.walk, part.k, threads)
        pool.available[where] = unused
        return Picks(where[found.order], found.residuals)

    def _pick_from(self, rows: Rows, unused: Mask, walk: Walk, k: int, threads: int) -> Picks:
        left = int(unused.sum())
        k = (k if left else 0) if self.replacement else min(k, left)
        if k == 0:
            return Picks.join([])
        strategy = self.strategy
        if strategy == "auto":
            strategy = choose_strategy(len(rows), rows.n_features, k, memory=self.memory)
        if not rows.in_place and len(rows) * rows.n_features * rows.dtype.itemsize <= self.memory // 2:
            # Small enough to convert once instead of chunk by chunk at every pick.
            rows = Rows(rows.copied())
        coded = strategy == "coded"
        return pick_directly(
            rows, walk, unused, k, replacement=self.replacement, coded=coded, threads=threads
        )
