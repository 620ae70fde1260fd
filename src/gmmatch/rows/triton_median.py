"""Triton kernels of means and medians: the sums over the rows of every group at a point, in float64.

On a data-center GPU float64 costs less than reading the rows, and a certificate means what it means on the CPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from gmmatch._triton import tile_shape
from gmmatch.median.compiled import SCALARS
from gmmatch.rows.tensor_groups import TensorGroups

# Few enough that all programs finish together, enough that their sums are small next to the rows.
_ROWS_PER_TILE = 320
# Tiles and columns that a program adds up at a time.
_MERGED_TILES, _MERGED_COLUMNS = 64, 64


@triton.jit
def load_rows(data, rows, first, stop, column, inside, stride, BLOCK_ROWS: tl.constexpr):
    """Return positions among the sorted rows from ``first`` on, which of them precede ``stop``, and their rows."""
    position = first + tl.arange(0, BLOCK_ROWS)
    valid = position < stop
    row = tl.load(rows + position, mask=valid, other=0)
    x = tl.load(
        data + row[:, None] * stride + column[None, :], mask=valid[:, None] & inside[None, :], other=0.0
    )
    return position, valid, x.to(tl.float64)


@triton.jit(do_not_specialize=["plain"])
def evaluate_tiles(
    data, rows, weights, table, slots, points, delta, gradients, scalars, n_features, stride, plain,
    BLOCK_ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write what a tile adds to the terms of its group, its nearest row by position; with ``plain``, Σ w (x − z)."""
    tile = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + tl.load(table + 3 * tile))
    if slot < 0:
        return
    start = tl.load(table + 3 * tile + 1)
    stop = tl.load(table + 3 * tile + 2)
    column = tl.arange(0, COLUMNS)
    inside = column < n_features
    point = tl.load(points + slot * n_features + column, mask=inside, other=0.0)
    smoothing = tl.load(delta)
    gradient = tl.zeros([COLUMNS], dtype=tl.float64)
    objective = tl.zeros([BLOCK_ROWS], dtype=tl.float64)
    inverse = tl.zeros([BLOCK_ROWS], dtype=tl.float64)
    coincident = tl.zeros([BLOCK_ROWS], dtype=tl.float64)
    weight = tl.zeros([BLOCK_ROWS], dtype=tl.float64)
    nearest = tl.full([BLOCK_ROWS], float("inf"), dtype=tl.float64)
    nearest_at = tl.full([BLOCK_ROWS], -1, dtype=tl.int64)
    nearest_weight = tl.zeros([BLOCK_ROWS], dtype=tl.float64)
    for first in range(start, stop, BLOCK_ROWS):
        position, valid, x = load_rows(data, rows, first, stop, column, inside, stride, BLOCK_ROWS)
        w = tl.load(weights + position, mask=valid, other=0.0)
        # Rows beyond the end have no weight.
        difference = x - point[None, :]
        d = tl.sqrt(tl.sum(difference * difference, axis=1))
        away = valid & (d > 1e-150)
        pull = tl.where(away, w / (tl.where(away, d, 1.0) + smoothing), 0.0)
        factor = tl.where(plain != 0, w, pull)
        gradient += tl.sum(difference * factor[:, None], axis=0)
        objective += w * d
        inverse += pull
        coincident += tl.where(away, 0.0, w)
        weight += w
        closer = away & (d < nearest)
        copy = away & (d == nearest)
        nearest_weight = tl.where(closer, w, tl.where(copy, nearest_weight + w, nearest_weight))
        nearest_at = tl.where(closer, position, nearest_at)
        nearest = tl.where(closer, d, nearest)
    tl.store(gradients + tile * n_features + column, gradient, mask=inside)
    least = tl.min(nearest, axis=0)
    tied = (nearest == least) & (nearest_at >= 0)
    out = scalars + tile * 8
    tl.store(out, tl.sum(objective, axis=0))
    tl.store(out + 1, tl.sum(inverse, axis=0))
    tl.store(out + 2, tl.sum(coincident, axis=0))
    tl.store(out + 3, tl.sum(weight, axis=0))
    tl.store(out + 4, (stop - start).to(tl.float64))
    tl.store(out + 5, least)
    tl.store(out + 6, tl.min(tl.where(tied, nearest_at, 1 << 62), axis=0).to(tl.float64))
    tl.store(out + 7, tl.sum(tl.where(tied, nearest_weight, 0.0), axis=0))


@triton.jit
def merge_tiles(
    data, rows, firsts, active, gradients, scalars, terms, n_features, stride,
    TILES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write some columns of the terms of a group; the program of the first columns writes the scalars as well."""
    slot = tl.program_id(0).to(tl.int64)
    group = tl.load(active + slot)
    stop = tl.load(firsts + group + 1)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < n_features
    number = tl.arange(0, 8)
    gradient = tl.zeros([COLUMNS], dtype=tl.float64)
    sums = tl.zeros([8], dtype=tl.float64)
    nearest = tl.full([TILES], float("inf"), dtype=tl.float64)
    nearest_at = tl.full([TILES], 4.0e18, dtype=tl.float64)
    nearest_weight = tl.zeros([TILES], dtype=tl.float64)
    for first in range(tl.load(firsts + group), stop, TILES):
        tile = first + tl.arange(0, TILES)
        valid = tile < stop
        gradient += tl.sum(
            tl.load(
                gradients + tile[:, None] * n_features + column[None, :],
                mask=valid[:, None] & inside[None, :], other=0.0,
            ),
            axis=0,
        )  # fmt: skip
        sums += tl.sum(
            tl.load(
                scalars + tile[:, None] * 8 + number[None, :],
                mask=valid[:, None] & (number < 5)[None, :],
                other=0.0,
            ),
            axis=0,
        )
        d = tl.load(scalars + tile * 8 + 5, mask=valid, other=float("inf"))
        at = tl.load(scalars + tile * 8 + 6, mask=valid, other=0.0)
        w = tl.load(scalars + tile * 8 + 7, mask=valid, other=0.0)
        closer = d < nearest
        nearest_weight = tl.where(closer, w, tl.where(d == nearest, nearest_weight + w, nearest_weight))
        nearest_at = tl.where(closer, at, nearest_at)
        nearest = tl.where(closer, d, nearest)
    least = tl.min(nearest, axis=0)
    exists = least < float("inf")
    at = tl.min(tl.where(nearest == least, nearest_at, 4.0e18), axis=0)
    row = tl.load(rows + tl.where(exists, at, 0.0).to(tl.int64), mask=exists, other=0)
    x = tl.load(data + row * stride + column, mask=inside, other=0.0).to(tl.float64)
    out = terms + slot * (2 * n_features + 8)
    tl.store(out + column, gradient, mask=inside)
    tl.store(out + n_features + column, tl.where(exists, x, 0.0), mask=inside)
    if tl.program_id(1) == 0:
        own_weight = tl.sum(tl.where(nearest == least, nearest_weight, 0.0), axis=0)
        last = tl.where(number == 5, least, tl.where(exists, row, -1).to(tl.float64))
        last = tl.where(number == 7, own_weight, last)
        tl.store(out + 2 * n_features + number, tl.where(number < 5, sums, last))


class GroupTerms:
    """The terms of groups at points, as :func:`gmmatch.median.terms.weiszfeld_terms` has them, by two launches.

    Parameters
    ----------
    groups : TensorGroups
    weights : float64 tensor
        The weight of each of ``groups.rows``, positive.
    delta : float
        The paper's δ.
    """

    def __init__(self, groups: TensorGroups, weights: torch.Tensor, delta: float) -> None:
        self.groups, self.weights = groups, weights
        self.tiles = groups.cut(_ROWS_PER_TILE)
        # As a tensor, because Triton passes numbers as float32.
        self.delta = groups.to_device(torch.tensor([delta], dtype=torch.float64))
        self._gradients = weights.new_empty((self.tiles.count, groups.n_features))
        self._scalars = weights.new_empty((self.tiles.count, len(SCALARS)))

    def means(self) -> torch.Tensor:
        """Return the weighted mean of each group, shape (G, s); 0 for groups without rows."""
        s, every = self.groups.n_features, torch.arange(len(self.groups.sizes), device=self.weights.device)
        terms = self.evaluate(self.weights.new_zeros((len(every), s)), every, plain=True)
        total = terms[:, 2 * s + SCALARS.index("weight"), None]
        return terms[:, :s] / torch.where(total > 0.0, total, 1.0)

    def evaluate(self, points: torch.Tensor, active: torch.Tensor, *, plain: bool = False) -> torch.Tensor:
        """Return the terms of a point for each active group, shape (A, 2 s + 8); Σ w (x − z) first if ``plain``."""
        groups, tiles, s = self.groups, self.tiles, self.groups.n_features
        slots = torch.full((len(groups.sizes),), -1, device=active.device)
        slots[active] = torch.arange(len(active), device=active.device)
        terms = self.weights.new_empty((len(active), 2 * s + len(SCALARS)))
        block_rows, columns, warps = tile_shape(s)
        with torch.cuda.device_of(groups.data):
            if tiles.count:
                evaluate_tiles[(tiles.count,)](
                    groups.data, groups.rows, self.weights, tiles.table, slots, points.contiguous(), self.delta,
                    self._gradients, self._scalars, s, groups.data.stride(0), int(plain),
                    BLOCK_ROWS=block_rows, COLUMNS=columns, num_warps=warps, enable_fp_fusion=True,
                )  # fmt: skip
            merge_tiles[(len(active), -(-s // _MERGED_COLUMNS))](
                groups.data, groups.rows, tiles.firsts, active, self._gradients, self._scalars, terms, s,
                groups.data.stride(0), TILES=_MERGED_TILES, COLUMNS=_MERGED_COLUMNS, num_warps=4,
                enable_fp_fusion=True,
            )  # fmt: skip
        return terms
