"""The groups that a method picks from, and what it found in them: flat arrays over all, and one group at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gmmatch.matching.walk import Picks
from gmmatch.rows.rows import Rows
from gmmatch.selection.groups import SelectedGroups
from gmmatch.selection.labels import Flat, Label
from gmmatch.targets.reference import PastMoment, Reference
from gmmatch.types import Indices, Mask, Vector, offsets_of


def random_of_group(seed: int, number: int) -> tuple[np.random.Generator, int]:
    """Return the random numbers of one group, a stream of its own, and a number that tells it from others."""
    sequence = np.random.SeedSequence(seed, spawn_key=(number,))
    return np.random.default_rng(sequence), int(sequence.generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class GroupTask:
    """One group to pick from: its rows, and what the caller said about them.

    Positions count within the group; ``row_numbers`` translates them to rows of the input. What memory
    may be used is measured by ``input_bytes``, the whole input's, and shared by the groups that are
    worked on ``side_by_side``. ``facts`` is what the method has learned from all rows. ``seed`` tells independent
    batches apart, among ``n_total`` rows of all groups. ``reference`` is what to follow, if not the group's own rows.
    """

    rows: Rows
    row_numbers: Indices
    weights: Vector
    available: Mask
    already: Indices
    k: int
    random: np.random.Generator
    seed: int
    threads: int
    label: Any
    input_bytes: int
    side_by_side: int
    facts: Any = None
    n_total: int = 0
    reference: Reference | PastMoment | None = None


@dataclass(frozen=True)
class GroupResult:
    """The picks of a group, with what should be recorded and warned about.

    ``weights`` are shares of the rows that were there before and of the picks, in this order; ``moment`` is the
    target and its weight. None if not asked for.
    """

    picks: Picks
    details: dict[str, Any]
    warnings: tuple[Warning, ...] = ()
    weights: Vector | None = None
    moment: tuple[Vector, float] | None = None


@dataclass(frozen=True, eq=False)
class Tasks(Flat[GroupTask]):
    """All groups to pick from. Group g owns ``offsets[g]`` to ``offsets[g + 1]`` of the flat arrays.

    Attributes
    ----------
    rows
        The rows of the whole input, after the preprocessing.
    labels, numbers
        The label of each group, and its number among all groups.
    row_numbers, weights, available, included
        Of the groups' rows: their numbers in the input, their weights, whether they may be picked, and whether they
        were picked before.
    quotas
        How many picks each group is to make.
    weighted
        Whether any weight is not 1.
    references
        What each group is to follow; None for their own rows.
    beside
        The row numbers on the device that holds the rows, if they are there.
    """

    rows: Rows
    labels: list[Label]
    numbers: Indices
    row_numbers: Indices
    offsets: Indices
    weights: Vector
    available: Mask
    included: Mask
    quotas: Indices
    weighted: bool
    seed: int
    threads: int
    side_by_side: int
    facts: Any = None
    references: list[Reference | PastMoment | None] | None = None
    beside: Any = None

    @classmethod
    def of(cls, task: GroupTask) -> Tasks:
        """Return a single group."""
        n = len(task.rows)
        included = np.zeros(n, dtype=bool)
        included[task.already] = True
        return cls(
            rows=task.rows,
            labels=[task.label],
            numbers=np.zeros(1, dtype=np.int64),
            row_numbers=np.arange(n),
            offsets=np.array([0, n]),
            weights=task.weights,
            available=task.available,
            included=included,
            quotas=np.array([task.k]),
            weighted=bool(np.any(task.weights != 1.0)),
            seed=task.seed,
            threads=task.threads,
            side_by_side=task.side_by_side,
            facts=task.facts,
            references=[task.reference],
        )

    @cached_property
    def sizes(self) -> Indices:
        """Rows of each group."""
        return np.diff(self.offsets)

    @cached_property
    def group_of_row(self) -> Indices:
        """The position of each row's group."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def n_included(self) -> Indices:
        """How many rows of each group were picked before."""
        if not self.included.any():
            return np.zeros_like(self.quotas)
        return np.diff(offsets_of(self.included)[self.offsets])

    def one(self, at: int) -> GroupTask:
        """Return what there is to do for one group."""
        span = slice(int(self.offsets[at]), int(self.offsets[at + 1]))
        own, every = self.row_numbers[span], self.rows
        random, seed = random_of_group(self.seed, int(self.numbers[at]))
        return GroupTask(
            rows=every if len(self) == 1 and len(own) == len(every) else every.subset(own),
            row_numbers=own,
            weights=self.weights[span] if self.weighted else np.ones(len(own)),
            available=self.available[span],
            already=np.flatnonzero(self.included[span]),
            k=int(self.quotas[at]),
            random=random,
            seed=seed,
            threads=self.threads,
            label=self.labels[at],
            input_bytes=every.nbytes,
            side_by_side=self.side_by_side,
            facts=self.facts,
            n_total=len(every),
            reference=None if self.references is None else self.references[at],
        )

    def take(self, chosen: Indices) -> Tasks:
        """Return some of the groups."""
        if len(chosen) == len(self):
            return self
        wanted = np.zeros(len(self), dtype=bool)
        wanted[chosen] = True
        rows = wanted[self.group_of_row]
        return replace(
            self,
            labels=[self.labels[number] for number in chosen.tolist()],
            numbers=self.numbers[chosen],
            row_numbers=self.row_numbers[rows],
            beside=None,
            offsets=offsets_of(self.sizes[chosen]),
            weights=self.weights[rows],
            available=self.available[rows],
            included=self.included[rows],
            quotas=self.quotas[chosen],
            references=None if self.references is None else [self.references[i] for i in chosen.tolist()],
        )


@dataclass(frozen=True, eq=False)
class Results:
    """The picks of all groups, positions within each, in flat arrays; what to record of each, and all warnings.

    Examples
    --------
    >>> both = [GroupResult(Picks(np.array([3, 1]), np.array([0.5, 0.1])), {}), GroupResult(Picks.join([]), {})]
    >>> Results.join(both).offsets
    array([0, 2, 2])
    """

    order: Indices
    offsets: Indices
    residuals: Vector
    residual_offsets: Indices
    details: list[dict[str, Any]]
    warnings: list[Warning]
    weights: list[Vector | None] | None = None
    moments: list[tuple[Vector, float] | None] | None = None

    @classmethod
    def join(cls, results: Sequence[GroupResult]) -> Results:
        """Return the results of groups that were worked on one by one."""
        return cls(
            Picks.join([result.picks for result in results]).order,
            offsets_of([len(result.picks.order) for result in results]),
            Picks.join([result.picks for result in results]).residuals,
            offsets_of([len(result.picks.residuals) for result in results]),
            [result.details for result in results],
            [warning for result in results for warning in result.warnings],
            [result.weights for result in results],
            [result.moment for result in results],
        )

    def spread(self, chosen: Mask) -> Results:
        """Return the results of the chosen ones among more groups, of which the others have none."""
        if chosen.all():
            return self
        offsets, residual_offsets = np.zeros((2, len(chosen)), dtype=np.int64)
        offsets[chosen], residual_offsets[chosen] = np.diff(self.offsets), np.diff(self.residual_offsets)
        details, weights, moments = iter(self.details), iter(self.weights or []), iter(self.moments or [])
        return replace(
            self,
            offsets=offsets_of(offsets),
            residual_offsets=offsets_of(residual_offsets),
            details=[next(details) if one else {} for one in chosen.tolist()],
            weights=[next(weights, None) if one else None for one in chosen.tolist()],
            moments=[next(moments, None) if one else None for one in chosen.tolist()],
        )

    def pick_weights(self, groups: SelectedGroups) -> Vector | None:
        """Return how much each pick counts, group by group; None if no weights were asked for.

        Those of a group sum to the number of its rows; they are equal where nothing was picked beside rows that
        were there before.
        """
        shares = self.weights or []
        if all(one is None for one in shares):
            return None
        parts = [
            np.full(size, 1.0 / max(1, size)) if one is None else one
            for one, size in zip(shares, groups.sizes.tolist(), strict=True)
        ]
        scaled = [part * n for part, n in zip(parts, groups.n_rows, strict=True)]
        return np.concatenate(scaled)

    def beside(self, other: Results) -> Results:
        """Return the results of both, each of which has those of groups that the other has none of."""
        numbers = np.tile(np.arange(len(self.details)), 2)

        def woven(values: str, offsets: str) -> Any:
            sizes = [np.diff(getattr(one, offsets)) for one in (self, other)]
            by_group = np.argsort(np.repeat(numbers, np.concatenate(sizes)), kind="stable")
            return np.concatenate([getattr(self, values), getattr(other, values)])[by_group]

        return Results(
            woven("order", "offsets"),
            self.offsets + other.offsets,
            woven("residuals", "residual_offsets"),
            self.residual_offsets + other.residual_offsets,
            [one or its for one, its in zip(self.details, other.details, strict=True)],
            self.warnings + other.warnings,
        )

    def selected(self, tasks: Tasks) -> SelectedGroups:
        """Return the picks as rows of the input, those that were there before first."""
        fresh = np.repeat(np.arange(len(tasks)), np.diff(self.offsets))
        order = tasks.row_numbers[tasks.offsets[fresh] + self.order]
        offsets, residuals, residual_offsets = self.offsets, self.residuals, self.residual_offsets
        if tasks.included.any():
            before = tasks.n_included
            owners = np.concatenate([np.repeat(np.arange(len(tasks)), before), fresh])
            order = np.concatenate([tasks.row_numbers[tasks.included], order])
            order = order[np.argsort(owners, kind="stable")]
            # Rows that were there before have no residual of their own on the way.
            measured = np.diff(residual_offsets)
            unknown = np.where(measured > 0, before, 0)
            owners = np.repeat(np.tile(np.arange(len(tasks)), 2), np.concatenate([unknown, measured]))
            residuals = np.concatenate([np.full(int(unknown.sum()), np.nan), residuals])
            residuals = residuals[np.argsort(owners, kind="stable")]
            offsets = offsets + offsets_of(before)
            residual_offsets = residual_offsets + offsets_of(unknown)
        return SelectedGroups(tasks.labels, tasks.sizes.tolist(), order, offsets, residuals, residual_offsets)
