"""Rankings by what a model makes of each row: scores of your own, a recording, or a small proxy."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.errors import DataFileNotFoundError, InvalidInputError, MissingDependencyError, install_command
from gmmatch.rows.checks import check_whole_number
from gmmatch.rows.parallel import resolve_jobs
from gmmatch.rows.rows import Rows
from gmmatch.selection.labels import Groups, group_rows
from gmmatch.selectors.base import Request, Selector
from gmmatch.selectors.places import Place
from gmmatch.selectors.provenance import array_fingerprint, label_fingerprint
from gmmatch.selectors.ranking import Ranking
from gmmatch.types import Indices, Vector

if TYPE_CHECKING:
    from gmmatch.dynamics.recorder import Dynamics
    from gmmatch.dynamics.small_model import SmallClassifier, SmallTask


# Measured: bytes that torch takes once it is imported, and those of one training.
_TORCH, _TRAINING = 240_000_000, 96_000_000


@dataclass(frozen=True, eq=False)
class Labeled:
    """The rows of a request that have a label, which a model can learn from: their numbers, classes and weights."""

    numbers: Indices
    rows: Rows
    codes: Indices
    weights: Vector
    n_classes: int
    record: dict[str, Any]

    @classmethod
    def of(cls, request: Request, selector: Selector, why: str) -> Labeled:
        """Return them, also where a request picks from all classes together; ``why`` tells what labels are for."""
        if request.y is None:
            raise InvalidInputError(
                f"This {type(selector).__name__} estimator requires y to be passed, but the target y is None: "
                f"method {selector.method!r} looks at {why}"
            )
        rows, groups = request.preprocessed, request.groups
        if all(group.label is None for group in groups):
            groups = group_rows(request.y, n=len(rows), unlabeled="group")
        classes = Groups.of([group for group in groups if group.label is not None])
        codes = classes.codes(len(rows))
        known = np.flatnonzero(codes >= 0)
        record: dict[str, Any] = {"labels": label_fingerprint(classes), "classes": len(classes)}
        if len(classes) < 2:
            record["proxy"] = "none: with a single class there is nothing to learn"
        else:
            check_some_weight(request.weights[known])
        rows = rows if len(known) == len(rows) else rows.subset(known)
        return cls(known, rows, codes[known], request.weights[known], len(classes), record)


@dataclass(kw_only=True, eq=False, repr=False)
class ScoreRanking(Ranking):
    """Base of the rankings whose score is given, or learned from all rows together."""

    scores: Any = None

    def learn(self, request: Request) -> tuple[Vector, dict[str, Any]]:
        """Return a score per row, NaN where a row can have none, and what to record of its making."""
        raise TypeError(f"{type(self).__name__} does not define learn.")

    def scores_at(self, place: Place) -> tuple[Any, Any]:
        """Return the scores; the residual is measured from the mean of the group."""
        tasks = place.tasks
        scores = tasks.facts[tasks.row_numbers]
        unknown = tasks.available & np.isnan(scores)
        if unknown.any():
            raise InvalidInputError(
                f"Row {tasks.row_numbers[np.argmax(unknown)]} and {int(unknown.sum()) - 1} more have no "
                f"{self.method} score, because they have no label or were never recorded: leave them out "
                "(exclude=[...], unlabeled='drop')."
            )
        return None, scores

    def _prepare(self, request: Request) -> Request:
        if self.scores is None:
            scores, details = self.learn(request)
        else:
            scores, details = read_scores(self.scores, len(request.rows)), {"scores": "given"}
        details["fingerprint"] = array_fingerprint(scores)
        return replace(request, facts=scores).recording(model=details)


@dataclass(kw_only=True, eq=False, repr=False)
class ModelRanking(ScoreRanking):
    """Base of the rankings by training dynamics."""

    dynamics: Any = None
    epochs: int = 5
    runs: int = 5
    hidden: int = 64

    learned = ("scores", "dynamics")

    def of_model(self, model: SmallClassifier, task: SmallTask) -> Vector:
        """Return the score that a trained proxy gives each row."""
        raise TypeError(f"{type(self).__name__} does not define of_model.")

    def of_training(self, task: SmallTask, seed: int) -> Any:
        """Train the proxy once and return the score of every row at the end."""
        from gmmatch.dynamics.small_model import train_small_model

        model = train_small_model(task, hidden=self.hidden, epochs=self.epochs, seed=seed)
        return self.of_model(model, task)

    def of_runs(self, trainings: list[Any]) -> Vector:
        """Return the scores of several trainings as one."""
        mean: Vector = np.mean(trainings, axis=0)
        return mean

    def learn(self, request: Request) -> tuple[Vector, dict[str, Any]]:
        """Score the rows by the recording that was given, or else by a small proxy trained on them.

        A recording has each score by the name of its method.
        """
        if self.dynamics is not None:
            recording = read_dynamics(self.dynamics, len(request.rows))
            return getattr(recording, self.method)(), {"scores": "dynamics"}
        why = "how a model learns the labels. Pass y, or scores= or dynamics= of a training of your own."
        labeled = Labeled.of(request, self, why)
        scores = np.full(len(request.rows), np.nan)
        if labeled.n_classes < 2:
            scores[labeled.numbers] = 0.0
            return scores, labeled.record
        scores[labeled.numbers] = self._train(labeled, request.seed)
        proxy = f"one hidden layer of {self.hidden}" if self.hidden else "softmax regression"
        return scores, {**labeled.record, "proxy": proxy, "epochs": self.epochs, "runs": self.runs}

    def _train(self, labeled: Labeled, seed: int) -> Vector:
        try:
            from gmmatch.dynamics import small_model
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingDependencyError(
                f"method={self.method!r} trains a small model, which needs torch, which is not installed: "
                f"{install_command('torch')}, or pass scores= or dynamics= of a training of your own."
            ) from error
        threads = resolve_jobs(self.n_jobs)
        task = small_model.SmallTask.of(
            labeled.rows, labeled.codes, labeled.weights, labeled.n_classes, threads
        )
        seeds = np.random.SeedSequence(seed).generate_state(self.runs)

        def run(number: int) -> Any:
            return self.of_training(task, int(seeds[number]))

        return self.of_runs(small_model.side_by_side(run, self.runs, threads))

    def least_memory(self, n_rows: int, n_features: int) -> int:
        """Return the bytes that no limit can spare: torch, and what a training holds."""
        return super().least_memory(n_rows, n_features) + (_TORCH if self.needs_labels else 0)

    def thread_memory(self) -> int:
        """Return the bytes that each thread takes: a training shuffles a part of the rows at a time."""
        return super().thread_memory() + _TRAINING

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, least in (("epochs", 1), ("runs", 1), ("hidden", 0)):
            check_whole_number(getattr(self, name), name, least)
        if self.scores is not None and self.dynamics is not None:
            raise InvalidInputError("scores and dynamics are both given: give one of them.")


def check_some_weight(weights: Vector) -> None:
    """Raise where no row that a model could learn from counts."""
    if weights.sum() == 0.0:
        raise InvalidInputError("sample_weight is zero for every row with a label.")


def read_scores(scores: Any, n: int) -> Vector:
    """Return scores that were given, as an array or as the path of a ``.npy`` file.

    Examples
    --------
    >>> read_scores([3, 1], 2)
    array([3., 1.])
    """
    if isinstance(scores, (str, os.PathLike)):
        path = Path(scores)
        if not path.is_file():
            raise DataFileNotFoundError(f"scores={str(path)!r}: there is no such file.")
        try:
            scores = np.load(path, allow_pickle=False)
        except ValueError as error:
            raise InvalidInputError(f"scores={str(path)!r} is not a .npy file of numbers.") from error
    if hasattr(scores, "detach"):
        scores = scores.detach().cpu().double().numpy()
    try:
        values: Vector = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"scores must be one number per row: {error}.") from error
    if values.shape != (n,):
        raise InvalidInputError(f"scores has shape {values.shape}: expected ({n},), one number per row of X.")
    return values


def read_dynamics(dynamics: Any, n: int) -> Dynamics:
    """Return a recording that was given: a recorder, several of them, or the path of one that was saved."""
    from gmmatch.dynamics.recorder import Dynamics

    several = dynamics if isinstance(dynamics, (list, tuple)) else [dynamics]
    recordings = [Dynamics.load(one) if isinstance(one, (str, os.PathLike)) else one for one in several]
    if not recordings or not all(isinstance(one, Dynamics) for one in recordings):
        raise InvalidInputError(
            "dynamics must be a gmmatch.Dynamics, a list of them, or the path of one that was saved."
        )
    whole = recordings[0] if len(recordings) == 1 else Dynamics.merged(recordings)
    if whole.n_rows != n:
        raise InvalidInputError(
            f"dynamics is of {whole.n_rows:,} rows, but X has {n:,}: record the training on the same rows."
        )
    return whole
