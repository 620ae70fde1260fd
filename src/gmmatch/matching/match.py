"""Greedy matching: pick rows one after another so that their mean approaches a target.

θ₀ = μ (or 0);   x = argmax ⟨θ, φ(x)⟩ over the rows left;   θ ← θ + μ − φ(x)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.matching.batches import RUN_BYTES, automatic_batches, partition, shares
from gmmatch.matching.cost import check_strategy, choose_strategy, working_memory
from gmmatch.matching.strategies import pick_by_gram, pick_directly
from gmmatch.matching.walk import Picks, Walk
from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Mask, RandomState, Start, Vector

# Independent batches all err the same way. So they are merged until each makes this many picks and can
# settle, and the last few of them are made in a second pass that knows what the others picked.
_LEAST_INDEPENDENT_PICKS = 32
_CORRECTING_PICKS = 8


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
    start : "target" or "zero"
        θ₀. With 0 the picks do not depend on where the origin is.
    replacement : bool
        Whether a row may be picked again.
    strategy : "auto", "direct", "coded" or "gram"
        How scores are computed; the picks are the same.
    batches : int or None
        B random batches of the rows, of which one is worked on at a time. None is one batch for rows in
        memory, and as many as the memory limit asks for where rows come from files.
    carry : bool
        Whether θ is handed on from batch to batch. If not, batches start at θ₀/B, are independent and run in
        parallel, but for a last few picks each that correct their common error; batches of fewer than 32
        picks are merged.
    random_state : int, Generator or None
        Seed of the partition into batches.
    memory_limit : int, optional
        Bytes of working memory beside the input.
    threads : int
        Threads; the picks do not depend on it.

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
    left = int(free.sum())
    if k and (left == 0 or (k > left and not replacement)):
        raise InvalidInputError(f"k={k} picks were asked for, but only {left} rows may be picked.")

    def pick(part: Rows, state: Walk, unused: Mask, count: int, jobs: int) -> Picks:
        return _pick(part, state, unused, count, replacement, strategy, limit, jobs)

    if batches is None:
        batches = automatic_batches(rows, k, limit)
    if not carry:
        batches = max(1, min(batches, k // _LEAST_INDEPENDENT_PICKS))
    if batches == 1:
        return pick(rows, walk, free, k, threads)
    run = max(1, RUN_BYTES // (rows.nbytes // len(rows))) if rows.on_disk else 1
    batch_rows = partition(np.flatnonzero(free), batches, random_state, run=run)
    quota = shares(k, batch_rows)
    if carry:
        return Picks.join([
            _located(pick(rows.subset(part), walk, np.ones(len(part), dtype=bool), int(count), threads), part)
            for part, count in zip(batch_rows, quota, strict=True)
        ])  # fmt: skip
    return _independent(rows, walk, batch_rows, quota, pick, replacement, threads)


def _independent(
    rows: Rows,
    walk: Walk,
    batch_rows: list[Indices],
    quota: Indices,
    pick: Callable[[Rows, Walk, Mask, int, int], Picks],
    replacement: bool,
    threads: int,
) -> Picks:
    """Pick in batches that know nothing of each other, then correct what they err by together.

    They share θ₀: with all of it for each, B batches would be off by B times as much, in the same direction.
    """
    correcting = np.minimum(_CORRECTING_PICKS, (quota + 1) // 2)
    unused = [np.ones(len(part), dtype=bool) for part in batch_rows]

    def alone(number: int) -> Picks:
        part, own = batch_rows[number], walk.copy()
        own.theta /= len(batch_rows)
        count = int(quota[number] - correcting[number])
        return _located(pick(rows.subset(part), own, unused[number], count, 1), part)

    parts = map_in_order(alone, len(batch_rows), threads)
    merged = walk.copy()
    for picks in parts:
        for row in rows.gather(picks.order):
            merged.theta += merged.target - row
            merged.drift += merged.target - row
            merged.count += 1
    for number, part in enumerate(batch_rows):
        free = unused[number] if not replacement else np.ones(len(part), dtype=bool)
        parts.append(_located(pick(rows.subset(part), merged, free, int(correcting[number]), threads), part))
    joined = Picks.join(parts)
    return Picks(joined.order, _residuals_along(rows, walk, joined.order))


def _residuals_along(rows: Rows, walk: Walk, order: Indices) -> Vector:
    """Recompute the residual after each pick of the joined order."""
    replay = walk.copy()
    residuals = np.empty(len(order))
    for first in range(0, len(order), 1024):
        block = rows.gather(order[first : first + 1024])
        for offset, row in enumerate(block):
            replay.drift += replay.target - row
            replay.count += 1
            residuals[first + offset] = replay.residual()
    return residuals


def _located(picks: Picks, positions: Indices) -> Picks:
    return Picks(positions[picks.order], picks.residuals)


def _pick(
    rows: Rows,
    walk: Walk,
    available: Mask,
    k: int,
    replacement: bool,
    strategy: str,
    memory: int,
    threads: int,
) -> Picks:
    if k == 0:
        return Picks.join([])
    if strategy == "auto":
        strategy = choose_strategy(len(rows), rows.n_features, k, memory=memory)
    if strategy == "gram":
        return pick_by_gram(rows, walk, available, k, replacement=replacement)
    if not rows.in_place and len(rows) * rows.n_features * rows.dtype.itemsize <= memory // 2:
        # Small enough to convert once instead of chunk by chunk at every pick.
        rows = Rows(rows.copied())
    coded = strategy == "coded"
    return pick_directly(rows, walk, available, k, replacement=replacement, coded=coded, threads=threads)
