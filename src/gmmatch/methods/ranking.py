"""Rankings: give each row a score of its own, and keep the lowest, the highest or the middle ones."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gmmatch._array import Indices, Vector
from gmmatch.median.terms import distances
from gmmatch.methods.base import Method, check_option
from gmmatch.problem import Problem
from gmmatch.targets import Mean, Target, Targets, compute_targets, middle_values


@dataclass(kw_only=True, eq=False, repr=False)
class Ranking(Method):
    """Base class of the rankings. A ranking implements :meth:`scores` and says what it keeps."""

    keep: ClassVar[Literal["lowest", "highest", "middle"]] = "lowest"

    @abstractmethod
    def scores(self, problem: Problem, targets: Targets) -> Vector:
        """Return a number for each row, shape (n,)."""

    def pick(self, problem: Problem, targets: Targets) -> Indices:
        """Return the best rows of each group; of equals, the lowest rows."""
        scores, codes = self.scores(problem, targets), problem.groups.codes
        if self.keep == "middle":
            scores = _distance_to_middle(scores, problem)
        elif self.keep == "highest":
            scores = -scores
        candidates = np.flatnonzero(problem.available & (codes >= 0))
        candidates = candidates[_sort_stably(scores[candidates])]
        # Small numbers are sorted several times faster.
        groups = codes[candidates].astype(np.min_scalar_type(len(problem.quotas)))
        candidates = candidates[np.argsort(groups, kind="stable")]
        owners = codes[candidates]
        rank = np.arange(len(owners)) - np.searchsorted(owners, owners)
        return candidates[rank < problem.quotas[owners]]


def _sort_stably(scores: Vector) -> Indices:
    """Return the positions in ascending order of the scores; equal ones stay in their order."""
    # Vector instructions sort without regard to ties, ten times as fast: keep that where there are none.
    order = np.argsort(scores)
    ranked = scores[order]
    return np.argsort(scores, kind="stable") if np.any(ranked[1:] == ranked[:-1]) else order


def _distance_to_middle(scores: Vector, problem: Problem) -> Vector:
    """Return how far each score is from the weighted median score of its group."""
    out = np.zeros_like(scores)
    for members in problem.groups.split(problem.groups.codes >= 0):
        low, high = middle_values(scores[members][:, None], problem.weights[members])
        # Twice the distance, so that the two scores around the median are exactly as far from it.
        out[members] = np.abs((scores[members] - low) + (scores[members] - high))
    return out


@dataclass(kw_only=True, eq=False, repr=False)
class CenterRanking(Ranking):
    """A ranking by the distance to the center of the group.

    Parameters
    ----------
    center : Mean, GeometricMedian or CoordinateMedian
    """

    center: Target = Mean()

    follows_target = True

    def check_parameters(self) -> None:
        """Raise for parameters that no data could make right."""
        super().check_parameters()
        check_option("center", self.center, "compute", "Mean()")

    def targets(self, problem: Problem) -> Targets:
        """Return the centers."""
        return compute_targets(self.center, problem)

    def scores(self, problem: Problem, targets: Targets) -> Vector:
        """Return the distance of each row to the center of its group."""
        lengths: Vector = problem.rows.map_blocks(distances, targets.points, per_row=(problem.groups.codes,))
        return lengths
