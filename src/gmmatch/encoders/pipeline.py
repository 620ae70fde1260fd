"""Rows to vectors at the model's pace: reading and preparing run beside the model.

One thread reads the source, ``workers`` threads decode and preprocess, and the caller's thread runs the model.
Threads suffice for a model on a CPU: Pillow and NumPy let go of the interpreter while they work on pixels. Beside a
GPU each of them has a process to do its work, and a batch is started before the vectors of the last one are fetched.
What is prepared ahead is bounded, and results come in the order of the source.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from gmmatch._checks import check_whole_number
from gmmatch._threads import available_cores
from gmmatch.data.images import BrokenImageError, ImageBytes
from gmmatch.data.source import Batch, Id
from gmmatch.encoders.base import Encoder, Items, OnError, SmallerBatchWarning, Vectors
from gmmatch.encoders.models import free_memory, is_out_of_memory
from gmmatch.encoders.worker import Worker
from gmmatch.errors import GMMatchError, InvalidInputError
from gmmatch.groups import Label

_ROWS_PER_TASK = 32
# Small pictures go four times as many at once: beside an H200 the parent then took 40 µs of CPU a row instead of 55.
_SMALL_TASK = 4 * _ROWS_PER_TASK
_SMALL_BYTES = 1 << 13


@dataclass(frozen=True)
class SkippedRow:
    """A row that could not be encoded.

    Attributes
    ----------
    row, id
        Its number and its id in the source.
    reason
        What was wrong, in one line.
    """

    row: int
    id: Id
    reason: str


@dataclass(frozen=True, eq=False)
class EncodedBatch:
    """The vectors of one batch of a source.

    Attributes
    ----------
    vectors : array of shape (b, s)
        One row per row of the source that could be encoded.
    rows, ids, labels
        Their numbers in the source, their ids and their labels; ``labels`` is None if the source has none.
    start, stop
        Which rows of the source were read: ``start`` to ``stop - 1``.
    skipped
        Those of them that could not be encoded.
    rows_at_once
        How many rows the model was given at a time, if memory was too small for all; else None.
    """

    vectors: Vectors
    rows: list[int]
    ids: list[Id]
    labels: list[Label] | None
    start: int
    stop: int
    skipped: tuple[SkippedRow, ...]
    rows_at_once: int | None = None


def encode_batches(
    batches: Iterable[Batch],
    encoder: Encoder,
    *,
    workers: int | None = None,
    dtype: DTypeLike | None = None,
    on_error: OnError = "raise",
) -> Generator[EncodedBatch, None, None]:
    """Encode batches of a source, preparing the next ones meanwhile.

    Parameters
    ----------
    batches
        What :meth:`gmmatch.data.Source.batches` yields.
    encoder
        See :func:`gmmatch.encoders.load_encoder`.
    workers
        Threads that prepare rows; one per core by default.
    dtype
        Of the vectors; what the encoder returns by default.
    on_error
        ``"raise"`` stops at the first row that cannot be encoded (a broken image; NaN or infinity in
        the vector); ``"skip"`` leaves it out and lists it.

    Yields
    ------
    EncodedBatch
        One per batch, in order.

    Examples
    --------
    >>> from gmmatch.data.source import Batch
    >>> from gmmatch.encoders import load_encoder
    >>> batch = Batch(np.array([[1.0, 2.0], [np.nan, 0.0]]), ids=["a", "b"], labels=None)
    >>> [done] = encode_batches([batch], load_encoder("identity"), on_error="skip")
    >>> done.ids, done.skipped[0].id
    (['a'], 'b')
    """
    threads = check_options(workers, on_error)
    model = BackingOff(encoder)
    with _Preparation(batches, encoder, threads, skip=on_error == "skip") as preparation:
        starting = _starting(preparation, model)
        started: deque[_Started] = deque()
        failure: Exception | None = None
        while failure is None:
            try:
                started.append(next(starting))
            except Exception as error:  # what was started before is good
                failure = error
            while len(started) > (model.ahead if failure is None else 0):
                yield _finish(*started.popleft(), model, dtype, on_error)
        if not isinstance(failure, StopIteration):
            raise failure


def check_options(workers: int | None, on_error: str) -> int:
    """Check the options of :func:`encode_batches` and return the number of threads."""
    if on_error not in ("raise", "skip"):
        raise InvalidInputError(f"on_error={on_error!r}: use raise or skip.")
    if workers is None:
        return available_cores()
    check_whole_number(workers, "workers")
    return workers


_Task: TypeAlias = "tuple[Batch, list[Future[tuple[Items, list[SkippedRow]]]]]"
_Started: TypeAlias = "tuple[Batch, list[SkippedRow], Callable[[], Vectors]]"


class _Preparation:
    """The threads beside the model's; iterating gives batches in order, and when they will be ready."""

    def __init__(self, batches: Iterable[Batch], encoder: Encoder, threads: int, *, skip: bool) -> None:
        self.batches = iter(batches)
        self.encoder = encoder
        self.threads = threads
        self.skip = skip
        self.reader = ThreadPoolExecutor(1, thread_name_prefix="gmmatch-read")
        self.preparers = ThreadPoolExecutor(threads, thread_name_prefix="gmmatch-prepare")
        self.remote = getattr(encoder, "preparation", None)
        self.fetch = getattr(encoder, "fetch", np.copy)
        self.workers: list[Worker] = []
        self.of_thread = threading.local()

    def __enter__(self) -> _Preparation:
        return self

    def __exit__(self, *_: object) -> None:
        for threads in (self.reader, self.preparers):
            threads.shutdown(cancel_futures=True)
        for worker in self.workers:  # all at once: each takes some 60 ms
            worker.dismiss()
        for worker in self.workers:
            worker.close()

    def __iter__(self) -> Iterator[_Task]:
        ahead: deque[Future[_Task | None]] = deque([self.reader.submit(self._read)])
        while (task := ahead.popleft().result()) is not None:
            # One batch for the model to go on with, and work for every thread twice over.
            most = 1 + -(-2 * self.threads // len(task[1]))
            while len(ahead) < most:
                ahead.append(self.reader.submit(self._read))
            yield task

    def _read(self) -> _Task | None:
        """Read a batch and hand it to the preparing threads; None at the end of the source."""
        batch = next(self.batches, None)
        if batch is None:
            return None
        # An array needs no preparation worth a task; cutting it would only mean joining it again.
        size = len(batch) if isinstance(batch.rows, np.ndarray) else _rows_per_task(batch.rows)
        pieces = [batch[first : first + size] for first in range(0, len(batch), size)]
        return batch, [self.preparers.submit(self._prepared, piece) for piece in pieces]

    def _prepared(self, piece: Batch) -> tuple[Items, list[SkippedRow]]:
        """Prepare some rows; if one of them is broken and may be skipped, one after the other."""
        prepare = self._prepare()
        try:
            return prepare(piece.rows), []
        except BrokenImageError:
            if not self.skip:
                raise
        ready: list[Any] = []
        skipped = []
        for position, row in enumerate(piece.rows):
            try:
                ready.extend(prepare([row]))
            except BrokenImageError as error:
                skipped.append(SkippedRow(piece.start + position, piece.ids[position], str(error)))
        return ready, skipped

    def _prepare(self) -> Callable[[Items], Items]:
        """Return what this thread prepares rows with: the encoder, or a process of its own."""
        if self.remote is None:
            return self.encoder.prepare
        worker: Worker | None = getattr(self.of_thread, "worker", None)
        if worker is None:
            worker = self.of_thread.worker = Worker(self.remote, self.fetch)
            self.workers.append(worker)
        return worker.prepare


def _rows_per_task(rows: Sequence[Any]) -> int:
    small = all(isinstance(row, ImageBytes) and len(row.data) <= _SMALL_BYTES for row in rows[::16])
    return _SMALL_TASK if small else _ROWS_PER_TASK


def _starting(preparation: _Preparation, model: BackingOff) -> Iterator[_Started]:
    for batch, tasks in preparation:
        ready, skipped = _join(model.encoder, tasks)
        yield batch, skipped, model(ready)


def _join(encoder: Encoder, tasks: Sequence[Future[Any]]) -> tuple[Items, list[SkippedRow]]:
    parts = [task.result() for task in tasks]
    skipped = [row for _, rows in parts for row in rows]
    if len(parts) == 1 and isinstance(parts[0][0], np.ndarray):
        return parts[0][0], skipped
    collate = getattr(encoder, "collate", None)
    if collate is not None:
        return collate([items for items, _ in parts]), skipped
    return [item for items, _ in parts for item in items], skipped


def _finish(
    batch: Batch,
    skipped: list[SkippedRow],
    wait: Callable[[], Vectors],
    model: BackingOff,
    dtype: DTypeLike | None,
    on_error: OnError,
) -> EncodedBatch:
    broken = {row.row - batch.start for row in skipped}
    kept = [position for position in range(len(batch)) if position not in broken]
    vectors = wait()
    if len(vectors) != len(kept):
        raise InvalidInputError(
            f"encoder={model.encoder.name!r} returned {len(vectors)} vectors for {len(kept)} rows."
        )
    if dtype is not None:
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is found below
            vectors = vectors.astype(dtype, copy=False)
    if not np.isfinite(vectors).all():
        finite = np.asarray(np.isfinite(vectors).all(axis=1))
        for number in np.flatnonzero(~finite):
            skipped.append(_not_finite(batch, kept[number], vectors.dtype, model.encoder))
        if on_error == "raise":
            raise InvalidInputError(skipped[-int((~finite).sum())].reason)
        vectors = vectors[finite]
        kept = [position for position, good in zip(kept, finite.tolist(), strict=True) if good]
    return EncodedBatch(
        vectors=vectors,
        rows=[batch.start + position for position in kept],
        ids=[batch.ids[position] for position in kept],
        labels=None if batch.labels is None else [batch.labels[position] for position in kept],
        start=batch.start,
        stop=batch.start + len(batch),
        skipped=tuple(sorted(skipped, key=lambda row: row.row)),
        rows_at_once=model.limit,
    )


def _not_finite(batch: Batch, position: int, dtype: np.dtype[Any], encoder: Encoder) -> SkippedRow:
    row, name = batch.start + position, batch.ids[position]
    named = f"row {row}" if row == name else f"row {row} ({name})"
    reason = f"{named}: its vector has NaN or infinity in it"
    if dtype == np.float16 and encoder.kind != "embedding":
        reason += "; numbers above 65,504 do not fit into float16, where dtype='float32' would help"
    return SkippedRow(row, name, f"{reason}.")


class OutOfMemoryError(GMMatchError, MemoryError):
    """Not even one row at a time fits into memory."""


class BackingOff:
    """Encodes batches whole as long as memory lasts, then in halves, quarters and so on."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.limit: int | None = None
        self.start = getattr(encoder, "start", None) or self._encode
        self.ahead = int(hasattr(encoder, "start"))

    def _encode(self, batch: Items) -> Callable[[], Vectors]:
        vectors = self.encoder.encode(batch)
        return lambda: vectors

    def __call__(self, batch: Items) -> Callable[[], Vectors]:
        """Start to encode what the encoder's ``prepare`` returned, and return what waits for the vectors."""
        if not len(batch):
            return lambda: np.empty((0, self.encoder.n_features or 0), dtype=np.float32)
        while True:
            size = len(batch) if self.limit is None else min(self.limit, len(batch))
            try:
                parts = [self.start(batch[i : i + size]) for i in range(0, len(batch), size)]
                return lambda: parts[0]() if len(parts) == 1 else np.concatenate([wait() for wait in parts])
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                reason = str(error) or type(error).__name__
            # Only here, where the error and with it the model's intermediate results are gone, is there
            # anything to free.
            self._back_off(size, reason)

    def _back_off(self, size: int, reason: str) -> None:
        device = str(getattr(self.encoder, "device", "cpu"))
        free_memory(device)
        if size == 1:
            raise OutOfMemoryError(
                f"encoder={self.encoder.name!r}: one row alone does not fit into the memory of device={device!r} "
                f"({reason.splitlines()[0]}): use a smaller model, or device='cpu'."
            )
        if self.limit is None:
            warnings.warn(
                f"Memory ran out with {size} rows at a time; going on with {(size + 1) // 2}, or fewer if "
                "need be.",
                SmallerBatchWarning,
                stacklevel=4,
            )
        self.limit = (size + 1) // 2
