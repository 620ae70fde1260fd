"""A Triton kernel of distances: rows are read once, and no float64 copies of them are made."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from gmmatch._triton import tile_shape

_ROWS_PER_TILE = 256


@triton.jit
def write_distances(
    block, codes, points, out, n_rows, n_features, stride,
    ROWS: tl.constexpr, BLOCK_ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write the distance of each of ROWS rows to the point of its group; 0 for rows of no group."""
    start = tl.program_id(0).to(tl.int64) * ROWS
    column = tl.arange(0, COLUMNS)
    inside = (column < n_features)[None, :]
    for first in range(start, tl.minimum(start + ROWS, n_rows), BLOCK_ROWS):
        position = first + tl.arange(0, BLOCK_ROWS)
        valid = position < n_rows
        code = tl.load(codes + position, mask=valid, other=-1)
        used = (code >= 0)[:, None] & inside
        x = tl.load(block + position[:, None] * stride + column[None, :], mask=used, other=0.0)
        point = tl.load(points + code[:, None] * n_features + column[None, :], mask=used, other=0.0)
        difference = x.to(tl.float64) - point
        tl.store(out + position, tl.sqrt(tl.sum(difference * difference, axis=1)), mask=valid)


def compute_distances(block: torch.Tensor, codes: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Return the distance of each row to the point of its group, shape (m,); 0 for rows of no group."""
    block = block if block.stride(1) == 1 else block.contiguous()
    (m, s), out = block.shape, torch.empty(len(block), dtype=torch.float64, device=block.device)
    block_rows, columns, warps = tile_shape(s)
    with torch.cuda.device_of(block):
        write_distances[(-(-m // _ROWS_PER_TILE),)](
            block, codes, points, out, m, s, block.stride(0),
            ROWS=_ROWS_PER_TILE, BLOCK_ROWS=block_rows, COLUMNS=columns, num_warps=warps, enable_fp_fusion=True,
        )  # fmt: skip
    return out
