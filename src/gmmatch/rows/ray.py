"""Rows on the workers of a Ray cluster.

A worker holds the rows of its shard and nothing else: groups, weights, masks and functions come with each call.
So a call can be repeated on a restarted worker with the same outcome, and Ray's own restarts and retries are
enough. Shards are runs of whole blocks, and results are combined along the tree over all blocks, so they do not
depend on the number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix, start_indices, to_numpy
from gmmatch.frames import is_ray_dataset
from gmmatch.rows.array import ArrayRows
from gmmatch.rows.base import BlockFunction, Combine, LocalRows, PerRow, RowMap, Rows
from gmmatch.rows.dataset import VectorBlock, read_vectors
from gmmatch.rows.engine import RayEngine as RayEngine
from gmmatch.rows.engine import WorkerLostError as WorkerLostError
from gmmatch.rows.engine import Workers, share
from gmmatch.rows.engine import parse_engine as parse_engine
from gmmatch.rows.files import FileRows
from gmmatch.rows.shards import RowFile
from gmmatch.rows.tree import TreeFold, block_edges

# Larger arguments are stored once per machine instead of being sent to each worker.
_SHARED_BYTES = 1 << 16
# Mapped rows that a worker keeps besides its own: of the last space, and of the one before it.
_KEPT_MAPS = 2


@dataclass(frozen=True)
class Blocks:
    """References to arrays that hold the rows of one worker, after some that are not its own."""

    references: tuple[Any, ...]
    skipped: int = 0

    def load(self, n_rows: int) -> NDArray[Any]:
        """Return the rows, without a copy where they lie in one array."""
        import ray

        arrays = ray.get(list(self.references))
        rows: NDArray[Any] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return rows[self.skipped : self.skipped + n_rows]


@dataclass
class Shard:
    """The rows of one worker.

    Rows of an array or a dataset come with each call, as references, and are kept; so a worker that was restarted has
    them again.

    Attributes
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

    files: Sequence[RowFile] | None
    span: tuple[int, int]
    edges: Indices
    first_block: int
    n_jobs: int
    on_gpu: bool
    # What can be made again, no state: the rows, and those after some maps.
    _kept: dict[tuple[str, ...], LocalRows] = field(default_factory=dict)

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
        import ray

        names = tuple(reference.hex() for reference in maps)
        if names not in self._kept:
            rows: Any = self._open(blocks, *maps[:-1]).map(ray.get(maps[-1])) if maps else self._load(blocks)
            self._kept[names] = rows
            for oldest in list(self._kept)[1:-_KEPT_MAPS]:
                del self._kept[oldest]
        return self._kept[names]

    def _load(self, blocks: Blocks | None) -> LocalRows:
        rows = (
            FileRows(self.files or (), self.span, n_jobs=self.n_jobs)
            if blocks is None
            else ArrayRows(blocks.load(int(self.edges[-1])), self.n_jobs)
        )
        return _to_device(rows) if self.on_gpu else rows


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
        if isinstance(source, np.ndarray):
            shapes: list[Any] = [source.shape]
        elif is_ray_dataset(source):
            blocks = read_vectors(source)
            shapes = [(block.n_rows, block.n_features) for block in blocks]
        else:
            files = [file if isinstance(file, RowFile) else RowFile.of(file) for file in source]
            shapes = [file.shape for file in files]
        self._n_rows, self.n_features = sum(int(shape[0]) for shape in shapes), int(shapes[0][1])
        n_workers, self._engine = engine.connect(), engine
        edges = block_edges(self._n_rows, self.n_features)
        cuts = np.linspace(0, len(edges) - 1, min(n_workers, len(edges) - 1) + 1).astype(np.int64)
        self._bounds = edges[cuts]
        spans = [(int(first), int(stop)) for first, stop in pairwise(self._bounds)]
        # The rows of each worker, unless it reads files, and the maps of them.
        self._blocks: list[Blocks | None] = [None] * len(spans)
        if isinstance(source, np.ndarray):
            self._blocks = [Blocks((share(engine, source[slice(*span)]),)) for span in spans]
        elif blocks is not None:
            self._blocks = [_cut(blocks, *span) for span in spans]
        self._maps: tuple[Any, ...] = ()
        runs = [(edges[first : last + 1] - edges[first], int(first)) for first, last in pairwise(cuts)]
        options = (max(1, int(engine.num_cpus)), engine.num_gpus > 0)
        shards = [(files, span, *run, *options) for span, run in zip(spans, runs, strict=True)]
        self._workers = Workers(Shard, engine, shards)
        self.workers = self._workers.actors

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
        for owner, values in zip(numbers, self._workers.collect(pending), strict=True):
            rows[owners == owner] = values
        return rows

    def map(self, row_map: RowMap) -> RayRows:
        """Return the rows that ``row_map`` makes of these; workers make them when they are first needed."""
        mapped = copy(self)
        mapped._maps = (*self._maps, share(self._engine, row_map))
        mapped.n_features = int(row_map(np.zeros((1, self.n_features))).shape[1])
        return mapped

    def scatter(self, values: NDArray[Any]) -> list[Any]:
        """Put the values of each worker's rows into the object store, once."""
        return [share(self._engine, values[first:stop]) for first, stop in pairwise(self._bounds)]

    def run_blocks(
        self, function: BlockFunction, args: tuple[Any, ...], per_row: PerRow, combine: Combine | None
    ) -> NDArray[Any]:
        """Run a function on all blocks; combine or join the results."""
        shares = [self.scatter(values) if isinstance(values, np.ndarray) else values for values in per_row]
        size = sum(value.nbytes for value in args if isinstance(value, np.ndarray))
        sent = share(self._engine, args) if size > _SHARED_BYTES else args
        results = self._workers.collect([
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
        self._workers.close()

    def _spaces(self, number: int) -> tuple[Any, ...]:
        return (self._blocks[number], *self._maps)
