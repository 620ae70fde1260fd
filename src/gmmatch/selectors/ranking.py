"""Rankings: score each row on its own, keep the lowest, the highest or the middle scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.rows.parallel import map_in_order
from gmmatch.selectors.base import GroupTask, Results, Selector, Tasks
from gmmatch.selectors.places import Keep, Place, place_of
from gmmatch.types import Vector


@dataclass(kw_only=True, eq=False, repr=False)
class Ranking(Selector):
    """Base of the rankings; a method says which score it uses and which end it keeps."""

    keep: ClassVar[Keep] = "highest"

    def scores_of(self, task: GroupTask) -> Vector:
        """Return one number per row of a group. This is what a ranking implements."""
        raise TypeError(f"{type(self).__name__} does not define scores_of.")

    def scores_at(self, place: Place) -> tuple[Any, Any]:
        """Return the point of every group that residuals are measured from, None for means; and a score per row."""
        tasks = place.tasks
        found = map_in_order(lambda number: self.scores_of(tasks[number]), len(tasks), tasks.side_by_side)
        return None, np.concatenate(found)

    def _run(self, tasks: Tasks) -> Results:
        place = place_of(tasks)
        centers, scores = self.scores_at(place)
        return place.ranked(place.beside(scores), self.keep, centers)


@dataclass(kw_only=True, eq=False, repr=False)
class CenterRanking(Ranking):
    """A ranking by distance to the group's center."""

    center: Literal["mean", "coordinate-median", "geometric-median"] = "mean"

    def scores_at(self, place: Place) -> tuple[Any, Any]:
        """Return the centers, and the distance of every row to its group's."""
        return place.centers(self.center)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.center not in ("mean", "coordinate-median", "geometric-median"):
            raise InvalidInputError(
                f'center={self.center!r}: expected "mean", "coordinate-median" or "geometric-median".'
            )

    def check_engine(self, sample_weight: Any = None) -> None:
        """Raise for what an engine cannot do."""
        super().check_engine(sample_weight)
        if self.center == "coordinate-median":
            raise InvalidInputError(
                'center="coordinate-median" does not run on an engine: use "geometric-median" or "mean".'
            )
