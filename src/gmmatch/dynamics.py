"""Dynamics: what happens to each row while a model learns, recorded from any training loop."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from gmmatch._array import Indices, Mask, Matrix, Vector
from gmmatch._checks import check_array, check_positions, check_whole_number
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.files import explain_damage, write_file

_FORMAT = 2
_MEANS = ("el2n", "margin", "grand")


class Dynamics:
    """Record forgetting events, EL2N, GraNd and the area under the margin while a model trains.

    A step costs a copy of the logits to main memory. No batch is kept: memory is about 50 bytes per row, whatever the
    number of epochs. The scores go to :func:`gmmatch.select` as ``scores=``, with ``method="by-score"``.

    Parameters
    ----------
    n_rows : int
        Rows of the training set.
    first_epochs : int, optional
        Average EL2N and GraNd over this many epochs from the start, where they say most; over all by default.
        Forgetting and the margin always cover the whole training run.

    Attributes
    ----------
    n_rows : int
        Rows of the training set.
    epoch : int
        Epochs that have ended.
    runs : int
        Training runs that were recorded, if several were merged.

    Notes
    -----
    A row is recorded as the model predicts it when it is presented, before the step that learns from it, with the
    augmentation and dropout of the loop. A row that is presented several times in an epoch is recorded each time, in
    that order. The score of a row that was never presented is NaN.

    Examples
    --------
    >>> dynamics = Dynamics(3)
    >>> for logits in ([[2, 0], [2, 0], [0, 1]], [[3, 0], [0, 1], [1, 0]]):
    ...     dynamics.update([0, 1, 2], logits, labels=[0, 0, 0])
    ...     dynamics.end_epoch()
    >>> dynamics.forgetting(), dynamics.first_learned
    (array([0., 1., 0.]), array([0, 0, 1], dtype=int32))
    """

    def __init__(self, n_rows: int, *, first_epochs: int | None = None) -> None:
        check_whole_number(n_rows, "n_rows")
        if first_epochs is not None:
            check_whole_number(first_epochs, "first_epochs")
        self.n_rows = int(n_rows)
        self.first_epochs = None if first_epochs is None else int(first_epochs)
        self.epoch, self.runs = 0, 1
        self._state: dict[str, NDArray[Any]] = {
            "events": np.zeros(n_rows, dtype=np.int32),
            # -1 until the row is classified correctly, and until it is presented.
            "first_learned": np.full(n_rows, -1, dtype=np.int32),
            "last_correct": np.full(n_rows, -1, dtype=np.int8),
        }
        for name in _MEANS:
            self._state[f"{name}_sum"] = np.zeros(n_rows)
            self._state[f"{name}_count"] = np.zeros(n_rows, dtype=np.int32)

    def update(self, indices: Any, logits: Any, labels: Any, features: Any = None) -> None:
        """Record a batch: tensors on any device, arrays or lists.

        Parameters
        ----------
        indices : integers of shape (m,)
            The row numbers in the training set.
        logits : array of shape (m, C)
            What the model predicts, before the softmax.
        labels : integers of shape (m,)
            Class numbers.
        features : array of shape (m, s), optional
            The input of the last layer. With it, GraNd of the last layer is recorded.
        """
        values, classes = _check_logits(logits, labels)
        rows = check_positions(indices, self.n_rows, "indices")
        if len(rows) != len(values):
            raise InvalidInputError(f"indices names {len(rows)} rows: expected {len(values)}, as of logits.")
        correct, *means = _batch_statistics(values, classes, features)
        self._count_events(rows, correct)
        early = self.first_epochs is None or self.epoch < self.first_epochs
        for name, numbers in zip(_MEANS, means, strict=True):
            if numbers is not None and (name == "margin" or early):
                np.add.at(self._state[f"{name}_sum"], rows, numbers)
                np.add.at(self._state[f"{name}_count"], rows, 1)

    def end_epoch(self) -> None:
        """Mark the end of an epoch; only :attr:`first_learned` and ``first_epochs`` depend on it."""
        self.epoch += 1

    @property
    def presentations(self) -> Indices:
        """How often each row was presented, shape (n,)."""
        return self._state["margin_count"].astype(np.int64)

    @property
    def first_learned(self) -> NDArray[np.int32]:
        """The epoch, from 0, in which each row was first classified correctly, shape (n,); -1 if never."""
        return self._state["first_learned"].copy()

    def forgetting(self) -> Vector:
        """Return how often each row was forgotten, shape (n,): classified correctly, and wrongly the next time.

        The mean over the runs, if several were merged. A row that was never classified correctly counts as the
        most forgotten: infinity.
        """
        scores = self._state["events"] / self.runs
        scores[self._state["first_learned"] < 0] = np.inf
        scores[self._state["last_correct"] < 0] = np.nan
        return scores

    def el2n(self) -> Vector:
        """Return the mean of ‖softmax(logits) − one-hot label‖ of each row, shape (n,)."""
        return self._mean("el2n")

    def grand(self) -> Vector:
        """Return the mean length of the gradient of each row's loss by the last layer, shape (n,)."""
        if not self._state["grand_count"].any():
            raise InvalidInputError(
                "GraNd was not recorded: pass update(..., features=) the last layer's input."
            )
        return self._mean("grand")

    def area_under_margin(self) -> Vector:
        """Return the mean margin of each row, shape (n,): the logit of its label minus the largest other one."""
        return self._mean("margin")

    @classmethod
    def merge(cls, runs: Sequence[Dynamics]) -> Dynamics:
        """Return the recordings of several training runs on the same rows as one, whose scores are averages.

        Paul et al. (2021) average EL2N and GraNd over ten runs that differ only in their seed.

        Examples
        --------
        >>> first, second = Dynamics(1), Dynamics(1)
        >>> first.update([0], [[0.0, 0.0]], [0])
        >>> second.update([0], [[-50.0, 50.0]], [0])
        >>> Dynamics.merge([first, second]).el2n().round(3)
        array([1.061])
        """
        runs = list(runs)
        if not runs or not all(isinstance(run, Dynamics) for run in runs):
            raise InvalidTypeError("runs must be one or more Dynamics, one for each training run.")
        sizes = {run.n_rows for run in runs}
        if len(sizes) > 1:
            raise InvalidInputError(f"runs have {sorted(sizes)} rows: expected runs on the same rows.")
        merged = cls(runs[0].n_rows)
        merged.runs, merged.epoch = sum(run.runs for run in runs), max(run.epoch for run in runs)
        for name in merged._state:
            values = np.stack([run._state[name] for run in runs])
            if name == "first_learned":
                never = np.iinfo(np.int32).max
                earliest = np.where(values < 0, never, values).min(axis=0)
                merged._state[name] = np.where(earliest == never, -1, earliest).astype(np.int32)
            else:
                merged._state[name] = values.max(axis=0) if name == "last_correct" else values.sum(axis=0)
        return merged

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording to an ``.npz`` file, from which :meth:`load` restores it."""
        header = np.array([_FORMAT, self.n_rows, self.epoch, self.runs, self.first_epochs or 0])
        arrays: dict[str, Any] = {"header": header, **self._state}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        write_file(Path(path), buffer.getbuffer())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Dynamics:
        """Read a recording that :meth:`save` wrote; recording can go on."""
        with (
            explain_damage(path, "recording of training dynamics"),
            np.load(path, allow_pickle=False) as file,
        ):
            version, n_rows, epoch, runs, first_epochs = file["header"].tolist()
            if version != _FORMAT:
                raise ValueError(f"format {version}, this version reads {_FORMAT}")
            dynamics = cls(n_rows, first_epochs=first_epochs or None)
            dynamics.epoch, dynamics.runs = epoch, runs
            dynamics._state = {name: file[name] for name in dynamics._state}
        return dynamics

    def __repr__(self) -> str:
        return f"Dynamics({self.n_rows:,} rows, {self.epoch} epochs, {self.runs} runs)"

    def _mean(self, name: str) -> Vector:
        with np.errstate(invalid="ignore"):
            means: Vector = self._state[f"{name}_sum"] / self._state[f"{name}_count"]
        return means

    def _count_events(self, rows: Indices, correct: Mask) -> None:
        """Count forgetting events (Toneva et al., 2019); a row may occur several times, in the order presented."""
        if not len(rows):
            return
        order = np.argsort(rows, kind="stable")
        rows, correct = rows[order], correct[order]
        repeated = np.append(False, rows[1:] == rows[:-1])
        last, first = self._state["last_correct"], self._state["first_learned"]
        before = np.where(repeated, np.append(False, correct[:-1]), last[rows] == 1)
        np.add.at(self._state["events"], rows[before & ~correct], 1)
        final = np.append(~repeated[1:], True)
        last[rows[final]] = correct[final]
        learned = rows[correct]
        first[learned[first[learned] < 0]] = self.epoch


def _check_logits(logits: Any, labels: Any) -> tuple[Matrix, Indices]:
    """Return logits in float64 and labels, both in main memory."""
    values = check_array(logits, "logits", "(rows, classes)", numbers=True).astype(np.float64)
    classes = check_array(labels, "labels", "class numbers")
    if values.ndim != 2 or not values.shape[1]:
        raise InvalidInputError(f"logits has shape {values.shape}: expected (rows, classes).")
    if classes.shape != (len(values),) or classes.dtype.kind not in "iu":
        raise InvalidInputError(
            f"labels has shape {classes.shape} and type {classes.dtype}: expected {len(values)} class numbers, one "
            "for each row of logits."
        )
    if len(classes) and not 0 <= classes.min() <= classes.max() < values.shape[1]:
        raise InvalidInputError(
            f"labels runs from {classes.min()} to {classes.max()}: expected class numbers from 0 to "
            f"{values.shape[1] - 1}, for {values.shape[1]} columns of logits."
        )
    return values, classes


def _batch_statistics(
    logits: Matrix, labels: Indices, features: Any
) -> tuple[Mask, Vector, Vector, Vector | None]:
    """Return for each row whether it is correct, EL2N, the margin and GraNd, which is not known without features.

    For logits W h + b the gradient of the cross-entropy by W is (p − y) hᵀ and by b it is p − y, so its length is
    ‖p − y‖ · ‖(h, 1)‖.
    """
    rows = np.arange(len(labels))
    errors = softmax(logits, axis=1)
    errors[rows, labels] -= 1.0
    el2n = np.linalg.norm(errors, axis=1)
    correct, own_logits, others = logits.argmax(axis=1) == labels, logits[rows, labels], logits.copy()
    others[rows, labels] = -np.inf
    margin = own_logits - others.max(axis=1) if logits.shape[1] > 1 else np.zeros_like(own_logits)
    if features is None:
        return correct, el2n, margin, None
    inputs = check_array(features, "features", "(rows, features)", numbers=True).astype(np.float64)
    if inputs.ndim != 2 or len(inputs) != len(logits):
        raise InvalidInputError(
            f"features has shape {inputs.shape}: expected ({len(logits)}, features), one row for each row of logits."
        )
    return correct, el2n, margin, el2n * np.sqrt((inputs**2).sum(axis=1) + 1.0)
