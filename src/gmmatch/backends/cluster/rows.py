"""Rows that lie with the workers of an engine, as a selection sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cluster.layout import assign_pieces, fold, piece_bounds, piece_count, subtrees
from gmmatch.backends.cluster.pieces import STORED, View, WorkerSpec, prepared
from gmmatch.backends.cluster.placement import Engine, LocalEngine, Placement, Progress, summary
from gmmatch.backends.cluster.sources import Shards, UnreadableShardError, open_shards
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.median.result import MedianResult
from gmmatch.rows.checks import not_finite
from gmmatch.rows.rows import RowMap, Rows, read_only
from gmmatch.types import Indices, Mask, Vector


class Cluster:
    """Workers with rows in their hands, and what they were told, for those that are started again.

    Attributes
    ----------
    placement
        The workers.
    n_pieces
        Of the whole.
    groups, view
        What they know about classes, and how they see rows.
    owners
        The first row of each worker, and the row after the last.
    progress
        Told how far things are.
    """

    def __init__(self, placement: Placement, progress: Progress | None = None) -> None:
        specs = placement.specs
        self.placement, self.progress = placement, progress or (lambda phase, done, total: None)
        self.n_pieces = specs[-1].last_piece
        self.owners = np.array([int(spec.bounds[0]) for spec in specs] + [int(specs[-1].bounds[-1])])
        self.view, self.groups = STORED, list[Indices]()
        self._assigned: list[dict[str, Any]] = [{} for _ in specs]
        self._taken: list[Indices] = []
        placement.known = self._known

    def _known(self, worker: int) -> list[tuple[str, Any]]:
        taken = self._taken_of(worker)
        told = [("assign", self._assigned[worker])]
        return [*told, ("mark", taken)] if len(taken) else told

    def _assign(self, own: Sequence[dict[str, Any]] | None = None, **shared: Any) -> None:
        """Change what workers' specs say: each of its own, and all of what they share."""
        changes = own or [{}] * len(self.placement)
        self._assigned = [known | new | shared for known, new in zip(self._assigned, changes, strict=True)]
        self.placement.call("assign", shared, each=[(new,) for new in changes])

    def check(self, skip_unreadable: bool) -> dict[str, str]:
        """Return the files to do without, if that is allowed; raise for others, and for rows that are not finite."""
        absent: dict[str, str] = {}
        while True:
            answers = self.placement.call("check")
            broken = {location: reason for answer in answers for location, reason in answer[0]}
            if not broken:
                break
            if not skip_unreadable:
                first, *others = broken.values()
                also = f" And {len(others)} more files, the next: {others[0]}" if others else ""
                raise UnreadableShardError(
                    f"{first}{also} Nothing was selected. Correct this, or pass skip_unreadable=True to the engine "
                    "to leave these rows out."
                )
            absent |= broken
            self._assign(absent=frozenset(absent))
        count = sum(answer[1] for answer in answers)
        if count:
            raise not_finite(
                "X", count, np.concatenate([answer[2] for answer in answers]), int(self.owners[-1])
            )
        return absent

    def assign(
        self,
        groups: Sequence[Indices],
        batches: Sequence[int] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> None:
        """Tell workers which of their rows are of which class, and how these are split into batches."""
        n = int(self.owners[-1])
        codes: NDArray[Any] | None = None
        if len(groups) > 1 or len(groups[0]) < n:
            codes = np.full(n, -1, dtype=np.int16 if len(groups) < 1 << 15 else np.int32)
            for number, rows in enumerate(groups):
                codes[rows] = number
        own = [None if codes is None else codes[first:stop] for first, stop in pairwise(self.owners.tolist())]
        self._assign(
            [{"codes": some} for some in own],
            n_classes=len(groups),
            batches=tuple(int(count) for count in batches or [1] * len(groups)),
            seeds=tuple(seeds or [0] * len(groups)),
        )
        self.groups = list(groups)

    def announce(self, rows: Indices, offsets: Indices) -> None:
        """Tell workers of all groups of rows, one after another in one array."""
        self.assign([rows[first:stop] for first, stop in pairwise(offsets.tolist())])

    def number_of(self, rows: Indices) -> int:
        """Return the class that these rows are of, after telling workers if they do not know it."""
        for number, known in enumerate(self.groups):
            # The same place in memory, and not only the same numbers: quick to see, and kept alive here.
            if known.ctypes.data == rows.ctypes.data and len(known) == len(rows):
                return number
        self.assign([rows])
        return 0

    @property
    def n_features(self) -> int:
        """Numbers in a row that workers see."""
        return self.view.width or self.placement.specs[0].n_features

    def look(self, view: View) -> None:
        """Let workers see rows in this way."""
        if view is not self.view:
            self.view = view
            self._assign(view=view)

    def combined(
        self,
        method: str,
        combine: Callable[[Any, Any], Any],
        *arguments: Any,
        each: Sequence[tuple[Any, ...]] | None = None,
    ) -> NDArray[np.float64]:
        """Ask all workers for their subtrees' values and combine these along the tree."""
        values: dict[tuple[int, int], NDArray[np.float64]] = {}
        answers = self.placement.call(method, *arguments, each=each)
        for spec, found in zip(self.placement.specs, answers, strict=True):
            values.update(zip(subtrees(spec.first_piece, spec.last_piece), found, strict=True))
        return fold(0, self.n_pieces, lambda first, stop: values.get((first, stop)), combine)

    def rows(self, numbers: Indices, *, picked: bool = False) -> NDArray[Any]:
        """Fetch rows, as they are seen, from the workers that own them, in the order of ``numbers``."""
        if picked:  # on the record first: a worker that dies in the middle is told about these rows, too
            self._taken.append(numbers)
        owner = np.searchsorted(self.owners, numbers, side="right") - 1
        wanted = [np.flatnonzero(owner == worker) for worker in range(len(self.placement))]
        each = [(numbers[places],) if len(places) else None for places in wanted]
        found = self.placement.call("take", picked, each=each)
        example = next(part for part in found if part is not None)
        out = np.empty((len(numbers), example.shape[1]), dtype=example.dtype)
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
    """The rows of a source, which workers hold: a source of :class:`~gmmatch.rows.rows.Rows`.

    Attributes
    ----------
    absent
        Which rows cannot be read and are done without; None if all can.
    """

    bfloat16 = False
    on_disk = False

    def __init__(
        self, cluster: Cluster, shards: Shards, engine: Engine, absent: dict[str, str], view: View = STORED
    ) -> None:
        self.cluster, self.shards, self.engine, self.view = cluster, shards, engine, view
        example = prepared(np.zeros((1, shards.n_features), dtype=shards.dtype), view.steps)
        self.shape = (len(shards), view.width or shards.n_features)
        self.dtype: np.dtype[Any] = np.dtype(shards.dtype) if view is STORED else example.dtype
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
        self.look()
        return self.cluster.rows(numbers)

    def look(self) -> None:
        """Let workers see rows as this source has them."""
        self.cluster.look(self.view)

    def seen(self, *steps: RowMap, by_class: Sequence[RowMap] = ()) -> ClusterSource:
        """Return the rows after more steps, and then a map for each class; workers make them of theirs."""
        row = prepared(np.zeros((1, self.shape[1])), steps)
        width = max([row_map(row).shape[1] for row_map in by_class], default=row.shape[1])
        held = self.view.held or bool(by_class) or width != self.shards.n_features
        view = View((*self.view.steps, *steps), tuple(by_class), width, held)
        return ClusterSource(self.cluster, self.shards, self.engine, self._unreadable, view)

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
            "bytes": summary(placement.traffic),
        }
        return {"embeddings": self.shards.origin, "engine": facts}


class ClusterRows(Rows):
    """Rows that workers hold: sums over them and scores of them are made there."""

    source: ClusterSource

    def subset(self, positions: Indices) -> ClusterRows:
        """Return the rows at these positions."""
        # Of all rows, positions are row numbers; workers know a group by the array that has them.
        whole = len(self) == len(self.source)
        return ClusterRows(self.source, positions if whole else self.index[positions])

    def mapped(self, row_map: RowMap) -> ClusterRows:
        """Return the rows as a map makes them, which workers do."""
        return ClusterRows(self.source.seen(row_map), self.index)

    def here(self) -> Rows:
        """Return the rows as an array: all of them are sent here."""
        return Rows(read_only(self.copied()))

    def each(
        self, score: Callable[..., Vector], *arguments: Any, threads: int = 1, beside: Any = None
    ) -> NDArray[Any]:
        """Return a number per row, or several; what stands ``beside`` the rows is handed on with them."""
        found = self._cluster.placement.call("each", score, *arguments, each=self._asked(beside))
        return np.concatenate([part for part in found if len(part)])

    def total(
        self,
        part: Callable[..., NDArray[Any]],
        weights: NDArray[Any],
        *arguments: Any,
        threads: int = 1,
        add: Callable[[Any, Any], Any] = np.add,
    ) -> NDArray[np.float64]:
        """Return a sum over the rows."""
        asked = self._asked(weights if np.any(weights != 1) else None)
        return self._cluster.combined("total", add, add, part, *arguments, each=asked)

    def _asked(self, beside: NDArray[Any] | None) -> list[tuple[Any, ...]]:
        """Return what each worker is told beside the question: the class, and what is known of its rows."""
        cluster = self._cluster
        number = cluster.number_of(self.index)
        if beside is None:
            return [(number, None)] * len(cluster.placement)
        cuts = np.searchsorted(self.index, cluster.owners[1:-1])  # rows ascend
        return [(number, values) for values in np.split(beside, cuts)]

    def geometric_median(self, eps: float, max_iter: int, delta: float) -> MedianResult:
        """Return the geometric median."""
        from gmmatch.backends.cluster.medians import class_medians

        cluster = self._cluster
        number = cluster.number_of(self.index)
        sizes = {number: len(self)}
        return class_medians(cluster, sizes, eps=eps, max_iter=max_iter, delta=delta)[number]

    @property
    def _cluster(self) -> Cluster:
        self.source.look()
        return self.source.cluster


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
            cluster = Cluster(placement, running.progress)
            absent = cluster.check(running.skip_unreadable)
            yield ClusterRows(ClusterSource(cluster, shards, running, absent))


def _running(engine: Any) -> AbstractContextManager[Engine]:
    """Return the engine that is meant; one that is made here is closed in the end."""
    if hasattr(engine, "place"):
        return nullcontext(engine)
    if engine == "local":
        return LocalEngine()
    if engine == "ray":
        from gmmatch.backends.cluster.ray_engine import RayEngine

        return RayEngine()
    kind = InvalidInputError if isinstance(engine, str) else InvalidTypeError
    raise kind(f'engine={engine!r}: expected "local", "ray", a LocalEngine or a RayEngine.')
