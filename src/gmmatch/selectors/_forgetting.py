"""Forgetting: keep the rows that a model learns and forgets again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gmmatch.scores.logits import is_right
from gmmatch.selectors.model_scores import ModelRanking
from gmmatch.types import Indices, Vector

if TYPE_CHECKING:
    from gmmatch.dynamics.per_row import ForgettingCounter
    from gmmatch.dynamics.small_model import SmallTask


@dataclass(kw_only=True, eq=False, repr=False)
class Forgetting(ModelRanking):
    """Keep the rows that are forgotten most often during a training run.

    A row is forgotten when it is classified correctly once and wrongly the next time (Toneva et al., 2019).
    A row that is never classified correctly counts as the most forgotten. Ties, of which there are many,
    go to the lowest row number.

    Parameters
    ----------
    scores : array of shape (n,) or path, optional
        Your own scores instead of a training run; labels are then needed only to pick per class.
    dynamics : Dynamics, list of them or path, optional
        A recording of your own training run.
    epochs, runs, hidden : int
        As in :class:`~gmmatch.EL2N`; events are counted over all epochs.
    k, per_class, unlabeled, preprocess, random_state, n_jobs
        As in :class:`~gmmatch.MomentMatching`. With ``per_class=None`` the model still learns ``y``.

    Examples
    --------
    >>> Forgetting(k=2, scores=[0, 3, float("inf"), 1]).select([[0.0], [1.0], [2.0], [3.0]]).order
    array([2, 1])
    """

    epochs: int = 20
    runs: int = 1

    method = "forgetting"

    def of_training(self, task: SmallTask, seed: int) -> ForgettingCounter:
        """Return the events that were counted during a training run."""
        from gmmatch.dynamics.per_row import ForgettingCounter
        from gmmatch.dynamics.small_model import train_small_model

        counter = ForgettingCounter(len(task.rows))

        def observe(positions: Indices, logits: Any, codes: Any) -> None:
            counter.observe(positions, is_right(logits, codes).numpy(), 0)

        train_small_model(task, hidden=self.hidden, epochs=self.epochs, seed=seed, observe=observe)
        return counter

    def of_runs(self, trainings: list[ForgettingCounter]) -> Vector:
        """Return the mean number of events; a row counts as learned if it was in any of the runs."""
        whole, *others = trainings
        for other in others:
            whole.add(other)
        return whole.score() / len(trainings)
