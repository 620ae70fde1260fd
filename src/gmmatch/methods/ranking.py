"""Rankings: each row has a score of its own, and the lowest, the highest or the middle ones are kept."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gmmatch._array import Indices, Vector
from gmmatch.errors import InvalidInputError
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


@dataclass(kw_only=True, eq=False, repr=False)
class Easy(CenterRanking):
    """Keep the rows nearest to the center of their group.

    The most typical rows (Shah et al., 2020): safe among scattered outliers, poor in diversity, and only as robust
    as the center.

    Parameters
    ----------
    center : Mean, GeometricMedian or CoordinateMedian
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`.

    Examples
    --------
    >>> Easy(k=2).select([[0.0], [1.0], [1.2], [3.0]]).indices
    array([1, 2])
    """

    name = "easy"
    keep = "lowest"


@dataclass(kw_only=True, eq=False, repr=False)
class Hard(CenterRanking):
    """Keep the rows farthest from the center of their group.

    On clean data these are edge cases (Joshi et al., 2009), otherwise mostly corrupted or mislabeled rows.

    Parameters
    ----------
    center : Mean, GeometricMedian or CoordinateMedian
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`.

    Examples
    --------
    >>> Hard(k=2).select([[0.0], [1.0], [1.2], [3.0]]).indices
    array([0, 3])
    """

    name = "hard"
    keep = "highest"


@dataclass(kw_only=True, eq=False, repr=False)
class Moderate(CenterRanking):
    """Keep the rows whose distance to the center is nearest to the median distance.

    Neither the easiest nor the hardest rows (Xia et al., 2022).

    Parameters
    ----------
    center : Mean, GeometricMedian or CoordinateMedian
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`.

    Examples
    --------
    >>> Moderate(k=2).select([[0.0], [1.0], [1.5], [3.0], [9.0]]).indices
    array([1, 2])
    """

    name = "moderate"
    keep = "middle"


@dataclass(kw_only=True, eq=False, repr=False)
class ByScore(Ranking):
    """Rank rows by scores of your own: losses, forgetting events, perplexities, or what else you have.

    Parameters
    ----------
    keep : "lowest", "highest" or "middle"
        Which scores are kept; "middle" is nearest to the median score.
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> ByScore(k=2, keep="highest").select(X, scores=[0.3, 0.9, 0.1, 0.8]).indices
    array([1, 3])
    """

    keep: Literal["lowest", "highest", "middle"] = "lowest"  # type: ignore[misc]

    name = "by-score"

    def scores(self, problem: Problem, targets: Targets) -> Vector:
        """Return the given scores."""
        if problem.request.scores is None:
            raise InvalidInputError("method 'by-score' ranks rows by scores=, your own numbers: give them.")
        return problem.request.scores
