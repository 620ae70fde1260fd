"""The arguments of ``select``, checked; every message names the argument and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.rows.checks import check_positions
from gmmatch.selection.budget import PerClass
from gmmatch.selection.labels import Groups, Label
from gmmatch.selectors.tasks import Tasks
from gmmatch.targets.reference import Reference
from gmmatch.types import Mask, offsets_of


def check_switches(selector: Any) -> None:
    """Raise unless every parameter that is on or off is: a text such as "false" would count as on.

    Examples
    --------
    >>> import gmmatch as gm
    >>> check_switches(gm.GMMatching(normalize="false"))
    Traceback (most recent call last):
    ...
    gmmatch.errors.InvalidInputError: normalize='false': expected True or False.
    """
    for one in fields(selector):
        value = getattr(selector, one.name)
        on_or_off = isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1))
        if isinstance(one.default, bool) and not on_or_off:
            raise InvalidInputError(f"{one.name}={value!r}: expected True or False.")


def row_masks(include: Any, exclude: Any, n: int) -> tuple[Mask, Mask]:
    """Return which rows are picked already, and which must not be.

    Examples
    --------
    >>> row_masks([2], [True, False, False], 3)
    (array([False, False,  True]), array([ True, False, False]))
    """
    inside, outside = _row_mask(include, n, "include"), _row_mask(exclude, n, "exclude")
    both = include is not None and exclude is not None and inside & outside
    if np.any(both):
        raise InvalidInputError(f"Row {np.argmax(both)} is in include and in exclude; it can be in one only.")
    return inside, outside


def _row_mask(rows: Any, n: int, name: str) -> Mask:
    mask = np.zeros(n, dtype=bool)
    if rows is not None:
        mask[check_positions(rows, n, name)] = True
    return mask


def class_budgets(per_class: Any, y: Any) -> PerClass:
    """Return ``per_class``, its pairs as the mapping they stand for.

    A mapping of classes that are not strings is recorded as pairs, because JSON has no other way.

    Examples
    --------
    >>> class_budgets([[0, 5], [1, "10%"]], y=[0, 1, 1])
    {0: 5, 1: '10%'}
    """
    if isinstance(per_class, (list, tuple)):
        try:
            per_class = dict(per_class)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"per_class={per_class!r}: give a mapping of class to count, or such pairs."
            ) from None
    if isinstance(per_class, Mapping) and y is None:
        raise InvalidInputError(
            "per_class names classes, but y was not given: pass the labels, or k instead of per_class."
        )
    checked: PerClass = per_class
    return checked


def readable_groups(groups: Groups, absent: Mask) -> Groups:
    """Return the groups without rows that cannot be read, and without those that have no others."""
    found = Groups.of([group for group in groups.without(absent) if len(group.rows)])
    if not len(found):
        raise InvalidInputError("No row with a label is left: the files of all others could not be read.")
    return found


def check_included(inside: Mask, groups: Groups) -> None:
    """Raise for rows that are picked already but belong to no group."""
    if not inside.any():
        return
    lost = inside.copy()
    lost[groups.rows] = False
    if lost.any():
        raise InvalidInputError(
            f"include names row {np.argmax(lost)}, which has no label and so no class to be picked for: "
            'label it, or pass unlabeled="group".'
        )


def check_tasks(tasks: Tasks) -> None:
    """Raise where more rows of a group were picked already than it has picks, or where no row of it counts."""
    too_many = tasks.n_included > tasks.quotas
    if too_many.any():
        at = int(np.argmax(too_many))
        raise InvalidInputError(
            f"include names {tasks.n_included[at]} rows of {group_name(tasks.labels[at])}, more than its "
            f"{tasks.quotas[at]} picks: raise k or include fewer."
        )
    if not tasks.weighted:
        return
    # Not by differences of running sums, which round: a group counts if any of its weights does.
    counted = np.diff(offsets_of(tasks.weights > 0.0)[tasks.offsets]) > 0
    empty = ~counted & (tasks.quotas > tasks.n_included)
    if tasks.references is not None:  # which may say alone what to match
        own = [one is None or (isinstance(one, Reference) and not one.alone) for one in tasks.references]
        empty &= np.array(own)
    if empty.any():
        name = group_name(tasks.labels[int(np.argmax(empty))])
        raise InvalidInputError(
            f"sample_weight is 0 for every row of {name}; leave these rows out of X instead."
        )


def group_name(label: Label) -> str:
    """Return what a message calls the group with a label."""
    return "the data" if label is None else f"class {label!r}"
