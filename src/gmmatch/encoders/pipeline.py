"""Rows to vectors at the model's pace: reading and preparing run beside the model.

Workers decode and preprocess while the caller's thread runs the model: threads beside a CPU, processes of torch's
``DataLoader`` beside a GPU. What is prepared ahead is bounded, and results come in the order of the source.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from gmmatch._checks import check_whole_number
from gmmatch._threads import available_cores
from gmmatch.data.images import BrokenImageError
from gmmatch.data.source import Batch, Id
from gmmatch.encoders.base import Encoder, Items, OnError, SmallerBatchWarning, Vectors
from gmmatch.encoders.models import free_memory, is_out_of_memory
from gmmatch.errors import GMMatchError, InvalidInputError, first_line
from gmmatch.groups import Label

_ROWS_PER_TASK = 32


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
    failures: list[Exception] = []
    pieces = _cut(batches, failures)
    prepare = partial(_prepare, encoder.prepare, skip=on_error == "skip")
    on_gpu = not str(getattr(encoder, "device", "cpu")).startswith("cpu")
    with closing((_in_processes if on_gpu else _in_threads)(prepare, pieces, threads)) as prepared:
        done: list[_Prepared] = []
        for result in prepared:
            if isinstance(result, Exception):
                raise result
            done.append(result)
            if result.is_last:
                yield _encode(done, model, dtype, on_error)
                done = []
    if failures:
        raise failures[0]


def check_options(workers: int | None, on_error: str) -> int:
    """Check the options of :func:`encode_batches` and return the number of threads."""
    if on_error not in ("raise", "skip"):
        raise InvalidInputError(f"on_error={on_error!r}: use raise or skip.")
    if workers is None:
        return available_cores()
    check_whole_number(workers, "workers")
    return workers


class _Piece(NamedTuple):
    """Some rows of a batch, so that several workers can prepare it."""

    batch: Batch
    is_last: bool


class _Prepared(NamedTuple):
    """What became of the rows of a piece; without the rows themselves, which may be large."""

    batch: Batch
    is_last: bool
    items: Any
    skipped: list[SkippedRow]


def _cut(batches: Iterable[Batch], failures: list[Exception]) -> Iterator[_Piece]:
    """Yield pieces of batches. If reading fails, that is noted for later: what came before is good."""
    try:
        for batch in batches:
            # An array needs no preparation worth a task; cutting it would only mean joining it again.
            size = max(1, len(batch)) if isinstance(batch.rows, np.ndarray) else _ROWS_PER_TASK
            for first in range(0, max(1, len(batch)), size):
                yield _Piece(batch[first : first + size], first + size >= len(batch))
    except Exception as error:
        failures.append(error)


def _prepare(prepare: Callable[[Items], Items], piece: _Piece, *, skip: bool) -> _Prepared | Exception:
    """Prepare some rows; if one of them is broken and may be skipped, one after the other."""
    batch = piece.batch
    skipped = []
    ready: Any = []
    try:
        try:
            ready = prepare(batch.rows)
        except BrokenImageError:
            if not skip:
                raise
            for position, row in enumerate(batch.rows):
                try:
                    ready.extend(prepare([row]))
                except BrokenImageError as error:
                    skipped.append(SkippedRow(batch.start + position, batch.ids[position], str(error)))
    except Exception as error:
        return error
    without_rows = Batch(None, batch.ids, batch.labels, batch.start)
    return _Prepared(without_rows, piece.is_last, ready, skipped)


def _in_threads(
    prepare: Callable[[_Piece], _Prepared | Exception], pieces: Iterator[_Piece], threads: int
) -> Generator[_Prepared | Exception, None, None]:
    """Prepare pieces in order. Threads suffice on a CPU: Pillow lets go of the interpreter for its work."""
    pending: deque[Future[_Prepared | Exception]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="gmmatch-prepare") as executor:
        try:
            for piece in pieces:
                pending.append(executor.submit(prepare, piece))
                if len(pending) > 2 * threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _in_processes(
    prepare: Callable[[_Piece], _Prepared | Exception], pieces: Iterator[_Piece], workers: int
) -> Generator[_Prepared | Exception, None, None]:
    """Prepare pieces in order in processes of torch's, for a GPU is faster than one interpreter."""
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(
        _Mapped(prepare), sampler=pieces, batch_size=None, num_workers=workers, collate_fn=_unchanged
    )
    try:
        for result in loader:
            tensor = isinstance(result, _Prepared) and hasattr(result.items, "numpy")
            yield result._replace(items=result.items.numpy()) if tensor else result
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise WorkerDiedError(
            f"A process that decodes rows ended early ({first_line(error)}): run again with fewer workers."
        ) from error


class _Mapped:
    """A dataset of torch whose "indices" are pieces; arrays of one shape travel by shared memory."""

    def __init__(self, prepare: Callable[[_Piece], _Prepared | Exception]) -> None:
        self.prepare = prepare

    def __getitem__(self, piece: _Piece) -> Any:
        import torch

        result = self.prepare(piece)
        if isinstance(result, Exception) or len({getattr(item, "shape", None) for item in result.items}) != 1:
            return result
        if not isinstance(result.items[0], np.ndarray):
            return result
        return result._replace(items=torch.from_numpy(np.stack(result.items)))


def _unchanged(result: Any) -> Any:
    return result


def _encode(
    pieces: Sequence[_Prepared], model: BackingOff, dtype: DTypeLike | None, on_error: OnError
) -> EncodedBatch:
    batch = Batch(
        None,
        [name for piece in pieces for name in piece.batch.ids],
        None if pieces[0].batch.labels is None else [label for p in pieces for label in p.batch.labels or ()],
        pieces[0].batch.start,
    )
    skipped = [row for piece in pieces for row in piece.skipped]
    alone = len(pieces) == 1 and isinstance(pieces[0].items, np.ndarray)
    items = pieces[0].items if alone else [item for piece in pieces for item in piece.items]
    return _finish(batch, skipped, model(items), model, dtype, on_error)


def _finish(
    batch: Batch,
    skipped: list[SkippedRow],
    vectors: Vectors,
    model: BackingOff,
    dtype: DTypeLike | None,
    on_error: OnError,
) -> EncodedBatch:
    broken = {row.row - batch.start for row in skipped}
    kept = [position for position in range(len(batch)) if position not in broken]
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


class WorkerDiedError(GMMatchError, RuntimeError):
    """A process that prepared rows ended before its work was done."""


class OutOfMemoryError(GMMatchError, MemoryError):
    """Not even one row at a time fits into memory."""


class BackingOff:
    """Encodes batches whole as long as memory lasts, then in halves, quarters and so on."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.limit: int | None = None

    def __call__(self, batch: Items) -> Vectors:
        """Encode what the encoder's ``prepare`` returned."""
        if not len(batch):
            return np.empty((0, self.encoder.n_features or 0), dtype=np.float32)
        while True:
            size = len(batch) if self.limit is None else min(self.limit, len(batch))
            try:
                parts = [self.encoder.encode(batch[i : i + size]) for i in range(0, len(batch), size)]
                return parts[0] if len(parts) == 1 else np.concatenate(parts)
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
