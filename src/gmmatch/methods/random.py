"""Random: a sample of the rows, the baseline that is hard to beat on clean data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmmatch._array import Indices
from gmmatch.errors import InvalidInputError
from gmmatch.groups import describe_group
from gmmatch.methods.base import Method
from gmmatch.problem import Problem
from gmmatch.targets import Targets


@dataclass(kw_only=True, eq=False, repr=False)
class Random(Method):
    """Pick rows at random, in proportion to their weights.

    Parameters
    ----------
    replacement : bool
        Whether a row may be picked again.
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`.

    Examples
    --------
    >>> Random(k=3, random_state=0).select(np.eye(5)).indices
    array([1, 3, 4])
    """

    replacement: bool = False

    name = "random"

    def pick(self, problem: Problem, targets: Targets) -> Indices:
        """Draw the picks of each group."""
        available = problem.available | (problem.included & self.replacement)
        rows_of_groups = enumerate(problem.groups.split(available))
        return np.concatenate([self._draw(problem, group, rows) for group, rows in rows_of_groups])

    def _draw(self, problem: Problem, group: int, rows: Indices) -> Indices:
        weights, quota = problem.weights[rows], int(problem.quotas[group])
        n_drawable = int((weights > 0.0).sum())
        if quota > n_drawable and not (self.replacement and n_drawable):
            label = describe_group(problem.groups.labels[group])
            raise InvalidInputError(
                f"k asks for {quota} picks of {label}, but only {n_drawable} have a positive sample_weight: "
                "lower k, or pass replacement=True."
            )
        shares = weights / max(weights.sum(), np.finfo(float).tiny)
        return problem.generator(group).choice(rows, size=quota, replace=self.replacement, p=shares)
