"""All groups of a selection at once, where the rows are on a GPU: their targets, and their picks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.backends.cuda.blocks import TensorSource, extremes, tensor_beside
from gmmatch.backends.cuda.gram import score_block
from gmmatch.backends.cuda.groups import DeviceGroups, on_their_device
from gmmatch.backends.cuda.kernel_space import fitted_kernels, grouped_kernel_picks, kernel_eps
from gmmatch.backends.cuda.medians import grouped_medians, median_launches, uses_triton
from gmmatch.backends.cuda.picks import (
    LARGEST_SQUARED,
    MOST_ROWS_PER_PROGRAM,
    grouped_picks,
    pick_launches,
)
from gmmatch.backends.cuda.places import DevicePlace
from gmmatch.backends.cuda.sums import grouped_distances
from gmmatch.backends.cuda.triton_check import compile_together
from gmmatch.kernels.feature_maps import FeatureMap
from gmmatch.kernels.kernels import RBF, Polynomial, resolve_kernel
from gmmatch.matching.match import Part, Pool
from gmmatch.matching.walk import Picks, replay
from gmmatch.median.result import Spread
from gmmatch.median.weiszfeld import sample_positions
from gmmatch.selectors.base import GroupResult, GroupTask, Results, Tasks
from gmmatch.selectors.kernel_groups import kernel_result
from gmmatch.targets import Moment
from gmmatch.targets.moments import median_details
from gmmatch.types import offsets_of

if TYPE_CHECKING:
    from gmmatch.selectors.moment_matching import MomentMatching


def runs_on_device(selector: MomentMatching, tasks: Tasks) -> bool:
    """Return whether the grouped functions cover what is asked; the rest is read chunk by chunk."""
    if not isinstance(tasks.rows.source, TensorSource):
        return False
    if selector.delta != 0.0 and selector.target == "geometric-median":
        return False
    return _is_linear(selector) or _fits_in_kernel(selector, tasks)


def _is_linear(selector: MomentMatching) -> bool:
    return resolve_kernel(selector.kernel).is_linear


def _fits_in_kernel(selector: MomentMatching, tasks: Tasks) -> bool:
    kind = isinstance(resolve_kernel(selector.kernel), (RBF, Polynomial))
    small = tasks.sizes.max() <= MOST_ROWS_PER_PROGRAM
    fresh = selector.batches in (None, 1) and not tasks.included.any()
    plain = selector.median_fraction == 1.0 and not (selector.unit_target or selector.finishes)
    plain = plain and tasks.references is None
    covered = kind and small and fresh and plain and selector.approximation in ("auto", None)
    # Kernel values are float32, which squares of larger numbers do not fit. Triton is asked last: that may warn. In
    # a kernel's space there are no plain torch operations to fall back to.
    source: Any = tasks.rows.source
    tensor = source.tensor
    return bool(covered) and max(map(abs, extremes(tensor))) <= LARGEST_SQUARED and uses_triton(tensor)


def run_on_device(selector: MomentMatching, tasks: Tasks) -> Results:
    """Pick in all groups at once; nothing leaves the device but the picks and a few numbers per row or group."""
    if not _is_linear(selector):
        return _run_in_kernel(selector, tasks)
    return match_on_device(selector, tasks)


def match_on_device(selector: MomentMatching, tasks: Tasks, own: Sequence[GroupTask] = ()) -> Results:
    """Match the target of every group with rows as they are; ``own`` are the groups' tasks, if there are any yet."""
    place = DevicePlace(tasks)
    groups = place.groups
    _compile(groups, selector)
    if (selector.median_fraction < 1.0 or tasks.references is not None) and not own:
        own = list(tasks)  # once, because each has its random numbers
    points, distances, details = _moments(selector, own, place)
    aimed = None
    if own and any(task.reference is not None for task in own):
        aimed = _aimed(selector, own, points, details)
        points = tensor_beside(points, np.stack([moment.point for moment in aimed]))
        distances, details = None, [moment.details for moment in aimed]
    spreads = [Spread(0.0, 0, 0.0)] * len(groups)  # features of a kernel of differences: no row is far
    if not resolve_kernel(selector.kernel).is_translation_invariant:
        spreads = place.spreads(grouped_distances(groups, points) if distances is None else distances)
    at_once = selector.carry and selector.batches in (None, 1) and not selector.finishes
    if at_once and not tasks.included.any():
        if selector.unit_target:
            lengths = points.norm(dim=1, keepdim=True)
            points = points / lengths.where(lengths > 0.0, 1.0)
        picks = grouped_picks(
            groups, points, tasks.quotas, start=selector.start, replacement=selector.replacement,
            available=place.beside(tasks.available), memory_limit=selector.memory_limit,
        )  # fmt: skip
        return Results(
            picks.order, picks.offsets, picks.residuals, picks.offsets, details,
            selector.moment_warnings(own or tasks, details, spreads),
        )  # fmt: skip
    moments = aimed or [
        Moment(point, about) for point, about in zip(points.cpu().numpy(), details, strict=True)
    ]
    found = selector.match_moments(
        own or list(tasks), moments, spreads, lambda pools: DevicePicker(pools, selector)
    )
    return Results.join(found)


@on_their_device
def _compile(groups: DeviceGroups, selector: MomentMatching) -> None:
    """Compile side by side what the medians and picks of most groups need; the rest is compiled as it is used."""
    import torch

    largest, data = int(groups.sizes.max()), groups.data
    if largest > MOST_ROWS_PER_PROGRAM or selector.replacement or not uses_triton(data):
        return
    block, median = score_block(largest), selector.target == "geometric-median"
    key = (str(data.device), data.dtype, groups.n_features, data.stride(0), block, median)
    point = torch.zeros((1, groups.n_features), dtype=torch.float64, device=data.device)
    launches = pick_launches(groups, point, block) + (median_launches(groups) if median else [])
    compile_together(data, key, launches)


def match_one_on_device(selector: MomentMatching, task: GroupTask) -> GroupResult:
    """Match the target of a group whose rows are features on a device."""
    found = match_on_device(selector, Tasks.of(task), [task])
    weights = None if found.weights is None else found.weights[0]
    moment = None if found.moments is None else found.moments[0]
    picks = Picks(found.order, found.residuals)
    return GroupResult(picks, found.details[0], tuple(found.warnings), weights, moment)


def run_in_features_on_device(selector: MomentMatching, tasks: Tasks, features: FeatureMap) -> Results:
    """Match the target of every group in the features that one map makes of all rows of the groups."""
    rows = tasks.rows.subset(tasks.row_numbers).mapped(features)
    there = replace(tasks, rows=rows, row_numbers=np.arange(len(rows)), beside=None)
    return match_on_device(selector, there)


def _moments(
    selector: MomentMatching, tasks: Sequence[GroupTask], place: DevicePlace
) -> tuple[Any, Any, list[dict[str, Any]]]:
    """Return the target of every group, the distances of its rows to it where they are known, and what to record."""
    groups, weights, device = place.groups, place.weights, place.details()
    if selector.target != "geometric-median":
        return place.points(selector.target), None, [device] * len(groups)
    used, heavy = groups, weights
    if selector.median_fraction < 1.0:
        drawn = [sample_positions(task.weights, selector.median_fraction, task.random) for task in tasks]
        places = [start + own for start, own in zip(groups.offsets[:-1], drawn, strict=True)]
        at = groups.to_device(np.concatenate(places))
        used = DeviceGroups(groups.data, groups.rows[at], offsets_of([len(own) for own in drawn]))
        heavy = None if weights is None else weights[at]
    found = grouped_medians(used, heavy, eps=selector.eps, max_iter=selector.max_iter)
    gaps, counts = found.gaps.tolist(), found.iterations.tolist()
    details = [
        {**device, **median_details(gap, count, gap <= selector.eps)}
        for gap, count in zip(gaps, counts, strict=True)
    ]
    return found.points, found.distances if used is groups else None, details


def _aimed(
    selector: MomentMatching, tasks: Sequence[GroupTask], points: Any, details: list[dict[str, Any]]
) -> list[Moment]:
    """Return the targets drawn to what each group is to follow."""
    own = [Moment(point, about) for point, about in zip(points.cpu().numpy(), details, strict=True)]
    found = [selector.aim(task, moment) for task, moment in zip(tasks, own, strict=True)]
    device = {"device": details[0]["device"]}
    return [replace(moment, details={**device, **moment.details}) for moment in found]


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


def _run_in_kernel(selector: MomentMatching, tasks: Tasks) -> Results:
    place = DevicePlace(tasks)
    groups = place.groups
    kernels = fitted_kernels(resolve_kernel(selector.kernel), groups)
    median = selector.target == "geometric-median"
    result = grouped_kernel_picks(
        groups, kernels, tasks.quotas, median=median, weights=place.weights,
        available=place.beside(tasks.available), start=selector.start, replacement=selector.replacement,
        eps=selector.eps, max_iter=selector.max_iter, memory_limit=selector.memory_limit,
    )  # fmt: skip
    eps, found = kernel_eps(selector.eps), []
    for number, kernel in enumerate(kernels):
        part = slice(int(result.picks.offsets[number]), int(result.picks.offsets[number + 1]))
        details = place.details()
        if median:
            gap = float(result.gaps[number])
            details |= median_details(gap, int(result.iterations[number]), gap <= eps)
            if eps != selector.eps:
                details["median_eps"] = eps
        picks = Picks(result.picks.order[part], result.picks.residuals[part])
        found.append(kernel_result(selector, kernel, picks, details))
    return Results.join(found)
