"""What methods ask of all groups at once, where the rows are on a GPU."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

from gmmatch.backends.cuda.blocks import tensor_beside
from gmmatch.backends.cuda.groups import DeviceGroups
from gmmatch.backends.cuda.medians import grouped_medians
from gmmatch.backends.cuda.sums import (
    grouped_coordinate_medians,
    grouped_distances,
    grouped_means,
    grouped_residuals,
)
from gmmatch.selectors.places import Place
from gmmatch.types import Indices, Vector, is_tensor, on_host


class DevicePlace(Place):
    """A GPU: nothing leaves it but the picks and their residuals."""

    @cached_property
    def groups(self) -> DeviceGroups:
        """The rows, in groups."""
        tasks, tensor = self.tasks, cast(Any, self.tasks.rows.source).tensor
        rows = tasks.beside if tasks.rows.whole else None
        if rows is None:
            rows = tensor_beside(tensor, tasks.rows.subset(tasks.row_numbers).index)
        return DeviceGroups(tensor, rows, tasks.offsets)

    @cached_property
    def weights(self) -> Any:
        """The weights of all rows; None where they are alike."""
        return self.groups.to_device(self.tasks.weights) if self.tasks.weighted else None

    @property
    def group_of_row(self) -> Any:
        """The position of each row's group."""
        return self.groups.group_of_row

    def beside(self, values: Any) -> Any:
        """Return numbers on the device."""
        return values if is_tensor(values) else self.groups.to_device(values)

    def centers(self, name: str) -> tuple[Any, Any]:
        """Return the mean or a median of every group, and the distance of every row to its group's."""
        if name == "geometric-median":
            found = grouped_medians(self.groups, self.weights)
            return found.points, found.distances
        points = self.points(name)
        return points, grouped_distances(self.groups, points)

    def points(self, name: str) -> Any:
        """Return the mean or the coordinate-wise median of every group."""
        return (grouped_means if name == "mean" else grouped_coordinate_medians)(self.groups, self.weights)

    def residuals(self, order: Indices, offsets: Indices, centers: Any = None) -> Vector:
        """Return ‖center − mean of picks‖ after each pick."""
        points = self.points("mean") if centers is None else self.beside(centers)
        already = self.beside(self.tasks.included) if self.tasks.included.any() else None
        return on_host(grouped_residuals(self.groups, points, self.beside(order), offsets, already))

    def details(self) -> dict[str, Any]:
        """Return what is recorded of where the work was done."""
        return {"device": str(self.groups.data.device)}
