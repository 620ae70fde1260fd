"""Rows to vectors at the model's pace: reading and preparing run beside the model.

One thread reads batches, others decode and preprocess pieces of them, and the caller's thread runs the model. Threads
suffice: Pillow and NumPy release the interpreter for nearly all that they do. What is prepared ahead is bounded, and
results come in the order of the source.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from gmmatch._checks import check_whole_number
from gmmatch._threads import available_cores
from gmmatch.data.images import BrokenImageError
from gmmatch.data.source import Batch, BrokenRowError, Id
from gmmatch.encoders.base import Encoder, Items, OnError, SmallerBatchWarning, Vectors
from gmmatch.errors import GMMatchError, InvalidInputError, first_line
from gmmatch.groups import Label

_MEMORY_MESSAGES = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")
_ROWS_PER_TASK = 8  # so few that Ctrl-C need not wait for large photographs


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
        ``"raise"`` stops at the first row that cannot be encoded (a broken image, a damaged line; NaN or infinity in
        the vector); ``"skip"`` leaves it out and lists it. A row without a text is always left out and listed.

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
    with closing(_prepare_ahead(batches, encoder, threads, on_error)) as prepared:
        for batch, pieces in prepared:
            yield _encode(batch, [piece.result() for piece in pieces], model, dtype, on_error)


def check_options(workers: int | None, on_error: str) -> int:
    """Check the options of :func:`encode_batches` and return the number of threads."""
    if on_error not in ("raise", "skip"):
        raise InvalidInputError(f"on_error={on_error!r}: use raise or skip.")
    if workers is None:
        return available_cores()
    check_whole_number(workers, "workers")
    return workers


_Piece: TypeAlias = "tuple[Items, list[SkippedRow]]"


def _prepare_ahead(
    batches: Iterable[Batch], encoder: Encoder, threads: int, on_error: OnError
) -> Generator[tuple[Batch, list[Future[_Piece]]], None, None]:
    """Yield batches with what will become of their pieces, and keep every thread busy meanwhile."""
    reader = ThreadPoolExecutor(1, thread_name_prefix="gmmatch-read")
    preparers = ThreadPoolExecutor(threads, thread_name_prefix="gmmatch-prepare")
    source = iter(batches)

    def read() -> tuple[Batch, list[Future[_Piece]]] | None:
        batch = next(source, None)
        if batch is None:
            return None
        # An array needs no preparation worth a task; cutting it would only mean joining it again.
        size = max(1, len(batch)) if isinstance(batch.rows, np.ndarray) else _ROWS_PER_TASK
        pieces = [batch[first : first + size] for first in range(0, len(batch), size)]
        return batch, [preparers.submit(_prepare, encoder, piece, on_error) for piece in pieces]

    ahead = deque([reader.submit(read)])
    try:
        while (task := ahead.popleft().result()) is not None:
            # One batch for the model to go on with, and work for every thread twice over.
            while len(ahead) <= -(-2 * threads // max(1, len(task[1]))):
                ahead.append(reader.submit(read))
            yield task
    finally:
        reader.shutdown(cancel_futures=True)
        preparers.shutdown(cancel_futures=True)


def _prepare(encoder: Encoder, piece: Batch, on_error: OnError) -> _Piece:
    """Prepare some rows, and leave out those that are broken if they may be skipped."""
    if isinstance(piece.rows, np.ndarray):
        return encoder.prepare(piece.rows), []
    items, skipped = list[Any](), list[SkippedRow]()
    for row, (item, name) in enumerate(zip(piece.rows, piece.ids, strict=True), piece.start):
        try:
            if isinstance(item, BrokenRowError):
                raise item
            items += encoder.prepare([item])
        except (BrokenImageError, BrokenRowError) as error:
            if on_error == "skip" or (isinstance(error, BrokenRowError) and error.missing):
                skipped.append(SkippedRow(row, name, str(error)))
                continue
            hint = "on_error='skip' leaves such rows out"
            if isinstance(error, BrokenImageError):
                raise BrokenImageError(error.name, f"{error.reason}; {hint}") from None
            raise BrokenRowError(f"{error} {hint}.") from None
    return items, skipped


def _encode(
    batch: Batch, pieces: Sequence[_Piece], model: BackingOff, dtype: DTypeLike | None, on_error: OnError
) -> EncodedBatch:
    """Run the model on a batch, and leave out rows whose vectors are not finite."""
    items = pieces[0][0] if len(pieces) == 1 else [item for ready, _ in pieces for item in ready]
    skipped = [row for _, rows in pieces for row in rows]
    kept = np.setdiff1d(np.arange(len(batch)), [row.row - batch.start for row in skipped])
    vectors = model(items)
    if len(vectors) != len(kept):
        raise InvalidInputError(
            f"encoder={model.encoder.name!r} made {len(vectors)} vectors of {len(kept)} rows."
        )
    if dtype is not None:
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is found below
            vectors = vectors.astype(dtype, copy=False)
    finite = np.asarray(np.isfinite(vectors).all(axis=1))
    if not finite.all():
        broken = [_not_finite(batch, row, vectors.dtype, model.encoder) for row in kept[~finite].tolist()]
        if on_error == "raise":
            raise InvalidInputError(broken[0].reason)
        skipped, vectors, kept = [*skipped, *broken], vectors[finite], kept[finite]
    positions = kept.tolist()
    return EncodedBatch(
        vectors=vectors,
        rows=[batch.start + position for position in positions],
        ids=[batch.ids[position] for position in positions],
        labels=None if batch.labels is None else [batch.labels[position] for position in positions],
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

    def __call__(self, batch: Items) -> Vectors:
        """Encode what the encoder's ``prepare`` returned."""
        if not len(batch):
            return np.empty((0, self.encoder.n_features or 0), dtype=np.float32)
        while True:
            size = min(self.limit or len(batch), len(batch))
            try:
                parts = [self.encoder.encode(batch[i : i + size]) for i in range(0, len(batch), size)]
                return np.concatenate(parts)
            except (MemoryError, RuntimeError) as error:
                reason = str(error) or type(error).__name__
                says_memory = any(text in reason.lower() for text in _MEMORY_MESSAGES)
                if not (isinstance(error, MemoryError) or says_memory):
                    raise
            # Only here, where the error and with it the model's intermediate results are gone, is there
            # anything to free.
            self._back_off(size, reason)

    def _back_off(self, size: int, reason: str) -> None:
        device = str(getattr(self.encoder, "device", "cpu"))
        if device.startswith("cuda"):
            import torch

            # So that a smaller batch finds it in one piece.
            torch.cuda.empty_cache()
        if size == 1:
            raise OutOfMemoryError(
                f"encoder={self.encoder.name!r}: one row alone does not fit into the memory of device={device!r} "
                f"({first_line(reason)}): use a smaller model, or device='cpu'."
            )
        if self.limit is None:
            message = f"Memory ran out with {size} rows at a time; going on with {(size + 1) // 2}, or fewer."
            warnings.warn(message, SmallerBatchWarning, stacklevel=4)
        self.limit = (size + 1) // 2
