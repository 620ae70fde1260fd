"""Encoding on the workers of a Ray cluster: each has the model, and writes shards where the store lies.

The rows of a source are cut into shards by their numbers, and shards into pieces, so that many workers share few
shards. A worker encodes pieces, one after another; what it needs comes with its start or with the call, so a worker
that died is replaced and its piece encoded again. When all pieces of a shard are there, a task writes it, and then
the manifest names it: whatever happens later, it is not encoded again.

Ray Data is not used: it keeps rows in order by holding back what is ready, and knows nothing of shards that exist.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.source import Batch, Source
from gmmatch.encoders._callable import FILE_MODULE
from gmmatch.encoders.base import Encoder, OnError
from gmmatch.encoders.pipeline import SkippedRow, encode_batches
from gmmatch.errors import InvalidInputError, imported
from gmmatch.files import as_path
from gmmatch.rows.engine import RayEngine
from gmmatch.rows.workers import Workers, share
from gmmatch.store.commits import Commits
from gmmatch.store.manifest import Manifest
from gmmatch.store.shard import ArrowShard, RowTable, default_rows_per_shard, write_shard

# Pieces of the source for each worker, so that all end at about the same time.
_PIECES_PER_WORKER = 8
# A worker has this many calls, so that it does not wait for the next one.
_CALLS_PER_WORKER = 2
# Shards that were written are added to the manifest so often at most, and for no more than this share of the time.
_COMMIT_SECONDS, _COMMIT_SHARE = 2.0, 0.05


@dataclass(frozen=True)
class Encoding:
    """How rows are encoded.

    Attributes
    ----------
    batch_size : int
    dtype : str
    threads : int
        That prepare rows.
    on_error : "raise" or "skip"
    on_gpu : bool
    """

    batch_size: int
    dtype: str
    threads: int
    on_error: OnError
    on_gpu: bool


@dataclass(frozen=True)
class Piece:
    """Rows of the source that a worker encodes at a time: those from ``first`` to ``stop - 1``, of one shard."""

    shard: int
    first: int
    stop: int


@dataclass
class Encoded:
    """What a run has encoded."""

    n_rows: int = 0
    n_read: int = 0
    skipped: list[SkippedRow] = field(default_factory=list)
    rows_at_once: int | None = None


class EncodingWorker:
    """Encodes pieces of a source; what it needs comes with each call, as references, and is kept."""

    def __init__(self) -> None:
        self.source: Source
        self.encoder: Any
        self.encoding: Encoding
        self._is_ready = False
        # Where the reading is, so that the next piece is not looked for from the beginning; it can be made again.
        self._batches: Iterator[Batch] = iter(())
        self._next_row = -1

    def ping(self) -> None:
        """Answer, also while a piece is encoded."""

    def encode(
        self, references: tuple[Any, ...], piece: Piece
    ) -> tuple[tuple[NDArray[Any], RowTable], Encoded]:
        """Return the vectors of a piece, what else its rows have, and a summary.

        References are to a Source, to an Encoder with its model in main memory, and to an Encoding.
        """
        if not self._is_ready:
            ray = imported("ray", "RayEngine needs Ray", "ray")
            self.source, self.encoder, self.encoding = ray.get(list(references))
            if self.encoding.on_gpu and hasattr(self.encoder, "to_device"):
                self.encoder.to_device("cuda")
            self._is_ready = True
        how, done, blocks, table = self.encoding, Encoded(n_read=piece.stop - piece.first), [], RowTable()
        results = encode_batches(
            self._read(piece), self.encoder, workers=how.threads, dtype=how.dtype, on_error=how.on_error
        )
        for result in results:
            low, high = np.searchsorted(result.rows, (piece.first, piece.stop))
            blocks.append(result.vectors[low:high])
            table.source_rows += result.rows[low:high]
            table.ids += result.ids[low:high]
            if result.labels is not None:
                table.labels = (table.labels or []) + result.labels[low:high]
            done.skipped += [row for row in result.skipped if piece.first <= row.row < piece.stop]
            done.rows_at_once = result.rows_at_once
        done.n_rows = len(table)
        if self.source.has_labels and table.labels is None:
            table.labels = []
        vectors = np.concatenate([block for block in blocks if len(block)] or blocks)
        return (vectors, table), done

    def _read(self, piece: Piece) -> Iterator[Batch]:
        """Yield the batches that have rows of a piece: cut as without workers, so that their vectors are the same."""
        size = self.encoding.batch_size
        first = piece.first - piece.first % size
        if first != self._next_row:
            self._batches = self.source.batches(size, start=first)
        self._next_row = -1  # until all is read
        for _ in range(first, piece.stop, size):
            yield next(self._batches)
        self._next_row = first + -(-(piece.stop - first) // size) * size


def encode_on_workers(
    source: Source, encoder: Encoder, path: Path, requested: Manifest, encoding: Encoding, engine: RayEngine,
    report: Any,
) -> tuple[int, Encoded]:  # fmt: skip
    """Encode what a store lacks of a source; return how many rows it had, and what was done.

    Parameters
    ----------
    source, encoder
    path : Path
        The store, which must lie under the same name on all machines.
    requested : Manifest
        What the store is to hold.
    encoding : Encoding
    engine : RayEngine
    report : callable
        Called with the rows of the source that are done, and how many there are.
    """
    if source.n_rows is None:
        raise InvalidInputError(
            "engine=: the source is a stream without a length; leave the engine out, or save it."
        )
    if not str(getattr(encoder, "device", "cpu")).startswith("cpu"):
        raise InvalidInputError(
            "engine=: the model is on a device of this machine; load it with device='cpu', for workers copy it to "
            "theirs (RayEngine(num_gpus=1))."
        )
    commits = Commits(path, requested)
    try:
        run = _Run(source, encoder, commits, encoding, report)
        n_before = run.n_before
        if not commits.manifest.complete:
            run.encode(engine)
        return n_before, run.done
    finally:
        commits.close()


class _Run:
    """The shards that are missing, and the workers that make them."""

    def __init__(
        self, source: Source, encoder: Encoder, commits: Commits, encoding: Encoding, report: Any
    ) -> None:
        self.source, self.encoder, self.commits = source, encoder, commits
        self.encoding, self.report, self.done = encoding, report, Encoded()
        manifest = commits.manifest
        self.n_total = int(source.n_rows or 0)
        self.n_features = manifest.n_features or _measure_features(source, encoder, encoding)
        self.size = manifest.rows_per_shard or default_rows_per_shard(self.n_features, manifest.dtype)
        self.complete = self._find_complete(manifest)
        kept = [shard for shard in manifest.shards if shard.number in self.complete]
        self.n_before = sum(shard.n_rows for shard in kept)
        self.written: list[ArrowShard] = []
        self._next_commit = time.monotonic() + _COMMIT_SECONDS

    def encode(self, engine: RayEngine) -> None:
        """Encode the missing shards, and complete the store."""
        self.commits.manifest = replace(
            self.commits.manifest,
            n_features=self.n_features,
            rows_per_shard=self.size,
            has_labels=self.source.has_labels,
        )
        missing = [number for number in range(-(-self.n_total // self.size)) if number not in self.complete]
        self.done.n_read = self.n_total - sum(len(self._rows_of(number)) for number in missing)
        try:
            if missing:
                n_workers = engine.connect()
                ray = imported("ray", "RayEngine needs Ray", "ray")
                pieces = self._cut(missing, n_workers)
                n_workers = min(n_workers, len(pieces))
                # The code of a file goes along; workers cannot import it.
                for name in [name for name in sys.modules if name.startswith(FILE_MODULE)]:
                    ray.cloudpickle.register_pickle_by_value(sys.modules[name])
                shared = tuple(share(engine, value) for value in (self.source, self.encoder, self.encoding))
                workers = Workers(EncodingWorker, engine, [()] * n_workers)
                try:
                    self._run(ray, workers, shared, pieces)
                finally:
                    workers.close()
        finally:
            if self.written:
                self.commits.add(self.written)
        if not self.commits.manifest.n_rows:
            return  # the caller says that nothing could be encoded
        self.commits.add(complete=True)

    def _rows_of(self, number: int) -> range:
        return range(number * self.size, min((number + 1) * self.size, self.n_total))

    def _find_complete(self, manifest: Manifest) -> set[int]:
        """Return the shards that need no more rows.

        The last one may wait for more if it is not full. A run without workers fills shards up after rows that it
        skips; what follows them then has other numbers here.
        """
        shards = list(manifest.shards)
        full = next((shard for shard in reversed(shards) if shard.n_rows == self.size), None)
        if isinstance(full, ArrowShard):
            last = full.read_table(self.commits.path).source_rows[-1]
            if last not in self._rows_of(full.number):
                raise InvalidInputError(
                    f"{self.commits.path} was begun without an engine, and rows were skipped: leave the engine out."
                )
        if shards and not manifest.complete and shards[-1].n_rows < len(self._rows_of(shards[-1].number)):
            shards.pop()
        return {shard.number for shard in shards}

    def _cut(self, missing: list[int], n_workers: int) -> list[Piece]:
        """Return pieces of shards, at most as long as shards, and whole batches where that is possible."""
        n_rows = sum(len(self._rows_of(number)) for number in missing)
        length = max(1, n_rows // (_PIECES_PER_WORKER * n_workers))
        length = min(self.size, -(-length // self.encoding.batch_size) * self.encoding.batch_size)
        return [
            Piece(number, first, min(first + length, self._rows_of(number).stop))
            for number in missing
            for first in self._rows_of(number)[::length]
        ]

    def _run(self, ray: Any, workers: Workers, shared: tuple[Any, ...], pieces: list[Piece]) -> None:
        """Give pieces to workers and shards to writers, until all are written."""
        write = ray.remote(num_cpus=0, max_retries=-1)(_write)
        empty = np.empty((0, self.n_features), self.commits.manifest.dtype)
        # A run of neighbors for each worker, which reads them one after another; who is done helps the others.
        runs = [deque(run) for run in _split(pieces, len(workers.actors))]
        left = {
            number: sum(piece.shard == number for piece in pieces) for number in {p.shard for p in pieces}
        }
        blocks: dict[int, dict[int, Any]] = {number: {} for number in left}
        calls: dict[Any, tuple[int, Piece]] = {}
        writing: list[Any] = []

        def start(worker: int) -> None:
            piece = runs[worker].popleft() if runs[worker] else max(runs, key=len).pop()
            block, summary = workers.actors[worker].encode.options(num_returns=2).remote(shared, piece)
            blocks[piece.shard][piece.first], calls[summary] = block, (worker, piece)

        for worker in list(range(len(runs))) * _CALLS_PER_WORKER:
            if any(runs):
                start(worker)
        try:
            while calls or writing:
                for answer in workers.wait([*calls, *writing]):
                    [result] = workers.collect([answer])
                    if answer in writing:
                        writing.remove(answer)
                        self._commit(result)
                        continue
                    worker, piece = calls.pop(answer)
                    if any(runs):
                        start(worker)
                    self._note(result)
                    left[piece.shard] -= 1
                    if not left[piece.shard]:
                        parts = [block for _, block in sorted(blocks.pop(piece.shard).items())]
                        writing.append(write.remote(str(self.commits.path), piece.shard, empty, *parts))
        except BaseException:
            with suppress(Exception):  # shards that are complete are kept
                self.written += workers.collect(writing)
            raise

    def _note(self, result: Encoded) -> None:
        total = self.done
        total.n_read += result.n_read
        total.n_rows += result.n_rows
        total.skipped += result.skipped
        limits = [limit for limit in (total.rows_at_once, result.rows_at_once) if limit is not None]
        total.rows_at_once = min(limits, default=None)
        self.report(total.n_read, self.n_total)

    def _commit(self, shard: ArrowShard) -> None:
        self.written.append(shard)
        if (began := time.monotonic()) > self._next_commit:
            self.commits.add(self.written)
            self.written, now = [], time.monotonic()
            self._next_commit = now + max(_COMMIT_SECONDS, (now - began) / _COMMIT_SHARE)


def _write(
    folder: str, number: int, empty: NDArray[Any], *parts: tuple[NDArray[Any], RowTable]
) -> ArrowShard:
    """Join the pieces of a shard and write it."""
    tables = [table for _, table in parts]
    labels = None if tables[0].labels is None else [label for table in tables for label in table.labels or ()]
    joined = RowTable(
        [row for table in tables for row in table.source_rows],
        [name for table in tables for name in table.ids],
        labels,
    )
    filled = [vectors for vectors, _ in parts if len(vectors)] or [empty]
    return write_shard(as_path(folder), number, joined, np.concatenate(filled))


def _split(pieces: list[Piece], n_runs: int) -> list[list[Piece]]:
    """Return runs of pieces, as equal as possible."""
    bounds = [len(pieces) * run // n_runs for run in range(n_runs + 1)]
    return [pieces[first:stop] for first, stop in pairwise(bounds)]


def _measure_features(source: Source, encoder: Encoder, encoding: Encoding) -> int:
    """Return how long a vector is; if the encoder cannot say, by the first row that can be encoded."""
    if encoder.n_features is not None:
        return int(encoder.n_features)
    for result in encode_batches(source.batches(1), encoder, workers=1, on_error=encoding.on_error):
        if len(result.vectors):
            return int(result.vectors.shape[1])
    raise InvalidInputError(f"None of the {source.n_rows:,} rows of the source could be encoded.")
