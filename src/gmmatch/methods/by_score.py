"""By score: keep the rows with the lowest, the highest or the middle of scores that you give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gmmatch._array import Vector
from gmmatch.errors import InvalidInputError
from gmmatch.methods.ranking import Ranking
from gmmatch.problem import Problem
from gmmatch.targets import Targets


@dataclass(kw_only=True, eq=False, repr=False)
class ByScore(Ranking):
    """Rank rows by ``scores=`` of ``select``: losses, forgetting events, perplexities, or what else you have.

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
        if problem.scores is None:
            raise InvalidInputError(
                "method 'by-score' ranks rows by your own numbers: pass scores=, one for each row."
            )
        return problem.scores
