"""Rankings: score each row on its own, keep the lowest, the highest or the middle scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.selectors.base import GroupTask, Results, Selector, Tasks
from gmmatch.selectors.places import Keep, Place, place_of
from gmmatch.types import Vector


@dataclass(kw_only=True, eq=False, repr=False)
class Ranking(Selector):
    """Base of the rankings; a method says which score it uses and which end it keeps."""

    keep: ClassVar[Keep]

    def scores(self, task: GroupTask) -> tuple[Vector, Vector]:
        """Return one score per row, and the point that residuals are measured from."""
        raise TypeError(f"{type(self).__name__} does not define scores.")

    def _run(self, tasks: Tasks) -> Results:
        wanted = tasks.take(np.flatnonzero(tasks.quotas))
        if not len(wanted):
            return super()._run(tasks)
        place = place_of(wanted)
        centers, scores = self._scores_at(place)
        return place.ranked(place.beside(scores), self.keep, centers).spread(tasks.quotas > 0)

    def _scores_at(self, place: Place) -> tuple[Any, Any]:
        """Return the point of every group that residuals are measured from, and one score per row."""
        found = place.each(self.scores)
        return np.stack([center for _, center in found]), np.concatenate([scores for scores, _ in found])


@dataclass(kw_only=True, eq=False, repr=False)
class CenterRanking(Ranking):
    """A ranking by distance to the group's center."""

    center: Literal["mean", "coordinate-median", "geometric-median"] = "mean"

    def _scores_at(self, place: Place) -> tuple[Any, Any]:
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
