"""EL2N: keep the rows that a model, early in training, predicts worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gmmatch.selectors.model_scores import ModelRanking
from gmmatch.types import Vector

if TYPE_CHECKING:
    from gmmatch.dynamics.small_model import SmallClassifier, SmallTask


@dataclass(kw_only=True, eq=False, repr=False)
class EL2N(ModelRanking):
    """Keep the rows whose predicted probabilities are farthest from their label, early in training.

    The score is ‖p − y‖, averaged over several training runs (Paul et al., 2021). It measures difficulty and is
    made for clean data: mislabeled rows look difficult, and are kept.

    Parameters
    ----------
    scores : array of shape (n,) or path, optional
        Your own scores instead of a training run; labels are then needed only to pick per class.
    dynamics : Dynamics, list of them or path, optional
        A recording of your own training run.
    epochs, runs, hidden : int
        Without scores or dynamics, a small model is trained on the standardized rows by SGD: the number of
        epochs, of runs with different seeds, and of hidden units (0: softmax regression). The scores at the
        end are averaged over the runs.
    k, per_class, unlabeled, preprocess, random_state, n_jobs
        As in :class:`~gmmatch.MomentMatching`. With ``per_class=None`` the model still learns ``y``.

    Examples
    --------
    >>> EL2N(k=2, scores=[0.1, 0.9, 0.5, 0.7]).select([[0.0], [1.0], [2.0], [3.0]]).order
    array([1, 3])
    """

    method = "el2n"

    def of_model(self, model: SmallClassifier, task: SmallTask) -> Vector:
        """Return ‖p − y‖."""
        from gmmatch.dynamics.gradients import el2n_scores

        return el2n_scores(model, task.in_order())
