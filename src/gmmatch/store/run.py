"""Embedding a source: rows through an encoder into a store, resumed where it was interrupted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gmmatch._array import Indices
from gmmatch._checks import check_whole_number
from gmmatch.data.source import BrokenRowError, Id, Source
from gmmatch.encoders.base import Encoder, OnError
from gmmatch.encoders.pipeline import SkippedRow, check_options, encode_batches
from gmmatch.errors import InvalidInputError
from gmmatch.files import as_path
from gmmatch.rows.engine import RayEngine, parse_engine
from gmmatch.store.adding import add_rows, finish_replacing, has_grown
from gmmatch.store.manifest import Manifest, find_manifest
from gmmatch.store.store import delete_store, open_store
from gmmatch.store.writer import StoreWriter, checked_dtype

Progress: TypeAlias = Callable[[int, int], object]
"""Called with the rows of the source that are done, and how many there are."""


@dataclass(frozen=True)
class EmbedReport:
    """What :func:`embed` did.

    Attributes
    ----------
    path
        The store.
    n_rows, n_features, dtype
        What it holds now.
    n_encoded
        Rows that were encoded this time, without those that had to be encoded again to fill a batch.
    n_before
        Rows that were in the store already.
    skipped
        All rows of the source that are not in the store, those of earlier runs included.
    batch_size, rows_at_once
        Rows per batch, and how many of them the model was given at a time: fewer if memory ran out.
    seconds
        How long it took.

    Examples
    --------
    >>> report = EmbedReport(Path("x.emb"), 100, 8, "float32", 60, 40, (), 20, 20, 3.0)
    >>> report.rows_per_second
    20.0
    """

    path: Path
    n_rows: int
    n_features: int
    dtype: str
    n_encoded: int
    n_before: int
    skipped: tuple[SkippedRow, ...]
    batch_size: int
    rows_at_once: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        """Rows encoded this time per second."""
        return self.n_encoded / self.seconds if self.seconds > 0 else 0.0


def embed(
    source: Source,
    encoder: Encoder,
    store_path: str | os.PathLike[str],
    *,
    batch_size: int | None = None,
    workers: int | None = None,
    dtype: str = "auto",
    on_error: OnError = "raise",
    progress: Progress | None = None,
    rows_per_shard: int | None = None,
    checkpoint_seconds: float = 60.0,
    engine: Any = None,
) -> EmbedReport:
    """Encode all rows of a source into a store.

    It resumes if interrupted, by Ctrl-C or by a power failure: the same call continues after the last row that is
    safe on disk. Batches are cut at multiples of ``batch_size`` from the source's first row
    wherever the work began, so a store made in many runs is the same, byte for byte, as one made at
    once, provided that the machine, the encoder's device and ``batch_size`` are the same. (If memory runs out at one
    of them but not at another, the last digits can differ.)

    If the source has changed since, rows that the store has, by their ids, are not encoded again: new ones are added,
    ones that are gone are dropped, and labels are those of the source. An image file that was written later than the
    store is encoded again; whether other rows have changed under the same id cannot be recognized.

    Parameters
    ----------
    source
        See :func:`gmmatch.data.open_source`.
    encoder
        See :func:`gmmatch.encoders.load_encoder`; it must take the kind of rows that the source has.
    store_path
        The folder of the store; made if it is missing.
    batch_size
        Rows to encode at a time; by default what the store was started with, else the encoder's choice.
        Halved as often as needed when memory runs out.
    workers
        Threads that decode and preprocess while the model runs; one per core by default.
    engine
        A :class:`~gmmatch.RayEngine`, or its name, such as ``"ray:8"``: encode on the workers of a cluster, each with
        the model. The rows and their order are the same, and so are the shards if no row is skipped.
    dtype
        Of the numbers on disk: ``"float16"``, ``"float32"``, or ``"auto"``: what the store was started with,
        else what the encoder computes in.
    on_error
        ``"raise"`` stops at a row that cannot be encoded and names it; what came before is kept.
        ``"skip"`` leaves it out and reports it, as it always does with a row that has no text.
    progress
        Called after every batch.
    rows_per_shard, checkpoint_seconds
        See :class:`gmmatch.store.StoreWriter`.

    Returns
    -------
    EmbedReport

    Examples
    --------
    >>> import tempfile
    >>> from gmmatch.data.arrays import ArraySource
    >>> from gmmatch.encoders import load_encoder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = ArraySource(np.eye(3), labels=["a", "b", "a"])
    ...     report = embed(source, load_encoder("identity"), f"{folder}/x.emb")
    ...     report.n_rows, open_store(report.path).labels
    (3, array(['a', 'b', 'a'], dtype=object))
    """
    began = time.perf_counter()
    path = as_path(store_path)
    _check_kinds(source, encoder)
    if hasattr(encoder, "fit"):
        rows = (row for batch in source.batches(encoder.batch_size) for row in batch.rows)
        encoder.fit(row for row in rows if not isinstance(row, BrokenRowError))
    check_options(workers, on_error)
    finish_replacing(path)
    existing = find_manifest(path)
    size = _batch_size(batch_size, encoder, existing)
    kept_as = _dtype(dtype, encoder, source, existing)
    options = {"workers": workers, "dtype": kept_as, "on_error": on_error}
    shards = {"rows_per_shard": rows_per_shard, "checkpoint_seconds": checkpoint_seconds}
    on = None if engine is None else parse_engine(engine)
    run = _Run(encoder, size, options, progress or (lambda done, total: None), shards, on)
    n_before = run.into(source, path)
    store = open_store(path)
    if not len(store):
        raise _nothing_encoded(run)
    return EmbedReport(
        path=path,
        n_rows=len(store),
        n_features=store.n_features,
        dtype=str(store.dtype),
        n_encoded=len(store) - n_before,
        n_before=n_before,
        skipped=_all_skipped(source, store.source_rows, run),
        batch_size=size,
        rows_at_once=run.rows_at_once or size,
        seconds=time.perf_counter() - began,
    )


@dataclass
class _Run:
    """How rows are encoded into stores, and what became of them."""

    encoder: Encoder
    batch_size: int
    options: dict[str, Any]
    progress: Progress
    shards: dict[str, Any]
    engine: RayEngine | None = None
    rows_at_once: int | None = None
    n_read: int = 0
    n_total: int = 0
    skipped: dict[Id, str] = field(default_factory=dict)

    def into(self, source: Source, path: Path) -> int:
        """Encode what a store lacks of a source, and return how many rows it had."""
        existing = find_manifest(path)
        if existing is not None and not existing.n_rows:
            delete_store(path)  # nothing was done yet
            existing = None
        requested: dict[str, Any] = {
            "encoder": self.encoder.name,
            "encoder_fingerprint": self.encoder.fingerprint,
            "encoder_details": {**self.encoder.describe(), "batch_size": self.batch_size},
            "source": source.describe(),
            "source_fingerprint": source.fingerprint(),
            "n_features": self.encoder.n_features,
            "dtype": self.options["dtype"],
        }
        if existing is not None and has_grown(existing, source, requested, path):
            joined = requested | {"rows_per_shard": existing.rows_per_shard}
            return add_rows(source, path, joined, self.into)
        self.n_read, self.n_total = 0, source.n_rows
        if self.engine is not None:
            from gmmatch.store.cluster import encode_on_workers

            manifest = Manifest(**requested, rows_per_shard=self.shards["rows_per_shard"])
            how = {"batch_size": self.batch_size, **self.options}
            return encode_on_workers(source, self.encoder, path, manifest, self.engine, self.note, **how)
        with StoreWriter(path, **requested, **self.shards) as writer:
            n_before = writer.n_rows
            if not writer.complete:
                self._encode(source, writer)
        return n_before

    def _encode(self, source: Source, writer: StoreWriter) -> None:
        start = writer.resume_at(self.batch_size)
        self.note(start)
        batches = source.batches(self.batch_size, start=start)
        with closing(encode_batches(batches, self.encoder, **self.options)) as results:
            for result in results:
                if len(result.vectors):
                    writer.append(result.vectors, result.ids, result.labels, source_rows=result.rows)
                self.note(result.stop - result.start, result.skipped, result.rows_at_once)
        writer.finish()

    def note(self, n_rows: int, skipped: Iterable[SkippedRow] = (), rows_at_once: int | None = None) -> None:
        """Count rows of the source that are done."""
        self.n_read += n_rows
        self.skipped.update({row.id: row.reason for row in skipped})
        self.rows_at_once = min(filter(None, (self.rows_at_once, rows_at_once)), default=None)
        self.progress(self.n_read, self.n_total)


def _check_kinds(source: Source, encoder: Encoder) -> None:
    if source.kind != encoder.kind:
        names = {"image": "images", "text": "texts", "embedding": "vectors"}
        advice = "use encoder='identity'" if source.kind == "embedding" else "choose another encoder"
        raise InvalidInputError(
            f"encoder={encoder.name!r} takes {names[encoder.kind]}, but the source holds {names[source.kind]}: "
            f"{advice}."
        )


def _batch_size(requested: int | None, encoder: Encoder, existing: Manifest | None) -> int:
    if requested is not None:
        check_whole_number(requested, "batch_size")
        return int(requested)
    return int((existing and existing.encoder_details.get("batch_size")) or encoder.batch_size)


def _dtype(requested: str, encoder: Encoder, source: Source, existing: Manifest | None) -> str:
    if requested != "auto":
        return checked_dtype(requested)
    if existing is not None:
        return existing.dtype
    computed: Any = getattr(encoder, "dtype", None)
    if encoder.name == "identity":
        first = next(source.batches(1), None)
        computed = None if first is None else first.rows.dtype
    return "float16" if computed in ("float16", np.float16) else "float32"


def _nothing_encoded(run: _Run) -> InvalidInputError:
    if not run.skipped:
        return InvalidInputError("The source has no rows: there is nothing to encode.")
    first = next(iter(run.skipped.values()))
    return InvalidInputError(f"None of the {run.n_read:,} rows could be encoded. The first: {first}")


def _all_skipped(source: Source, kept: Indices, run: _Run) -> tuple[SkippedRow, ...]:
    """The rows that are not in the store: of this run with the reason, of earlier ones without."""
    missing = np.setdiff1d(np.arange(source.n_rows), kept, assume_unique=True).tolist()
    ids, reason = source.ids if missing else (), "It could not be encoded in an earlier run."
    return tuple(SkippedRow(row, ids[row], run.skipped.get(ids[row], reason)) for row in missing)
