"""Rankings: score each row on its own, keep the lowest, the highest or the middle scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.matching.walk import Picks, Walk, replay
from gmmatch.median.passes import weighted_mean
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
        return measured(task, best_rows(task, scores, self.keep), center)


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


def best_rows(task: GroupTask, scores: Vector, keep: str) -> Indices:
    """Return the best-ranked rows that may be picked, as many as are asked for."""
    ranked = rank(scores, keep, task.weights)
    return ranked[task.available[ranked]][: task.k]


def measured(task: GroupTask, order: Indices, center: Vector | None = None) -> GroupResult:
    """Return picks with ‖centre − mean of picks‖ after each, the rows included beforehand counted in.

    The centre is the mean of the group by default.
    """
    if center is None:
        center = weighted_mean(task.rows, task.weights, task.threads)
    walk = Walk.begin(center, "zero", task.rows.gather(task.already))
    return GroupResult(Picks(order, replay(task.rows, walk, order)), {})
