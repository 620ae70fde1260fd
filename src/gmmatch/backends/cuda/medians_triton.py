"""Triton functions of grouped targets: passes and steps of the geometric median, and targets in a kernel's space.

Everything is accumulated in float64: on a data-center GPU that costs less than reading the rows, and
the certificate then means what it means on the CPU.
"""

from __future__ import annotations

import triton
import triton.language as tl

# State of a group: running, converged, stopped by rounding.
RUNNING, CONVERGED, STUCK = 0, 1, 2


@triton.jit
def weiszfeld_pass(
    data, rows, weights, table, points, state, pulls, sums, distances,
    n_features, stride,
    BLOCK_ROWS: tl.constexpr, COLUMNS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """One tile's share of Σ w(x−z)/d, Σ w/d, Σ wd, and its nearest row."""
    tile = tl.program_id(0).to(tl.int64)
    group = tl.load(table + 3 * tile)
    if tl.load(state + group) != 0:
        return
    start = tl.load(table + 3 * tile + 1)
    stop = tl.load(table + 3 * tile + 2)
    column = tl.arange(0, COLUMNS)
    inside = column < n_features
    point = tl.load(points + group * n_features + column, mask=inside, other=0.0)
    pull = tl.zeros([COLUMNS], dtype=tl.float64)
    inverse = tl.zeros([BLOCK_ROWS], dtype=tl.float64)
    objective = tl.zeros([BLOCK_ROWS], dtype=tl.float64)
    coincident = tl.zeros([BLOCK_ROWS], dtype=tl.float64)
    nearest = tl.full([BLOCK_ROWS], float("inf"), dtype=tl.float64)
    nearest_at = tl.full([BLOCK_ROWS], -1, dtype=tl.int64)
    nearest_weight = tl.zeros([BLOCK_ROWS], dtype=tl.float64)
    # Rows at one distance need not be copies of one row: copies have the same product with fixed odd numbers.
    nearest_key = tl.zeros([BLOCK_ROWS], dtype=tl.float64)
    marks = ((column.to(tl.int64) * 2654435761) & 0xFFFFFF).to(tl.float64) * 5.9604644775390625e-08 + 0.5
    for first in range(start, stop, BLOCK_ROWS):
        position = first + tl.arange(0, BLOCK_ROWS)
        valid = position < stop
        row = tl.load(rows + position, mask=valid, other=0)
        x = tl.load(
            data + row[:, None] * stride + column[None, :], mask=valid[:, None] & inside[None, :], other=0.0
        ).to(tl.float64)
        difference = tl.where(valid[:, None], x - point[None, :], 0.0)
        d = tl.sqrt(tl.sum(difference * difference, axis=1))
        w = tl.where(valid, 1.0, 0.0).to(tl.float64)
        if WEIGHTED:
            w = tl.load(weights + position, mask=valid, other=0.0)
        away = valid & (d > 1e-150)
        c = tl.where(away, w / tl.where(away, d, 1.0), 0.0)
        pull += tl.sum(difference * c[:, None], axis=0)
        inverse += c
        objective += w * d
        coincident += tl.where(valid & (d <= 1e-150), w, 0.0)
        near = away & (w > 0.0)
        key = tl.sum(x * marks[None, :], axis=1)
        closer = near & (d < nearest)
        copy = near & (d == nearest) & (key == nearest_key)
        nearest_weight = tl.where(closer, w, tl.where(copy, nearest_weight + w, nearest_weight))
        nearest_key = tl.where(closer, key, nearest_key)
        nearest_at = tl.where(closer, position, nearest_at)
        nearest = tl.where(closer, d, nearest)
        tl.store(distances + position, d, mask=valid)
    tl.store(pulls + tile * n_features + column, pull, mask=inside)
    least = tl.min(nearest, axis=0)
    tied = (nearest == least) & (nearest_at >= 0)
    at = tl.min(tl.where(tied, nearest_at, 1 << 62), axis=0)
    own_key = tl.sum(tl.where(tied & (nearest_at == at), nearest_key, 0.0), axis=0)
    base = sums + tile * 7
    tl.store(base, tl.sum(inverse, axis=0))
    tl.store(base + 1, tl.sum(objective, axis=0))
    tl.store(base + 2, tl.sum(coincident, axis=0))
    tl.store(base + 3, least)
    tl.store(base + 4, at.to(tl.float64))
    tl.store(base + 5, tl.sum(tl.where(tied & (nearest_key == own_key), nearest_weight, 0.0), axis=0))
    tl.store(base + 6, own_key)


@triton.jit(do_not_specialize=["number"])  # one kernel for all passes
def group_step(
    data, rows, first_tile, pulls, sums, total_weight, sizes,
    points, best_point, plain_point, last_point, last_step, best_objective, accelerated,
    state, gaps, objectives, passes, running, number,
    eps, n_features, stride, ACCELERATE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add up one group's tiles; certify its point; choose the next one.

    The step keeps the nearest row's cone (see ``Evaluation.proximal_point`` on the CPU) and is
    accelerated by a one-step Anderson mixing, which is taken back where the objective rose.
    """
    group = tl.program_id(0).to(tl.int64)
    if tl.load(state + group) != 0:
        return
    column = tl.arange(0, COLUMNS)
    inside = column < n_features
    here = group * n_features + column
    pull = tl.zeros([COLUMNS], dtype=tl.float64)
    inverse = tl.full([], 0.0, dtype=tl.float64)
    objective = tl.full([], 0.0, dtype=tl.float64)
    coincident = tl.full([], 0.0, dtype=tl.float64)
    nearest = tl.full([], float("inf"), dtype=tl.float64)
    nearest_at = tl.full([], 1 << 62, dtype=tl.int64)
    nearest_weight = tl.full([], 0.0, dtype=tl.float64)
    nearest_key = tl.full([], 0.0, dtype=tl.float64)
    for tile in range(tl.load(first_tile + group), tl.load(first_tile + group + 1)):
        pull += tl.load(pulls + tile * n_features + column, mask=inside, other=0.0)
        base = sums + tile * 7
        inverse += tl.load(base)
        objective += tl.load(base + 1)
        coincident += tl.load(base + 2)
        least = tl.load(base + 3)
        at = tl.load(base + 4).to(tl.int64)
        heavy = tl.load(base + 5)
        key = tl.load(base + 6)
        copy = (least == nearest) & (key == nearest_key)
        nearest_weight = tl.where(
            least < nearest, heavy, tl.where(copy, nearest_weight + heavy, nearest_weight)
        )
        nearest_key = tl.where(least < nearest, key, nearest_key)
        nearest_at = tl.where(least < nearest, at, nearest_at)
        nearest = tl.minimum(nearest, least)
    point = tl.load(points + here, mask=inside, other=0.0)
    known = tl.load(best_objective + group)
    count = tl.load(passes + group) + 1
    tl.store(passes + group, count)
    if (tl.load(accelerated + group) == 1) & (objective > known * (1.0 + 1e-14)):
        # The prediction was worse than the point it came from: take that point's plain successor.
        tl.store(points + here, tl.load(plain_point + here, mask=inside, other=0.0), mask=inside)
        tl.store(accelerated + group, 2)
        tl.atomic_add(running + number, 1)
        return
    total = tl.load(total_weight + group)
    size = tl.load(sizes + group)
    norm = tl.sqrt(tl.sum(pull * pull, axis=0))
    excess = tl.maximum(norm - coincident, 0.0)
    q = excess / total + 1.1102230246251565e-16 * (16.0 + n_features + 4.0 * tl.sqrt(size))
    gap = tl.where(q < 1.0, 2.0 * q / tl.maximum(1.0 - q, 1e-300), float("inf"))
    gap = tl.where(objective == 0.0, 0.0, gap)
    tl.store(gaps + group, gap)
    tl.store(objectives + group, objective)
    tl.store(best_point + here, point, mask=inside)
    tl.store(best_objective + group, objective)
    if gap <= eps:
        tl.store(state + group, 1)
        return
    # The plain successor: Vardi and Zhang's rule on a row, the nearest row's cone elsewhere.
    freedom = tl.where(norm > 0.0, excess / tl.maximum(norm, 1e-300), 0.0)
    successor = point + pull * (freedom / tl.maximum(inverse, 1e-300))
    if (coincident == 0.0) & (nearest_at < (1 << 61)):
        near_row = tl.load(rows + nearest_at)
        near = tl.load(data + near_row * stride + column, mask=inside, other=0.0).to(tl.float64)
        offset = near - point
        curvature = inverse - nearest_weight / nearest
        others = pull - offset * (nearest_weight / nearest)
        from_row = others / tl.where(curvature > 0.0, curvature, 1.0) - offset
        length = tl.sqrt(tl.sum(from_row * from_row, axis=0))
        lands = (curvature <= 1e-12 * inverse) | (length * curvature <= nearest_weight)
        lands = lands | (nearest * total < 1e-9 * objective)
        shrink = 1.0 - nearest_weight / tl.where(lands, 1.0, curvature * length)
        successor = tl.where(lands, near, near + from_row * shrink)
    step = tl.where(inside, successor - point, 0.0)
    if tl.sum(step * step, axis=0) == 0.0:
        tl.store(state + group, 2)
        return
    proposal = successor
    flag = 0
    if ACCELERATE:
        if tl.load(accelerated + group) == 1:
            before = tl.load(last_point + here, mask=inside, other=0.0)
            step_before = tl.load(last_step + here, mask=inside, other=0.0)
            change = step - step_before
            size_of_change = tl.sum(change * change, axis=0)
            mixing = tl.sum(step * change, axis=0) / tl.maximum(size_of_change, 1e-300)
            mixing = tl.where(size_of_change > 0.0, mixing, 0.0)
            proposal = successor - mixing * (point - before + change)
        flag = 1
    tl.store(plain_point + here, successor, mask=inside)
    tl.store(last_point + here, point, mask=inside)
    tl.store(last_step + here, step, mask=inside)
    tl.store(accelerated + group, flag)
    tl.store(points + here, proposal, mask=inside)
    tl.atomic_add(running + number, 1)


@triton.jit
def sample_means(
    data, rows, offsets, points, n_features, stride, SAMPLE: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """The mean of up to SAMPLE evenly spaced rows of each group: a start for the price of nothing."""
    group = tl.program_id(0).to(tl.int64)
    start = tl.load(offsets + group)
    size = tl.load(offsets + group + 1) - start
    column = tl.arange(0, COLUMNS)
    inside = column < n_features
    total = tl.zeros([COLUMNS], dtype=tl.float64)
    count = tl.minimum(size, SAMPLE)
    for number in range(count):
        row = tl.load(rows + start + (number * size) // count)
        total += tl.load(data + row * stride + column, mask=inside, other=0.0).to(tl.float64)
    tl.store(points + group * n_features + column, total / count.to(tl.float64), mask=inside)


@triton.jit
def _times_gram(matrix, vector_at, out_at, size, i, here, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """out ← K · vector, both in global memory; rows of K are read once each."""
    vector = tl.load(vector_at + i, mask=here, other=0.0)
    for first in range(0, size, ROWS):
        row = first + tl.arange(0, ROWS)
        valid = row < size
        entries = tl.load(
            matrix + row[:, None] * size + i[None, :], mask=valid[:, None] & here[None, :], other=0.0
        ).to(tl.float64)
        tl.store(out_at + row, tl.sum(entries * vector[None, :], axis=1), mask=valid)
    # The next read is of what other threads of this program wrote.
    tl.debug_barrier()


@triton.jit
def kernel_targets(
    gram, gram_offsets, offsets, weights, coefficients, products, scratch, target_norms, gaps, passes,
    first_group, eps, max_iter,
    MEDIAN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The mean or the geometric median Σ αᵢφ(xᵢ) of one group, and ⟨it, φ(xᵢ)⟩ for its rows.

    Weiszfeld's iteration in coefficients: with β = w/d and γ = β − (Σβ)α the pull is Σ γᵢφ(xᵢ), whose
    norm certifies the gap, and α moves by γ / Σβ. One product with K per iteration.
    """
    group = tl.program_id(0).to(tl.int64) + first_group
    base = tl.load(offsets + group)
    size = tl.load(offsets + group + 1) - base
    matrix = gram + tl.load(gram_offsets + group)
    i = tl.arange(0, BLOCK)
    here = i < size
    w = tl.load(weights + base + i, mask=here, other=0.0)
    total = tl.sum(w, axis=0)
    alpha = w / total
    tl.store(coefficients + base + i, alpha, mask=here)
    tl.debug_barrier()
    _times_gram(matrix, coefficients + base, products + base, size, i, here, ROWS, BLOCK)
    along = tl.load(products + base + i, mask=here, other=0.0)
    norm = tl.sum(alpha * along, axis=0)
    gap = tl.full([], 0.0, dtype=tl.float64)
    count = tl.full([], 0, dtype=tl.int64)
    if MEDIAN:
        diagonal = tl.load(matrix + i.to(tl.int64) * size + i, mask=here, other=0.0).to(tl.float64)
        tiny = 1e-7 * tl.max(tl.where(here, tl.abs(diagonal), 0.0), axis=0)
        gap = tl.full([], float("inf"), dtype=tl.float64)
        while (gap > eps) & (count < max_iter):
            squared = diagonal - 2.0 * along + norm
            away = here & (squared > tiny)
            d = tl.sqrt(tl.where(away, squared, 1.0))
            beta = tl.where(away, w / d, 0.0)
            inverse = tl.sum(beta, axis=0)
            resting = tl.sum(tl.where(here & (squared <= tiny), w, 0.0), axis=0)
            gamma = beta - inverse * alpha
            tl.store(coefficients + base + i, gamma, mask=here)
            tl.debug_barrier()
            _times_gram(matrix, coefficients + base, scratch + base, size, i, here, ROWS, BLOCK)
            moved = tl.load(scratch + base + i, mask=here, other=0.0)
            pull = tl.sqrt(tl.maximum(tl.sum(gamma * moved, axis=0), 0.0))
            excess = tl.maximum(pull - resting, 0.0)
            q = excess / total
            gap = tl.where(q < 1.0, 2.0 * q / tl.maximum(1.0 - q, 1e-300), float("inf"))
            count += 1
            if gap > eps:
                share = tl.where(pull > 0.0, excess / tl.maximum(pull, 1e-300), 0.0)
                share = share / tl.maximum(inverse, 1e-300)
                alpha += share * gamma
                along += share * moved
                norm = tl.sum(alpha * along, axis=0)
        tl.store(coefficients + base + i, alpha, mask=here)
        tl.store(products + base + i, along, mask=here)
    tl.store(target_norms + group, norm)
    tl.store(gaps + group, gap)
    tl.store(passes + group, count)
