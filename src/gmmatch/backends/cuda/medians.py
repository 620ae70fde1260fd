"""The geometric medians of many groups of rows at once, on the device that holds them.

Where Triton works, all groups share its launches; elsewhere plain torch operations evaluate points, group by group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gmmatch.backends.cuda.blocks import TensorSource
from gmmatch.backends.cuda.groups import DeviceGroups, on_their_device
from gmmatch.backends.cuda.triton_check import triton_works
from gmmatch.median.passes import evaluate, weighted_mean
from gmmatch.median.search import run_search, search_median
from gmmatch.rows.rows import as_rows
from gmmatch.types import on_host

# Rows per program: enough to keep partial sums small beside the data, few enough to balance.
ROWS_PER_TILE = 320
# A warp holds a tile of rows by columns in its registers, as float64. One warp to a program needs no
# barrier in its sums, which is what makes the pass three times as fast as with eight.
_TILE_ELEMENTS = 1024
MOST_COLUMNS = 4096
_SAMPLE = 32
# Passes between two looks at how many groups are still running; a look waits for the device.
_PASSES_PER_LOOK = 4


@dataclass(frozen=True, eq=False)
class GroupedMedians:
    """The medians of G groups; tensors stay on the device.

    Attributes
    ----------
    points : float64 tensor of shape (G, s)
    gaps, objectives : float64 tensors of shape (G,)
        Certified relative gap and ρ at the point.
    iterations : int64 tensor of shape (G,)
        Passes over each group's rows.
    converged : bool tensor of shape (G,)
    distances : float64 tensor of shape (n,)
        Distance of each row (in the groups' order) to its group's point.
    """

    points: Any
    gaps: Any
    objectives: Any
    iterations: Any
    converged: Any
    distances: Any


@on_their_device
def grouped_medians(
    groups: DeviceGroups,
    weights: Any = None,
    *,
    eps: float = 1e-8,
    max_iter: int = 1000,
    triton: bool | None = None,
) -> GroupedMedians:
    """Return the certified geometric median of every group.

    Parameters
    ----------
    groups : DeviceGroups
    weights : float64 tensor of shape (n,), optional
        Row weights in the groups' order.
    eps, max_iter
        As in :func:`gmmatch.geometric_median`.
    triton : bool, optional
        Whether to use the fused kernels; by default where they can run (CUDA, a Triton that works, at most
        4,096 columns). Without them, plain torch operations give the same results.
    """
    import torch

    if uses_triton(groups.data, triton):
        found = _by_triton(groups, weights, eps, max_iter)
        # One remembered step is too short a memory for some groups, as with a row at 3e38: the search of the CPU is
        # the judge of these.
        rest = torch.nonzero(~found.converged)[:, 0].tolist()
    else:
        count, new = len(groups), partial(torch.zeros, dtype=torch.float64, device=groups.data.device)
        found = GroupedMedians(
            new((count, groups.n_features)), new(count), new(count), new(count).long(), new(count).bool(),
            new(len(groups.rows)),
        )  # fmt: skip
        rest = list(range(count))
    for group in rest:
        _search(found, groups, group, weights, eps, max_iter)
    return found


def uses_triton(data: Any, wanted: bool | None = None) -> bool:
    """Return whether the fused kernels should run on the rows of a tensor, (n, s).

    Who wants them gets them, or Triton's error, and not a silent detour.

    Examples
    --------
    >>> import torch
    >>> uses_triton(torch.zeros(3, 2)), uses_triton(torch.zeros(3, 2), True)
    (False, True)
    """
    if wanted is False or data.shape[1] > MOST_COLUMNS:
        return False
    return wanted is True or (bool(data.is_cuda) and triton_works(data.device))


def column_block(n_features: int) -> int:
    """Return the power of two that holds a row."""
    return max(16, 1 << (n_features - 1).bit_length())


def tile_shape(n_features: int) -> tuple[int, int, int]:
    """Return rows and columns of the tile that a program holds in registers, and its warps."""
    columns = column_block(n_features)
    return max(1, min(32, _TILE_ELEMENTS // columns)), columns, max(1, columns // 2048)


def _by_triton(groups: DeviceGroups, weights: Any, eps: float, max_iter: int) -> GroupedMedians:
    search = _TritonSearch(groups, weights, eps, max_iter)
    search.begin()
    done = 0
    while done < max_iter:
        for _ in range(min(_PASSES_PER_LOOK, max_iter - done)):
            search.evaluate()
            search.step(done)
            done += 1
        if int(search.running[done - 1]) == 0:
            break
    return GroupedMedians(
        search.best, search.gaps, search.objectives, search.passes, search.gaps <= eps, search.distances
    )


def median_launches(groups: DeviceGroups) -> list[Callable[[], None]]:
    """Return a launch of each kernel that the medians of these groups need, on a single row."""
    one = DeviceGroups(groups.data, groups.rows[:1], np.array([0, 1]))
    search = _TritonSearch(one, None, 1.0, 1)
    return [search.begin, search.evaluate, partial(search.step, 0)]


class _TritonSearch:
    """Where the search for the medians of all groups stands; each method is one launch."""

    def __init__(self, groups: DeviceGroups, weights: Any, eps: float, max_iter: int) -> None:
        import torch

        self.groups, self.weights, self.eps = groups, weights, eps
        count, s = len(groups), groups.n_features
        new = partial(torch.zeros, dtype=torch.float64, device=groups.data.device)
        whole = partial(torch.zeros, dtype=torch.int32, device=groups.data.device)
        self.tiles = groups.tiles(ROWS_PER_TILE)
        # One allocation each: Triton compiles again for an address that is aligned otherwise.
        self.points, self.best, self.plain, self.last, self.change = (new((count, s)) for _ in range(5))
        self.pulls, self.sums = new((self.tiles.count, s)), new((self.tiles.count, 7))
        self.best_objective, self.gaps, self.objectives = (new(count) for _ in range(3))
        self.accelerated, self.state = whole(count), whole(count)
        self.passes = torch.zeros(count, dtype=torch.int64, device=groups.data.device)
        self.distances = new(len(groups.rows))
        self.sizes = groups.to_device(groups.sizes.astype(np.float64))
        self.total = self.sizes
        if weights is not None:
            self.total = new(count).index_add_(0, groups.group_of_row, weights)
        self.running = whole(max_iter + _PASSES_PER_LOOK)

    def begin(self) -> None:
        """Start every group at the mean of a few of its rows."""
        from gmmatch.backends.cuda.medians_triton import sample_means

        groups = self.groups
        sample_means[(len(groups),)](
            groups.data, groups.rows, groups.offsets_on_device, self.points, groups.n_features,
            groups.data.stride(0), SAMPLE=_SAMPLE, COLUMNS=column_block(groups.n_features),
        )  # fmt: skip

    def evaluate(self) -> None:
        """Pass over the rows of the groups that are not done."""
        from gmmatch.backends.cuda.medians_triton import weiszfeld_pass

        groups, weights = self.groups, self.weights
        block_rows, columns, warps = tile_shape(groups.n_features)
        weiszfeld_pass[(self.tiles.count,)](
            groups.data, groups.rows, self.distances if weights is None else weights, self.tiles.table,
            self.points, self.state, self.pulls, self.sums, self.distances, groups.n_features,
            groups.data.stride(0),
            BLOCK_ROWS=block_rows, COLUMNS=columns, WEIGHTED=weights is not None, num_warps=warps,
        )  # fmt: skip

    def step(self, number: int) -> None:
        """Certify the groups' points and choose the next ones."""
        from gmmatch.backends.cuda.medians_triton import group_step

        groups = self.groups
        group_step[(len(groups),)](
            groups.data, groups.rows, self.tiles.first, self.pulls, self.sums, self.total, self.sizes,
            self.points, self.best, self.plain, self.last, self.change, self.best_objective,
            self.accelerated, self.state, self.gaps, self.objectives, self.passes, self.running, number,
            self.eps, groups.n_features, groups.data.stride(0),
            ACCELERATE=True, COLUMNS=column_block(groups.n_features), num_warps=4,
        )  # fmt: skip


def _search(
    medians: GroupedMedians, groups: DeviceGroups, group: int, weights: Any, eps: float, max_iter: int
) -> None:
    """Search for the median of one group with evaluations by plain torch operations."""
    part = slice(int(groups.offsets[group]), int(groups.offsets[group + 1]))
    rows = as_rows(TensorSource(groups.data)).subset(on_host(groups.rows[part]))
    own = np.ones(len(rows)) if weights is None else on_host(weights[part])
    search = search_median(weighted_mean(rows, own), eps=eps, max_iter=max_iter)
    found = run_search(search, lambda point: evaluate(rows, own, point, 0.0, 1), rows.row)
    medians.points[group] = groups.to_device(found.point)
    medians.distances[part] = groups.to_device(found.distances)
    medians.gaps[group], medians.objectives[group] = found.gap, found.objective
    medians.iterations[group], medians.converged[group] = found.iterations, found.gap <= eps
