"""Forgetting: keep the rows that a model learns and forgets again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import gmmatch as gm
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
    never_learned : float
        Events that a row has which is never classified correctly: infinitely many (Toneva et al., 2019), or 0, as in
        DeepCore (Guo et al., 2022).
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
    never_learned: float = np.inf

    name = "forgetting"

    def score_runs(self, data: TrainingSet, seeds: list[int]) -> Vector:
        """Return the mean number of events; a row counts as learned if it was in any of the runs."""
        from gmmatch_paper.baselines.small_model import train_small_model

        recordings = [gm.Dynamics(len(data)) for _ in seeds]
        for seed, dynamics in zip(seeds, recordings, strict=True):
            train_small_model(
                data, hidden=self.hidden, epochs=self.epochs, seed=seed, observe=dynamics.update
            )
        scores = gm.Dynamics.merge(recordings).forgetting()
        return np.where(np.isinf(scores), self.never_learned, scores)
