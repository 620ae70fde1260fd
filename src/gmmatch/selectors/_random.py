"""Random: a uniform sample, the baseline that is hard to beat on clean data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.selectors.base import Results, Selector, Tasks
from gmmatch.selectors.places import place_of
from gmmatch.selectors.tasks import random_of_group
from gmmatch.types import Indices, offsets_of


@dataclass(kw_only=True, eq=False, repr=False)
class Random(Selector):
    """Pick rows at random, in proportion to ``sample_weight`` where it is given.

    Its residual is the distance from the mean of the picks to the mean of the group.

    Parameters
    ----------
    replacement : bool
        Whether a row may be picked again.
    k, per_class, unlabeled, preprocess, random_state, n_jobs
        As in :class:`~gmmatch.MomentMatching`.

    Examples
    --------
    >>> Random(k=3, random_state=0).select(np.eye(5)).indices
    array([1, 3, 4])
    """

    replacement: bool = False

    method = "random"

    def _run(self, tasks: Tasks) -> Results:
        place = place_of(tasks)
        orders = [self._draw(tasks, number) for number in range(len(tasks))]  # threads would wait for Python
        return place.measured(np.concatenate(orders), offsets_of([len(order) for order in orders]))

    def _draw(self, tasks: Tasks, number: int) -> Indices:
        """Draw from the rows of a group that may be picked."""
        span = slice(int(tasks.offsets[number]), int(tasks.offsets[number + 1]))
        positions, k = np.flatnonzero(tasks.available[span]), int(tasks.quotas[number])
        weights = tasks.weights[span][positions]
        drawable = int((weights > 0.0).sum()) if tasks.weighted else len(positions)
        if drawable == 0 or (drawable < k and not self.replacement):
            raise InvalidInputError(
                f"k={k} rows were asked for, but only {drawable} that may be picked have a positive "
                "sample_weight."
            )
        shares = weights / weights.sum()
        random, _ = random_of_group(tasks.seed, int(tasks.numbers[number]))
        return random.choice(positions, size=k, replace=self.replacement, p=shares)
