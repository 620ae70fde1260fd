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
from gmmatch.selection.labels import group_rows
from gmmatch.selectors.base import Request
from gmmatch.selectors.places import Place
from gmmatch.selectors.provenance import array_fingerprint, label_fingerprint
from gmmatch.selectors.ranking import Ranking
from gmmatch.types import Indices, Vector

if TYPE_CHECKING:
    from gmmatch.dynamics.recorder import Dynamics
    from gmmatch.dynamics.small_model import SmallClassifier, SmallTask


# Measured: bytes that torch takes once it is imported, and those of one training.
_TORCH, _TRAINING = 240_000_000, 96_000_000


@dataclass(frozen=True)
class Labels:
    """The class number of each row, -1 where it has no label."""

    codes: Indices
    n_classes: int
    fingerprint: str

    @classmethod
    def of(cls, request: Request) -> Labels | None:
        """Return the labels of a request, also where it picks from all classes together."""
        if request.y is None:
            return None
        n = len(request.rows)
        groups = request.groups
        if all(group.label is None for group in groups):
            groups = group_rows(request.y, n=n, unlabeled="group")
        classes = [group for group in groups if group.label is not None]
        codes = np.full(n, -1, dtype=np.int64)
        for number, group in enumerate(classes):
            codes[group.rows] = number
        return cls(codes, len(classes), label_fingerprint(classes))


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

    def of_recording(self, recording: Dynamics) -> Vector:
        """Return the score that a recording of a training gives each row."""
        raise TypeError(f"{type(self).__name__} does not define of_recording.")

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
        """Score the rows by the recording that was given, or else by a small proxy trained on them."""
        if self.dynamics is not None:
            return self.of_recording(read_dynamics(self.dynamics, len(request.rows))), {"scores": "dynamics"}
        labels = Labels.of(request)
        if labels is None:
            raise InvalidInputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None: "
                f"method {self.method!r} looks at how a model learns the labels. Pass y, or scores= or "
                "dynamics= of a training of your own."
            )
        scores = np.full(len(request.rows), np.nan)
        known = np.flatnonzero(labels.codes >= 0)
        details = {"labels": labels.fingerprint, "classes": labels.n_classes}
        if labels.n_classes < 2:
            scores[known] = 0.0
            return scores, {**details, "proxy": "none: with a single class there is nothing to learn"}
        check_some_weight(request.weights[known])
        scores[known] = self._train(request, labels, known)
        proxy = f"one hidden layer of {self.hidden}" if self.hidden else "softmax regression"
        return scores, {**details, "proxy": proxy, "epochs": self.epochs, "runs": self.runs}

    def _train(self, request: Request, labels: Labels, known: Indices) -> Vector:
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
        rows = request.preprocessed
        rows = rows if len(known) == len(rows) else rows.subset(known)
        task = small_model.SmallTask.of(
            rows, labels.codes[known], request.weights[known], labels.n_classes, threads
        )
        seeds = np.random.SeedSequence(request.seed).generate_state(self.runs)

        def run(number: int) -> Any:
            return self.of_training(task, int(seeds[number]))

        return self.of_runs(small_model.side_by_side(run, self.runs, threads))

    def least_memory(self, n_rows: int, n_features: int) -> int:
        """Return the bytes that no limit can spare: torch, and what a training holds."""
        trained = self.scores is None and self.dynamics is None
        return super().least_memory(n_rows, n_features) + (_TORCH if trained else 0)

    def thread_memory(self) -> int:
        """Return the bytes that each thread takes: a training shuffles a part of the rows at a time."""
        return super().thread_memory() + _TRAINING

    def check_engine(self, sample_weight: Any = None) -> None:
        """Raise for what an engine cannot do."""
        super().check_engine(sample_weight)
        if self.scores is None and self.dynamics is None:
            raise InvalidInputError(
                f"method={self.method!r} trains a model, which an engine does not: pass scores= or dynamics= of a "
                "training, or select without an engine."
            )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, least in (("epochs", 1), ("runs", 1), ("hidden", 0)):
            check_whole_number(getattr(self, name), name, least)
        if self.scores is not None and self.dynamics is not None:
            raise InvalidInputError("scores and dynamics are both given: give one of them.")

    @property
    def needs_labels(self) -> bool:
        """Whether it learns from labels, which ``select`` must then be given."""
        return self.scores is None and self.dynamics is None


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
