"""Greedy matching of many groups at once, on the device that holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import near_best, tensor_beside
from gmmatch.backends.cuda.gram import gram_of_slab, score_block, slabs_that_fit
from gmmatch.backends.cuda.groups import DeviceGroups, on_their_device
from gmmatch.backends.cuda.medians import ROWS_PER_TILE, column_block, tile_shape, uses_triton
from gmmatch.matching import loops
from gmmatch.matching.walk import Walk, greedy
from gmmatch.types import Indices, offsets_of, on_host

# A program holds the scores of its whole group in registers.
MOST_ROWS_PER_PROGRAM = 8192
DEFAULT_MEMORY = 2 << 30
# Sums of squares of numbers up to here fit float32.
LARGEST_SQUARED = 1e17
# Rows per program where one group is scanned; smaller groups are cut finer, so that every multiprocessor has several.
_ROWS_PER_PROGRAM = 512
_PROGRAMS_PER_PROCESSOR = 8
_PICKS_PER_GRAPH = 16
# Numbers that plain torch operations convert to float64 at a time.
_BLOCK_ELEMENTS = 1 << 24


@dataclass(frozen=True, eq=False)
class GroupedPicks:
    """Picks of all groups on the host.

    Attributes
    ----------
    order : int64 array of shape (sum of quotas,)
        Positions within the group, in the order they were picked, group after group.
    offsets : int64 array of shape (G + 1,)
        Where each group's picks begin.
    residuals : float64 array of shape (sum of quotas,)
    rescored : int
        Picks that the rounding of the fast scores left open and that exact float64 scores decided.
    """

    order: Indices
    offsets: Indices
    residuals: NDArray[np.float64]
    rescored: int


@on_their_device
def grouped_picks(
    groups: DeviceGroups,
    targets: Any,
    quotas: Indices,
    *,
    start: Any = "target",
    replacement: bool = False,
    available: Any = None,
    memory_limit: int | None = None,
    triton: bool | None = None,
) -> GroupedPicks:
    """Match every group's target with ``quotas[g]`` of its rows.

    Parameters
    ----------
    groups : DeviceGroups
    targets : float64 tensor of shape (G, s)
    quotas : int64 array of shape (G,)
    start : "target", "zero" or float64 tensor of shape (G, s)
        θ₀; a tensor where a walk goes on from an earlier batch.
    replacement : bool
        Whether a row may be picked again.
    available : bool tensor of shape (n,), optional
        Which rows may be picked, in the groups' order.
    memory_limit : int, optional
        Bytes of working memory, Gram matrices above all; 2 GiB by default. Groups whose own matrix does
        not fit are scanned once per pick instead.
    triton : bool, optional
        Whether to use the fused kernels; by default where they can run.
    """
    starts = start
    if isinstance(start, str):
        starts = targets if start == "target" else targets.new_zeros(targets.shape)
    job = PickJob.of(groups, targets, starts, quotas, available, replacement)
    fused = uses_triton(groups.data, triton)
    # Scores, products and norms of all rows, and the vectors of all groups, count towards the limit.
    limit = DEFAULT_MEMORY if memory_limit is None else memory_limit
    limit -= 48 * len(groups.rows) + 48 * targets.numel()
    rescored, rest = 0, job.quotas > 0
    if fused:
        by_gram = (groups.sizes <= MOST_ROWS_PER_PROGRAM) & (4 * groups.sizes**2 <= limit) & rest
        rescored, picked = _by_gram(job, by_gram, limit)
        rest &= ~picked
    for group in np.flatnonzero(rest):
        job.pick_directly(int(group), fused)
    return job.picks(rescored)


@dataclass
class PickJob:
    """What picks are made from, and where they are written."""

    groups: DeviceGroups
    targets: Any
    starts: Any
    quotas: Indices
    offsets: Indices
    free: Any
    order: Any
    residuals: Any
    replacement: bool

    @classmethod
    def of(
        cls, groups: DeviceGroups, targets: Any, starts: Any, quotas: Any, available: Any, replacement: bool
    ) -> PickJob:
        """Return a job with room for its picks; all rows may be picked where ``available`` is None."""
        import torch

        offsets, device = offsets_of(quotas), groups.data.device
        order = torch.zeros(int(offsets[-1]), dtype=torch.int64, device=device)
        free = torch.ones(len(groups.rows), dtype=torch.int8, device=device)
        if available is not None:
            free = available.to(torch.int8)
        return cls(
            groups, targets, starts, np.diff(offsets), offsets, free, order, order.double(), replacement
        )

    def picks(self, rescored: Any) -> GroupedPicks:
        """Return what was picked."""
        return GroupedPicks(on_host(self.order), self.offsets, on_host(self.residuals), int(rescored))

    def pick_directly(self, group: int, fused: bool) -> None:
        """Make the picks of one group by scanning its rows once for each."""
        rows = slice(int(self.groups.offsets[group]), int(self.groups.offsets[group + 1]))
        out = slice(int(self.offsets[group]), int(self.offsets[group + 1]))
        if fused:
            _one_by_triton(
                self.groups.data, self.groups.rows, rows, self.free, self.targets[group], self.starts[group],
                self.order[out], self.residuals[out], self.replacement,
            )  # fmt: skip
            return
        import torch

        target = self.targets[group].cpu().numpy()
        walk = Walk(target, self.starts[group].cpu().numpy().copy(), np.zeros_like(target))
        scanner = _TorchScanner(self.groups.data, self.groups.rows[rows], self.free[rows], self.replacement)
        found = greedy(scanner.best, [walk], [out.stop - out.start])[0]
        self.order[out] = torch.from_numpy(found.order).to(self.order.device)
        self.residuals[out] = torch.from_numpy(found.residuals).to(self.order.device)


def _by_gram(job: PickJob, chosen: NDArray[np.bool_], limit: int) -> tuple[Any, NDArray[np.bool_]]:
    """Pick in chosen groups, a slab at a time, as many as fit the limit; return which groups were picked from."""
    import torch

    groups = job.groups
    if not chosen.any():
        return 0, chosen
    picks = _GramPicks(job)
    picks.score()
    # Squares of larger numbers do not fit the float32 of a Gram matrix.
    longest = torch.zeros(len(groups), dtype=torch.float64, device=groups.data.device)
    longest.scatter_reduce_(0, groups.group_of_row, picks.norms, "amax")
    chosen = chosen & (longest.cpu().numpy() <= LARGEST_SQUARED)
    members = np.flatnonzero(chosen)
    if len(members) == 0:
        return 0, chosen
    for slab in slabs_that_fit(members, groups.sizes, limit):
        gram, gram_offsets = gram_of_slab(groups, slab, picks.centers)
        picks.pick(slab, gram, gram_offsets, score_block(int(groups.sizes[slab].max())))
        del gram
    return picks.rescored.sum(), chosen


def pick_launches(groups: DeviceGroups, targets: Any, block: int) -> list[Callable[[], None]]:
    """Return a launch of each kernel that picks by Gram matrices need, on a single row."""
    import torch

    one = DeviceGroups(groups.data, groups.rows[:1], np.array([0, 1]))
    picks = _GramPicks(PickJob.of(one, targets[:1], targets[:1], [1], None, False))
    alone, gram = np.array([0]), torch.zeros(1, device=groups.data.device)
    return [
        picks.score,
        lambda: (gram_of_slab(one, alone, picks.centers), None)[1],
        lambda: picks.pick(alone, gram, gram.long(), block),
    ]


class _GramPicks:
    """Picks of groups by their Gram matrices; each method is one launch."""

    def __init__(self, job: PickJob) -> None:
        import torch

        groups, self.job = job.groups, job
        device = groups.data.device
        self.centered = groups.data.dtype in (torch.float32, torch.float64)
        self.centers = job.targets.to(torch.float32) if self.centered else None
        self.tiles = groups.tiles(ROWS_PER_TILE)
        count = len(groups.rows)
        self.scores, self.gains, self.norms = (
            torch.empty(count, dtype=torch.float64, device=device) for _ in range(3)
        )
        self.quotas, self.order_offsets = groups.to_device(job.quotas), groups.to_device(job.offsets)
        self.rescored = torch.zeros(len(groups), dtype=torch.int64, device=device)

    def score(self) -> None:
        """Compute ⟨θ₀, x⟩, what each pick adds to a score, and ‖x‖, of all rows."""
        from gmmatch.backends.cuda.picks_triton import row_products

        groups, job = self.job.groups, self.job
        block_rows, columns, warps = tile_shape(groups.n_features)
        # With centred rows y = x − c, a pick changes ⟨θ, x⟩ by ⟨x, μ − c⟩ − ⟨y, y'⟩ and a constant.
        centers = job.targets if self.centers is None else self.centers.double()
        row_products[(self.tiles.count,)](
            groups.data, groups.rows, self.tiles.table, job.starts,
            job.targets - centers if self.centered else job.targets, centers, self.scores, self.gains,
            self.norms, groups.n_features, groups.data.stride(0),
            BLOCK_ROWS=block_rows, COLUMNS=columns, CENTERED=self.centered, num_warps=warps,
        )  # fmt: skip

    def pick(self, slab: Indices, gram: Any, gram_offsets: Any, block: int) -> None:
        """Make all picks of a slab of groups."""
        from gmmatch.backends.cuda.picks_triton import pick_groups

        groups, job, s = self.job.groups, self.job, self.job.groups.n_features
        # Worst-case rounding of a dot product accumulated in float32, and of the products themselves.
        entry_error = s * 2.0**-23 + (2.0**-19 if self.centered else 0.0)
        pick_groups[(int(slab[-1] - slab[0]) + 1,)](
            groups.data, groups.rows, groups.offsets_on_device, gram, gram_offsets, self.scores, self.gains,
            self.norms, job.free, job.targets, job.starts, job.targets, self.quotas, self.order_offsets,
            job.order, job.residuals, self.rescored, int(slab[0]), entry_error, s, groups.data.stride(0),
            REPLACEMENT=job.replacement, BLOCK=block, COLUMNS=column_block(s), EXACT=True,
            num_warps=4 if block <= 1024 else 8,
        )  # fmt: skip


def _one_by_triton(
    data: Any,
    rows: Any,
    part: slice,
    free: Any,
    target: Any,
    start: Any,
    order: Any,
    residuals: Any,
    replacement: bool,
) -> None:
    import torch

    from gmmatch.backends.cuda import picks_triton

    s, size = int(data.shape[1]), part.stop - part.start
    columns = column_block(s)
    # Measured on an H200: two warps, and as many bytes of rows in a block for float32 as for bfloat16.
    block_rows = max(1, (4096 if data.element_size() >= 4 else 1024) // columns)
    processors = 1
    if data.is_cuda:
        processors = torch.cuda.get_device_properties(data.device).multi_processor_count
    share = -(-size // (processors * _PROGRAMS_PER_PROCESSOR))
    # A power of two, so that few sizes are ever compiled.
    share = max(block_rows, min(_ROWS_PER_PROGRAM, 1 << (share - 1).bit_length()))
    programs = -(-size // share)
    scores = torch.empty(programs, dtype=torch.float64, device=data.device)
    places = torch.empty(programs, dtype=torch.int64, device=data.device)
    theta, drift = start.clone(), torch.zeros_like(start)
    counter = torch.zeros(1, dtype=torch.int64, device=data.device)

    def one_pick() -> None:
        picks_triton.scan_rows[(programs,)](
            data, rows, part.start, size, free, theta, scores, places, s, data.stride(0),
            ROWS_PER_PROGRAM=share, BLOCK_ROWS=block_rows, COLUMNS=columns, num_warps=max(2, columns // 1024),
        )  # fmt: skip
        picks_triton.take_best[(1,)](
            data, rows, part.start, free, scores, places, theta, drift, target, order, residuals, counter, s,
            data.stride(0), programs, PROGRAMS=max(16, 1 << (programs - 1).bit_length()), COLUMNS=columns,
            REPLACEMENT=replacement, num_warps=8,
        )  # fmt: skip

    left = len(order)
    if left > 2 * _PICKS_PER_GRAPH and data.is_cuda:
        one_pick()  # compiles, and is a pick like any other
        left -= 1
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(_PICKS_PER_GRAPH):
                one_pick()
        while left >= _PICKS_PER_GRAPH:
            graph.replay()
            left -= _PICKS_PER_GRAPH
    for _ in range(left):
        one_pick()


class _TorchScanner:
    """Finds the best row for θ by plain torch operations, and decides between close ones as the CPU does."""

    def __init__(self, data: Any, rows: Any, free: Any, replacement: bool) -> None:
        import torch

        self.data, self.rows, self.replacement = data, rows, replacement
        self.group = torch.where(free.bool(), 0, -1)
        step = max(1, _BLOCK_ELEMENTS // int(data.shape[1]))
        self.parts = [slice(first, first + step) for first in range(0, len(rows), step)]
        self.held = data[rows].double() if len(self.parts) == 1 else None
        self.longest = max(float(block.double().norm(dim=1).max()) for _, block in self._blocks())

    def _blocks(self) -> Iterator[tuple[slice, Any]]:
        for part in self.parts:
            yield part, self.data[self.rows[part]] if self.held is None else self.held

    def best(self, active: Indices, thetas: Sequence[NDArray[np.float64]]) -> tuple[Indices, Any]:
        """Take the best row for the one θ there is."""
        found = near_best(self._blocks(), self.group, thetas[0][None], self.longest)
        near = np.concatenate([rows for rows, _ in found])
        rivals = self.data[self.rows[tensor_beside(self.data, near)]].double().cpu().numpy()
        every = np.arange(len(rivals))
        chosen = int(loops.choose(rivals, every, thetas[0], every, len(rivals)))
        if not self.replacement:
            self.group[int(near[chosen])] = -1
        return near[chosen : chosen + 1], rivals[chosen : chosen + 1]
