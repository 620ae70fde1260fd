"""Rows that lie with the workers of an engine, as a selection sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cluster.layout import (
    assign_pieces,
    fold_parts,
    piece_bounds,
    piece_count,
    subtrees,
)
from gmmatch.backends.cluster.pieces import WorkerSpec
from gmmatch.backends.cluster.placement import Engine, LocalEngine, Placement, Progress
from gmmatch.backends.cluster.sources import Shards, UnreadableShardError, open_shards
from gmmatch.errors import InvalidInputError, InvalidTypeError, NotFiniteError
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Mask


def _tell_nobody(phase: str, done: int, total: int | None) -> None:
    """Take no note of progress."""


@dataclass
class Cluster:
    """Workers with rows in their hands, and what the one who asks them has to know.

    Attributes
    ----------
    placement
        The workers.
    n_pieces, n_features
        Of the whole.
    owners
        The first row of each worker, and the row after the last.
    progress
        Told how far things are.
    """

    placement: Placement
    n_pieces: int
    n_features: int
    progress: Progress = _tell_nobody
    owners: Indices = field(init=False)
    _taken: list[Indices] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        specs = self.placement.specs
        self.owners = np.array([int(spec.bounds[0]) for spec in specs] + [int(specs[-1].bounds[-1])])
        self.placement.restore = self._taken_of

    def combined(
        self, method: str, combine: Callable[[Any, Any], Any], *arguments: Any
    ) -> NDArray[np.float64]:
        """Ask all workers for their subtrees' values and combine these along the tree."""
        values: dict[tuple[int, int], NDArray[np.float64]] = {}
        for spec, found in zip(self.placement.specs, self.placement.call(method, *arguments), strict=True):
            values.update(zip(subtrees(spec.first_piece, spec.last_piece), found, strict=True))
        return fold_parts(self.n_pieces, values, combine)

    def rows(self, numbers: Indices, *, picked: bool = False, stored: bool = False) -> NDArray[Any]:
        """Fetch rows from the workers that own them, in the order of ``numbers``."""
        if picked:  # on the record first: a worker that dies in the middle is told about these rows, too
            self._taken.append(numbers)
        owner = np.searchsorted(self.owners, numbers, side="right") - 1
        wanted = [np.flatnonzero(owner == worker) for worker in range(len(self.placement))]
        each = [(numbers[places],) if len(places) else None for places in wanted]
        found = self.placement.call("take", picked, stored, each=each)
        kind = next(part.dtype for part in found if part is not None)
        out = np.empty((len(numbers), self.n_features), dtype=kind)
        for places, part in zip(wanted, found, strict=True):
            if part is not None:
                out[places] = part
        return out

    def leave_out(self, numbers: Indices) -> None:
        """Let workers know which of their rows must not be picked."""
        self._taken.append(numbers)
        self.placement.call("mark", each=[(self._taken_of(worker),) for worker in range(len(self.placement))])

    def _taken_of(self, worker: int) -> Indices:
        rows = np.concatenate([np.empty(0, dtype=np.int64), *self._taken])
        own: Indices = rows[(rows >= self.owners[worker]) & (rows < self.owners[worker + 1])]
        return own


class ClusterSource:
    """The rows of a source, which workers hold: a :class:`~gmmatch.rows.rows.RowSource`.

    Attributes
    ----------
    absent
        Which rows cannot be read and are done without; None if all can.
    """

    bfloat16 = False
    on_disk = False

    def __init__(
        self, cluster: Cluster, shards: Shards, engine: Engine, absent: dict[str, str], unit: bool = False
    ) -> None:
        self.cluster, self.shards, self.engine, self.unit = cluster, shards, engine, unit
        self.shape = (len(shards), shards.n_features)
        self.dtype: np.dtype[Any] = np.dtype(shards.dtype)
        self._unreadable = absent
        self.absent: Mask | None = None
        if absent:
            self.absent = np.zeros(len(shards), dtype=bool)
            for file in shards.files:
                if file.location in absent:
                    self.absent[file.start : file.stop] = True
            if self.absent.all():
                raise UnreadableShardError("No row is left: none of the files could be read.")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Indices) -> NDArray[Any]:
        numbers = np.arange(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows)
        if len(numbers) == 0:
            return np.empty((0, self.shape[1]), dtype=self.dtype)
        return self.cluster.rows(numbers, stored=not self.unit)

    def prepared(self, steps: Sequence[tuple[str, int]]) -> Rows:
        """Return the rows as a method sees them; of preprocessing, workers know unit length."""
        scaled = ClusterSource(self.cluster, self.shards, self.engine, self._unreadable, unit=bool(steps))
        return Rows(scaled)

    def assign(self, classes: Sequence[Indices], batches: Sequence[int], seeds: Sequence[int]) -> None:
        """Tell workers which of their rows are of which class, and how these are split into batches."""
        n = len(self)
        codes: NDArray[Any] | None = None
        if len(classes) > 1 or len(classes[0]) < n:
            codes = np.full(n, -1, dtype=np.int16 if len(classes) < 1 << 15 else np.int32)
            for number, rows in enumerate(classes):
                codes[rows] = number
        self.cluster.placement.assign([
            replace(
                spec,
                n_classes=len(classes),
                batches=tuple(int(count) for count in batches),
                seeds=tuple(seeds),
                codes=None if codes is None else codes[int(spec.bounds[0]) : int(spec.bounds[-1])],
                unit=self.unit,
            )
            for spec in self.cluster.placement.specs
        ])  # fmt: skip

    def provenance(self) -> dict[str, Any]:
        """Return what a selection records about where it was made, and from what."""
        placement = self.cluster.placement
        facts = {
            "name": self.engine.name,
            "workers": len(placement),
            "devices": sorted(set(placement.call("device"))),
            "pieces": self.cluster.n_pieces,
            "unreadable": [*map(list, self.shards.unreadable), *map(list, self._unreadable.items())],
            "replaced_workers": placement.replaced,
            "bytes": placement.traffic.summary(),
        }
        return {"embeddings": self.shards.origin, "engine": facts}


@contextmanager
def rows_on(engine: Any, X: Any) -> Iterator[Rows]:
    """Give the rows of a source to the workers of an engine, checked, for as long as they are worked on.

    Parameters
    ----------
    engine : Engine, "local" or "ray"
    X : array, path, address, list of these, Store or Shards
    """
    with _running(engine) as running:
        shards = open_shards(X, skip_unreadable=running.skip_unreadable)
        n, s = len(shards), shards.n_features
        n_pieces = piece_count(n, s)
        bounds = piece_bounds(n, n_pieces)
        specs = []
        for number, (first, stop) in enumerate(assign_pieces(n_pieces, min(running.workers, n_pieces))):
            start, end = int(bounds[first]), int(bounds[stop])
            files = tuple(
                file.between(start, end) for file in shards.files if file.start < end and file.stop > start
            )
            specs.append(
                WorkerSpec(number, first, bounds[first : stop + 1], files, n_features=s, dtype=shards.dtype)
            )
        with running.place(specs) as placement:
            absent = _check(placement, n, running.skip_unreadable)
            cluster = Cluster(placement, n_pieces, s, running.progress or _tell_nobody)
            yield Rows(ClusterSource(cluster, shards, running, absent))


@contextmanager
def _running(engine: Any) -> Iterator[Engine]:
    if engine == "local":
        yield LocalEngine()
    elif engine == "ray":
        from gmmatch.backends.cluster.ray_engine import RayEngine

        with RayEngine() as made:
            yield made
    elif isinstance(engine, str):
        raise InvalidInputError(f'engine={engine!r}: expected "local", "ray", a LocalEngine or a RayEngine.')
    elif not hasattr(engine, "place"):
        raise InvalidTypeError(f'engine={engine!r}: expected a LocalEngine, a RayEngine, "local" or "ray".')
    else:
        yield engine


def _check(placement: Placement, n: int, skip_unreadable: bool) -> dict[str, str]:
    """Return the files to do without, if that is allowed; raise for others, and for rows that are not finite."""
    absent: dict[str, str] = {}
    while True:
        answers = placement.call("check")
        broken = {location: reason for answer in answers for location, reason in answer[0]}
        if not broken:
            break
        if not skip_unreadable:
            first, *others = broken.values()
            also = f" And {len(others)} more files, the next: {others[0]}" if others else ""
            raise UnreadableShardError(
                f"{first}{also} Nothing was selected; put that right, or give the engine skip_unreadable=True to go "
                "on without."
            )
        absent |= broken
        placement.assign([replace(spec, absent=frozenset(absent)) for spec in placement.specs])
    count = sum(answer[1] for answer in answers)
    if count:
        rows = np.concatenate([answer[2] for answer in answers])[:5].tolist()
        named = ", ".join(map(str, rows)) + (", ..." if count > len(rows) else "")
        raise NotFiniteError(
            f"Input X contains NaN, infinity or a value too large to square, in {count} of {n} rows (first: "
            f"{named}). Drop these rows or fill them in; none is dropped silently."
        )
    return absent
