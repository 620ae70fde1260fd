"""All groups of a selection at once, where the rows lie with the workers of an engine: their targets and picks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cluster.medians import class_means, class_medians, class_spreads
from gmmatch.backends.cluster.rows import Cluster, ClusterRows, ClusterSource
from gmmatch.kernels.feature_maps import FeatureMap
from gmmatch.kernels.kernels import resolve_kernel
from gmmatch.matching.batches import independent_batches
from gmmatch.matching.match import Part, Pool
from gmmatch.matching.walk import Picks, greedy
from gmmatch.median.passes import weighted_mean
from gmmatch.median.result import Spread
from gmmatch.selectors.base import GroupResult, GroupTask
from gmmatch.selectors.kernel_groups import (
    EXACT_MEAN_ROWS,
    approximation_of,
    feature_map,
    features_result,
    in_features,
    pick_in_kernel,
)
from gmmatch.targets import Moment
from gmmatch.types import Indices, Vector

# Numbers in the feature maps of all classes together: 128 MB.
_MAP_ELEMENTS = 1 << 24
_WHY_FEATURES = (
    "an engine does not compute a kernel of all pairs of many rows. For exact picks select without an engine"
)

if TYPE_CHECKING:
    from gmmatch.selectors.moment_matching import MomentMatching


def run_on_engine(selector: MomentMatching, tasks: list[GroupTask]) -> list[GroupResult]:
    """Match the target of every group, in passes and rounds that the groups share."""
    if resolve_kernel(selector.kernel).is_linear:
        return _match(selector, tasks)
    sizes = [len(task.rows) for task in tasks]
    if sum(sizes) <= EXACT_MEAN_ROWS and approximation_of(selector, max(sizes))[0] is None:
        return [pick_in_kernel(selector, task) for task in tasks]
    source = _source_of(tasks)
    # Maps of all classes go to every worker.
    most = _MAP_ELEMENTS // len(tasks)
    kernels = [resolve_kernel(selector.kernel).fit(task.rows) for task in tasks]
    how = "nystroem" if selector.approximation == "auto" else str(selector.approximation)
    maps = [
        feature_map(selector, task, kernel, how, most) for task, kernel in zip(tasks, kernels, strict=True)
    ]
    seen = _seen(tasks, source.seen(by_class=maps))
    width = max(one.n_features_out_ for one in maps)
    found = _match(
        selector, [in_features(task, _Widened(one, width)) for task, one in zip(seen, maps, strict=True)]
    )
    reason = _WHY_FEATURES if selector.approximation == "auto" else None
    return [
        features_result(result, features, how, reason) for result, features in zip(found, maps, strict=True)
    ]


@dataclass(frozen=True)
class _Widened:
    """The features of a class, with zeros up to the width of all classes, as workers see rows."""

    features: FeatureMap
    width: int

    def __call__(self, block: Any) -> NDArray[Any]:
        made = np.zeros((len(block), self.width), dtype=np.float32)
        made[:, : self.features.n_features_out_] = self.features(block)
        return made


def run_in_features(
    selector: MomentMatching, tasks: list[GroupTask], features: FeatureMap
) -> list[GroupResult]:
    """Match the target of every group in the features that one map makes of all rows."""
    seen = _seen(tasks, _source_of(tasks).seen(features))
    return _match(selector, [in_features(task, features) for task in seen])


def _source_of(tasks: list[GroupTask]) -> ClusterSource:
    source: Any = tasks[0].rows.source
    assert isinstance(source, ClusterSource)
    return source


def _seen(tasks: list[GroupTask], source: ClusterSource) -> list[GroupTask]:
    return [replace(task, rows=ClusterRows(source, task.rows.index)) for task in tasks]


def _match(selector: MomentMatching, tasks: list[GroupTask]) -> list[GroupResult]:
    source = _source_of(tasks)
    source.look()
    cluster = source.cluster
    batches = [1] * len(tasks)
    if not selector.carry:
        batches = [
            independent_batches(task.k, len(task.rows), task.rows.n_features, selector.batches, task.n_total)
            for task in tasks
        ]
    cluster.assign([task.rows.index for task in tasks], batches, [task.seed for task in tasks])
    cluster.leave_out(np.concatenate([task.row_numbers[~task.available] for task in tasks]))
    moments = [
        selector.aim(task, own) for task, own in zip(tasks, _moments(selector, cluster, tasks), strict=True)
    ]
    found = [Spread(0.0, 0, 0.0)] * len(tasks)  # features of a kernel of differences: no row is far
    if not resolve_kernel(selector.kernel).is_translation_invariant:
        spreads = class_spreads(cluster, {number: moment.point for number, moment in enumerate(moments)})
        found = [
            replace(
                spreads[number], position=int(np.searchsorted(task.row_numbers, spreads[number].position))
            )
            for number, task in enumerate(tasks)
        ]
    return selector.match_moments(
        tasks, moments, found, lambda pools: EnginePicker(cluster, pools, selector.replacement)
    )


def _moments(selector: MomentMatching, cluster: Cluster, tasks: list[GroupTask]) -> list[Moment]:
    if selector.target == "mean" and all(np.all(task.weights == 1.0) for task in tasks):
        return [Moment(point) for point in class_means(cluster, list(range(len(tasks)))).values()]
    if selector.target == "mean":
        return [Moment(weighted_mean(task.rows, task.weights)) for task in tasks]
    sizes = {number: len(task.rows) for number, task in enumerate(tasks)}
    medians = class_medians(
        cluster, sizes, eps=selector.eps, max_iter=selector.max_iter, delta=selector.delta
    )
    return [Moment.of_median(medians[number], size) for number, size in sizes.items()]


class EnginePicker:
    """Makes picks in rounds: a worker sees all θ and names its best row of each part; only these rows travel."""

    def __init__(self, cluster: Cluster, pools: list[Pool], replacement: bool) -> None:
        self.cluster, self.pools, self.replacement = cluster, pools, replacement
        self.total = sum(pool.k for pool in pools)
        self.picked = 0

    def __call__(self, parts: Sequence[Part]) -> list[Picks]:
        """Make one pick of every part per round."""
        offsets = np.concatenate([[0], np.cumsum([pool.batches for pool in self.pools])])
        part_of_batch = np.full(int(offsets[-1]), -1, dtype=np.int32)
        for number, part in enumerate(parts):
            first, stop = part.span or (0, self.pools[part.pool].batches)
            part_of_batch[offsets[part.pool] + first : offsets[part.pool] + stop] = number

        def scan(active: Indices, thetas: Sequence[Vector]) -> tuple[Indices, NDArray[Any]]:
            place = np.full(len(parts) + 1, -1, dtype=np.int32)  # the last for batches of no part
            place[active] = np.arange(len(active), dtype=np.int32)
            rows = self._best_rows(place[part_of_batch], np.stack(thetas))
            chosen = rows >= 0
            vectors = np.zeros((len(rows), self.cluster.n_features))
            positions = rows.copy()
            if chosen.any():
                vectors[chosen] = self.cluster.rows(rows[chosen], picked=not self.replacement)
            for at in np.flatnonzero(chosen).tolist():
                pool = self.pools[parts[int(active[at])].pool]
                positions[at] = np.searchsorted(pool.numbers, rows[at])
            self.picked += int(chosen.sum())
            self.cluster.progress("picks", self.picked, self.total)
            return positions, vectors

        return greedy(scan, [part.walk for part in parts], [part.k for part in parts])

    def _best_rows(self, table: NDArray[np.int32], thetas: NDArray[np.float64]) -> Indices:
        """Return the best row of each θ over all workers; of equals, the lowest."""
        best_score = np.full(len(thetas), -np.inf)
        best_row = np.full(len(thetas), -1, dtype=np.int64)
        # Workers are in the order of their rows, so a later one has to be better, not equal.
        for score, row in self.cluster.placement.call("scan", table, thetas):
            better = (row >= 0) & ((best_row < 0) | (score > best_score))
            best_score[better], best_row[better] = score[better], row[better]
        return best_row
