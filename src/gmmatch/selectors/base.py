"""What every method shares: arguments, groups, quotas, and the making of a Selection."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from gmmatch.budget import Budget, PerClass, quotas
from gmmatch.errors import InvalidInputError
from gmmatch.labels import Group, Unlabeled, group_rows
from gmmatch.matching.walk import Picks
from gmmatch.parallel import map_in_order, resolve_jobs
from gmmatch.preprocessing import parse_steps, preprocess_rows
from gmmatch.rows import Rows
from gmmatch.selected_groups import SelectedGroup, interleave
from gmmatch.selection import Selection
from gmmatch.selectors.estimator import EstimatorConventions
from gmmatch.types import Indices, Mask, RandomState, Vector
from gmmatch.validation import as_generator, check_rows, check_sample_weight, warn_caller


@dataclass(frozen=True)
class GroupTask:
    """One group to pick from: its rows, and what the caller said about them.

    Positions count within the group; ``row_numbers`` translates them to rows of the input.
    """

    rows: Rows
    row_numbers: Indices
    weights: Vector
    available: Mask
    already: Indices
    k: int
    random: np.random.Generator
    threads: int
    label: Any


@dataclass(frozen=True)
class GroupResult:
    """The picks of a group, with what should be recorded and warned about."""

    picks: Picks
    details: dict[str, Any]
    warnings: tuple[Warning, ...] = ()


@dataclass(kw_only=True, eq=False, repr=False)
class Selector(EstimatorConventions, BaseEstimator):
    """Base class of the methods; see :class:`~gmmatch.GMMatching` for the shared parameters."""

    k: Budget | None = 0.1
    per_class: PerClass = "proportional"
    unlabeled: Unlabeled = "drop"
    preprocess: str | list[str] | None = None
    random_state: RandomState = None
    n_jobs: int | None = -1

    method: ClassVar[str] = ""
    allows_replacement: ClassVar[bool] = False

    def select(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        include: Any = None,
        exclude: Any = None,
        ids: Any = None,
    ) -> Selection:
        """Pick rows.

        Parameters
        ----------
        X : array of shape (n, s)
            The rows (embeddings). Never modified.
        y : array of shape (n,), optional
            Labels; selection is then per class, by ``per_class``.
        sample_weight : array of shape (n,), optional
            How much each row counts in the target (for ``random``: in the draw).
        include : row numbers or boolean mask, optional
            Rows that are picked already. They come first, count towards ``k``, and a matching starts
            from them.
        exclude : row numbers or boolean mask, optional
            Rows that must not be picked. They still count in the target.
        ids : array of shape (n,), optional
            Your own names of the rows, carried along.

        Returns
        -------
        Selection
        """
        rows = check_rows(X)
        n = len(rows)
        weights = check_sample_weight(sample_weight, n)
        inside = _row_mask(include, n, "include")
        outside = _row_mask(exclude, n, "exclude")
        if np.any(inside & outside):
            both = int(np.flatnonzero(inside & outside)[0])
            raise InvalidInputError(f"Row {both} is in include and in exclude; it can be in one only.")
        names = _check_ids(ids, n)
        self._check_parameters()
        steps = parse_steps(self.preprocess) + self._own_steps()
        groups = group_rows(y, n=n, per_class=self.per_class, unlabeled=self.unlabeled)
        _check_included(inside, groups, n)
        replacement = self.allows_replacement and bool(getattr(self, "replacement", False))
        sizes = [int((~outside[group.rows]).sum()) for group in groups]
        shares = quotas(
            self.k, [group.label for group in groups], sizes, self.per_class, replacement=replacement
        )
        seed = self._draw_seed()
        tasks = self._tasks(preprocess_rows(rows, steps), groups, weights, inside, outside, shares, seed)
        results = self._run(tasks)
        # Given here and not by the threads, whose warnings would name no line of the caller.
        for result in results:
            for warning in result.warnings:
                warn_caller(warning)
        return self._selection(tasks, results, groups, rows, names, seed, steps)

    def pick_group(self, task: GroupTask) -> GroupResult:
        """Pick ``task.k`` rows of one group. This is what a method implements."""
        raise TypeError(f"{type(self).__name__} does not define pick_group.")

    def _own_steps(self) -> list[tuple[str, int]]:
        """Preprocessing that the method itself asks for."""
        return []

    def _check_parameters(self) -> None:
        """Raise for parameters that no data could make right."""
        resolve_jobs(self.n_jobs)

    def _draw_seed(self) -> int:
        # A drawn seed is recorded too, so that every selection can be run again.
        if isinstance(self.random_state, (int, np.integer)) and not isinstance(self.random_state, bool):
            as_generator(self.random_state)
            return int(self.random_state)
        return int(as_generator(self.random_state).integers(0, 2**31 - 1))

    def _tasks(
        self,
        rows: Rows,
        groups: list[Group],
        weights: Vector,
        inside: Mask,
        outside: Mask,
        shares: Indices,
        seed: int,
    ) -> list[GroupTask]:
        jobs = resolve_jobs(self.n_jobs)
        threads = 1 if len(groups) > 1 else jobs
        streams = np.random.SeedSequence(seed).spawn(len(groups))
        tasks = []
        for group, share, stream in zip(groups, shares, streams, strict=True):
            mine = group.rows
            already = np.flatnonzero(inside[mine])
            if len(already) > share:
                raise InvalidInputError(
                    f"include names {len(already)} rows of {_named(group)}, more than its {share} picks: "
                    "raise k or include fewer."
                )
            tasks.append(
                GroupTask(
                    rows=rows if len(groups) == 1 and len(mine) == len(rows) else rows.subset(mine),
                    row_numbers=mine,
                    weights=_group_weights(weights[mine], group),
                    available=~(outside[mine] | inside[mine]),
                    already=already,
                    k=int(share) - len(already),
                    random=np.random.default_rng(stream),
                    threads=threads,
                    label=group.label,
                )
            )
        return tasks

    def _run(self, tasks: list[GroupTask]) -> list[GroupResult]:
        def work(number: int) -> GroupResult:
            task = tasks[number]
            if task.k == 0:
                return GroupResult(Picks.join([]), {})
            return self.pick_group(task)

        return map_in_order(work, len(tasks), resolve_jobs(self.n_jobs) if len(tasks) > 1 else 1)

    def _selection(
        self,
        tasks: list[GroupTask],
        results: list[GroupResult],
        groups: list[Group],
        rows: Rows,
        names: Any,
        seed: int,
        steps: list[tuple[str, int]],
    ) -> Selection:
        chosen = []
        for task, result, group in zip(tasks, results, groups, strict=True):
            order = task.row_numbers[np.concatenate([task.already, result.picks.order])]
            residuals = result.picks.residuals
            if len(task.already) and len(residuals):
                # The rows that were there before have no residual of their own on the way.
                residuals = np.concatenate([np.full(len(task.already), np.nan), residuals])
            chosen.append(SelectedGroup(group.label, order, len(group.rows), residuals))
        order = interleave(chosen)
        provenance = {
            "method": self.method,
            "parameters": self._recorded_parameters(),
            "seed": seed,
            "version": _version(),
            "input": {
                "n_rows": len(rows),
                "n_features": rows.n_features,
                "dtype": "bfloat16" if rows.bfloat16 else str(rows.source.dtype),
                "fingerprint": fingerprint(rows),
            },
            "preprocess": [f"{name}:{number}" if number else name for name, number in steps],
            "groups": [result.details for result in results],
        }
        return Selection(
            order=order,
            n_rows=len(rows),
            groups=tuple(chosen),
            ids=None if names is None else names[order],
            provenance=provenance,
        )

    def _recorded_parameters(self) -> dict[str, Any]:
        values = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "random_state":
                continue
            values[field.name] = value if _is_plain(value) else repr(value)
        return values


def fingerprint(rows: Rows) -> str:
    """Return a hash of the shape, the type and up to 1,024 evenly spaced rows.

    Enough to tell whether the same data came again, without reading all of a large input once more.
    """
    positions = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), 1024)).astype(np.int64))
    digest = hashlib.sha256(f"{len(rows)} {rows.n_features} {rows.source.dtype}".encode())
    digest.update(np.ascontiguousarray(rows.source[rows.index[positions]]).tobytes())
    return digest.hexdigest()[:32]


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, str))


def _version() -> str:
    from gmmatch import __version__

    return __version__


def _named(group: Group) -> str:
    return "the data" if group.label is None else f"class {group.label!r}"


def _group_weights(weights: Vector, group: Group) -> Vector:
    if weights.sum() == 0.0:
        raise InvalidInputError(
            f"sample_weight is 0 for every row of {_named(group)}; leave these rows out of X instead."
        )
    return weights


def _row_mask(rows: Any, n: int, name: str) -> Mask:
    mask = np.zeros(n, dtype=bool)
    if rows is None:
        return mask
    array = np.asarray(rows)
    if array.dtype == bool:
        if array.shape != (n,):
            raise InvalidInputError(
                f"{name} is a mask of shape {array.shape}; expected ({n},), one per row of X."
            )
        return array.copy()
    if array.size == 0:
        return mask
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must be row numbers or a boolean mask; got dtype {array.dtype}.")
    if array.min() < 0 or array.max() >= n:
        bad = int(array[(array < 0) | (array >= n)][0])
        raise InvalidInputError(f"{name} names row {bad}; X has rows 0 to {n - 1}.")
    mask[array] = True
    return mask


def _check_ids(ids: Any, n: int) -> Any:
    if ids is None:
        return None
    names = np.asarray(ids)
    if names.shape != (n,):
        raise InvalidInputError(f"ids has shape {names.shape}; expected ({n},), one per row of X.")
    return names


def _check_included(inside: Mask, groups: list[Group], n: int) -> None:
    if not inside.any():
        return
    grouped = np.zeros(n, dtype=bool)
    for group in groups:
        grouped[group.rows] = True
    lost = np.flatnonzero(inside & ~grouped)
    if len(lost):
        raise InvalidInputError(
            f"include names row {lost[0]}, which has no label and so no class to be picked for: "
            'label it, or pass unlabeled="group".'
        )
