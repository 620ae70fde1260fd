"""Rows on the workers of a Ray cluster.

A worker holds the rows of its shard and nothing else: groups, weights, masks and functions come with each call.
So a call can be repeated on a restarted worker with the same outcome, and Ray's own restarts and retries are
enough. Shards are runs of whole blocks, and results are combined along the tree over all blocks, so they do not
depend on the number of workers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix, is_torch_array, start_indices, to_numpy
from gmmatch._containers import is_ray_dataset
from gmmatch.errors import GMMatchError, imported
from gmmatch.rows.array import ArrayRows
from gmmatch.rows.base import BlockFunction, Combine, LocalRows, PerRow, RowMap, Rows
from gmmatch.rows.dataset import VectorBlock, read_vectors
from gmmatch.rows.engine import RayEngine, SilentError, parse_engine, reason_of, within
from gmmatch.rows.files import FileRows
from gmmatch.rows.shards import RowFile
from gmmatch.rows.tree import TreeFold, block_edges

__all__ = ["RayEngine", "RayRows", "WorkerLostError", "parse_engine"]

# Larger arguments are stored once per machine instead of being sent to each worker.
_SHARED_BYTES = 1 << 16
# How long a call may take before the driver asks whether its worker still lives.
_CHECK_SECONDS = 5.0
# How much longer than it was allowed to a call of Ray may take before this machine's part of Ray counts as dead.
_SILENT_SECONDS = 10.0
# Mapped rows that a worker keeps: of the last space, and of the one before it.
_KEPT_MAPS = 2


class WorkerLostError(GMMatchError, RuntimeError):
    """A worker died more often than it may be restarted, or there is no machine to restart it on."""


@dataclass(frozen=True)
class Blocks:
    """References to arrays that hold the rows of one worker, after some that are not its own."""

    references: tuple[Any, ...]
    skipped: int = 0

    def load(self, n_rows: int) -> NDArray[Any]:
        """Return the rows, without a copy where they lie in one array."""
        arrays = [_get(reference) for reference in self.references]
        rows: NDArray[Any] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return rows[self.skipped : self.skipped + n_rows]


class Shard:
    """The rows of one worker.

    Rows of an array or a dataset come with each call, as references, and are kept; so a worker that was restarted has
    them again.

    Parameters
    ----------
    files : sequence of RowFile, optional
        What the worker reads itself.
    span : pair of ints
        The first of its rows in the files, and the one after its last.
    edges : int64 array
        Where the blocks of the shard begin, counted in its own rows.
    first_block : int
        The number of its first block.
    n_jobs : int
        Threads.
    on_gpu : bool
        Whether the rows are held as a tensor on the worker's GPU.
    """

    def __init__(
        self,
        files: Sequence[RowFile] | None,
        span: tuple[int, int],
        edges: Indices,
        first_block: int,
        *,
        n_jobs: int,
        on_gpu: bool,
    ) -> None:
        self.files, self.span, self.edges, self.first_block = files, span, edges, first_block
        self.n_jobs, self.on_gpu = n_jobs, on_gpu
        # What can be made again, no state: the rows, and those after some maps.
        self._rows: LocalRows | None = None
        self._mapped: OrderedDict[tuple[str, ...], LocalRows] = OrderedDict()

    def ping(self) -> None:
        """Answer, also while a call is at work."""

    def run(
        self,
        spaces: tuple[Any, ...],
        function: BlockFunction,
        args: tuple[Any, ...],
        combine: Combine | None,
        *per_row: Any,
    ) -> Any:
        """Return the results of the shard's blocks: joined, or combined to the largest subtrees."""
        results = self._open(*spaces).iterate_blocks(function, args, per_row, self.edges)
        if combine is None:
            return np.concatenate([to_numpy(result) for result in results])
        nodes = TreeFold.of(results, combine, self.first_block).nodes
        return [(first, size, to_numpy(value)) for first, size, value in nodes]

    def take(self, spaces: tuple[Any, ...], index: Indices) -> Matrix:
        """Return rows by their number in the shard."""
        return self._open(*spaces).take(index)

    def _open(self, blocks: Blocks | None, *maps: Any) -> LocalRows:
        """Return the rows of blocks, or of the files without any, after some maps; all are given as references."""
        if self._rows is None:
            rows: Any = (
                FileRows(self.files or (), self.span, n_jobs=self.n_jobs)
                if blocks is None
                else ArrayRows(blocks.load(int(self.edges[-1])), self.n_jobs)
            )
            self._rows = _to_device(rows) if self.on_gpu else rows
        if not maps:
            return self._rows
        names = tuple(reference.hex() for reference in maps)
        if names not in self._mapped:
            rows = self._open(blocks, *maps[:-1]).map(_get(maps[-1]))
            self._mapped[names] = rows
            while len(self._mapped) > _KEPT_MAPS:
                self._mapped.popitem(last=False)
        self._mapped.move_to_end(names)
        return self._mapped[names]


def _get(reference: Any) -> Any:
    import ray

    return ray.get(reference)


def _to_device(rows: LocalRows) -> LocalRows:
    """Return rows as a tensor on the worker's GPU, copied block by block; on the processor if torch finds no GPU."""
    import torch

    from gmmatch.rows.tensor import TensorRows

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    edges = block_edges(len(rows), rows.n_features).tolist()
    dtype = torch.as_tensor(np.array(rows.block(0, 1))).dtype
    tensor = torch.empty((len(rows), rows.n_features), dtype=dtype, device=device)
    for first, stop in pairwise(edges):
        tensor[first:stop] = torch.as_tensor(np.array(rows.block(first, stop)), device=device)
    return TensorRows(tensor)


def _cut(blocks: Sequence[VectorBlock], first: int, stop: int) -> Blocks:
    """Return the blocks that hold a run of rows."""
    starts = start_indices([block.n_rows for block in blocks])
    low, high = int(np.searchsorted(starts, first, side="right")) - 1, int(np.searchsorted(starts, stop))
    return Blocks(tuple(block.reference for block in blocks[low:high]), first - int(starts[low]))


class RayRows(Rows):
    """Rows that the actors of a Ray cluster hold.

    Parameters
    ----------
    source : array of shape (n, s), dataset of Ray Data, or sequence of paths or RowFile
        Workers read files themselves; their paths must mean the same on every machine. A dataset is read and
        transformed first, and its vectors stay where Ray put them.
    engine : RayEngine or str
    """

    def __init__(self, source: Any, engine: RayEngine | str) -> None:
        engine, blocks, files = parse_engine(engine), None, None
        in_memory = isinstance(source, np.ndarray) or is_torch_array(source)
        if in_memory:
            source = to_numpy(source)
            shapes: list[Any] = [source.shape]
        elif is_ray_dataset(source):
            blocks = read_vectors(source)
            shapes = [(block.n_rows, block.n_features) for block in blocks]
        else:
            files = [file if isinstance(file, RowFile) else RowFile.of(file) for file in source]
            shapes = [file.shape for file in files]
        self._n_rows, self.n_features = sum(int(shape[0]) for shape in shapes), int(shapes[0][1])
        n_workers = engine.connect()
        self._ray, self._timeout = imported("ray", "RayEngine needs Ray", "ray"), engine.timeout
        edges = block_edges(self._n_rows, self.n_features)
        cuts = np.linspace(0, len(edges) - 1, min(n_workers, len(edges) - 1) + 1).astype(np.int64)
        self._bounds = edges[cuts]
        spans = [(int(first), int(stop)) for first, stop in pairwise(self._bounds)]
        # The rows of each worker, unless it reads files, and the maps of them.
        self._blocks: list[Blocks | None] = [
            Blocks((self._put(source[slice(*span)]),))
            if in_memory
            else _cut(blocks, *span)
            if blocks
            else None
            for span in spans
        ]
        self._maps: tuple[Any, ...] = ()
        worker = self._ray.remote(
            num_cpus=engine.num_cpus,
            num_gpus=engine.num_gpus,
            max_restarts=engine.max_restarts,
            # A call that finds no worker does not count: a machine that is gone is noticed after a while only.
            max_task_retries=-1,
            scheduling_strategy="SPREAD",
            concurrency_groups={"health": 1},
        )(Shard)
        self.workers = [
            worker.remote(
                files,
                span,
                edges[first : last + 1] - edges[first],
                int(first),
                n_jobs=max(1, int(engine.num_cpus)),
                on_gpu=engine.num_gpus > 0,
            )
            for span, (first, last) in zip(spans, pairwise(cuts), strict=True)
        ]
        try:
            self._check_workers("start")
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return self._n_rows

    def take(self, index: Indices) -> Matrix:
        """Return the rows with these numbers in float64."""
        index = np.asarray(index, dtype=np.int64)
        owners = np.searchsorted(self._bounds, index, side="right") - 1
        rows = np.empty((len(index), self.n_features))
        numbers = np.unique(owners).tolist()
        pending = [
            self.workers[owner].take.remote(self._spaces(owner), index[owners == owner] - self._bounds[owner])
            for owner in numbers
        ]
        for owner, values in zip(numbers, self._collect(pending), strict=True):
            rows[owners == owner] = values
        return rows

    def map(self, row_map: RowMap) -> RayRows:
        """Return the rows that ``row_map`` makes of these; workers make them when they are first needed."""
        mapped = copy(self)
        mapped._maps = (*self._maps, self._put(row_map))
        mapped.n_features = int(row_map(np.zeros((1, self.n_features))).shape[1])
        return mapped

    def scatter(self, values: NDArray[Any]) -> list[Any]:
        """Put the values of each worker's rows into the object store, once."""
        return [self._put(values[first:stop]) for first, stop in pairwise(self._bounds)]

    def run_blocks(
        self, function: BlockFunction, args: tuple[Any, ...], per_row: PerRow, combine: Combine | None
    ) -> NDArray[Any]:
        """Run a function on all blocks; combine or join the results."""
        shares = [self.scatter(values) if isinstance(values, np.ndarray) else values for values in per_row]
        size = sum(value.nbytes for value in args if isinstance(value, np.ndarray))
        sent = self._put(args) if size > _SHARED_BYTES else args
        results = self._collect([
            worker.run.remote(self._spaces(number), function, sent, combine, *(share[number] for share in shares))
            for number, worker in enumerate(self.workers)
        ])  # fmt: skip
        if combine is None:
            return np.concatenate(results)
        fold = TreeFold(combine)
        for node in chain.from_iterable(results):
            fold.add(*node)
        # What Ray hands out cannot be written to.
        return np.array(fold.result())

    def provenance(self) -> dict[str, Any]:
        """Return what is recorded about the rows."""
        return {**super().provenance(), "n_workers": len(self.workers)}

    def close(self) -> None:
        """End the workers."""
        if self._ray.is_initialized():
            with suppress(WorkerLostError):
                self._ask(0.0, self._end_workers)

    def _end_workers(self) -> None:
        for worker in self.workers:
            self._ray.kill(worker)

    def _spaces(self, number: int) -> tuple[Any, ...]:
        return (self._blocks[number], *self._maps)

    def _put(self, value: Any) -> Any:
        return self._ask(self._timeout, self._ray.put, value)

    def _ask(self, seconds: float, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of Ray that should come back within some seconds."""
        try:
            return within(seconds + _SILENT_SECONDS, function, *args)
        except SilentError:
            raise WorkerLostError(
                "Ray's processes on this machine give no answer: see `ray status`, and start Ray again."
            ) from None

    def _collect(self, pending: Sequence[Any]) -> list[Any]:
        """Return the results of calls, in order; raise what a worker raised."""
        errors = self._ray.exceptions
        get = partial(self._ray.get, list(pending), timeout=_CHECK_SECONDS)
        while True:
            try:
                results: list[Any] = self._ask(_CHECK_SECONDS, get)
                return results
            except errors.GetTimeoutError:
                self._check_workers("start again")
            except errors.RayTaskError as error:
                raise error.cause if isinstance(error.cause, Exception) else error from None
            except errors.RayError as error:
                raise WorkerLostError(
                    f"A worker is lost ({reason_of(error)}): it may have run out of memory; ask for more workers, so "
                    "that each has fewer rows, or raise max_restarts."
                ) from None

    def _check_workers(self, action: str) -> None:
        """Raise unless all workers answer in time; without a machine to run on, Ray would wait for one forever."""
        errors = self._ray.exceptions
        calls = [worker.ping.options(concurrency_group="health").remote() for worker in self.workers]
        wait = partial(self._ray.wait, calls, num_returns=len(calls), timeout=self._timeout)
        _, missing = self._ask(self._timeout, wait)
        if missing:
            raise WorkerLostError(
                f"{len(missing)} of {len(calls)} workers did not {action} within {self._timeout:g} seconds: machines "
                "may be gone, or other jobs hold their CPUs (see `ray status`): ask for fewer workers, or wait."
            )
        try:
            self._ask(_CHECK_SECONDS, self._ray.get, calls)
        except errors.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except errors.RayError as error:
            raise WorkerLostError(f"A worker did not {action} ({reason_of(error)}).") from None
