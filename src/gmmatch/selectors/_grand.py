"""GraNd: keep the rows with the largest gradients early in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gmmatch.errors import InvalidInputError
from gmmatch.selectors.model_scores import ModelRanking
from gmmatch.types import Vector

if TYPE_CHECKING:
    from gmmatch.dynamics.small_model import SmallClassifier, SmallTask


@dataclass(kw_only=True, eq=False, repr=False)
class GraNd(ModelRanking):
    """Keep the rows whose loss has the longest gradient, early in training.

    The score is averaged over several training runs (Paul et al., 2021). Like EL2N it measures difficulty, and
    mislabeled rows look difficult.

    Parameters
    ----------
    scores : array of shape (n,) or path, optional
        Your own scores instead of a training run; labels are then needed only to pick per class.
    dynamics : Dynamics, list of them or path, optional
        A recording of your own training run, with features.
    epochs, runs, hidden : int
        As in :class:`~gmmatch.EL2N`.
    parameters : "all" or "last-layer"
        The parameters of that small model that the gradient is taken of.
    k, per_class, unlabeled, preprocess, random_state, n_jobs
        As in :class:`~gmmatch.MomentMatching`. With ``per_class=None`` the model still learns ``y``.

    Examples
    --------
    >>> GraNd(k=2, scores=[0.1, 0.9, 0.5, 0.7]).select([[0.0], [1.0], [2.0], [3.0]]).order
    array([1, 3])
    """

    parameters: Literal["all", "last-layer"] = "all"

    method = "grand"

    def of_model(self, model: SmallClassifier, task: SmallTask) -> Vector:
        """Return the length of the gradient."""
        import torch

        from gmmatch.dynamics.gradients import grand_scores

        if self.parameters == "last-layer":
            return grand_scores(model, task.in_order())
        with torch.no_grad():
            parts = [model.gradient_lengths(inputs, codes).double() for inputs, codes in task.in_order()]
        lengths: Vector = torch.cat(parts).numpy()
        return lengths

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.parameters not in ("all", "last-layer"):
            raise InvalidInputError(f'parameters={self.parameters!r}: expected "all" or "last-layer".')
