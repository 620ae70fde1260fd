"""GraNd: keep the rows with the largest gradients early in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gmmatch_paper.arrays import Vector
from gmmatch_paper.baselines.trained import TrainedRanking

if TYPE_CHECKING:
    from gmmatch_paper.baselines.small_model import TrainingSet


@dataclass(kw_only=True, eq=False, repr=False)
class GraNd(TrainedRanking):
    """Keep the rows whose loss has the longest gradient, early in training.

    The gradient is that by all parameters; its length is averaged over several training runs (Paul et al., 2021).
    Like EL2N it measures difficulty, and mislabeled rows look difficult.

    Parameters
    ----------
    epochs, runs, hidden : int
        As in :class:`~gmmatch_paper.baselines.el2n.EL2N`.
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`. With ``per_class=None`` the model still learns ``y``.

    Examples
    --------
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]] * 10
    >>> y = ["low", "low", "low", "high", "high", "high"] * 10
    >>> y[16] = "low"
    >>> GraNd(k=1, per_class=None, random_state=0).select(X, y).indices
    array([16])
    """

    name = "grand"

    def score_runs(self, data: TrainingSet, seeds: list[int]) -> Vector:
        """Return the length of the gradient."""
        lengths = [model.gradient_lengths(data.in_order()) for model in self.train_models(data, seeds)]
        return np.asarray(np.mean(lengths, axis=0))
