"""Problem: everything that is known before the first pick, in flat arrays over all groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask, Matrix, RandomState, Vector
from gmmatch._checks import (
    as_generator,
    check_array,
    check_columns,
    check_fraction,
    check_positions,
    check_sample_weight,
)
from gmmatch.budget import TRUSTED, Budget, PerClass, largest_remainder, share_budget
from gmmatch.errors import InvalidInputError, InvalidTypeError, listed
from gmmatch.groups import Groups, MeasurementsError, Unlabeled, describe_group
from gmmatch.rows.base import RowMap, Rows

# How much is picked when neither k nor a mapping of classes says so.
DEFAULT_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Request:
    """What the caller of ``select`` wants and knows, checked.

    Attributes
    ----------
    k, per_class, replacement
        How much is picked.
    scores : float64 array of shape (n,), optional
        For a ranking by them.
    pred_probs : array of shape (n, K), optional
        Out-of-fold probabilities of the classes, for a screening.
    answers : object array of shape (n,), optional
        The right label of each row that a person has settled.
    """

    k: Budget | None = None
    per_class: PerClass = "proportional"
    replacement: bool = False
    scores: Vector | None = None
    pred_probs: Matrix | None = None
    answers: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, groups and quotas. It does not change: a step of a method returns a new one.

    Attributes
    ----------
    rows : Rows
    groups : Groups
        What is picked from together.
    quotas : int64 array of shape (G,)
        Picks that each group has yet to make, included rows not counted.
    weights : float64 array of shape (n,)
        How much each row counts in the target.
    available, included : boolean arrays of shape (n,)
        Which rows may be picked, and which were picked beforehand.
    seed : int
    classes : Groups, optional
        The given labels, also where ``per_class=None`` leaves them out of ``groups``.
    reference : Reference, optional
        Rows that the targets are computed from, instead of these or mixed with them.
    request : Request
    screening : object, optional
        What a screening wants in the selection.
    record : dict
        What the steps so far want in the provenance.
    """

    rows: Rows
    groups: Groups
    quotas: Indices
    weights: Vector
    available: Mask
    included: Mask
    seed: int
    classes: Groups | None = None
    reference: Reference | None = None
    request: Request = Request()
    screening: Any = None
    record: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Rows,
        y: Any = None,
        *,
        k: Budget | None = None,
        per_class: PerClass = "proportional",
        unlabeled: Unlabeled = "drop",
        replacement: bool = False,
        sample_weight: Any = None,
        include: Any = None,
        exclude: Any = None,
        scores: Any = None,
        pred_probs: Any = None,
        answers: Any = None,
        random_state: RandomState = None,
    ) -> Problem:
        """Check the arguments of ``select`` and share ``k`` among the groups; included rows count towards it."""
        n, per_class = len(rows), check_per_class(per_class, y)
        classes = _group_labels(y, n, unlabeled, per_class)
        groups = Groups.of(None, n) if classes is None or per_class is None else classes
        included, excluded = _check_masks(include, exclude, groups)
        request = Request(
            k, per_class, replacement, None if scores is None else check_scores(scores, n),
            None if pred_probs is None else _check_probabilities(pred_probs, n),
            None if answers is None else _check_answers(answers, classes, n),
        )  # fmt: skip
        problem = cls(
            rows, groups, np.zeros(len(groups), dtype=np.int64), check_sample_weight(sample_weight, n),
            ~(included | excluded) & (groups.codes >= 0), included, draw_seed(random_state), classes, request=request,
        )  # fmt: skip
        return problem.share()

    def share(self) -> Problem:
        """Return the problem with the quotas that ``request`` gives each group."""
        groups, per_class, k = self.groups, self.request.per_class, self.request.k
        if k is None and not isinstance(per_class, Mapping):
            k = DEFAULT_SHARE
        pickable = self.available | self.included
        capacities, n_included = groups.count(pickable), groups.count(self.included)
        unit = "rows" if pickable.all() else "rows that may be picked"
        quotas = share_budget(
            k, groups.labels, capacities, per_class, unit=unit, replacement=self.request.replacement
        )
        if np.any(n_included > quotas):
            group = int(np.argmax(n_included > quotas))
            raise InvalidInputError(
                f"include names {n_included[group]} rows of {describe_group(groups.labels[group])}, more than its "
                f"{quotas[group]} picks: raise k or include fewer."
            )
        ignored = (quotas > n_included) & (groups.count(self.weights > 0.0) == 0)
        if ignored.any():
            name = describe_group(groups.labels[int(np.argmax(ignored))])
            raise InvalidInputError(f"sample_weight is 0 for every row of {name}; leave these out of X.")
        return replace(self, quotas=quotas - n_included)

    def generator(self, group: int) -> np.random.Generator:
        """Return the random numbers of a group: a stream of its own, whatever the other groups are."""
        return np.random.default_rng(self.seed_sequence(group))

    def seed_sequence(self, group: int) -> np.random.SeedSequence:
        """Return the seed of a group."""
        return np.random.SeedSequence(self.seed, spawn_key=(group,))

    def map_rows(self, row_map: RowMap) -> Problem:
        """Return the same problem in another space."""
        reference = self.reference
        if reference is not None:
            reference = replace(reference, problem=reference.problem.map_rows(row_map))
        return replace(self, rows=self.rows.map(row_map), reference=reference)

    def add_record(self, **record: Any) -> Problem:
        """Return the problem with more to record."""
        return replace(self, record={**self.record, **record})

    def relabel(self, codes: Indices) -> Problem:
        """Return the problem with other classes for the rows, shape (n,), and quotas to match."""
        classes = self.classes
        if classes is None:
            raise InvalidInputError("y: labels can be corrected only where they are given.")
        corrected = Groups(classes.labels, codes)
        groups = self.groups if self.request.per_class is None else corrected
        available = self.available | ((codes >= 0) & (classes.codes < 0) & ~self.included)
        return replace(self, groups=groups, classes=corrected, available=available).share()

    def settle(self) -> Problem:
        """Return the problem with the labels that a person has corrected."""
        if self.request.answers is None or self.classes is None:
            return self
        number = {label: code for code, label in enumerate(self.classes.labels) if label is not None}
        codes = self.classes.codes.copy()
        for row, answer in enumerate(self.request.answers.tolist()):
            codes[row] = number.get(answer, codes[row])
        return self.relabel(codes)

    def restrict(self, kept: Mask, **record: Any) -> Problem:
        """Return the problem with only ``kept`` rows available and counted in the target.

        A group that has too few of them passes the rest of its quota on to the others. All are picked where the
        budget is what can be trusted.
        """
        available = self.available & kept
        capacities = self.groups.count(available)
        quotas = capacities if self.request.k == TRUSTED else self.quotas
        wanted = int(quotas.sum())
        if not wanted and self.request.k == TRUSTED and not self.included.any():
            raise InvalidInputError("k='trusted': no row is trusted; pass a count, or screen less strictly.")
        if wanted > capacities.sum() and not self.request.replacement:
            raise InvalidInputError(
                f"k asks for {wanted:,} more picks, but only {capacities.sum():,} rows are left after screening: "
                "lower k, or screen less strictly."
            )
        quotas = quotas if self.request.replacement else np.minimum(quotas, capacities)
        while quotas.sum() < wanted:
            extra = largest_remainder(wanted - int(quotas.sum()), capacities - quotas)
            quotas = np.minimum(quotas + extra, capacities)
        restricted = replace(self, quotas=quotas, available=available, weights=self.weights * kept)
        return restricted.add_record(**record)


@dataclass(frozen=True, eq=False)
class Reference:
    """Rows that the picks should follow, instead of the data or mixed with it.

    Attributes
    ----------
    problem : Problem
        The reference rows and their groups.
    groups : int64 array of shape (G,)
        The reference group that each group of the picks follows.
    weight : float
        How much the target of the reference counts: 1 for all.
    """

    problem: Problem
    groups: Indices
    weight: float

    @classmethod
    def of(cls, rows: Rows, labels: Any, problem: Problem, weight: Any) -> Reference:
        """Match the classes of a problem with those of the reference rows; without labels all follow all rows."""
        check_fraction(weight, "reference_weight")
        check_columns(rows, problem.rows, "reference")
        try:
            reference_groups = Groups.of(labels, len(rows), warn=False)
        except InvalidInputError as error:
            raise InvalidInputError(f"The labels of the reference: {error}") from None
        positions = {(type(label), label): i for i, label in enumerate(reference_groups.labels)}
        groups = np.zeros(len(problem.groups), dtype=np.int64)
        for number, label in enumerate(problem.groups.labels if labels is not None else ()):
            groups[number] = positions.get((type(label), label), -1)
            if groups[number] < 0 and problem.quotas[number]:
                raise InvalidInputError(
                    f"reference has no rows of class {label!r} (its classes: {listed(reference_groups.labels, 5)}): "
                    "leave out its labels, and every class follows all of its rows; or pick no rows of the class "
                    "(per_class={...})."
                )
        n = len(rows)
        weights, nothing = np.ones(n), np.zeros(n, dtype=bool)
        quotas = np.zeros(len(reference_groups), dtype=np.int64)
        return cls(
            Problem(rows, reference_groups, quotas, weights, nothing, nothing, problem.seed),
            groups,
            float(weight),
        )


class Screen(Protocol):
    """An option of every method: decides which rows may be picked, and how much each counts."""

    def apply(self, problem: Problem) -> Problem:
        """Return the problem without the rows that should not be picked."""
        ...


def _group_labels(y: Any, n: int, unlabeled: Unlabeled, per_class: PerClass) -> Groups | None:
    if y is None:
        return None
    try:
        return Groups.of(y, n, unlabeled=unlabeled, warn=per_class is not None)
    except MeasurementsError:
        if per_class is None:  # then they are ignored, and may be anything
            return None
        raise


def draw_seed(random_state: RandomState) -> int:
    """Return a seed: the given one, or one that is drawn and recorded, so that every selection can be run again."""
    if (
        isinstance(random_state, (int, np.integer))
        and not isinstance(random_state, bool)
        and random_state >= 0
    ):
        return int(random_state)
    return int(as_generator(random_state).integers(0, 2**31 - 1))


def check_scores(scores: Any, n: int) -> Vector:
    """Return one number per row, which may be infinite."""
    values = check_array(scores, "scores", "one number per row", numbers=True).astype(np.float64)
    if values.shape != (n,):
        raise InvalidInputError(f"scores need one number per row: expected shape ({n},), got {values.shape}.")
    if np.isnan(values).any():
        row = int(np.argmax(np.isnan(values)))
        raise InvalidInputError(f"scores[{row}] is NaN: give every row a number, or leave the row out of X.")
    return values


def _check_probabilities(pred_probs: Any, n: int) -> Matrix:
    values = check_array(pred_probs, "pred_probs", "one row of probabilities per row", numbers=True).astype(
        np.float64
    )
    if values.ndim != 2 or len(values) != n:
        raise InvalidInputError(f"pred_probs has shape {values.shape}: give one for each of {n} rows.")
    if not np.isfinite(values).all() or (values < 0.0).any() or (values.sum(axis=1) <= 0.0).any():
        raise InvalidInputError("pred_probs must hold finite numbers from 0, a positive one in each row.")
    return values


def _check_answers(answers: Any, classes: Groups | None, n: int) -> NDArray[Any]:
    values = check_array(answers, "answers", "one answer per row", dtype=object)
    if values.shape != (n,):
        raise InvalidInputError(f"answers has shape {values.shape}: give one for each of {n}, None for most.")
    labels = set() if classes is None else set(classes.labels)
    for row, answer in enumerate(values.tolist()):
        is_label = isinstance(answer, (bool, int, float, str, np.generic))
        if answer is not None and not (is_label and (answer != answer or answer in labels)):
            raise InvalidInputError(f"answers[{row}]={answer!r}: no row of y has this label.")
    return values


def check_per_class(per_class: Any, y: Any) -> PerClass:
    """Return ``per_class``; pairs of class and budget, as a record holds them, become the mapping they stand for.

    Examples
    --------
    >>> check_per_class([[0, 5], [1, "10%"]], y=[0, 1, 1])
    {0: 5, 1: '10%'}
    """
    if isinstance(per_class, (list, tuple)):
        try:
            per_class = dict(per_class)
        except (TypeError, ValueError):
            raise InvalidInputError(f"per_class={per_class!r}: give class to count, or such pairs.") from None
    if isinstance(per_class, Mapping) and y is None:
        raise InvalidInputError("per_class names classes, but y was not given: pass the labels.")
    if not isinstance(per_class, (str, Mapping, type(None))):
        raise InvalidTypeError(f"per_class={per_class!r}: use 'proportional', 'balanced', a mapping or None.")
    checked: PerClass = per_class  # type: ignore[assignment]
    return checked


def _check_masks(include: Any, exclude: Any, groups: Groups) -> tuple[Mask, Mask]:
    """Return which rows are picked beforehand, and which must not be."""
    n = len(groups.codes)
    included, excluded = np.zeros((2, n), dtype=bool)
    for mask, rows, name in ((included, include, "include"), (excluded, exclude, "exclude")):
        if rows is not None:
            mask[check_positions(rows, n, name)] = True
    if (both := included & excluded).any():
        raise InvalidInputError(f"Row {np.argmax(both)} is in include and in exclude; it can be in one only.")
    if (lost := included & (groups.codes < 0)).any():
        raise InvalidInputError(
            f"include names row {np.argmax(lost)}, which has no label and so no class to be picked for: "
            'label it, or pass unlabeled="group".'
        )
    return included, excluded
