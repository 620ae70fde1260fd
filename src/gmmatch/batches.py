"""Batches: how a matching is cut into several runs. An option of every matching, and no concern of a backend.

Batches that carry θ are runs one after another, each with some of the rows available. Independent batches are simply
more groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gmmatch._array import Indices
from gmmatch._checks import check_whole_number
from gmmatch.budget import largest_remainder
from gmmatch.problem import Problem
from gmmatch.rows import GreedyTask

# An independent batch makes at least this many picks: with fewer it cannot settle.
_LEAST_PICKS = 32
# Last picks of each pair of batches, pair of pairs, ..., and of all: they correct the common error.
_CORRECTIONS, _FINAL_CORRECTIONS = 4, 16


@dataclass(frozen=True)
class Carried:
    """Random batches one after another, which carry θ on; ``batches=8`` is short for ``Carried(8)``.

    Only one batch is in memory at a time.

    Examples
    --------
    >>> from gmmatch import Herding
    >>> X = np.arange(40.0).reshape(20, 2)
    >>> Herding(k=6, batches=Carried(3), random_state=0).select(X).k
    6
    """

    n_batches: int = 1

    def __post_init__(self) -> None:
        check_whole_number(self.n_batches, "n_batches")

    def pick(self, problem: Problem, task: GreedyTask) -> Indices:
        """Return the picks of all batches, group after group."""
        batch, quotas = np.zeros(len(task.codes), dtype=np.int32), task.quotas[:, None]
        if self.n_batches > 1:
            quotas = np.zeros((len(task.quotas), self.n_batches), dtype=np.int64)
            for group, rows in enumerate(problem.groups.split(task.available)):
                # At random: rows stored by class, source or time would make batches unlike the whole.
                split = np.array_split(
                    problem.generator(group).permutation(rows), min(self.n_batches, len(rows)) or 1
                )
                sizes = np.array([len(numbers) for numbers in split])
                batch[np.concatenate(split)] = np.repeat(np.arange(len(split)), sizes)
                quotas[group, : len(split)] = largest_remainder(int(task.quotas[group]), sizes)
        orders, thetas = [], task.thetas
        for number in range(self.n_batches):
            available = task.available & (batch == number)
            run = replace(task, quotas=quotas[:, number], thetas=thetas, available=available)
            order, thetas = problem.rows.greedy_picks(run)
            orders.append(order)
        joined = np.concatenate(orders)
        return joined[np.argsort(task.codes[joined], kind="stable")]


@dataclass(frozen=True)
class Independent:
    """Random batches that do not know of each other, as ``batches=Independent(8)``.

    They all err in the same direction, so their last picks are made together: by pairs of batches, by pairs of pairs,
    and finally by all. A group whose batches would make fewer than 32 picks each has fewer batches.

    Examples
    --------
    >>> from gmmatch import Herding
    >>> X = np.arange(40.0).reshape(20, 2)
    >>> Herding(k=6, batches=Independent(3), random_state=0).select(X).k
    6
    """

    n_batches: int

    def __post_init__(self) -> None:
        check_whole_number(self.n_batches, "n_batches")

    def pick(self, problem: Problem, task: GreedyTask) -> Indices:
        """Return the picks of all batches, group after group; batches of a group take turns."""
        groups = np.arange(len(task.quotas))
        counts = np.clip(task.quotas // _LEAST_PICKS, 1, self.n_batches)
        first = np.cumsum(counts) - counts
        owners = np.repeat(groups, counts)
        # Batches are merged at each level, down to one.
        levels = np.array([int(count - 1).bit_length() for count in counts])
        batch = self._split(problem, counts)
        sizes = np.bincount(
            (first[task.codes] + batch)[task.available & (task.codes >= 0)], minlength=len(owners)
        )
        quotas = np.concatenate([
            plan_quotas(quota, sizes[owners == group], levels.max()) for group, quota in enumerate(task.quotas)
        ])  # fmt: skip
        # With all of θ for each, the batches would be off by the same error as many times.
        thetas, available = (task.thetas / counts[:, None])[owners], task.available.copy()
        missing = task.quotas.copy()
        picks: list[Indices] = []
        stages, rounds = [], []
        for stage in range(levels.max() + 2):
            merges = (stage > 0) & (stage <= levels)
            union = first[owners] + ((np.arange(len(owners)) - first[owners]) >> merges[owners])
            merged = np.zeros_like(thetas)
            np.add.at(merged, union, thetas)
            codes = np.where(
                task.codes < 0, -1, first[task.codes] + (batch >> np.minimum(stage, levels)[task.codes])
            )
            capacities = np.bincount(codes[available & (codes >= 0)], minlength=len(owners))
            wanted = np.where(quotas[:, stage] < 0, np.repeat(missing, counts), quotas[:, stage])
            wanted = wanted if task.replacement else np.minimum(wanted, capacities)
            order, thetas = problem.rows.greedy_picks(
                GreedyTask(codes, wanted, task.targets[owners], merged, available, task.replacement)
            )
            available[order] &= task.replacement
            missing -= np.bincount(task.codes[order], minlength=len(groups))
            picks.append(order)
            stages.append(np.full(len(order), stage))
            rounds.append(np.concatenate([np.arange(count) for count in wanted]))
        order = np.concatenate(picks)
        return order[np.lexsort((np.concatenate(rounds), np.concatenate(stages), task.codes[order]))]

    def _split(self, problem: Problem, counts: Indices) -> Indices:
        """Return the batch of each row within its group: a hash of its number, whatever the other rows are."""
        batch = np.zeros(len(problem.rows), dtype=np.int64)
        for group, rows in enumerate(problem.groups.split(problem.groups.codes >= 0)):
            seed = int(problem.seed_sequence(group).generate_state(1, np.uint64)[0])
            batch[rows] = hash_rows(rows, int(counts[group]), seed)
        return batch


def hash_rows(numbers: Indices, n_batches: int, seed: int) -> Indices:
    """Return the batch of each row by hashing its number (SplitMix64).

    Examples
    --------
    >>> np.bincount(hash_rows(np.arange(9000), 3, seed=0))
    array([3051, 3027, 2922])
    """
    start = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    with np.errstate(over="ignore"):
        bits = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + start
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
    batch: Indices = (((bits >> np.uint64(32)) * np.uint64(n_batches)) >> np.uint64(32)).astype(np.int64)
    return batch


def plan_quotas(quota: int, sizes: Indices, max_level: int) -> Indices:
    """Return the picks of each batch of a group in each stage, shape (B, max_level + 2).

    Stage 0 is for the batches, stage l for unions of 2**l of them, which stand in the first rows; the stage after the
    last union makes what is left of the quota, marked by -1.

    Examples
    --------
    >>> plan_quotas(100, np.array([500, 400, 300]), 2)
    array([[30,  4,  4, -1],
           [24,  4,  0,  0],
           [18,  0,  0,  0]])
    """
    plan = np.zeros((len(sizes), max_level + 2), dtype=np.int64)
    n_unions, level = len(sizes), 0
    while n_unions > 1:
        n_unions, level = -(-n_unions // 2), level + 1
        plan[:n_unions, level] = _CORRECTIONS
    later = int(plan.sum()) + _FINAL_CORRECTIONS if level else 0
    plan[:, 0] = largest_remainder(max(0, quota - later), sizes)
    plan[0, level + 1] = -1
    return plan
