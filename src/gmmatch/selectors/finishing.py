"""What is done once the picks of a group are made: swaps that refine them, and weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gmmatch.kernels.kernels import Kernel, Linear
from gmmatch.matching.in_kernel import KernelTarget, residuals_in_kernel
from gmmatch.matching.refine import Refined, refine
from gmmatch.matching.walk import Picks, Walk, replay
from gmmatch.matching.weights import matching_weights
from gmmatch.rows.preprocessing import Centered
from gmmatch.selectors.tasks import GroupResult, GroupTask
from gmmatch.types import Vector

if TYPE_CHECKING:
    from gmmatch.selectors.moment_matching import MomentMatching


def finished(selector: MomentMatching, task: GroupTask, found: GroupResult, target: Vector) -> GroupResult:
    """Refine and weigh picks whose mean approaches a point."""
    if selector.refine:
        # Seen from the target, little cancels. Many products are made of the same rows: those of a tensor come here.
        rows = task.rows.mapped(Centered(target)).made().here()
        better = _refined(selector, replace(task, rows=rows), found, Linear(), np.zeros(len(rows)))
        walk = Walk.begin(target, "zero", task.rows.gather(task.already) if len(task.already) else None)
        found = _with(found, better, replay(task.rows, walk, better.order))
    if selector.weights:
        picks = np.concatenate([task.already, found.picks.order])
        found = replace(found, weights=matching_weights(task.rows.gather(picks) - target))
    return found


def finished_in_kernel(
    selector: MomentMatching, task: GroupTask, found: GroupResult, kernel: Kernel, target: KernelTarget
) -> GroupResult:
    """Refine and weigh picks whose mean approaches a target that is known by its products with the rows."""
    if selector.refine:
        better = _refined(selector, task, found, kernel, target.scores)
        found = _with(found, better, residuals_in_kernel(target, better.order, task.already))
    if selector.weights:
        picks = np.concatenate([task.already, found.picks.order])
        rows, scores = task.rows.gather(picks), target.scores[picks]
        gram = kernel(rows, rows) - scores[:, None] - scores + target.norm
        found = replace(found, weights=matching_weights(rows, gram))
    return found


def _refined(
    selector: MomentMatching, task: GroupTask, found: GroupResult, kernel: Kernel, scores: Vector
) -> Refined:
    return refine(
        kernel, task.rows, scores, found.picks.order, available=task.available, already=task.already,
        sweeps=selector.refine, replacement=selector.replacement,
    )  # fmt: skip


def _with(found: GroupResult, better: Refined, residuals: Vector) -> GroupResult:
    details = {**found.details, "swaps": better.swaps, "sweeps": better.sweeps}
    return replace(found, picks=Picks(better.order, residuals), details=details)
