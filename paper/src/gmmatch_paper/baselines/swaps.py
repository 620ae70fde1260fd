"""Swaps: exchange picks for other rows of their group while that brings the sum of all picks nearer to zero.

A greedy matching does this poorly when its target is zero: it then prefers long vectors, which cancel a sum that
shorter ones would not have built up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.arrays import Indices, Vector

# A swap considers at most so many picks and so many other rows, drawn at random where there are more.
CANDIDATES = 2048
# The last sweep is the one that shortens the sum by less than this share.
_MIN_GAIN = 0.01


@dataclass
class SwapGroup:
    """The rows of a group, as row numbers of the vectors: those picked, in their order, and the others."""

    picked: Indices
    others: Indices


def swap_towards_zero(
    vectors: NDArray[np.float32],
    groups: list[SwapGroup],
    fixed: Vector,
    random: np.random.Generator,
    *,
    sweeps: int,
) -> tuple[float, float]:
    """Swap rows, in place, until the sum of all picks is about as short as swaps can make it.

    ``fixed`` is the sum of the vectors that are picked beforehand, ``sweeps`` the most passes over all groups. The
    length of the sum is returned, before and after.

    Examples
    --------
    >>> vectors = np.array([[3.0], [1.0], [-1.0], [-2.0]], dtype=np.float32)
    >>> group = SwapGroup(np.array([0, 1]), np.array([2, 3]))
    >>> swap_towards_zero(vectors, [group], np.zeros(1), np.random.default_rng(0), sweeps=5)
    (4.0, 0.0)
    >>> sorted(group.picked.tolist())
    [1, 2]
    """
    total = fixed.astype(np.float64, copy=True)
    for group in groups:
        for first in range(0, len(group.picked), CANDIDATES):
            total += vectors[group.picked[first : first + CANDIDATES]].sum(axis=0, dtype=np.float64)
    before = length = float(np.linalg.norm(total))
    for _ in range(sweeps):
        for group in groups:
            # A part of the picks at a time: what one group cannot balance, another may.
            for _ in range(-(-len(group.picked) // 4)):
                if not _swap(vectors, group, total, random):
                    break
        shorter = float(np.linalg.norm(total))
        if shorter >= (1.0 - _MIN_GAIN) * length:
            return before, shorter
        length = shorter
    return before, length


def _swap(vectors: NDArray[np.float32], group: SwapGroup, total: Vector, random: np.random.Generator) -> bool:
    """Swap the pick that is best left out for the best other row; return whether that shortens the sum."""
    if not len(group.picked) or not len(group.others):
        return False
    out = _best(vectors, group.picked, -total, random)
    without = total - vectors[group.picked[out]]
    into = _best(vectors, group.others, without, random)
    swapped = without + vectors[group.others[into]]
    # By more than rounding, or two sums of the same length could be exchanged forever.
    if not swapped @ swapped < (total @ total) * (1.0 - 1e-12):
        return False
    group.picked[out], group.others[into] = group.others[into], group.picked[out]
    total[:] = swapped
    return True


def _best(vectors: NDArray[np.float32], rows: Indices, total: Vector, random: np.random.Generator) -> int:
    """Return the position of the row x with the shortest total + x; the lowest row of equals."""
    positions = np.arange(len(rows))
    if len(rows) > CANDIDATES:
        positions = np.sort(random.choice(len(rows), CANDIDATES, replace=False))
    block = vectors[rows[positions]]
    lengths = np.einsum("ij,ij->i", block, block) + 2.0 * (block @ total.astype(np.float32))
    best = np.flatnonzero(lengths == lengths.min())
    return int(positions[best[np.argmin(rows[positions[best]])]])
