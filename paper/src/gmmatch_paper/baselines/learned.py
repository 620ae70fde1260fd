"""What the baselines share: the rows that a model can learn from, and rankings by what it learned."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.methods.ranking import Ranking
from gmmatch.problem import Problem
from gmmatch.targets import Targets
from gmmatch_paper.arrays import Indices, Vector


@dataclass(frozen=True, eq=False)
class LabeledRows:
    """The rows of a problem that have a label, also where the picks are not made per class.

    Attributes
    ----------
    numbers : int64 array of shape (m,)
        Their row numbers, ascending.
    codes : int64 array of shape (n,)
        The class of each row of the problem, -1 without a label.
    weights : float64 array of shape (n,)
        How much each row counts, 0 without a label.
    n_classes : int
    """

    numbers: Indices
    codes: Indices
    weights: Vector
    n_classes: int

    @classmethod
    def of(cls, problem: Problem, method: str) -> LabeledRows:
        """Return the labeled rows; raise where a method has no labels, or no weights, to learn from."""
        if problem.classes is None:
            # The first words are those that scikit-learn's conformance suite looks for.
            raise InvalidInputError(
                f"{method!r} requires y to be passed, but the target y is None: it trains a classifier. Pass y."
            )
        # The rows without a label may be a group of their own, whose label is None.
        codes = np.array(
            [-1 if label is None else code for code, label in enumerate(problem.classes.labels)] + [-1]
        )
        codes = codes[problem.classes.codes]
        weights = np.where(codes >= 0, problem.weights, 0.0)
        if not weights.any():
            raise InvalidInputError("sample_weight is zero for every row with a label.")
        return cls(np.flatnonzero(codes >= 0), codes, weights, len(np.unique(codes[codes >= 0])))

    @property
    def record(self) -> dict[str, Any]:
        """What the provenance says about them."""
        single = (
            {"proxy": "none: with a single class there is nothing to learn"} if self.n_classes < 2 else {}
        )
        return {"classes": self.n_classes, **single}


@dataclass(kw_only=True, eq=False, repr=False)
class LearnedRanking(Ranking):
    """Base class of the rankings by a score that is learned from all rows together."""

    keep = "highest"

    @abstractmethod
    def learn(self, problem: Problem) -> tuple[Vector, dict[str, Any]]:
        """Return a score per row, NaN where a row can have none, and what to record about the model."""

    def prepare(self, problem: Problem) -> Problem:
        """Learn the scores, unless they are given."""
        if problem.request.scores is not None:
            return problem.add_record(model={"scores": "given"})
        scores, model = self.learn(problem)
        request = replace(problem.request, scores=scores)
        return replace(problem, request=request).add_record(model=model)

    def scores(self, problem: Problem, targets: Targets) -> Vector:
        """Return the learned scores."""
        scores: Vector = np.asarray(problem.request.scores)
        check_known(problem, np.isnan(scores), f"{self.name} score")
        return scores


def check_known(problem: Problem, unknown: Any, what: str) -> None:
    """Raise where a row that may be picked has no label to learn from."""
    rows = np.flatnonzero(problem.available & (problem.groups.codes >= 0) & unknown)
    if len(rows):
        raise InvalidInputError(
            f"Row {rows[0]} and {len(rows) - 1} more have no {what}, because they have no label: leave them out "
            "(exclude=[...], unlabeled='drop')."
        )
