"""EL2N: keep the rows that a model, early in training, predicts worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gmmatch_paper.arrays import Vector
from gmmatch_paper.baselines.trained import TrainedRanking

if TYPE_CHECKING:
    from gmmatch_paper.baselines.small_model import TrainingSet


@dataclass(kw_only=True, eq=False, repr=False)
class EL2N(TrainedRanking):
    """Keep the rows whose predicted probabilities are farthest from their label, early in training.

    The score is ‖p − y‖, averaged over several training runs (Paul et al., 2021). It measures difficulty and is made
    for clean data: mislabeled rows look difficult, and are kept.

    Parameters
    ----------
    epochs, runs, hidden : int
        A small model is trained on the standardized rows by SGD: the number of epochs, of runs with different seeds,
        and of hidden units (0: softmax regression). The scores after the last epoch are averaged over the runs.
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`. With ``per_class=None`` the model still learns ``y``.

    Examples
    --------
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]] * 10
    >>> y = ["low", "low", "low", "high", "high", "high"] * 10
    >>> y[16] = "low"
    >>> EL2N(k=1, per_class=None, random_state=0).select(X, y).indices
    array([16])
    """

    name = "el2n"

    def score_runs(self, data: TrainingSet, seeds: list[int]) -> Vector:
        """Return ‖p − y‖."""
        return np.asarray(
            np.mean([model.el2n(data.in_order()) for model in self.train_models(data, seeds)], axis=0)
        )
