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
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain, groupby, islice, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.source import Batch, Source
from gmmatch.encoders._callable import FILE_MODULE
from gmmatch.encoders.base import Encoder
from gmmatch.encoders.pipeline import SkippedRow, encode_batches
from gmmatch.errors import InvalidInputError, imported
from gmmatch.rows.engine import RayEngine, Workers, share
from gmmatch.store.commits import Commits
from gmmatch.store.manifest import Manifest
from gmmatch.store.shard import ArrowShard, RowTable, default_rows_per_shard, write_shard

Chunk: TypeAlias = "tuple[RowTable, NDArray[Any]]"
"""Some rows that were encoded: what the table holds, and the vectors."""

# Pieces of the source for each worker, so that all end at about the same time.
_PIECES_PER_WORKER = 8
# A worker has this many calls, so that it does not wait for the next one.
_CALLS_PER_WORKER = 2
# Shards that were written are added to the manifest so often at most, and for no more than this share of the time.
_COMMIT_SECONDS, _COMMIT_SHARE = 2.0, 0.05


class EncodingWorker:
    """Encodes pieces of a source; what it needs comes with each call, as a reference, and is kept."""

    def __init__(self) -> None:
        self._job: tuple[Any, ...] = ()
        # Where the reading is, so that the next piece is not looked for from the beginning; it can be made again.
        self._batches: Iterator[Batch] = iter(())
        self._next_row = -1

    def ping(self) -> None:
        """Answer, also while a piece is encoded."""

    def encode(
        self, reference: tuple[Any], piece: range
    ) -> tuple[list[Chunk], tuple[list[SkippedRow], int | None]]:
        """Return the rows of a piece; and those that were skipped, with how many the model was given at a time.

        The reference is to a Source, an Encoder with its model in main memory, whether it goes to a GPU, the size of
        batches, the length of vectors, and the options of :func:`~gmmatch.encoders.pipeline.encode_batches`.
        """
        if not self._job:
            self._job = imported("ray", "RayEngine needs Ray", "ray").get(reference[0])
            _, encoder, on_gpu, *_ = self._job
            if on_gpu and hasattr(encoder, "to_device"):
                encoder.to_device("cuda")
        source, encoder, _, batch_size, n_features, options = self._job
        chunks, skipped, rows_at_once = [], [], None
        for result in encode_batches(self._read(source, batch_size, piece), encoder, **options):
            low, high = np.searchsorted(result.rows, (piece.start, piece.stop))
            table = RowTable(result.rows, result.ids, result.labels)[low:high]
            chunks.append((table, result.vectors[low:high].reshape(-1, n_features)))
            skipped += [row for row in result.skipped if row.row in piece]
            rows_at_once = result.rows_at_once
        return chunks, (skipped, rows_at_once)

    def _read(self, source: Source, size: int, piece: range) -> Iterator[Batch]:
        """Yield the batches that have rows of a piece: cut as without workers, so that their vectors are the same."""
        first = piece.start - piece.start % size
        if first != self._next_row:
            self._batches = source.batches(size, start=first)
        self._next_row = -1  # until all is read
        starts = range(first, piece.stop, size)
        yield from islice(self._batches, len(starts))
        self._next_row = starts[-1] + size


def encode_on_workers(
    source: Source, encoder: Encoder, path: Path, requested: Manifest, engine: RayEngine, note: Any, batch_size: int,
    **options: Any,
) -> int:  # fmt: skip
    """Encode what a store lacks of a source; return how many rows it had.

    Parameters
    ----------
    source, encoder
    path : Path
        The store, which must lie under the same name on all machines.
    requested : Manifest
        What the store is to hold.
    engine : RayEngine
    note : callable
        Called with how many rows of the source are done, which of them were skipped, and how many the model was given
        at a time.
    batch_size : int
    **options
        Of :func:`~gmmatch.encoders.pipeline.encode_batches`.
    """
    if not str(getattr(encoder, "device", "cpu")).startswith("cpu"):
        raise InvalidInputError(
            "engine=: the model is on a device of this machine; load it with device='cpu', for workers copy it to "
            "theirs (RayEngine(num_gpus=1))."
        )
    options["workers"] = options["workers"] or max(1, int(engine.num_cpus))
    with Commits(path, requested) as commits:
        manifest = commits.manifest
        if manifest.complete:
            return manifest.n_rows
        n_features = manifest.n_features or _measure_features(source, encoder, options)
        size = manifest.rows_per_shard or default_rows_per_shard(n_features, manifest.dtype)
        commits.manifest = replace(
            manifest, n_features=n_features, rows_per_shard=size, has_labels=source.has_labels
        )
        shards = {n: range(source.n_rows)[n * size :][:size] for n in range(-(-source.n_rows // size))}
        kept = _find_kept(commits, shards)
        missing = [rows for number, rows in shards.items() if number not in kept]
        n_missing = sum(map(len, missing))
        note(source.n_rows - n_missing)
        written: list[ArrowShard] = []
        if missing:
            n_workers = engine.connect()
            # Pieces are at most as long as shards, and whole batches where that is possible.
            length = -(-n_missing // (_PIECES_PER_WORKER * n_workers))
            length = min(size, -(-length // batch_size) * batch_size)
            pieces = [rows[first:][:length] for rows in missing for first in range(0, len(rows), length)]
            job = (source, encoder, engine.num_gpus > 0, batch_size, n_features, options)
            written = _encode_pieces(commits, engine, job, pieces, min(n_workers, len(pieces)), note)
        commits.add(written, complete=True)
        return sum(kept.values())


def _find_kept(commits: Commits, shards: dict[int, range]) -> dict[int, int]:
    """Return the shards that need no more rows, with how many they have.

    The last one may wait for more if it is not full. A run without workers fills shards up after rows that it
    skips; what follows them then has other numbers here.
    """
    last = next(reversed(commits.manifest.shards), None)
    kept = {shard.number: shard.n_rows for shard in commits.manifest.shards}
    if last is not None and last.n_rows < len(shards[last.number]):
        del kept[last.number]
    full = [shard for shard in commits.manifest.shards if shard.n_rows == commits.manifest.rows_per_shard]
    if full and full[-1].read_table(commits.path).source_rows[-1] not in shards[full[-1].number]:
        raise InvalidInputError(f"{commits.path} was begun without an engine and skipped rows: leave it out.")
    return kept


def _encode_pieces(
    commits: Commits, engine: RayEngine, job: Any, pieces: list[range], n_workers: int, note: Any
) -> list[ArrowShard]:
    """Give pieces to workers and shards to writers; return the last shards, which are written, but not added yet."""
    ray = imported("ray", "RayEngine needs Ray", "ray")
    for name in [name for name in sys.modules if name.startswith(FILE_MODULE)]:
        # The code of a file goes along; workers cannot import it.
        ray.cloudpickle.register_pickle_by_value(sys.modules[name])
    reference, size = (share(engine, job),), commits.manifest.rows_per_shard or 0
    write = ray.remote(num_cpus=0, max_retries=-1)(_write)
    workers = Workers(EncodingWorker, engine, [()] * n_workers)
    # A run of neighbors for each worker, which reads them one after another; who is done helps the others.
    edges = [len(pieces) * worker // n_workers for worker in range(n_workers + 1)]
    runs = [deque(pieces[first:stop]) for first, stop in pairwise(edges)]
    pieces_of = {number: list(some) for number, some in groupby(pieces, lambda piece: piece.start // size)}
    chunks: dict[range, Any] = {}
    calls: dict[Any, tuple[int, range, Any] | None] = {}  # None for a call that writes a shard
    written: list[ArrowShard] = []
    next_commit = time.monotonic() + _COMMIT_SECONDS

    def start(worker: int) -> None:
        if any(runs):
            piece = runs[worker].popleft() if runs[worker] else max(runs, key=len).pop()
            chunk, summary = workers.actors[worker].encode.options(num_returns=2).remote(reference, piece)
            calls[summary] = worker, piece, chunk

    try:
        for worker in list(range(n_workers)) * _CALLS_PER_WORKER:
            start(worker)
        while calls:
            for answer in workers.wait([*calls]):
                [result] = workers.collect([answer])
                call = calls.pop(answer)
                if call is None:
                    written.append(result)
                    continue
                worker, piece, chunks[piece] = call
                start(worker)
                note(len(piece), *result)
                number = piece.start // size
                if all(piece in chunks for piece in pieces_of[number]):
                    ready = [chunks.pop(piece) for piece in pieces_of[number]]
                    calls[write.remote(commits.path, number, *ready)] = None
            if (began := time.monotonic()) > next_commit:
                commits.add(written)
                written, now = [], time.monotonic()
                next_commit = now + max(_COMMIT_SECONDS, (now - began) / _COMMIT_SHARE)
    except BaseException:
        with suppress(Exception):  # shards that are complete are kept
            written += workers.collect([answer for answer, call in calls.items() if call is None])
            commits.add(written)
        raise
    finally:
        workers.close()
    return written


def _write(folder: Path, number: int, *pieces: list[Chunk]) -> ArrowShard:
    """Join the pieces of a shard and write it."""
    tables, vectors = zip(*chain.from_iterable(pieces), strict=True)
    return write_shard(folder, number, RowTable.join(tables), np.concatenate(vectors))


def _measure_features(source: Source, encoder: Encoder, options: dict[str, Any]) -> int:
    """Return how long a vector is; if the encoder cannot say, by the first row that can be encoded."""
    if encoder.n_features is not None:
        return int(encoder.n_features)
    with closing(encode_batches(source.batches(1), encoder, **options)) as results:
        for result in results:
            if len(result.vectors):
                return int(result.vectors.shape[1])
    raise InvalidInputError(f"None of the {source.n_rows:,} rows of the source could be encoded.")
