"""Rankings: score each row on its own, keep the lowest, the highest or the middle scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.matching.walk import Picks, Walk, replay
from gmmatch.selectors.base import GroupResult, GroupTask, Selector
from gmmatch.targets.moments import middle_values, resolve_target
from gmmatch.types import Indices, Vector


@dataclass(kw_only=True, eq=False, repr=False)
class Ranking(Selector):
    """Base of the rankings; a method says which score it uses and which end it keeps."""

    keep: ClassVar[Literal["lowest", "highest", "middle"]]

    def scores(self, task: GroupTask) -> tuple[Vector, Vector]:
        """Return one score per row, and the point that residuals are measured from."""
        raise TypeError(f"{type(self).__name__} does not define scores.")

    def pick_group(self, task: GroupTask) -> GroupResult:
        """Keep the best-ranked rows."""
        scores, center = self.scores(task)
        ranked = rank(scores, self.keep, task.weights)
        order = ranked[task.available[ranked]][: task.k]
        return GroupResult(Picks(order, residuals_along(task, order, center)), {})


@dataclass(kw_only=True, eq=False, repr=False)
class CenterRanking(Ranking):
    """A ranking by distance to the group's centre."""

    center: Literal["mean", "coordinate-median", "geometric-median"] = "mean"

    def scores(self, task: GroupTask) -> tuple[Vector, Vector]:
        """Return the distance to the centre."""
        moment = resolve_target(self.center, argument="center").of(
            task.rows, task.weights, task.random, task.threads
        )
        return moment.distances_of(task.rows, task.threads), moment.point

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.center not in ("mean", "coordinate-median", "geometric-median"):
            raise InvalidInputError(
                f'center={self.center!r}: expected "mean", "coordinate-median" or "geometric-median".'
            )


def rank(scores: Vector, keep: str, weights: Vector) -> Indices:
    """Return positions from the most to the least wanted; equals stay in row order.

    The middle is the weighted median of the scores.

    Examples
    --------
    >>> rank(np.array([3.0, 1.0, 2.0]), "middle", np.ones(3))
    array([2, 0, 1])
    """
    if keep == "lowest":
        wanted = scores
    elif keep == "highest":
        wanted = -scores
    else:
        # Twice the distance to the median, so that the two scores around it are exactly as far from it.
        low, high = middle_values(scores[:, None], weights)
        wanted = np.abs((scores - low) + (scores - high))
    return np.argsort(wanted, kind="stable")


def residuals_along(task: GroupTask, order: Indices, center: Vector) -> Vector:
    """Return ‖centre − mean of picks‖ after each pick, the rows included beforehand counted in."""
    return replay(task.rows, Walk.begin(center, "zero", task.rows.gather(task.already)), order)
