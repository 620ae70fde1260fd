"""Triton kernels of greedy matching: the picks of every group, on the device that holds the rows.

Fast scores come with a bound on their rounding. Rows that the bounds leave open are scored again, in float64 from
left to right as on the CPU, and that decides: the picks are those of the CPU, ties included. Kernels that score rows
this way are compiled without fused multiply-adds, which round differently.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gmmatch.rows.triton_median import load_rows


@triton.jit
def exact_scores(data, row, mask, theta, n_features, stride, ROWS: tl.constexpr):
    """Return ⟨θ, x⟩ of the rows that a mask holds, summed from left to right."""
    total = tl.zeros([ROWS], dtype=tl.float64)
    for j in range(n_features):
        x = tl.load(data + row * stride + j, mask=mask, other=0.0).to(tl.float64)
        total += x * tl.load(theta + j)
    return total


@triton.jit
def advance(theta, target, data, row, column, inside, stride):
    """Return θ + μ − x."""
    x = tl.load(data + row * stride + column, mask=inside, other=0.0).to(tl.float64)
    return theta + tl.where(inside, target - x, 0.0)


@triton.jit
def score_rows(
    data, rows, table, thetas, gains, centers, scores, row_gains, norms, n_features, stride,
    BLOCK_ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write ⟨θ, y⟩, what a pick adds to it, and ‖y‖, with y = x − center of the group, for the rows of a tile."""
    tile = tl.program_id(0).to(tl.int64)
    group = tl.load(table + 3 * tile)
    start = tl.load(table + 3 * tile + 1)
    stop = tl.load(table + 3 * tile + 2)
    column = tl.arange(0, COLUMNS)
    inside = column < n_features
    theta = tl.load(thetas + group * n_features + column, mask=inside, other=0.0)
    gain = tl.load(gains + group * n_features + column, mask=inside, other=0.0)
    center = tl.load(centers + group * n_features + column, mask=inside, other=0.0)
    for first in range(start, stop, BLOCK_ROWS):
        position, valid, x = load_rows(data, rows, first, stop, column, inside, stride, BLOCK_ROWS)
        y = x - center[None, :]
        tl.store(scores + position, tl.sum(y * theta[None, :], axis=1), mask=valid)
        tl.store(row_gains + position, tl.sum(y * gain[None, :], axis=1), mask=valid)
        tl.store(norms + position, tl.sqrt(tl.sum(y * y, axis=1)), mask=valid)


@triton.jit(do_not_specialize=["side"])
def multiply_rows(
    data, rows, starts, members, gram, gram_starts, centers, n_features, stride, side,
    CENTERED: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write a tile of the Gram matrix of a group, and its mirror image.

    Products are exact to float32: three TF32 products for each of float32 numbers, or the exact products of
    half-precision numbers; plain TF32 would be faster and wrong. Rows are centered first where their type allows it,
    which leaves fewer digits to lose.
    """
    group = tl.load(members + tl.program_id(1))
    first_i = tl.program_id(0) // side * BLOCK
    first_j = tl.program_id(0) % side * BLOCK
    base = tl.load(starts + group)
    size = tl.load(starts + group + 1) - base
    if (first_i > first_j) | (first_j >= size):
        return
    i = first_i + tl.arange(0, BLOCK)
    j = first_j + tl.arange(0, BLOCK)
    row_i = tl.load(rows + base + i, mask=i < size, other=0)
    row_j = tl.load(rows + base + j, mask=j < size, other=0)
    total = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    for first in range(0, n_features, DEPTH):
        column = first + tl.arange(0, DEPTH)
        inside = column < n_features
        a = tl.load(data + row_i[:, None] * stride + column[None, :], mask=inside[None, :], other=0.0)
        b = tl.load(data + row_j[:, None] * stride + column[None, :], mask=inside[None, :], other=0.0)
        if CENTERED:
            center = tl.load(centers + group * n_features + column, mask=inside, other=0.0)
            a = (a - center[None, :]).to(tl.float32)
            b = (b - center[None, :]).to(tl.float32)
        total = tl.dot(a, tl.trans(b), total, input_precision=PRECISION)
    out = gram + tl.load(gram_starts + tl.program_id(1))
    keep = (i < size)[:, None] & (j < size)[None, :]
    tl.store(out + i[:, None] * size + j[None, :], total, mask=keep)
    if first_i != first_j:
        tl.store(out + j[:, None] * size + i[None, :], tl.trans(total), mask=tl.trans(keep))


@triton.jit
def pick_by_gram(
    data, rows, starts, members, gram, gram_starts, scores, row_gains, norms, targets, gains, centers, thetas,
    quotas, order, order_starts, entry_error, n_features, stride,
    REPLACEMENT: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """Make all picks of a group; its scores never leave the chip."""
    group = tl.load(members + tl.program_id(0))
    base = tl.load(starts + group)
    size = tl.load(starts + group + 1) - base
    out = tl.load(order_starts + group)
    matrix = gram + tl.load(gram_starts + tl.program_id(0))
    i = tl.arange(0, BLOCK)
    free = i < size
    column = tl.arange(0, COLUMNS)
    inside = column < n_features
    vector = group * n_features + column
    score = tl.load(scores + base + i, mask=free, other=0.0)
    row_gain = tl.load(row_gains + base + i, mask=free, other=0.0)
    norm = tl.load(norms + base + i, mask=free, other=0.0)
    target = tl.load(targets + vector, mask=inside, other=0.0)
    theta = tl.load(thetas + vector, mask=inside, other=0.0)
    gain = tl.load(gains + vector, mask=inside, other=0.0)
    center = tl.load(centers + vector, mask=inside, other=0.0)
    start_length = tl.sqrt(tl.sum(theta * theta, axis=0))
    gain_length = tl.sqrt(tl.sum(gain * gain, axis=0))
    row_length = norm + tl.sqrt(tl.sum(center * center, axis=0))
    picked_length = tl.full([], 0.0, dtype=tl.float64)
    for t in range(tl.load(quotas + group)):
        # Twice what rounding may have changed: in the entries and sums that a score is made of, and in the score that
        # decides, which is one of x and not of y.
        sums = start_length + t * gain_length + picked_length
        rounding = 2.22e-16 * (n_features + 8)
        decisive = rounding * tl.sqrt(tl.sum(theta * theta, axis=0)) * row_length + 1e-300
        slack = (2.0 * entry_error * picked_length + (rounding + 4.45e-16 * t) * sums) * norm + decisive
        # Smaller products than the least float32 are lost.
        slack += 1.2e-38 * n_features * (t + 1) * (1.0 + norm)
        lower = tl.where(free & (score == score), score - slack, float("-inf"))
        # A row is left out only if it is known to be below another: NaN leaves it in.
        rival = free & ~(score + slack < tl.max(lower, axis=0))
        n_rivals = tl.sum(rival.to(tl.int32), axis=0)
        if n_rivals > 1:
            if n_rivals <= FEW:
                # Sums of float64 in any order are fast, and leave few open.
                close = tl.full([BLOCK], float("-inf"), dtype=tl.float64)
                left = rival
                while n_rivals > 0:
                    candidate = tl.min(tl.where(left, i, BLOCK), axis=0)
                    row = tl.load(rows + base + candidate)
                    x = tl.load(data + row * stride + column, mask=inside, other=0.0).to(tl.float64)
                    close = tl.where(i == candidate, tl.sum(x * theta, axis=0), close)
                    left = left & (i != candidate)
                    n_rivals -= 1
                best = tl.max(
                    tl.where(rival & (close == close), close - 2.0 * decisive, float("-inf")), axis=0
                )
                rival = rival & ~(close + 2.0 * decisive < best)
                n_rivals = tl.sum(rival.to(tl.int32), axis=0)
            if n_rivals > 1:
                # Other threads of the program read what this one writes.
                tl.store(thetas + vector, theta, mask=inside)
                tl.debug_barrier()
                row_of = tl.load(rows + base + i, mask=rival, other=0)
                exact = exact_scores(
                    data, row_of, rival, thetas + group * n_features, n_features, stride, BLOCK
                )
                exact = tl.where(rival & (exact == exact), exact, float("-inf"))
                rival = rival & (exact == tl.max(exact, axis=0))
                tl.debug_barrier()
        chosen = tl.min(tl.where(rival, i, BLOCK), axis=0)
        picked = tl.load(rows + base + chosen)
        tl.store(order + out + t, picked)
        entries = tl.load(matrix + chosen.to(tl.int64) * size + i, mask=i < size, other=0.0).to(tl.float64)
        score += row_gain - entries
        picked_length += tl.sum(tl.where(i == chosen, norm, 0.0), axis=0)
        theta = advance(theta, target, data, picked, column, inside, stride)
        if not REPLACEMENT:
            free = free & (i != chosen)
    tl.store(thetas + vector, theta, mask=inside)


@triton.jit
def scan_tiles(
    data, rows, table, available, thetas, quotas, n_picks, uppers, tile_lowers, tile_uppers, n_features, stride,
    BLOCK_ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write upper bounds of the scores of a tile's rows, and its best lower and upper bound."""
    tile = tl.program_id(0).to(tl.int64)
    group = tl.load(table + 3 * tile)
    if tl.load(n_picks + group) >= tl.load(quotas + group):
        return
    start = tl.load(table + 3 * tile + 1)
    stop = tl.load(table + 3 * tile + 2)
    column = tl.arange(0, COLUMNS)
    inside = column < n_features
    theta = tl.load(thetas + group * n_features + column, mask=inside, other=0.0)
    error = 4.45e-16 * (n_features + 8) * tl.sqrt(tl.sum(theta * theta, axis=0))
    best_lower = tl.full([BLOCK_ROWS], float("-inf"), dtype=tl.float64)
    best_upper = tl.full([BLOCK_ROWS], float("-inf"), dtype=tl.float64)
    for first in range(start, stop, BLOCK_ROWS):
        position, valid, x = load_rows(data, rows, first, stop, column, inside, stride, BLOCK_ROWS)
        score = tl.sum(x * theta[None, :], axis=1)
        slack = error * tl.sqrt(tl.sum(x * x, axis=1)) + 1e-300
        free = valid & (tl.load(available + position, mask=valid, other=0) != 0)
        known = free & (score == score)
        # A row is left out only if it is known to be below another: NaN leaves it in.
        upper = tl.where(known, score + slack, tl.where(free, float("inf"), float("-inf")))
        tl.store(uppers + position, upper, mask=valid)
        best_upper = tl.maximum(best_upper, upper)
        best_lower = tl.maximum(best_lower, tl.where(known, score - slack, float("-inf")))
    tl.store(tile_lowers + tile, tl.max(best_lower, axis=0))
    tl.store(tile_uppers + tile, tl.max(best_upper, axis=0))


@triton.jit
def take_best(
    data, rows, table, firsts, members, available, thetas, targets, quotas, n_picks, uppers, tile_lowers, tile_uppers,
    order, order_starts, n_features, stride,
    TILES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, REPLACEMENT: tl.constexpr,
):  # fmt: skip
    """Make the next pick of a group from the bounds of its tiles, then θ ← θ + μ − x."""
    group = tl.load(members + tl.program_id(0))
    t = tl.load(n_picks + group)
    if t >= tl.load(quotas + group):
        return
    first_tile = tl.load(firsts + group)
    stop_tile = tl.load(firsts + group + 1)
    lowers = tl.full([TILES], float("-inf"), dtype=tl.float64)
    for first in range(first_tile, stop_tile, TILES):
        tile = first + tl.arange(0, TILES)
        lowers = tl.maximum(lowers, tl.load(tile_lowers + tile, mask=tile < stop_tile, other=float("-inf")))
    threshold = tl.max(lowers, axis=0)
    n_close = tl.full([], 0, dtype=tl.int32)
    for first in range(first_tile, stop_tile, TILES):
        tile = first + tl.arange(0, TILES)
        upper = tl.load(tile_uppers + tile, mask=tile < stop_tile, other=float("-inf"))
        n_close += tl.sum(((tile < stop_tile) & (upper >= threshold)).to(tl.int32), axis=0)
    last = tl.full([], 1 << 62, dtype=tl.int64)
    chosen = last
    best = tl.full([], float("-inf"), dtype=tl.float64)
    for first in range(first_tile, stop_tile, TILES):
        tile = first + tl.arange(0, TILES)
        upper = tl.load(tile_uppers + tile, mask=tile < stop_tile, other=float("-inf"))
        close = (tile < stop_tile) & (upper >= threshold)
        n_left = tl.sum(close.to(tl.int32), axis=0)
        while n_left > 0:
            current = tl.min(tl.where(close, tile, last), axis=0)
            position = tl.load(table + 3 * current + 1) + tl.arange(0, ROWS)
            valid = position < tl.load(table + 3 * current + 2)
            rival = valid & (tl.load(uppers + position, mask=valid, other=float("-inf")) >= threshold)
            rival = rival & (tl.load(available + position, mask=valid, other=0) != 0)
            value = tl.zeros([ROWS], dtype=tl.float64)
            if (n_close > 1) | (tl.sum(rival.to(tl.int32), axis=0) > 1):
                row = tl.load(rows + position, mask=rival, other=0)
                value = exact_scores(data, row, rival, thetas + group * n_features, n_features, stride, ROWS)
            value = tl.where(rival & (value == value), value, float("-inf"))
            top = tl.max(value, axis=0)
            at = tl.min(tl.where(rival & (value == top), position, last), axis=0)
            wins = (at < last) & ((top > best) | (chosen == last))
            chosen = tl.where(wins, at, chosen)
            best = tl.where(wins, top, best)
            close = close & (tile != current)
            n_left -= 1
    picked = tl.load(rows + chosen)
    tl.store(order + tl.load(order_starts + group) + t, picked)
    tl.store(n_picks + group, t + 1)
    if not REPLACEMENT:
        tl.store(available + chosen, 0)
    column = tl.arange(0, COLUMNS)
    inside = column < n_features
    theta = tl.load(thetas + group * n_features + column, mask=inside, other=0.0)
    target = tl.load(targets + group * n_features + column, mask=inside, other=0.0)
    # All threads have read θ before one writes it.
    tl.debug_barrier()
    theta = advance(theta, target, data, picked, column, inside, stride)
    tl.store(thetas + group * n_features + column, theta, mask=inside)
