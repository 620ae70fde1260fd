"""All groups of a selection at once, where the rows are on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.backends.cuda.blocks import TensorSource
from gmmatch.backends.cuda.groups import DeviceGroups
from gmmatch.backends.cuda.kernel_space import grouped_kernel_picks
from gmmatch.backends.cuda.medians import grouped_medians, uses_triton
from gmmatch.backends.cuda.picks import MOST_ROWS_PER_PROGRAM, GroupedPicks, grouped_picks
from gmmatch.kernels.kernels import RBF, Polynomial, resolve_kernel
from gmmatch.matching.batches import partition, shares
from gmmatch.matching.walk import Picks
from gmmatch.selectors.base import GroupResult, GroupTask
from gmmatch.targets import Moment
from gmmatch.types import Indices

if TYPE_CHECKING:
    from gmmatch.selectors.moment_matching import MomentMatching

# Rows converted to float64 at a time for a mean.
_BLOCK_ELEMENTS = 1 << 24


def runs_on_device(selector: MomentMatching, tasks: list[GroupTask]) -> bool:
    """Return whether the grouped kernels cover what is asked; the rest is read chunk by chunk."""
    if not tasks or not all(isinstance(task.rows.source, TensorSource) for task in tasks):
        return False
    plain = selector.delta == 0.0 and selector.median_fraction == 1.0
    batched = selector.batches not in (None, 1)
    if batched and not (selector.carry and _is_linear(selector)):
        return False
    fresh = not any(len(task.already) for task in tasks)
    known = selector.target in ("mean", "geometric-median")
    return plain and fresh and known and (_is_linear(selector) or _fits_in_kernel(selector, tasks))


def _is_linear(selector: MomentMatching) -> bool:
    return resolve_kernel(selector.kernel).is_linear


def _fits_in_kernel(selector: MomentMatching, tasks: list[GroupTask]) -> bool:
    kind = isinstance(resolve_kernel(selector.kernel), (RBF, Polynomial))
    small = max(len(task.rows) for task in tasks) <= MOST_ROWS_PER_PROGRAM
    covered = kind and small and selector.approximation in ("auto", None) and not selector.unit_target
    # Asked last: it may warn. In a kernel's space there are no plain torch operations to fall back to.
    return covered and uses_triton(tasks[0].rows.source.tensor)  # type: ignore[union-attr]


def run_on_device(selector: MomentMatching, tasks: list[GroupTask]) -> list[GroupResult]:
    """Pick in all groups at once; nothing leaves the device but the picks and a few numbers per group."""
    import torch

    tensor: Any = tasks[0].rows.source.tensor  # type: ignore[union-attr]
    groups = DeviceGroups.of(tensor, [task.rows.index for task in tasks])
    flat = np.concatenate([task.weights for task in tasks])
    weights = None if np.all(flat == 1.0) else groups.to_device(flat)
    available = groups.to_device(np.concatenate([task.available for task in tasks]))
    if not _is_linear(selector):
        return _run_in_kernel(selector, tasks, groups, weights, available)
    details: list[dict[str, Any]] = [{"device": str(tensor.device)} for _ in tasks]
    distances = None
    if selector.target == "geometric-median":
        result = grouped_medians(groups, weights, eps=selector.eps, max_iter=selector.max_iter)
        points, distances = result.points, result.distances.cpu().numpy()
        gaps, counts = result.gaps.cpu().numpy(), result.iterations.cpu().numpy()
        for detail, gap, count in zip(details, gaps, counts, strict=True):
            detail["median_gap"], detail["median_iterations"] = float(gap), int(count)
            detail["median_converged"] = bool(gap <= selector.eps)
    else:
        points = _means(groups, weights)
    targets = points
    if selector.unit_target:
        lengths = points.norm(dim=1, keepdim=True)
        targets = points / torch.where(lengths > 0.0, lengths, 1.0)
    quotas = np.array([task.k for task in tasks])
    if selector.batches in (None, 1):
        picks = grouped_picks(
            groups, targets, quotas, start=selector.start, replacement=selector.replacement,
            available=available, memory_limit=selector.memory_limit,
        )  # fmt: skip
    else:
        picks = _picks_in_batches(selector, tasks, groups, targets, quotas)
    hosts = points.cpu().numpy()
    return [
        _result(selector, task, number, picks, hosts, distances, details[number], groups.offsets)
        for number, task in enumerate(tasks)
    ]


def _picks_in_batches(
    selector: MomentMatching, tasks: list[GroupTask], groups: DeviceGroups, targets: Any, quotas: Indices
) -> GroupedPicks:
    """Work on one random batch of every group at a time, handing θ on, as the paper's listing does."""
    import torch

    count = int(selector.batches or 1)
    parts = [partition(np.flatnonzero(task.available), count, task.random) for task in tasks]
    shared = [shares(task.k, part) for task, part in zip(tasks, parts, strict=True)]
    theta = targets.clone() if selector.start == "target" else torch.zeros_like(targets)
    orders: list[list[Indices]] = [[] for _ in tasks]
    rescored = 0
    for number in range(max(len(part) for part in parts)):
        mine = [part[number] if number < len(part) else np.empty(0, dtype=np.int64) for part in parts]
        rows = [task.rows.index[positions] for task, positions in zip(tasks, mine, strict=True)]
        batch = DeviceGroups.of(groups.data, rows)
        batch_quotas = np.array([share[number] if number < len(share) else 0 for share in shared])
        picks = grouped_picks(
            batch, targets, batch_quotas, start=theta, replacement=selector.replacement,
            memory_limit=selector.memory_limit,
        )  # fmt: skip
        rescored += picks.rescored
        for g, positions in enumerate(mine):
            chosen = picks.order[picks.offsets[g] : picks.offsets[g + 1]]
            orders[g].append(positions[chosen])
            taken = groups.data[groups.to_device(rows[g][chosen])].double()
            theta[g] += (targets[g] - taken).sum(dim=0)
    order = [np.concatenate(parts_of_group) for parts_of_group in orders]
    residuals = [
        _residuals_along(groups, task, chosen, targets[g])
        for g, (task, chosen) in enumerate(zip(tasks, order, strict=True))
    ]
    offsets = np.concatenate([[0], np.cumsum(quotas)]).astype(np.int64)
    return GroupedPicks(np.concatenate(order), offsets, np.concatenate(residuals), rescored)


def _residuals_along(groups: DeviceGroups, task: GroupTask, order: Indices, target: Any) -> Any:
    if len(order) == 0:
        return np.empty(0)
    drift = (target - groups.data[groups.to_device(task.rows.index[order])].double()).cumsum(dim=0)
    return drift.norm(dim=1).cpu().numpy() / np.arange(1, len(order) + 1)


def _run_in_kernel(
    selector: MomentMatching, tasks: list[GroupTask], groups: DeviceGroups, weights: Any, available: Any
) -> list[GroupResult]:
    kernels = [resolve_kernel(selector.kernel).fit(task.rows) for task in tasks]
    median = selector.target == "geometric-median"
    result = grouped_kernel_picks(
        groups, kernels, np.array([task.k for task in tasks]), median=median, weights=weights,
        available=available, start=selector.start, replacement=selector.replacement, eps=selector.eps,
        max_iter=selector.max_iter, memory_limit=selector.memory_limit,
    )  # fmt: skip
    found = []
    for number, (task, kernel) in enumerate(zip(tasks, kernels, strict=True)):
        part = slice(int(result.picks.offsets[number]), int(result.picks.offsets[number + 1]))
        details: dict[str, Any] = {"kernel": kernel.name, **kernel.params, "device": str(groups.data.device)}
        if median:
            details["median_gap"] = float(result.gaps[number])
            details["median_iterations"] = int(result.iterations[number])
        picks = Picks(result.picks.order[part], result.picks.residuals[part])
        found.append(GroupResult(picks, details if task.k else {}))
    return found


def _result(
    selector: MomentMatching,
    task: GroupTask,
    number: int,
    picks: GroupedPicks,
    points: Any,
    distances: Any,
    details: dict[str, Any],
    offsets: Indices,
) -> GroupResult:
    part = slice(int(picks.offsets[number]), int(picks.offsets[number + 1]))
    mine = None if distances is None else distances[offsets[number] : offsets[number + 1]]
    moment = Moment(points[number], details, mine)
    warnings = selector.warnings_about(task, moment) if task.k and mine is not None else ()
    return GroupResult(Picks(picks.order[part], picks.residuals[part]), details if task.k else {}, warnings)


def _means(groups: DeviceGroups, weights: Any) -> Any:
    import torch

    totals = torch.zeros((len(groups), groups.n_features), dtype=torch.float64, device=groups.data.device)
    w = (
        torch.ones(len(groups.rows), dtype=torch.float64, device=totals.device)
        if weights is None
        else weights
    )
    block = max(1, _BLOCK_ELEMENTS // groups.n_features)
    for group in range(len(groups)):
        start, stop = int(groups.offsets[group]), int(groups.offsets[group + 1])
        for first in range(start, stop, block):
            part = slice(first, min(stop, first + block))
            totals[group] += w[part] @ groups.data[groups.rows[part]].double()
        totals[group] /= w[start:stop].sum()
    return totals
