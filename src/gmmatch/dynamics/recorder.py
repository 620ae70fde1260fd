"""The recorder of training dynamics: what happened to each row while a model learned, from any training loop."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gmmatch.dynamics.per_row import ForgettingCounter, RunningMean
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError
from gmmatch.files import write_file
from gmmatch.rows.checks import check_whole_number
from gmmatch.scores.logits import as_logits, errors, is_right, last_layer_grand, lengths, margins
from gmmatch.types import Indices, Vector, is_tensor, on_host

Over = Literal["all", "last"]
"""Over which epochs a statistic is averaged: all that count, or the last that ended."""

# What a GPU has computed is fetched once for so many rows, because every fetch makes it wait.
_FETCHED_AT_ONCE = 1 << 16
_MEANS = ("el2n", "margin", "grand")


class Dynamics:
    """Records forgetting events, EL2N, GraNd and the area under the margin while a model trains.

    A step costs a few small operations on the device of the logits. Nothing is kept of a batch: memory is about
    100 bytes per row for any number of epochs.

    Parameters
    ----------
    n_rows : int
        Rows of the training set.
    first_epochs : int, optional
        Average EL2N and GraNd over this many epochs from the start, where they are most informative; by
        default over all. Forgetting and the margin always cover the whole training.
    history : bool
        Keep EL2N, margin and GraNd of every epoch too, as float32: 4 bytes per row, epoch and statistic.

    Attributes
    ----------
    n_rows
        Rows of the training set.
    epoch
        How many epochs have ended.
    runs
        How many trainings were recorded, if several were merged.

    Notes
    -----
    A row is recorded as the model predicts it when it is presented, before the step that learns from it, with
    the augmentation and dropout of the loop.

    A row presented several times in an epoch is observed each time, in that order: forgetting compares
    one presentation with the one before, and means are over presentations. A row that is not presented
    in an epoch keeps what it has. A row that never was has the score NaN, and a selection from the
    scores refuses it.

    See Also
    --------
    gmmatch.dynamics.gradients.el2n_scores, gmmatch.dynamics.gradients.grand_scores :
        The same scores of a trained model, in one pass over the rows.

    Examples
    --------
    >>> recorder = Dynamics(3)
    >>> for logits in ([[2, 0], [2, 0], [0, 1]], [[3, 0], [0, 1], [1, 0]]):
    ...     recorder.update([0, 1, 2], logits, labels=[0, 0, 0])
    ...     recorder.end_epoch()
    >>> recorder.forgetting(), recorder.first_learnt
    (array([0., 1., 0.]), array([0, 0, 1], dtype=int32))
    """

    def __init__(self, n_rows: int, *, first_epochs: int | None = None, history: bool = False) -> None:
        check_whole_number(n_rows, "n_rows")
        if first_epochs is not None:
            check_whole_number(first_epochs, "first_epochs")
        self.n_rows = int(n_rows)
        self.first_epochs = None if first_epochs is None else int(first_epochs)
        self.epoch = 0
        self.runs = 1
        self._counter = ForgettingCounter(self.n_rows)
        self._overall: dict[str, RunningMean] = {}
        self._current: dict[str, RunningMean] = {}
        self._last: dict[str, RunningMean] = {}
        self._history: dict[str, list[NDArray[np.float32]]] | None = {} if history else None
        self._pending: list[tuple[Any, dict[str, Any]]] = []
        self._pending_rows = 0

    def update(self, indices: Any, logits: Any, labels: Any, features: Any = None) -> None:
        """Record a batch.

        Parameters
        ----------
        indices : (m,) integers
            Which rows of the training set these are.
        logits : (m, classes) numbers
            What the model says, before the softmax.
        labels : (m,) integers
            Class numbers.
        features : (m, s) numbers, optional
            What goes into the last layer. With it, GraNd of the last layer is recorded.

        Tensors on any device, arrays or lists. Row numbers and labels that a GPU holds are checked when
        they are fetched, a few hundred batches later or when a result is asked for.
        """
        values, classes = as_logits(logits, labels)
        statistics = {
            "right": is_right(values, classes),
            "el2n": lengths(errors(values, classes)),
            "margin": margins(values, classes),
            "known": (classes >= 0) & (classes < values.shape[1]),
        }
        if features is not None:
            statistics["grand"] = last_layer_grand(values, classes, features)
        if tuple(np.shape(indices)) != (len(values),):
            raise InvalidInputError(
                f"indices has shape {tuple(np.shape(indices))}: expected {len(values)} row numbers, one for "
                "each row of logits."
            )
        here = not is_tensor(values) or values.device.type == "cpu"
        # A loop may reuse the memory of its indices for the next batch.
        kept = indices.detach().clone() if is_tensor(indices) else np.array(indices)
        self._pending.append((kept, statistics))
        self._pending_rows += len(values)
        if here or self._pending_rows >= _FETCHED_AT_ONCE:
            self._fetch()

    def end_epoch(self) -> None:
        """Mark the end of an epoch.

        Only :attr:`first_learnt`, ``first_epochs``, ``over="last"`` and the history depend on it; without
        it all is one epoch.
        """
        self._fetch()
        if self._history is not None:
            for name, mean in self._current.items():
                self._history.setdefault(name, []).append(mean.values().astype(np.float32))
        self._last, self._current = self._current, {}
        self.epoch += 1

    @property
    def presentations(self) -> NDArray[np.int64]:
        """How often each row was presented, shape (n,)."""
        self._fetch()
        if "margin" not in self._overall:
            return np.zeros(self.n_rows, dtype=np.int64)
        return self._overall["margin"].counts.astype(np.int64)

    @property
    def first_learnt(self) -> NDArray[np.int32]:
        """The epoch, from 0, in which each row was first classified correctly; -1 if never; shape (n,)."""
        self._fetch()
        return self._counter.first_learnt.copy()

    def forgetting(self) -> Vector:
        """Return how often each row was forgotten, shape (n,): per training, if several were merged.

        Infinity for a row that was never classified correctly: it counts as the most forgotten.
        """
        self._fetch()
        return self._counter.score() / self.runs

    def el2n(self, over: Over = "all") -> Vector:
        """Return the mean EL2N of each row, shape (n,).

        ``over="all"`` averages the presentations of all epochs, or of the first ``first_epochs``;
        ``over="last"`` those of the last epoch that ended.
        """
        return self._mean("el2n", over)

    def grand(self, over: Over = "all") -> Vector:
        """Return the mean GraNd of the last layer of each row, shape (n,); ``over`` as in :meth:`el2n`."""
        return self._mean("grand", over)

    def area_under_margin(self) -> Vector:
        """Return the mean margin of each row over the whole training, shape (n,)."""
        return self._mean("margin", "all")

    def history(self, statistic: Literal["el2n", "margin", "grand"]) -> NDArray[np.float32]:
        """Return a statistic of every epoch, shape (epochs, n); NaN where a row was not presented."""
        self._fetch()
        if self._history is None:
            raise InvalidInputError("history was not kept: make the recorder by Dynamics(n, history=True).")
        if statistic not in _MEANS:
            raise InvalidInputError(f"statistic={statistic!r}: expected one of {', '.join(_MEANS)}.")
        kept = self._history.get(statistic, [])
        return np.stack(kept) if kept else np.empty((0, self.n_rows), dtype=np.float32)

    @classmethod
    def merged(cls, runs: Sequence[Dynamics]) -> Dynamics:
        """Return the recordings of several trainings on the same rows as one: their scores are averages.

        Paul et al. average EL2N and GraNd over ten trainings that differ in their seed alone. The
        history is left behind.

        Examples
        --------
        >>> first, second = Dynamics(1), Dynamics(1)
        >>> first.update([0], [[0.0, 0.0]], [0])
        >>> second.update([0], [[-50.0, 50.0]], [0])
        >>> Dynamics.merged([first, second]).el2n().round(3)
        array([1.061])
        """
        recordings = list(runs)
        if not recordings or not all(isinstance(run, Dynamics) for run in recordings):
            raise InvalidTypeError("runs must be one or more Dynamics, one for each training.")
        n_rows = {run.n_rows for run in recordings}
        if len(n_rows) > 1:
            raise InvalidInputError(f"runs have {sorted(n_rows)} rows: expected trainings on the same rows.")
        whole = cls(recordings[0].n_rows)
        whole.runs = sum(run.runs for run in recordings)
        whole.epoch = max(run.epoch for run in recordings)
        for run in recordings:
            run._fetch()
            whole._counter.add(run._counter)
            for means, others in ((whole._overall, run._overall), (whole._last, run._last)):
                for name, mean in others.items():
                    means.setdefault(name, RunningMean(whole.n_rows)).merge(mean)
        return whole

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording to an ``.npz`` file, from which :meth:`load` restores it.

        Examples
        --------
        >>> import tempfile
        >>> recorder = Dynamics(2)
        >>> recorder.update([1], [[3.0, 0.0]], [1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     recorder.save(f"{folder}/run.npz")
        ...     Dynamics.load(f"{folder}/run.npz").forgetting()
        array([nan, inf])
        """
        self._fetch()
        first = 0 if self.first_epochs is None else self.first_epochs
        arrays: dict[str, Any] = {
            "format": np.array([1, self.n_rows, self.epoch, self.runs, first, self._history is not None]),
            "events": self._counter.events,
            "first_learnt": self._counter.first_learnt,
            "last_right": self._counter.last,
        }
        for place, means in self._places().items():
            for name, mean in means.items():
                arrays[f"{place}.{name}.sums"], arrays[f"{place}.{name}.counts"] = mean.sums, mean.counts
        for name, kept in (self._history or {}).items():
            arrays[f"history.{name}"] = np.stack(kept)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        write_file(Path(path), [buffer.getbuffer()])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Dynamics:
        """Read a recording that :meth:`save` wrote; recording can be resumed."""
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls._restored({name: file[name] for name in file.files})
        except FileNotFoundError:
            raise DataFileNotFoundError(f"path={str(path)!r}: there is no such file.") from None
        except (KeyError, TypeError, ValueError, OSError, zipfile.BadZipFile) as error:
            raise InvalidInputError(
                f"path={str(path)!r} is not a recording of training dynamics, or is damaged ({error})."
            ) from error

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]]) -> Dynamics:
        version, n_rows, epoch, runs, first, with_history = arrays["format"].tolist()
        if version != 1:
            raise ValueError("a newer gmmatch wrote it")
        whole = cls(n_rows, first_epochs=first or None, history=bool(with_history))
        whole.epoch, whole.runs = epoch, runs
        counter = whole._counter
        counter.events, counter.first_learnt = arrays["events"], arrays["first_learnt"]
        counter.last = arrays["last_right"]
        for place, means in whole._places().items():
            for name in _MEANS:
                if f"{place}.{name}.sums" in arrays:
                    sums, counts = arrays[f"{place}.{name}.sums"], arrays[f"{place}.{name}.counts"]
                    means[name] = RunningMean(n_rows, sums, counts)
        for name in _MEANS:
            if whole._history is not None and f"history.{name}" in arrays:
                whole._history[name] = list(arrays[f"history.{name}"])
        return whole

    def __repr__(self) -> str:
        return f"Dynamics({self.n_rows:,} rows, {self.epoch} epochs, {self.runs} runs)"

    def _places(self) -> dict[str, dict[str, RunningMean]]:
        return {"overall": self._overall, "current": self._current, "last": self._last}

    def _mean(self, name: str, over: str) -> Vector:
        self._fetch()
        if over not in ("all", "last"):
            raise InvalidInputError(f'over={over!r}: expected "all" or "last".')
        means = self._overall if over == "all" else self._last
        if name not in means and name == "grand":
            raise InvalidInputError(
                "GraNd was not recorded: give update(..., features=...) what goes into the last layer."
            )
        return means[name].values() if name in means else np.full(self.n_rows, np.nan)

    def _fetch(self) -> None:
        """Take in the batches that were computed where the logits lie."""
        pending, self._pending, self._pending_rows = self._pending, [], 0
        if not pending:
            return
        rows = self._checked([on_host(kept) for kept, _ in pending])
        for name in ("right", "known", *_MEANS):
            parts = [(part, on_host(statistics[name])) for part, (_, statistics) in zip(rows, pending, strict=True)
                     if name in statistics]  # fmt: skip
            if not parts:
                continue
            where, values = (np.concatenate(side) for side in zip(*parts, strict=True))
            if name == "known":
                if not values.all():
                    raise InvalidInputError(
                        "labels has class numbers that logits has no column for, first at row "
                        f"{where[np.argmin(values)]}."
                    )
            elif name == "right":
                self._counter.observe(where, values, self.epoch)
            else:
                counts = name == "margin" or self.first_epochs is None or self.epoch < self.first_epochs
                for means in (self._current, self._overall) if counts else (self._current,):
                    means.setdefault(name, RunningMean(self.n_rows)).add(where, values)

    def _checked(self, batches: list[NDArray[Any]]) -> list[Indices]:
        for rows in batches:
            if rows.dtype.kind not in "iu" or (
                len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < self.n_rows
            ):
                raise InvalidInputError(
                    f"indices must be whole numbers from 0 to {self.n_rows - 1}, the rows of the training set; "
                    f"got {rows.dtype} numbers from {rows.min()} to {rows.max()}."
                )
        return [rows.astype(np.int64, copy=False) for rows in batches]
