"""Forgetting: keep the rows that a model learns and forgets again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import gmmatch as gm
from gmmatch.errors import InvalidInputError
from gmmatch.problem import Problem
from gmmatch_paper.arrays import Vector
from gmmatch_paper.baselines.trained import TrainedRanking

if TYPE_CHECKING:
    from gmmatch_paper.baselines.small_model import TrainingSet


@dataclass(kw_only=True, eq=False, repr=False)
class Forgetting(TrainedRanking):
    """Keep the rows that are forgotten most often during a training run.

    A row is forgotten when it is classified correctly once and wrongly the next time (Toneva et al., 2019). A row
    that is never classified correctly counts as the most forgotten, unless ``never_learned`` says otherwise. Ties, of
    which there are many, go to the lowest row number.

    Parameters
    ----------
    epochs, runs, hidden : int
        As in :class:`~gmmatch_paper.baselines.el2n.EL2N`; events are counted over all epochs.
    never_learned : "most" or "none"
        Events that count for a row which is never classified correctly: more than any other row has (Toneva et al.,
        2019), or none, as in DeepCore (Guo et al., 2022).
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`. With ``per_class=None`` the model still learns ``y``.

    Examples
    --------
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]] * 10
    >>> y = ["low", "low", "low", "high", "high", "high"] * 10
    >>> y[16] = "low"
    >>> Forgetting(k=1, per_class=None, random_state=0).select(X, y).indices
    array([16])
    """

    epochs: int = 20
    runs: int = 1
    never_learned: Literal["most", "none"] = "most"

    name = "forgetting"

    def learn(self, problem: Problem) -> tuple[Vector, dict[str, Any]]:
        """Train the model and score the rows."""
        if self.never_learned not in ("most", "none"):
            raise InvalidInputError(f'never_learned={self.never_learned!r}: expected "most" or "none".')
        return super().learn(problem)

    def score_runs(self, data: TrainingSet, seeds: list[int]) -> Vector:
        """Return the mean number of events; a row counts as learned if it was in any of the runs."""
        from gmmatch_paper.baselines.small_model import train_small_model

        recordings = [gm.Dynamics(len(data)) for _ in seeds]
        for seed, dynamics in zip(seeds, recordings, strict=True):
            train_small_model(
                data, hidden=self.hidden, epochs=self.epochs, seed=seed, observe=dynamics.update
            )
        scores = gm.Dynamics.merge(recordings).forgetting()
        return count_never_learned(scores, self.never_learned)


def count_never_learned(events: Vector, count: str) -> Vector:
    """Return events in which rows that are never learned have as many as asked; they come with infinitely many."""
    return np.where(np.isinf(events), 0.0, events) if count == "none" else events
