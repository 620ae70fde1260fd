"""Greedy matching of all groups of a tensor by Triton kernels.

Groups that a program can hold the scores of are matched by their Gram matrices: one matrix product, then all picks in
one launch. The rows of larger groups are scanned once for each pick.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gmmatch._array import Indices, Matrix, start_indices, to_numpy
from gmmatch._triton import column_block, tile_shape
from gmmatch.rows import triton_picks as kernels
from gmmatch.rows.base import GreedyTask
from gmmatch.rows.tensor_groups import TensorGroups

# A program holds the scores of its whole group in registers.
_GRAM_ROWS = 8192
# Bytes of Gram matrices at a time, and how many of them a launch can number.
_GRAM_BYTES, _GRAM_COUNT = 2 << 30, 1 << 15
_GRAM_TILE = 128
# Sums of squares of longer rows do not fit float32.
_LONGEST = 1e17
# Rivals that are scored one after another before all are scored together.
_FEW_RIVALS = 16
_ROWS_PER_TILE = 320
# Scans: most rows of a program, programs of a multiprocessor, tiles that are read together, picks of a CUDA graph.
_SCANNED_ROWS, _PROGRAMS, _TILES_READ, _GRAPH_PICKS = 512, 8, 1024, 16


class TensorPicks:
    """The picks of all groups, and θ after them.

    Parameters
    ----------
    groups : TensorGroups
        The rows that may be picked.
    task : GreedyTask
    """

    def __init__(self, groups: TensorGroups, task: GreedyTask) -> None:
        self.groups, self.task, starts = groups, task, start_indices(task.quotas)
        self.targets, self.thetas = (
            groups.to_device(np.array(points, dtype=np.float64)) for points in (task.targets, task.thetas)
        )
        self.quotas, self.order_starts = groups.to_device(np.diff(starts)), groups.to_device(starts)
        self.order = torch.zeros(int(starts[-1]), dtype=torch.int64, device=groups.data.device)

    def run(self) -> tuple[Indices, Matrix]:
        """Make all picks; return row numbers, group after group, and θ."""
        active = self.task.quotas > 0
        small = active & (self.groups.sizes <= _GRAM_ROWS)
        # Triton launches on the current device.
        with torch.cuda.device_of(self.groups.data):
            if small.any() and self._pick_by_gram(np.flatnonzero(small)):
                active &= ~small
            if active.any():
                self._pick_by_scans(np.flatnonzero(active))
        return to_numpy(self.order), to_numpy(self.thetas)

    def _pick_by_gram(self, members: Indices) -> bool:
        """Pick in groups by their Gram matrices; return False, without picks, if these do not fit float32."""
        groups, data, s = self.groups, self.groups.data, self.groups.n_features
        # Triton's interpreter multiplies the bits of bfloat16, not the numbers.
        half = data.dtype == torch.float16 or (data.dtype == torch.bfloat16 and data.is_cuda)
        # Seen from the target, little cancels. Half-precision numbers multiply exactly as they are.
        centers = torch.zeros_like(self.targets) if half else self.targets.float().double()
        gains, narrow = self.targets - centers, centers.float()
        scores, row_gains, norms = (torch.zeros(len(groups.rows), **_like(self.targets)) for _ in range(3))
        tiles, (block_rows, columns, warps) = groups.cut(_ROWS_PER_TILE, members), tile_shape(s)
        kernels.score_rows[(tiles.count,)](
            data, groups.rows, tiles.table, self.thetas, gains, centers, scores, row_gains, norms, s, data.stride(0),
            BLOCK_ROWS=block_rows, COLUMNS=columns, num_warps=warps, enable_fp_fusion=True,
        )  # fmt: skip
        if not float(norms.max()) <= _LONGEST:
            return False
        # The worst that rounding does to a product that is summed in float32, and to its factors.
        entry_error = s * 2.0**-23 + (0.0 if half else 2.0**-19)
        for slab in _cut_slabs(members, groups.sizes):
            sizes, numbers = groups.sizes[slab], groups.to_device(slab)
            begins = start_indices(sizes**2)
            gram = torch.empty(int(begins[-1]), dtype=torch.float32, device=data.device)
            largest, gram_starts = int(sizes.max()), groups.to_device(begins)
            self._multiply(numbers, largest, gram, gram_starts, narrow, centered=not half)
            block = max(64, 1 << (largest - 1).bit_length())
            kernels.pick_by_gram[(len(slab),)](
                data, groups.rows, groups.starts, numbers, gram, gram_starts, scores, row_gains, norms, self.targets,
                gains, centers, self.thetas, self.quotas, self.order, self.order_starts, entry_error, s,
                data.stride(0), REPLACEMENT=self.task.replacement, BLOCK=block, COLUMNS=column_block(s),
                FEW=_FEW_RIVALS, num_warps=4 if block <= 1024 else 8, enable_fp_fusion=False,
            )  # fmt: skip
        return True

    def _multiply(
        self, numbers: Any, largest: int, gram: Any, gram_starts: Any, centers: Any, *, centered: bool
    ) -> None:
        """Compute the Gram matrices of some groups."""
        groups, data, side = self.groups, self.groups.data, -(-largest // _GRAM_TILE)
        # What is held of the rows must fit the shared memory of a multiprocessor.
        roomy = not data.is_cuda or getattr(_properties(data), "shared_memory_per_block_optin", 0) > 200_000
        kernels.multiply_rows[(side * side, len(numbers))](
            data, groups.rows, groups.starts, numbers, gram, gram_starts, centers, groups.n_features, data.stride(0),
            side, CENTERED=centered, BLOCK=_GRAM_TILE, DEPTH=64 if roomy and data.element_size() < 8 else 32,
            PRECISION="tf32x3" if centered else "ieee", num_warps=8,
            num_stages=2 if not roomy else 3 if centered else 4, enable_fp_fusion=True,
        )  # fmt: skip

    def _pick_by_scans(self, members: Indices) -> None:
        """Pick in groups by reading their rows once for each pick, all groups together."""
        groups, data, s = self.groups, self.groups.data, self.groups.n_features
        columns, device = column_block(s), data.device
        # Measured on an H200: two warps, and as many bytes of rows at a time for float32 as for bfloat16.
        block_rows = max(1, (4096 if data.element_size() >= 4 else 1024) // columns)
        programs = _PROGRAMS * (_properties(data).multi_processor_count if data.is_cuda else 1)
        share = -(-int(groups.sizes[members].sum()) // programs)
        # A power of two, so that few sizes are ever compiled.
        share = max(block_rows, min(_SCANNED_ROWS, 1 << (share - 1).bit_length()))
        tiles, numbers = groups.cut(share, members), groups.to_device(members)
        uppers, lowers, tile_uppers = (
            torch.empty(size, **_like(self.targets)) for size in (len(groups.rows), tiles.count, tiles.count)
        )
        n_picks = torch.zeros_like(self.quotas)
        available = torch.ones(len(groups.rows), dtype=torch.int8, device=device)

        def make_round() -> None:
            kernels.scan_tiles[(tiles.count,)](
                data, groups.rows, tiles.table, available, self.thetas, self.quotas, n_picks, uppers, lowers,
                tile_uppers, s, data.stride(0),
                BLOCK_ROWS=block_rows, COLUMNS=columns, num_warps=max(2, columns // 1024),
                enable_fp_fusion=True,
            )  # fmt: skip
            kernels.take_best[(len(members),)](
                data, groups.rows, tiles.table, tiles.firsts, numbers, available, self.thetas, self.targets,
                self.quotas, n_picks, uppers, lowers, tile_uppers, self.order, self.order_starts, s, data.stride(0),
                TILES=_TILES_READ, ROWS=share, COLUMNS=columns, REPLACEMENT=self.task.replacement, num_warps=8,
                enable_fp_fusion=False,
            )  # fmt: skip

        # The first round compiles, which a graph cannot.
        make_round()
        rounds = int(self.task.quotas[members].max()) - 1
        if data.is_cuda and rounds > 2 * _GRAPH_PICKS:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(_GRAPH_PICKS):
                    make_round()
            # Groups that have met their quota take no part in the last rounds.
            for _ in range(-(-rounds // _GRAPH_PICKS)):
                graph.replay()
            return
        for _ in range(rounds):
            make_round()


def _cut_slabs(members: Indices, sizes: Indices) -> list[Indices]:
    """Cut groups, the largest first, into slabs whose Gram matrices fit into memory together."""
    members = members[np.argsort(-sizes[members], kind="stable")]
    slabs, first, used = [], 0, 0
    for last, size in enumerate(sizes[members].tolist()):
        if used and (used + 4 * size**2 > _GRAM_BYTES or last - first >= _GRAM_COUNT):
            slabs.append(members[first:last])
            first, used = last, 0
        used += 4 * size**2
    return [*slabs, members[first:]]


def _like(tensor: torch.Tensor) -> dict[str, Any]:
    return {"dtype": tensor.dtype, "device": tensor.device}


def _properties(data: torch.Tensor) -> Any:
    return torch.cuda.get_device_properties(data.device)
