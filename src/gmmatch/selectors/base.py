"""What every method shares: arguments, groups, quotas, and the making of a Selection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from gmmatch import __version__
from gmmatch.errors import InvalidInputError
from gmmatch.near_duplicates.left_out import DuplicatesChoice, without_duplicates
from gmmatch.rows.checks import as_generator, check_rows, check_sample_weight, warn_caller
from gmmatch.rows.parallel import blas_threads_for, map_in_order, resolve_jobs
from gmmatch.rows.preprocessing import fit_steps, parse_steps
from gmmatch.rows.rows import RowMap, Rows
from gmmatch.screening.result import Screening
from gmmatch.selection.budget import Budget, PerClass, quotas
from gmmatch.selection.groups import frozen_ids, merge
from gmmatch.selection.labels import Group, Groups, Unlabeled, group_rows
from gmmatch.selection.past import Past
from gmmatch.selection.selection import Selection
from gmmatch.selectors import provenance
from gmmatch.selectors.arguments import (
    check_included,
    check_switches,
    check_tasks,
    class_budgets,
    readable_groups,
    row_masks,
)
from gmmatch.selectors.estimator import EstimatorConventions
from gmmatch.selectors.tasks import GroupResult, GroupTask, Results, Tasks
from gmmatch.targets.reference import PastMoment, Reference
from gmmatch.types import Indices, Mask, RandomState, Vector

__all__ = ["GroupResult", "GroupTask", "Request", "Results", "Selector", "Tasks"]

# Measured (python -m benchmarks.support). Beside a row on disk: its number and weight, in all and in its class, its
# label, masks and a score; and blocks of two million numbers, as they are stored and as floats.
_ROW_BYTES = 100
_BLOCK_BYTES = 32_000_000
# The search for near-duplicates keeps a short vector of each row, twice, and rows of long chains.
_SEARCH_BYTES = 1_000

# How much is picked when neither k nor a mapping of classes says so.
DEFAULT_SHARE = 0.1


@dataclass(frozen=True)
class Request:
    """The arguments of ``select``, after every check.

    ``y`` is what was given, also where ``per_class=None`` leaves it out of ``groups``. ``preprocessed`` are the rows
    after the steps, which are done once; ``maps`` do the same to other rows. ``record`` goes into the provenance.

    A method adds what it learns from all rows before it picks from a group: ``references`` are what each group is to
    follow, if not its own rows, ``facts`` are handed to every group's task, ``screening`` goes into the selection.
    """

    rows: Rows
    preprocessed: Rows
    groups: Sequence[Group]
    shares: Indices
    weights: Vector
    inside: Mask
    outside: Mask
    names: Any
    seed: int
    steps: list[tuple[str, int]]
    y: Any = None
    record: dict[str, Any] = field(default_factory=dict)
    maps: list[RowMap] = field(default_factory=list)
    references: list[Reference | PastMoment | None] | None = None
    facts: Any = None
    screening: Screening | None = None

    @cached_property
    def weighted(self) -> bool:
        """Whether any weight is not 1."""
        return self.weights.strides != (0,) and bool(np.any(self.weights != 1.0))

    def fingerprints(self) -> dict[str, str]:
        """Return a hash of some rows, and of every other argument that plays a part."""
        found = {"fingerprint": provenance.fingerprint(self.rows)}
        if any(group.label is not None for group in self.groups):
            found["labels"] = provenance.label_fingerprint(self.groups)
        if self.weighted:
            found["sample_weight"] = provenance.array_fingerprint(self.weights)
        for name, mask in (("include", self.inside), ("exclude", self.outside)):
            if mask.any():
                found[name] = provenance.array_fingerprint(mask)
        return found

    def recording(self, **more: Any) -> Request:
        """Return the same with more to record."""
        return replace(self, record={**self.record, **more})


@dataclass(kw_only=True, eq=False, repr=False)
class Selector(EstimatorConventions):
    """Base class of the methods; see :class:`~gmmatch.MomentMatching` for the shared parameters."""

    k: Budget | None = None
    per_class: PerClass = "proportional"
    unlabeled: Unlabeled = "drop"
    preprocess: str | list[str] | None = None
    duplicates: DuplicatesChoice = "keep"
    random_state: RandomState = None
    n_jobs: int | None = -1

    method: ClassVar[str] = ""

    def select(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        include: Any = None,
        exclude: Any = None,
        ids: Any = None,
        engine: Any = None,
    ) -> Selection:
        """Pick rows.

        Parameters
        ----------
        X : array of shape (n, s)
            The rows (embeddings). Never modified. With an engine also a store, its path or address, a ``.npy``
            file or a list of such files whose rows follow one another.
        y : array of shape (n,), optional
            Labels; selection is then per class, by ``per_class``.
        sample_weight : array of shape (n,), optional
            How much each row counts in the target (for ``random``: in the draw).
        include : row numbers or boolean mask, optional
            Rows that must be picked. They come first, count towards ``k``, and a matching starts
            from them.
        exclude : row numbers or boolean mask, optional
            Rows that must not be picked. They still count in the target; ``k`` as a share is one of
            the others.
        ids : array of shape (n,) or callable, optional
            Your own ids of the rows, integers or strings; or a function that returns the ids of row numbers.
        engine : "local", "ray", LocalEngine or RayEngine, optional
            Where the work runs: this process without one; else workers that hold the rows, threads of this
            machine or the machines of a Ray cluster (:mod:`gmmatch.backends.cluster`).

        Returns
        -------
        Selection

        Examples
        --------
        >>> from gmmatch import GMMatching
        >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]
        >>> GMMatching(k=4).select(X, y=["a", "a", "a", "b", "b", "b"], exclude=[5]).counts
        {'a': 2, 'b': 2}
        """
        with self.opened(X, engine, sample_weight) as rows:
            return self._select(rows, y, sample_weight, include, exclude, ids)

    @contextmanager
    def opened(self, X: Any, engine: Any, sample_weight: Any = None) -> Iterator[Rows]:
        """Give the rows to select from, checked after the parameters: as they are, or with an engine's workers."""
        self._check_parameters()
        if engine is None:
            yield check_rows(X, threads=resolve_jobs(self.n_jobs))
            return
        self.check_engine(sample_weight)
        from gmmatch.backends.cluster.rows import rows_on

        with rows_on(engine, X) as rows:
            yield rows

    def _select(
        self, rows: Rows, y: Any, sample_weight: Any, include: Any, exclude: Any, ids: Any
    ) -> Selection:
        weights: Vector = np.broadcast_to(1.0, len(rows))  # which takes no memory
        if sample_weight is not None:
            weights = check_sample_weight(sample_weight, len(rows))
        inside, outside = row_masks(include, exclude, len(rows))
        names = ids if ids is None or callable(ids) else frozen_ids(ids, len(rows), "rows of X")
        steps = parse_steps(self.preprocess) + self._own_steps()
        per_class = class_budgets(self.per_class, y)
        groups = group_rows(
            y, n=len(rows), per_class=per_class, unlabeled=self.unlabeled, numbered=self.numbered,
            beside=getattr(rows.source, "beside", None),
        )  # fmt: skip
        absent: Mask | None = getattr(rows.source, "absent", None)
        if absent is not None:
            groups = readable_groups(groups, absent)
        check_included(inside, groups)
        record: dict[str, Any] = {}
        if self._drops_duplicates():
            groups, record["duplicates"] = without_duplicates(rows, groups, inside, resolve_jobs(self.n_jobs))
        shares = self._shares(groups, per_class, outside, absent)
        seen, maps = fit_steps(rows, steps, resolve_jobs(self.n_jobs), among=rows.readable)
        request = Request(
            rows, seen, groups, shares, weights, inside, outside, names, self._draw_seed(), steps, y, record, maps
        )  # fmt: skip
        # Hashes leave the interpreter to others: there is time for them while the picks are made.
        with ThreadPoolExecutor(1) as aside:
            fingerprints = aside.submit(request.fingerprints)
            if hasattr(rows.source, "cluster"):  # which is asked one thing at a time
                fingerprints.result()
            with blas_threads_for(len(seen) * seen.n_features):
                prepared = self._prepare(request)
            tasks = self._tasks(prepared)
            wanted = tasks.take(np.flatnonzero(tasks.quotas))
            results = Results.join([])
            if len(wanted):
                with blas_threads_for(int(wanted.sizes.max()) * seen.n_features):
                    results = self._run(wanted)
        results = results.spread(tasks.quotas > 0)
        _warn_of(results.warnings)
        past = partial(self._past, request, tasks, results)
        return self._selection(prepared, tasks, results, fingerprints.result(), past)

    def pick_group(self, task: GroupTask) -> GroupResult:
        """Pick ``task.k`` rows of one group. This is what a method implements."""
        raise TypeError(f"{type(self).__name__} does not define pick_group.")

    def _prepare(self, request: Request) -> Request:
        """Learn from all rows what a group alone cannot tell: scores of a model, rows to rule out."""
        return request

    def _past(self, request: Request, tasks: Tasks, results: Results, order: Indices) -> Past | None:
        """Return what an update of the selection will need, if one is to be possible."""

    def numbered(self, rows: Indices) -> Indices:
        """Return the numbers by which warnings name rows."""
        return rows

    def _own_steps(self) -> list[tuple[str, int]]:
        """Preprocessing that the method itself asks for."""
        return []

    def _check_parameters(self) -> None:
        """Raise for parameters that no data could make right."""
        resolve_jobs(self.n_jobs)
        check_switches(self)
        if self.duplicates not in ("one", "keep"):
            raise InvalidInputError(f'duplicates={self.duplicates!r}: expected "one" or "keep".')

    def _drops_duplicates(self) -> bool:
        """Whether of rows that are nearly the same only one may be picked."""
        return self.duplicates == "one"

    def least_memory(self, n_rows: int, n_features: int) -> int:
        """Return the bytes beside the process itself that a selection from rows on disk cannot do without."""
        pca = any(name == "pca" for name, _ in parse_steps(self.preprocess))
        searching = _SEARCH_BYTES * n_rows if self._drops_duplicates() else 0
        return _ROW_BYTES * n_rows + searching + self.thread_memory() + (4 * 8 * n_features**2 if pca else 0)

    def thread_memory(self) -> int:
        """Return the bytes that each thread takes for the blocks that it reads, and what it makes of them."""
        return (2 if self.preprocess or self._own_steps() else 1) * _BLOCK_BYTES

    def check_engine(self, sample_weight: Any = None) -> None:
        """Raise for what an engine cannot do, before any work is done."""
        self._check_parameters()
        parse_steps(self.preprocess)
        if sample_weight is not None:
            raise InvalidInputError("sample_weight: an engine counts every row alike; leave it out.")
        if self.needs_labels:
            given = " or ".join(f"{name}=" for name in self.learned)
            raise InvalidInputError(
                f"method={self.method!r} trains a model, which an engine does not: pass {given}, or select without "
                "an engine."
            )

    def _draw_seed(self) -> int:
        # A drawn seed is recorded too, so that every selection can be run again.
        if isinstance(self.random_state, (int, np.integer)) and not isinstance(self.random_state, bool):
            as_generator(self.random_state)
            return int(self.random_state)
        return int(as_generator(self.random_state).integers(0, 2**31 - 1))

    def _shares(self, groups: Groups, per_class: PerClass, outside: Mask, absent: Mask | None) -> Indices:
        k = self.k
        if k is None and not isinstance(per_class, Mapping):
            k = DEFAULT_SHARE
        sizes, unit = groups.sizes, "rows"
        if outside.any():
            sizes = groups.counts(~outside)
            unit = "rows that exclude leaves"
        elif self._drops_duplicates():
            unit = "rows that duplicates='one' leaves"
        elif absent is not None:
            unit = "rows that can be read"
        elif len(groups.rows) < len(outside):
            unit = "rows with a label"
        return quotas(k, groups.labels, sizes, per_class, unit=unit, replacement=self._replaces())

    def _replaces(self) -> bool:
        return bool(getattr(self, "replacement", False))

    def _tasks(self, request: Request) -> Tasks:
        rows, groups = request.preprocessed, Groups.of(request.groups)
        jobs = resolve_jobs(self.n_jobs)
        # Classes side by side where there are enough of them; otherwise, and where rows come from files or lie
        # with workers, one after another, each on all threads. The picks are the same.
        apart = rows.on_disk or hasattr(rows.source, "cluster")
        side_by_side = jobs if len(groups) >= jobs and not apart else 1
        included, taken = (
            mask[groups.rows] if mask.any() else np.zeros(len(groups.rows), dtype=bool)
            for mask in (request.inside, request.outside)
        )
        tasks = Tasks(
            rows=rows,
            labels=groups.labels,
            numbers=np.arange(len(groups)),
            row_numbers=groups.rows,
            beside=groups.beside,
            offsets=groups.offsets,
            weights=request.weights[groups.rows]
            if request.weighted
            else np.broadcast_to(1.0, len(groups.rows)),
            available=~taken if self._replaces() else ~(taken | included),
            included=included,
            quotas=request.shares,
            weighted=request.weighted,
            seed=request.seed,
            threads=jobs if side_by_side == 1 else 1,
            side_by_side=side_by_side,
            facts=request.facts,
            references=request.references,
        )
        check_tasks(tasks)
        return replace(tasks, quotas=tasks.quotas - tasks.n_included)

    def _run(self, tasks: Tasks) -> Results:
        """Pick from the groups that are to have picks."""

        def work(number: int) -> GroupResult:
            found = self.pick_group(tasks[number])
            # Rows of a device came here, unless the group's own record says otherwise.
            return replace(found, details={"device": "cpu", **found.details}) if tensor else found

        tensor = hasattr(tasks.rows.source, "tensor")
        if hasattr(tasks.rows.source, "cluster"):  # workers are told of all groups at once
            tasks.rows.source.cluster.announce(tasks.row_numbers, tasks.offsets)
        return Results.join(map_in_order(work, len(tasks), tasks.side_by_side))

    def _selection(
        self,
        request: Request,
        tasks: Tasks,
        results: Results,
        fingerprints: dict[str, str],
        past: Callable[[Indices], Past | None],
    ) -> Selection:
        rows, groups = request.rows, results.selected(tasks)
        merged = merge(groups, tasks.n_included if tasks.included.any() else None)
        facts = {
            "method": self.method,
            "parameters": provenance.recorded_parameters(self),
            "seed": request.seed,
            "version": __version__,
            "input": {
                "n_rows": len(rows),
                "n_features": rows.n_features,
                "dtype": "bfloat16" if rows.bfloat16 else str(rows.source.dtype),
                **fingerprints,
            },
            "preprocess": [f"{name}:{number}" if number else name for name, number in request.steps],
            "groups": results.details,
            **request.record,
            **(rows.source.provenance() if hasattr(rows.source, "provenance") else {}),
        }
        names = request.names
        if names is not None:
            names = names(merged.order) if callable(names) else names[merged.order]
        weights = results.pick_weights(groups)
        return Selection(
            order=merged,
            n_rows=len(rows),
            groups=groups,
            ids=names,
            provenance=facts,
            screening=request.screening,
            weights=None if weights is None else weights[merged.places],
            past=past(merged.order),
        )


def _warn_of(warnings: list[Warning]) -> None:
    """Give each kind of warning once, in the caller's thread, for the first class that has it."""
    by_kind: dict[type[Warning], list[Warning]] = {}
    for warning in warnings:
        by_kind.setdefault(type(warning), []).append(warning)
    for kind, (first, *others) in by_kind.items():
        also = f" The same holds for {len(others):,} more of the classes." if others else ""
        warn_caller(kind(f"{first}{also}"))
