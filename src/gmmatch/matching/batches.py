"""Random batches: the paper's way to hold only a part of the rows in memory, or to work side by side.

Batches that carry θ on are worked on one after another. Independent ones (``carry=False``) need to know nothing of
each other, so the batch of a row is a function of the seed and the row's number: nobody needs to be asked for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmmatch.rows.checks import as_generator, check_whole_number
from gmmatch.rows.rows import Rows
from gmmatch.selection.budget import largest_remainder
from gmmatch.types import Indices, RandomState

# Where rows come from files, a batch is made of runs of this many bytes: random enough for the matching
# (there are thousands of them), long enough for the disk.
RUN_BYTES = 1 << 16
# A batch that is chosen automatically has at most this many numbers, so that its one-byte codes stay
# in the cache, and makes at least so many picks, so that it can settle.
_BATCH_ELEMENTS = 1 << 22
_LEAST_PICKS = 16


def automatic_batches(rows: Rows, k: int, memory: int) -> int:
    """Return how many batches to use where the user did not say: one, unless rows come from files.

    Each batch is held in memory as floats with its codes, in at most half of the memory that there is.
    """
    if not rows.on_disk:
        return 1
    elements = len(rows) * rows.n_features
    needed = elements * (rows.dtype.itemsize + 1) + 64 * len(rows)
    must = -(-needed // max(1, memory // 2))
    wanted = min(-(-elements // _BATCH_ELEMENTS), max(1, k // _LEAST_PICKS))
    return int(min(len(rows), max(1, must, wanted)))


def partition(positions: Indices, batches: int, random_state: RandomState, *, run: int = 1) -> list[Indices]:
    """Split positions into batches at random, in runs of ``run`` neighbors; no batch is empty.

    Rows stored in a bad order (sorted by class, by source, by time) would make every batch different
    from the whole, which ruins the matching: hence at random. Within a batch, positions ascend.

    Examples
    --------
    >>> [len(part) for part in partition(np.arange(10), 3, 0)]
    [4, 3, 3]
    """
    check_whole_number(batches, "batches")
    count = min(int(batches), len(positions))
    random = as_generator(random_state)
    run = max(1, min(run, len(positions) // (4 * count)))
    if run == 1:
        return [np.sort(part) for part in np.array_split(random.permutation(positions), count)]
    starts = np.array_split(random.permutation(np.arange(0, len(positions), run)), count)
    return [
        positions[np.concatenate([np.arange(s, min(s + run, len(positions))) for s in np.sort(part)])]
        for part in starts
    ]


def shares(k: int, batch_rows: list[Indices]) -> Indices:
    """Return how many picks each batch makes: in proportion to its rows, summing to ``k``."""
    return largest_remainder(k, np.array([len(part) for part in batch_rows]))


# An independent batch makes at least this many picks: with fewer it cannot settle.
_LEAST_INDEPENDENT_PICKS = 32
# Chosen automatically, a batch has at least this many rows, and all θ together at most this many numbers.
_LEAST_ROWS = 2048
_THETA_ELEMENTS = 1 << 23
# Picks of each group of two, four, ... batches, which correct what their members err by together; and of all. With
# 3 and 8, the residual of 25 batches with a far cluster was five times as large.
_CORRECTIONS_PER_GROUP = 4
_CORRECTIONS_OF_ALL = 16


def independent_batches(k: int, n: int, n_features: int, batches: int | None, n_total: int) -> int:
    """Return the number of independent batches of one class; where the work runs plays no part in it.

    Examples
    --------
    >>> [independent_batches(10_000, 1_000_000, 64, batches, 1_000_000) for batches in (None, 8)]
    [312, 8]
    """
    room = max(1, _THETA_ELEMENTS // n_features * n // n_total)
    wanted = min(room, n // _LEAST_ROWS) if batches is None else int(batches)
    return max(1, min(k // _LEAST_INDEPENDENT_PICKS, wanted))


def batch_of_rows(rows: Indices, batches: int, seed: int) -> Indices:
    """Return the batch of each row, by hashing its number with the seed (SplitMix64's finaliser).

    Examples
    --------
    >>> np.bincount(batch_of_rows(np.arange(9000), 3, seed=0))
    array([3051, 3027, 2922])
    """
    if batches == 1:
        return np.zeros(len(rows), dtype=np.int64)
    start = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    with np.errstate(over="ignore"):
        bits = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + start
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
    chosen: Indices = (((bits >> np.uint64(32)) * np.uint64(batches)) >> np.uint64(32)).astype(np.int64)
    return chosen


@dataclass(frozen=True)
class Stage:
    """Picks that groups of 2**level batches make, side by side; -1 stands for "what is left to k"."""

    level: int
    quota: Indices


def stages(k: int, sizes: Indices) -> list[Stage]:
    """Return how ``k`` picks are shared among batches, and among the groups of batches that correct them.

    Independent batches all err the same way. So their last picks are made together: by pairs of batches, then by
    pairs of pairs, and at last by all. Each group aims at what its members are off by in sum, so that the
    error of all picks together ends where that of a single batch would.

    Examples
    --------
    >>> [(stage.level, stage.quota.tolist()) for stage in stages(100, np.array([500, 400, 300]))]
    [(0, [30, 24, 18]), (1, [4, 4]), (2, [4]), (2, [-1])]
    """
    if len(sizes) == 1:
        return [Stage(0, np.array([k]))]
    corrections = []
    level, groups = 0, len(sizes)
    while groups > 1:
        level, groups = level + 1, -(-groups // 2)
        corrections.append(Stage(level, np.full(groups, _CORRECTIONS_PER_GROUP)))
    later = sum(int(stage.quota.sum()) for stage in corrections) + _CORRECTIONS_OF_ALL
    first = Stage(0, largest_remainder(max(0, k - later), sizes))
    return [first, *corrections, Stage(level, np.array([-1]))]
