"""Many small groups of rows in memory: compiled loops over all of them.

Calling Python for each group would take longer than the work.

The results are those of each group alone, to the last bit; medians may differ within the rounding of their
certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.kernels.kernels import resolve_kernel
from gmmatch.matching import loops as picking
from gmmatch.matching.cost import choose_strategy, working_memory
from gmmatch.median import loops
from gmmatch.median.small import small_medians
from gmmatch.median.weiszfeld import SAMPLE_START_FROM, solve
from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import read_only
from gmmatch.selectors.places import Place
from gmmatch.selectors.tasks import Results, Tasks
from gmmatch.targets.moments import median_details
from gmmatch.types import Indices, Mask, Vector, offsets_of

if TYPE_CHECKING:
    from gmmatch.selectors.moment_matching import MomentMatching

# Python takes a few milliseconds for a group. Of fewer groups it takes less than the loops take to be compiled.
_LEAST_GROUPS = 64
# Parts of the groups per thread, so that none waits long for another.
_PARTS_PER_THREAD = 8


def small_groups(tasks: Tasks) -> Mask:
    """Return which of many groups are small enough: read in one chunk, with the search starting at the mean."""
    most = min(tasks.rows.rows_per_chunk, SAMPLE_START_FROM - 1) if tasks.rows.in_place else 0
    return tasks.sizes <= (most if len(tasks) >= _LEAST_GROUPS else 0)


@njit(nogil=True, cache=True, boundscheck=False)
def _group_means(
    block: NDArray[Any], index: NDArray[np.int64], offsets: NDArray[np.int64], weights: NDArray[np.float64],
    means: NDArray[np.float64],
) -> None:  # fmt: skip
    s = means.shape[1]
    total = np.empty((2, s + 1))
    for group in range(means.shape[0]):
        part = slice(offsets[group], offsets[group + 1])
        total[:] = 0.0
        loops.sum_chunk(block, index[part], weights[part], total)
        weight = total[0, s] + total[1, s]
        if weight > 0.0:  # a group of which no row is picked may weigh nothing
            for j in range(s):
                means[group, j] = (total[0, j] + total[1, j]) / weight


@njit(nogil=True, cache=True, boundscheck=False)
def _group_distances(
    block: NDArray[Any], index: NDArray[np.int64], offsets: NDArray[np.int64], points: NDArray[np.float64],
    distances: NDArray[np.float64],
) -> None:  # fmt: skip
    for group in range(points.shape[0]):
        part = slice(offsets[group], offsets[group + 1])
        loops.distances_chunk(block, index[part], points[group], distances[part])


@njit(nogil=True, cache=True, boundscheck=False)
def _follow(
    block: NDArray[Any], index: NDArray[np.int64], included: NDArray[np.bool_], target: NDArray[np.float64],
    theta: NDArray[np.float64], drift: NDArray[np.float64],
) -> int:  # fmt: skip
    """Account for the rows that are picked already; return how many there are."""
    count = 0
    for i in range(index.shape[0]):
        if included[i]:
            picking.advance(block[index[i]], target, theta, drift)
            count += 1
    return count


@njit(nogil=True, cache=True, boundscheck=False)
def _group_picks(
    block: NDArray[Any], index: NDArray[np.int64], offsets: NDArray[np.int64], points: NDArray[np.float64],
    available: NDArray[np.bool_], included: NDArray[np.bool_], from_target: bool, replacement: bool,
    order_offsets: NDArray[np.int64], order: NDArray[np.int64], residuals: NDArray[np.float64],
) -> None:  # fmt: skip
    origin, norms = np.zeros(points.shape[1]), np.empty(index.shape[0])
    for group in range(points.shape[0]):
        part = slice(offsets[group], offsets[group + 1])
        own = norms[: offsets[group + 1] - offsets[group]]
        loops.distances_chunk(block, index[part], origin, own)
        theta, drift = (points[group].copy() if from_target else np.zeros_like(origin)), np.zeros_like(origin)
        before = _follow(block, index[part], included[part], points[group], theta, drift)
        picks = slice(order_offsets[group], order_offsets[group + 1])
        of_group = picking.Picking(
            block, index[part], points[group], theta, drift, before, available[part], replacement, order[picks],
            residuals[picks],
        )  # fmt: skip
        picking.pick_by_rows(of_group, own)


@njit(nogil=True, cache=True, boundscheck=False)
def _group_residuals(
    block: NDArray[Any], index: NDArray[np.int64], offsets: NDArray[np.int64], points: NDArray[np.float64],
    included: NDArray[np.bool_], order_offsets: NDArray[np.int64], order: NDArray[np.int64],
    residuals: NDArray[np.float64],
) -> None:  # fmt: skip
    for group in range(points.shape[0]):
        part = slice(offsets[group], offsets[group + 1])
        point, rows = points[group], index[part]
        theta, drift = np.zeros_like(point), np.zeros_like(point)
        before = _follow(block, rows, included[part], point, theta, drift)
        first = order_offsets[group]
        for t in range(first, order_offsets[group + 1]):
            _, off = picking.advance(block[rows[order[t]]], point, theta, drift)
            residuals[t] = off / (before + t - first + 1)


class MemoryPlace(Place):
    """Rows in memory, in groups that :func:`small_groups` calls small, and what the compiled loops make of them."""

    def __init__(self, tasks: Tasks) -> None:
        super().__init__(tasks)
        self.block = tasks.rows.source
        self.index = tasks.rows.subset(tasks.row_numbers).index
        self.weights = tasks.weights if tasks.weighted else np.ones(len(self.index))
        self.jobs = max(tasks.threads, tasks.side_by_side)

    def _by_parts(self, work: Callable[[slice, Indices], None]) -> None:
        """Call ``work`` with runs of groups, and where their rows begin and end, on all threads."""
        count = min(len(self.tasks), _PARTS_PER_THREAD * self.jobs)
        ends = np.linspace(0, len(self.tasks), count + 1).astype(np.int64)

        def part(number: int) -> None:
            groups = slice(int(ends[number]), int(ends[number + 1]))
            work(groups, self.tasks.offsets[groups.start : groups.stop + 1])

        map_in_order(part, count, self.jobs)

    def means(self) -> NDArray[np.float64]:
        """Return the mean of every group, (G, s)."""
        points = np.zeros((len(self.tasks), self.block.shape[1]))
        self._by_parts(
            lambda own, offsets: _group_means(self.block, self.index, offsets, self.weights, points[own])
        )
        return points

    def medians(self, eps: float = 1e-8, max_iter: int = 1000) -> tuple[NDArray[np.float64], Vector, Indices]:
        """Return the geometric median of every group, its gap, and the passes it took."""
        points, gaps = self.means(), np.empty(len(self.tasks))
        passes = np.empty(len(self.tasks), dtype=np.int64)
        self._by_parts(
            lambda own, offsets: small_medians(
                self.block, self.index, offsets, self.weights, eps, max_iter, points[own], gaps[own], passes[own],
            )
        )  # fmt: skip
        for group in np.flatnonzero((gaps > eps) & (passes < max_iter)).tolist():
            part = slice(int(self.tasks.offsets[group]), int(self.tasks.offsets[group + 1]))
            rows = self.tasks.rows.subset(self.tasks.row_numbers[part])
            found = solve(rows, self.weights[part], eps=eps, max_iter=max_iter, init=points[group])
            points[group], gaps[group] = found.point, found.gap
            passes[group] += found.iterations
        return points, gaps, passes

    def distances(self, points: NDArray[np.float64]) -> Vector:
        """Return the distance of every row to its group's point."""
        out = np.empty(len(self.index))
        self._by_parts(
            lambda own, offsets: _group_distances(self.block, self.index, offsets, points[own], out)
        )
        return out

    def centers(self, name: str) -> tuple[Any, Any]:
        """Return the mean or a median of every group, and the distance of every row to its group's."""
        if name == "coordinate-median":
            return super().centers(name)
        points = self.means() if name == "mean" else self.medians()[0]
        return points, self.distances(points)

    def residuals(self, order: Indices, order_offsets: Indices, centers: Any = None) -> Vector:
        """Return ‖center − mean of picks‖ after each pick, rows included beforehand counted in."""
        points, out = self.means() if centers is None else read_only(centers), np.empty(len(order))
        self._by_parts(
            lambda own, offsets: _group_residuals(
                self.block, self.index, offsets, points[own], self.tasks.included,
                order_offsets[own.start : own.stop + 1], order, out,
            )
        )  # fmt: skip
        return out

    def picks(
        self, points: NDArray[np.float64], start: str, replacement: bool
    ) -> tuple[Indices, Indices, Vector]:
        """Return the greedy picks of every group, where each group's begin, and their residuals."""
        order_offsets, free = offsets_of(self.tasks.quotas), self.tasks.available.copy()
        order, residuals = np.empty(order_offsets[-1], dtype=np.int64), np.empty(order_offsets[-1])
        self._by_parts(
            lambda own, offsets: _group_picks(
                self.block, self.index, offsets, points[own], free, self.tasks.included,
                start == "target", replacement, order_offsets[own.start : own.stop + 1], order, residuals,
            )
        )  # fmt: skip
        return order, order_offsets, residuals


def directly_matched(selector: MomentMatching, tasks: Tasks) -> Mask:
    """Return which groups can be matched by :func:`match_small`: plain ones that are best scanned once per pick."""
    plain = (
        resolve_kernel(selector.kernel).is_linear
        and selector.target != "coordinate-median"
        and selector.strategy != "coded"
        and selector.median_fraction == 1.0
        and selector.delta == 0.0
        and not selector.unit_target
        and not selector.finishes
        and tasks.references is None
        and selector.carry
        and selector.batches in (None, 1)
    )
    if not plain:
        return np.zeros(len(tasks), dtype=bool)
    small = small_groups(tasks)
    if selector.strategy == "auto" and small.any():
        limit = working_memory(selector.memory_limit, tasks.rows.nbytes) // tasks.side_by_side
        s, (sizes, quotas) = tasks.rows.n_features, (tasks.sizes[small], tasks.quotas[small])
        shapes, which = np.unique(np.stack([sizes, quotas]), axis=1, return_inverse=True)
        direct = [choose_strategy(n, s, k, memory=limit) == "direct" for n, k in shapes.T.tolist()]
        small[small] = np.array(direct)[which.ravel()]
    return small


def match_small(selector: MomentMatching, tasks: Tasks) -> Results:
    """Match the target of every group in compiled loops."""
    groups = MemoryPlace(tasks)
    details: list[dict[str, Any]] = [{}] * len(tasks)
    if selector.target == "mean":
        points = groups.means()
    else:
        points, gaps, passes = groups.medians(selector.eps, selector.max_iter)
        details = [
            median_details(gap, count, gap <= selector.eps)
            for gap, count in zip(gaps.tolist(), passes.tolist(), strict=True)
        ]
    spreads = groups.spreads(groups.distances(points))
    order, offsets, residuals = groups.picks(points, selector.start, selector.replacement)
    warnings = selector.moment_warnings(tasks, details, spreads)
    return Results(order, offsets, residuals, offsets, details, warnings)
