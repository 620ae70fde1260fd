"""Triton functions of grouped matching: Gram tiles, all picks of a group in one program, one large group."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def double(numbers, COUNT: tl.constexpr):
    """Double COUNT numbers, a power of two, in place."""
    at = numbers + tl.arange(0, COUNT)
    tl.store(at, 2.0 * tl.load(at))


LINEAR, POLYNOMIAL, GAUSSIAN = 0, 1, 2


@triton.jit
def gram_tiles(
    data, rows, offsets, table, gram, gram_offsets, centers, shift, inverse_squares,
    n_features, stride,
    CENTERED: tl.constexpr, KERNEL: tl.constexpr, DEGREE: tl.constexpr,
    BLOCK: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile of one group's Gram matrix and its mirror image.

    Products are exact to float32: three TF32 products per float32 one, or the exact products of
    half-precision numbers; plain TF32 would be faster and wrong. Rows are centered first where their
    type allows it, which leaves fewer digits to lose.
    """
    tile = tl.program_id(0).to(tl.int64)
    group = tl.load(table + 3 * tile)
    first_i = tl.load(table + 3 * tile + 1)
    first_j = tl.load(table + 3 * tile + 2)
    base = tl.load(offsets + group)
    size = tl.load(offsets + group + 1) - base
    i = first_i + tl.arange(0, BLOCK)
    j = first_j + tl.arange(0, BLOCK)
    row_i = tl.load(rows + base + i, mask=i < size, other=0)
    row_j = tl.load(rows + base + j, mask=j < size, other=0)
    total = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    norm_i = tl.zeros([BLOCK], dtype=tl.float32)
    norm_j = tl.zeros([BLOCK], dtype=tl.float32)
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
        if KERNEL == 2:
            norm_i += tl.sum(a.to(tl.float32) * a.to(tl.float32), axis=1)
            norm_j += tl.sum(b.to(tl.float32) * b.to(tl.float32), axis=1)
    if KERNEL == 1:
        value = total + shift
        total = value
        for _ in tl.static_range(DEGREE - 1):
            total = total * value
    if KERNEL == 2:
        squared = tl.maximum(norm_i[:, None] + norm_j[None, :] - 2.0 * total, 0.0)
        total = tl.exp(-0.5 * squared * tl.load(inverse_squares + group))
        total = tl.where(i[:, None] == j[None, :], 1.0, total)
    out = gram + tl.load(gram_offsets + group)
    keep = (i < size)[:, None] & (j < size)[None, :]
    tl.store(out + i[:, None] * size + j[None, :], total, mask=keep)
    if first_i != first_j:
        tl.store(out + j[:, None] * size + i[None, :], tl.trans(total), mask=tl.trans(keep))


@triton.jit
def row_products(
    data, rows, table, first_vectors, second_vectors, centers, first_products, second_products, norms,
    n_features, stride, BLOCK_ROWS: tl.constexpr, COLUMNS: tl.constexpr, CENTERED: tl.constexpr,
):  # fmt: skip
    """⟨u, x⟩ and ⟨v, x⟩ for two vectors of the group, and ‖x − center‖, of every row, in float64."""
    tile = tl.program_id(0).to(tl.int64)
    group = tl.load(table + 3 * tile)
    start = tl.load(table + 3 * tile + 1)
    stop = tl.load(table + 3 * tile + 2)
    column = tl.arange(0, COLUMNS)
    inside = column < n_features
    u = tl.load(first_vectors + group * n_features + column, mask=inside, other=0.0)
    v = tl.load(second_vectors + group * n_features + column, mask=inside, other=0.0)
    center = tl.zeros([COLUMNS], dtype=tl.float64)
    if CENTERED:
        center = tl.load(centers + group * n_features + column, mask=inside, other=0.0)
    for first in range(start, stop, BLOCK_ROWS):
        position = first + tl.arange(0, BLOCK_ROWS)
        valid = position < stop
        row = tl.load(rows + position, mask=valid, other=0)
        x = tl.load(
            data + row[:, None] * stride + column[None, :], mask=valid[:, None] & inside[None, :], other=0.0
        ).to(tl.float64)
        tl.store(first_products + position, tl.sum(x * u[None, :], axis=1), mask=valid)
        tl.store(second_products + position, tl.sum(x * v[None, :], axis=1), mask=valid)
        x = tl.where(inside[None, :], x - center[None, :], 0.0)
        tl.store(norms + position, tl.sqrt(tl.sum(x * x, axis=1)), mask=valid)


@triton.jit(do_not_specialize=["first_group"])  # one kernel for all slabs
def pick_groups(
    data, rows, offsets, gram, gram_offsets, start_scores, target_scores, norms, available,
    targets, starts, target_norms, quotas, order_offsets, order, residuals, rescored, first_group,
    entry_error, n_features, stride,
    REPLACEMENT: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """All picks of one group; its scores never leave the chip.

    A pick that the error of the Gram entries leaves open is decided by exact float64 scores.
    """
    group = tl.program_id(0).to(tl.int64) + first_group
    base = tl.load(offsets + group)
    size = tl.load(offsets + group + 1) - base
    count = tl.load(quotas + group)
    out = tl.load(order_offsets + group)
    matrix = gram + tl.load(gram_offsets + group)
    i = tl.arange(0, BLOCK)
    here = i < size
    column = tl.arange(0, COLUMNS)
    inside = column < n_features
    scores = tl.load(start_scores + base + i, mask=here, other=0.0)
    gain = tl.load(target_scores + base + i, mask=here, other=0.0)
    free = tl.load(available + base + i, mask=here, other=0) != 0
    if EXACT:
        target = tl.load(targets + group * n_features + column, mask=inside, other=0.0)
        start = tl.load(starts + group * n_features + column, mask=inside, other=0.0)
        theta = start
        reach = tl.sqrt(tl.sum(target * target, axis=0))
        norm = tl.load(norms + base + i, mask=here, other=0.0)
    else:
        norm = tl.sqrt(
            tl.abs(tl.load(matrix + i.to(tl.int64) * size + i, mask=here, other=0.0)).to(tl.float64)
        )
        begin = scores
        target_norm = tl.load(target_norms + group)
        taken = tl.full([], 0.0, dtype=tl.float64)
        drifted = tl.full([], 0.0, dtype=tl.float64)
        reach = tl.sqrt(target_norm)
    # ‖everything added to a score so far‖ per unit of ‖x‖ bounds how far the score may be off.
    added = tl.full([], 0.0, dtype=tl.float64)
    looked = tl.full([], 0, dtype=tl.int64)
    for t in range(count):
        slack = (entry_error * added + 4.6e-16 * n_features * (reach * (t + 1) + added)) * (norm + 1e-150)
        # Products below the least float32 are lost.
        slack += 1.5e-45 * n_features * (t + 1) * (1.0 + norm)
        lower = tl.where(free, scores - slack, float("-inf"))
        floor = tl.max(tl.where(lower == lower, lower, float("-inf")), axis=0)
        # A row is left out only if it is known to be below: NaN leaves it in.
        rival = free & ~(scores + slack < floor)
        n_rivals = tl.sum(rival.to(tl.int32), axis=0)
        chosen = tl.min(tl.where(rival, i, BLOCK), axis=0)
        if EXACT:
            if n_rivals > 1:
                looked += 1
                best = tl.full([], float("-inf"), dtype=tl.float64)
                while n_rivals > 0:
                    candidate = tl.min(tl.where(rival, i, BLOCK), axis=0)
                    row = tl.load(rows + base + candidate)
                    x = tl.load(data + row * stride + column, mask=inside, other=0.0).to(tl.float64)
                    exact = tl.sum(x * theta, axis=0)
                    chosen = tl.where(exact > best, candidate, chosen)
                    best = tl.maximum(best, exact)
                    rival = rival & (i != candidate)
                    n_rivals -= 1
        else:
            # In a kernel's space there is no θ to compute an exact score from: the highest score wins,
            # the lowest row among equals, and picks within rounding of each other are counted.
            looked += (n_rivals > 1).to(tl.int64)
            known = tl.where(free & (scores == scores), scores, float("-inf"))
            top = tl.max(known, axis=0)
            chosen = tl.min(tl.where(free & (known == top), i, BLOCK), axis=0)
            along_row = tl.sum(tl.where(i == chosen, scores - begin, 0.0), axis=0)
            product = tl.sum(tl.where(i == chosen, gain, 0.0), axis=0)
            own = tl.load(matrix + chosen.to(tl.int64) * size + chosen).to(tl.float64)
            change = target_norm - 2.0 * product + own + 2.0 * (t * target_norm - taken - along_row)
            drifted = tl.maximum(drifted + change, 0.0)
            taken += product
            tl.store(residuals + out + t, tl.sqrt(drifted) / (t + 1))
        tl.store(order + out + t, chosen)
        entries = tl.load(matrix + chosen.to(tl.int64) * size + i, mask=here, other=0.0).to(tl.float64)
        scores += gain - entries
        added += tl.sum(tl.where(i == chosen, norm, 0.0), axis=0)
        if EXACT:
            row = tl.load(rows + base + chosen)
            x = tl.load(data + row * stride + column, mask=inside, other=0.0).to(tl.float64)
            theta += tl.where(inside, target - x, 0.0)
            drift = theta - start
            tl.store(residuals + out + t, tl.sqrt(tl.sum(drift * drift, axis=0)) / (t + 1))
        if not REPLACEMENT:
            free = free & (i != chosen)
    tl.store(rescored + group, looked)


@triton.jit
def scan_rows(
    data, rows, first, count, available, theta, best_scores, best_rows, n_features, stride,
    ROWS_PER_PROGRAM: tl.constexpr, BLOCK_ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The best score among a program's rows, in float64; the lowest position of equals."""
    program = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    inside = column < n_features
    direction = tl.load(theta + column, mask=inside, other=0.0)
    best = tl.full([BLOCK_ROWS], float("-inf"), dtype=tl.float64)
    best_at = tl.full([BLOCK_ROWS], 1 << 62, dtype=tl.int64)
    begin = program * ROWS_PER_PROGRAM
    end = tl.minimum(begin + ROWS_PER_PROGRAM, count)
    for block in range(begin, end, BLOCK_ROWS):
        position = block + tl.arange(0, BLOCK_ROWS)
        valid = position < end
        row = tl.load(rows + first + position, mask=valid, other=0)
        x = tl.load(
            data + row[:, None] * stride + column[None, :], mask=valid[:, None] & inside[None, :], other=0.0
        ).to(tl.float64)
        score = tl.sum(x * direction[None, :], axis=1)
        free = valid & (tl.load(available + first + position, mask=valid, other=0) != 0)
        # The first row counts whatever its score is, so that one is found; NaN never wins.
        better = free & ((score > best) | (best_at == (1 << 62)))
        best_at = tl.where(better, position, best_at)
        best = tl.where(better, tl.where(score == score, score, float("-inf")), best)
    top = tl.max(best, axis=0)
    tl.store(best_scores + program, top)
    tl.store(best_rows + program, tl.min(tl.where(best == top, best_at, 1 << 62), axis=0))


@triton.jit
def take_best(
    data, rows, first, available, best_scores, best_rows, theta, drift, target, order, residuals, counter,
    n_features, stride, n_programs,
    PROGRAMS: tl.constexpr, COLUMNS: tl.constexpr, REPLACEMENT: tl.constexpr,
):  # fmt: skip
    """Finish a pick: the best of the programs' bests, then θ ← θ + μ − x."""
    program = tl.arange(0, PROGRAMS)
    used = program < n_programs
    score = tl.load(best_scores + program, mask=used, other=float("-inf"))
    at = tl.load(best_rows + program, mask=used, other=1 << 62)
    top = tl.max(score, axis=0)
    chosen = tl.min(tl.where(score == top, at, 1 << 62), axis=0)
    t = tl.load(counter)
    tl.store(order + t, chosen)
    column = tl.arange(0, COLUMNS)
    inside = column < n_features
    row = tl.load(rows + first + chosen)
    x = tl.load(data + row * stride + column, mask=inside, other=0.0).to(tl.float64)
    change = tl.load(target + column, mask=inside, other=0.0) - x
    moved = tl.load(drift + column, mask=inside, other=0.0) + tl.where(inside, change, 0.0)
    tl.store(theta + column, tl.load(theta + column, mask=inside, other=0.0) + change, mask=inside)
    tl.store(drift + column, moved, mask=inside)
    tl.store(residuals + t, tl.sqrt(tl.sum(moved * moved, axis=0)) / (t + 1))
    if not REPLACEMENT:
        tl.store(available + first + chosen, 0)
    tl.store(counter, t + 1)
