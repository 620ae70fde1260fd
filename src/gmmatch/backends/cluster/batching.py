"""Which batch a row belongs to: a function of the seed and the row's number, so that nobody needs to be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gmmatch.selection.budget import largest_remainder
from gmmatch.types import Indices

# As for independent batches in memory: with fewer picks a batch cannot settle.
LEAST_PICKS = 32
# Chosen automatically, a batch has at least this many rows, and all θ together at most this many numbers.
_LEAST_ROWS = 2048
_THETA_ELEMENTS = 1 << 23
# Picks of each group of two, four, ... batches, which correct what their members err by together; and of all.
CORRECTIONS_PER_GROUP = 3
CORRECTIONS_OF_ALL = 8


def batch_counts(
    quota: Sequence[int] | Indices, sizes: Sequence[int] | Indices, n_features: int, batches: int | None
) -> Indices:
    """Return the number of batches of each class; the workers play no part in it.

    Parameters
    ----------
    quota, sizes
        Picks and rows per class.
    n_features
        Numbers per row.
    batches
        What the user asked for; merged where a batch would make fewer than 32 picks.

    Examples
    --------
    >>> batch_counts([10_000, 50], [1_000_000, 500], 64, None), batch_counts([10_000, 50], [1_000_000, 500], 64, 8)
    (array([312,   1]), array([8, 1]))
    """
    picks, rows = np.asarray(quota, dtype=np.int64), np.asarray(sizes, dtype=np.int64)
    wanted = rows // _LEAST_ROWS if batches is None else np.full_like(rows, batches)
    counts = np.maximum(1, np.minimum(picks // LEAST_PICKS, wanted))
    room = max(1, _THETA_ELEMENTS // max(1, n_features))
    if batches is None and counts.sum() > room:
        counts = np.maximum(1, counts * room // int(counts.sum()))
    return counts


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

    Parameters
    ----------
    k
        Picks of the class.
    sizes
        Rows of each batch.

    Examples
    --------
    >>> [(stage.level, stage.quota.tolist()) for stage in stages(100, np.array([500, 400, 300]))]
    [(0, [34, 28, 21]), (1, [3, 3]), (2, [3]), (2, [-1])]
    """
    if len(sizes) == 1:
        return [Stage(0, np.array([k]))]
    corrections = []
    level, groups = 0, len(sizes)
    while groups > 1:
        level, groups = level + 1, -(-groups // 2)
        corrections.append(Stage(level, np.full(groups, CORRECTIONS_PER_GROUP)))
    later = sum(int(stage.quota.sum()) for stage in corrections) + CORRECTIONS_OF_ALL
    first = Stage(0, largest_remainder(max(0, k - later), sizes))
    return [first, *corrections, Stage(level, np.array([-1]))]
