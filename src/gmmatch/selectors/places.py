"""What rankings ask of all groups at once, wherever their rows lie."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from gmmatch.matching.walk import Walk, replay
from gmmatch.median.passes import weighted_mean
from gmmatch.median.result import FAR, Spread
from gmmatch.rows.parallel import map_in_order
from gmmatch.selectors.tasks import Results, Tasks
from gmmatch.targets.moments import Moment, middle_values, resolve_target
from gmmatch.types import Indices, Vector, namespace, offsets_of, on_host, stable_order

Keep = Literal["lowest", "highest", "middle"]


class Place:
    """Where the rows of groups lie: here in memory or in files, which are read group by group.

    Rows that workers hold are read by these. A device has a place of its own, which answers the same questions for
    all groups at once.
    """

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks

    def beside(self, values: Any) -> Any:
        """Return numbers where the sorting is done."""
        return values

    @property
    def group_of_row(self) -> Any:
        """The position of each row's group, where the sorting is done."""
        return self.tasks.group_of_row

    def centers(self, name: str) -> tuple[Any, Any]:
        """Return the mean or a median of every group, (G, s), and the distance of every row to its group's."""
        target = resolve_target(name, argument="center")

        def work(number: int) -> tuple[Vector, Vector]:
            task = self.tasks[number]
            moment: Moment = target.of(task.rows, task.weights, task.random, task.threads)
            return moment.point, moment.distances_of(task.rows, task.threads)

        found = map_in_order(work, len(self.tasks), self.tasks.side_by_side)
        return np.stack([point for point, _ in found]), np.concatenate([apart for _, apart in found])

    def residuals(self, order: Indices, offsets: Indices, centers: Any = None) -> Vector:
        """Return ‖center − mean of picks‖ after each pick, the rows included beforehand counted in.

        The center is the mean of the group by default.
        """

        def work(number: int) -> Vector:
            task = self.tasks[number]
            center = (
                weighted_mean(task.rows, task.weights, task.threads) if centers is None else centers[number]
            )
            walk = Walk.begin(center, "zero", task.rows.gather(task.already))
            return replay(task.rows, walk, order[offsets[number] : offsets[number + 1]])

        return np.concatenate(map_in_order(work, len(self.tasks), self.tasks.side_by_side))

    def details(self) -> dict[str, Any]:
        """Return what is recorded of where the work was done."""
        return {"device": "cpu"} if hasattr(self.tasks.rows.source, "tensor") else {}

    def ranked(self, scores: Any, keep: Keep, centers: Any = None) -> Results:
        """Return the best-ranked rows of every group that may be picked, as many as are asked for."""
        tasks = self.tasks
        positions = self.rank(scores, keep)
        positions = positions[self.beside(tasks.available)[positions]]
        group = self.group_of_row[positions]
        counts = on_host(namespace(group).bincount(group, minlength=len(tasks)))
        ahead = namespace(group).ones_like(group).cumsum(0) - 1 - self.beside(offsets_of(counts))[group]
        chosen = ahead < self.beside(tasks.quotas)[group]
        order = on_host((positions - self.beside(tasks.offsets)[group])[chosen])
        return self.measured(order, offsets_of(np.minimum(counts, tasks.quotas)), centers)

    def rank(self, scores: Any, keep: Keep) -> Any:
        """Return the positions of every group's rows from the most to the least wanted; equals stay in row order.

        The middle is the weighted median of the group's scores.
        """
        group = self.group_of_row
        if keep == "lowest":
            wanted = scores
        elif keep == "highest":
            wanted = -scores
        else:
            # Twice the distance to the median, so that the two scores around it are exactly as far from it.
            low, high = self._middles(scores)
            wanted = abs((scores - low[group]) + (scores - high[group]))
        return _within_groups(wanted, group)

    def _middles(self, scores: Any) -> tuple[Any, Any]:
        """Return the two scores of each group that its weighted median lies between."""
        starts, sizes, weights = self.tasks.offsets[:-1], self.tasks.sizes, self.tasks.weights
        if not self.tasks.weighted:
            ranked = scores[_within_groups(scores, self.group_of_row)]
            return ranked[self.beside(starts + (sizes - 1) // 2)], ranked[self.beside(starts + sizes // 2)]
        here = on_host(scores)[:, None]
        spans = [slice(at, at + size) for at, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
        found = np.array([middle_values(here[span], weights[span]) for span in spans])[:, :, 0]
        return self.beside(found[:, 0]), self.beside(found[:, 1])

    def spreads(self, distances: Any) -> list[Spread]:
        """Return how far the rows of every group lie from its point; nothing of groups without a far row."""
        tasks, starts = self.tasks, self.tasks.offsets[:-1]
        ranked = distances[_within_groups(distances, self.group_of_row)]
        middle = [self.beside(starts + (tasks.sizes - 1) // 2), self.beside(starts + tasks.sizes // 2)]
        typical = 0.5 * (ranked[middle[0]] + ranked[middle[1]])
        far = on_host(ranked[self.beside(tasks.offsets[1:] - 1)] > FAR * typical)
        found = [Spread(0.0, 0, 0.0)] * len(tasks)
        for group in np.flatnonzero(far).tolist():
            part = slice(int(starts[group]), int(tasks.offsets[group + 1]))
            found[group] = Spread.of(on_host(distances[part]), tasks.available[part])
        return found

    def measured(self, order: Indices, offsets: Indices, centers: Any = None) -> Results:
        """Return picks of all groups with their residuals."""
        residuals = self.residuals(order, offsets, centers)
        return Results(order, offsets, residuals, offsets, [self.details()] * len(self.tasks), [])


def _within_groups(values: Any, group: Any) -> Any:
    """Return the positions that sort values within their groups, group after group; equals stay in their order."""
    by_value = stable_order(values)
    return by_value[stable_order(group[by_value])]


def place_of(tasks: Tasks) -> Place:
    """Return the place that holds the rows of groups."""
    if hasattr(tasks.rows.source, "tensor"):
        from gmmatch.backends.cuda.places import DevicePlace

        return DevicePlace(tasks)
    if hasattr(tasks.rows.source, "cluster"):  # workers are told of all groups at once
        tasks.rows.source.cluster.announce(tasks.row_numbers, tasks.offsets)
    if tasks.rows.in_place:
        from gmmatch.backends.memory import MemoryPlace, small_groups

        if small_groups(tasks).all():
            return MemoryPlace(tasks)
    return Place(tasks)
