"""Triton kernels of targets in a kernel's space: one program per group works on its Gram matrix."""

from __future__ import annotations

import triton
import triton.language as tl


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
