"""All groups of a selection at once, where the rows are on a GPU: their targets, and their picks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.backends.cuda.blocks import TensorRows, TensorSource
from gmmatch.backends.cuda.groups import DeviceGroups
from gmmatch.backends.cuda.kernel_space import grouped_kernel_picks, kernel_eps
from gmmatch.backends.cuda.medians import grouped_means, grouped_medians, uses_triton
from gmmatch.backends.cuda.picks import LARGEST_SQUARED, MOST_ROWS_PER_PROGRAM, grouped_picks
from gmmatch.kernels.kernels import RBF, Polynomial, resolve_kernel
from gmmatch.matching.match import Part, Pool
from gmmatch.matching.walk import Picks, replay
from gmmatch.median.result import Spread
from gmmatch.selectors.base import GroupResult, GroupTask
from gmmatch.selectors.kernel_groups import kernel_result
from gmmatch.targets import Moment

if TYPE_CHECKING:
    from gmmatch.selectors.moment_matching import MomentMatching


def runs_on_device(selector: MomentMatching, tasks: list[GroupTask]) -> bool:
    """Return whether the grouped functions cover what is asked; the rest is read chunk by chunk."""
    if not all(isinstance(task.rows.source, TensorSource) for task in tasks):
        return False
    plain = selector.delta == 0.0 and selector.median_fraction == 1.0
    known = selector.target in ("mean", "geometric-median")
    return plain and known and (_is_linear(selector) or _fits_in_kernel(selector, tasks))


def _is_linear(selector: MomentMatching) -> bool:
    return resolve_kernel(selector.kernel).is_linear


def _fits_in_kernel(selector: MomentMatching, tasks: list[GroupTask]) -> bool:
    kind = isinstance(resolve_kernel(selector.kernel), (RBF, Polynomial))
    small = max(len(task.rows) for task in tasks) <= MOST_ROWS_PER_PROGRAM
    fresh = selector.batches in (None, 1) and not any(len(task.already) for task in tasks)
    covered = (
        kind and small and fresh and selector.approximation in ("auto", None) and not selector.unit_target
    )
    tensor = _tensor(tasks)
    # Kernel values are float32, which squares of larger numbers do not fit. Triton is asked last: that may warn. In
    # a kernel's space there are no plain torch operations to fall back to.
    return covered and float(tensor.abs().max()) <= LARGEST_SQUARED and uses_triton(tensor)


def _tensor(tasks: list[GroupTask]) -> Any:
    return tasks[0].rows.source.tensor  # type: ignore[union-attr]


def run_on_device(selector: MomentMatching, tasks: list[GroupTask]) -> list[GroupResult]:
    """Pick in all groups at once; nothing leaves the device but the picks and a few numbers per row or group."""
    tensor = _tensor(tasks)
    groups = DeviceGroups.of(tensor, [task.rows.index for task in tasks])
    flat = np.concatenate([task.weights for task in tasks])
    weights = None if np.all(flat == 1.0) else groups.to_device(flat)
    if not _is_linear(selector):
        return _run_in_kernel(selector, tasks, groups, weights)
    moments = _moments(selector, tasks, groups, weights)
    spreads = [
        Spread.of(TensorRows(task.rows).distances_to(moment.point), task.available)
        if moment.distances is None
        else Spread.of(moment.distances, task.available)
        for task, moment in zip(tasks, moments, strict=True)
    ]
    return selector.match_moments(tasks, moments, spreads, lambda pools: DevicePicker(pools, selector))


def _moments(
    selector: MomentMatching, tasks: list[GroupTask], groups: DeviceGroups, weights: Any
) -> list[Moment]:
    device = {"device": str(groups.data.device)}
    if selector.target == "mean":
        return [Moment(point, dict(device)) for point in grouped_means(groups, weights).cpu().numpy()]
    result = grouped_medians(groups, weights, eps=selector.eps, max_iter=selector.max_iter)
    points, distances = result.points.cpu().numpy(), result.distances.cpu().numpy()
    gaps, counts = result.gaps.cpu().numpy(), result.iterations.cpu().numpy()
    return [
        Moment(
            points[number],
            {**device, **_median_details(gaps[number], counts[number], selector.eps)},
            distances[groups.offsets[number] : groups.offsets[number + 1]],
        )
        for number in range(len(tasks))
    ]


def _median_details(gap: float, iterations: int, eps: float) -> dict[str, Any]:
    return {
        "median_gap": float(gap),
        "median_iterations": int(iterations),
        "median_converged": bool(gap <= eps),
    }


class DevicePicker:
    """Makes the picks of many parts in few launches."""

    def __init__(self, pools: list[Pool], selector: MomentMatching) -> None:
        self.pools, self.replacement = pools, selector.replacement
        self.memory_limit = selector.memory_limit
        self.tensor: Any = pools[0].rows.source.tensor

    def __call__(self, parts: Sequence[Part]) -> list[Picks]:
        """Pick from all parts at once."""
        pools = [self.pools[part.pool] for part in parts]
        places = [part.within(pool) for part, pool in zip(parts, pools, strict=True)]
        where = [
            np.arange(len(pool.rows)) if place is None else place
            for pool, place in zip(pools, places, strict=True)
        ]
        groups = DeviceGroups.of(self.tensor, [p.rows.index[w] for p, w in zip(pools, where, strict=True)])
        free = [pool.available[own] for pool, own in zip(pools, where, strict=True)]
        left = np.array([int(own.sum()) for own in free])
        wanted = np.array([part.k for part in parts])
        quotas = np.where(left > 0, wanted, 0) if self.replacement else np.minimum(wanted, left)
        found = grouped_picks(
            groups, groups.to_device(np.stack([part.walk.target for part in parts])), quotas,
            start=groups.to_device(np.stack([part.walk.theta for part in parts])), replacement=self.replacement,
            available=groups.to_device(np.concatenate(free)), memory_limit=self.memory_limit,
        )  # fmt: skip
        picks = []
        for number, (part, pool) in enumerate(zip(parts, pools, strict=True)):
            span = slice(int(found.offsets[number]), int(found.offsets[number + 1]))
            order, residuals = where[number][found.order[span]], found.residuals[span]
            if not self.replacement:
                pool.available[order] = False
            if part.walk.count or places[number] is not None:  # it goes on from here, or came from elsewhere
                residuals = replay(pool.rows, part.walk, order)
            picks.append(Picks(order, residuals))
        return picks


def _run_in_kernel(
    selector: MomentMatching, tasks: list[GroupTask], groups: DeviceGroups, weights: Any
) -> list[GroupResult]:
    kernels = [resolve_kernel(selector.kernel).fit(task.rows) for task in tasks]
    median = selector.target == "geometric-median"
    result = grouped_kernel_picks(
        groups, kernels, np.array([task.k for task in tasks]), median=median, weights=weights,
        available=groups.to_device(np.concatenate([task.available for task in tasks])), start=selector.start,
        replacement=selector.replacement, eps=selector.eps, max_iter=selector.max_iter,
        memory_limit=selector.memory_limit,
    )  # fmt: skip
    found = []
    for number, kernel in enumerate(kernels):
        part = slice(int(result.picks.offsets[number]), int(result.picks.offsets[number + 1]))
        details: dict[str, Any] = {"device": str(groups.data.device)}
        if median:
            eps = kernel_eps(selector.eps)
            details |= _median_details(result.gaps[number], result.iterations[number], eps)
            if eps != selector.eps:
                details["median_eps"] = eps
        picks = Picks(result.picks.order[part], result.picks.residuals[part])
        found.append(kernel_result(selector, kernel, picks, details))
    return found
