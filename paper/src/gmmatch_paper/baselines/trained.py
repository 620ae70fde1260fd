"""Rankings by what a small model, trained on the rows, makes of each of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.problem import Problem
from gmmatch_paper.arrays import Vector
from gmmatch_paper.baselines.learned import LabeledRows, LearnedRanking
from gmmatch_paper.checks import check_whole_number

if TYPE_CHECKING:
    from gmmatch_paper.baselines.small_model import SmallClassifier, TrainingSet


@dataclass(kw_only=True, eq=False, repr=False)
class TrainedRanking(LearnedRanking):
    """Base class of the rankings by the training of a small model.

    Parameters
    ----------
    epochs, runs, hidden : int
        A small model is trained on the standardized rows by SGD: the number of epochs, of runs with different seeds,
        and of hidden units (0: softmax regression). Scores are averages over the runs.
    """

    epochs: int = 5
    runs: int = 5
    hidden: int = 64

    @abstractmethod
    def score_runs(self, data: TrainingSet, seeds: list[int]) -> Vector:
        """Train the model with each of the seeds; return the mean score of each row, shape (m,)."""

    def train_models(self, data: TrainingSet, seeds: list[int]) -> Iterator[SmallClassifier]:
        """Yield a trained model for each seed."""
        from gmmatch_paper.baselines.small_model import train_small_model

        for seed in seeds:
            yield train_small_model(data, hidden=self.hidden, epochs=self.epochs, seed=seed)

    def learn(self, problem: Problem) -> tuple[Vector, dict[str, Any]]:
        """Train the model and score the rows."""
        for name, least in (("epochs", 1), ("runs", 1), ("hidden", 0)):
            check_whole_number(getattr(self, name), name, least)
        labeled = LabeledRows.of(problem, self.name)
        scores = np.full(len(problem.rows), np.nan)
        if labeled.n_classes < 2:
            scores[labeled.numbers] = 0.0
            return scores, labeled.record
        # torch takes seconds to import.
        from gmmatch_paper.baselines.small_model import TrainingSet, one_torch_thread

        data = TrainingSet.of(problem, labeled)
        seeds = np.random.SeedSequence(problem.seed).generate_state(self.runs)
        with one_torch_thread():
            scores[labeled.numbers] = self.score_runs(data, [int(seed) for seed in seeds])
        proxy = f"one hidden layer of {self.hidden}" if self.hidden else "softmax regression"
        return scores, {**labeled.record, "proxy": proxy, "epochs": self.epochs, "runs": self.runs}
