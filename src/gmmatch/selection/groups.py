"""The picks of one class, and how the picks of several classes make one order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.selection.labels import Flat, Label, plain_label
from gmmatch.types import Indices, Vector, offsets_of

_Array = TypeVar("_Array", bound=NDArray[Any])


@dataclass(frozen=True, eq=False)
class SelectedGroup:
    """The picks of one class, or of all rows when labels are ignored.

    Parameters
    ----------
    label
        The class; None for rows without a label, or for all rows.
    order
        Row numbers in the order they were picked, shape (q,).
    n_rows
        How many rows the class has.
    residuals
        ‖target − mean of the first t picks‖ for t = 1, ..., q; empty if it was not computed.

    Examples
    --------
    >>> SelectedGroup("cat", [7, 3], n_rows=5, residuals=[0.5, 0.1]).residual
    0.1
    """

    label: Label
    order: Indices
    n_rows: int
    residuals: Vector = ()  # type: ignore[assignment]

    def __post_init__(self) -> None:
        label = plain_label(self.label)
        if label is None and self.label is not None:
            raise InvalidInputError(f"label={self.label!r}: a group without a label has label=None.")
        order = frozen_row_numbers(self.order, "order")
        residuals = np.array(self.residuals, dtype=np.float64)
        if residuals.shape not in ((0,), order.shape):
            raise InvalidInputError(
                f"residuals has shape {residuals.shape} for {len(order)} picks of group {label!r}: "
                "give one per pick, or none."
            )
        residuals.setflags(write=False)
        values = {"label": label, "order": order, "residuals": residuals}
        for name, value in (values | {"n_rows": row_count(self.n_rows)}).items():
            object.__setattr__(self, name, value)

    @property
    def residual(self) -> float:
        """The residual after the last pick; NaN if it was not computed."""
        return float(self.residuals[-1]) if len(self.residuals) else math.nan

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SelectedGroup):
            return NotImplemented
        return (
            # 1, 1.0 and True are equal, but not the same label.
            (type(self.label), self.label, self.n_rows) == (type(other.label), other.label, other.n_rows)
            and np.array_equal(self.order, other.order)
            and np.array_equal(self.residuals, other.residuals, equal_nan=True)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that arrays are read-only again after unpickling or copying.
        return SelectedGroup, (self.label, self.order, self.n_rows, self.residuals)


class SelectedGroups(Flat[SelectedGroup]):
    """The picks of all classes in flat arrays; the object of one class is made when it is asked for.

    Parameters
    ----------
    labels
        The label of each class.
    n_rows
        How many rows each class has.
    order, offsets
        Row numbers in the order they were picked, class after class, and where each class begins.
    residuals, residual_offsets
        The same for residuals; a class has as many as picks, or none.

    Examples
    --------
    >>> SelectedGroups(["a", "b"], [5, 4], np.array([7, 3, 1]), np.array([0, 2, 3]))[1]
    SelectedGroup(label='b', order=array([1]), n_rows=4, residuals=array([], dtype=float64))
    """

    def __init__(
        self,
        labels: Sequence[Label],
        n_rows: Sequence[int],
        order: Indices,
        offsets: Indices,
        residuals: Vector | None = None,
        residual_offsets: Indices | None = None,
    ) -> None:
        self.labels, self.n_rows = list(labels), list(n_rows)
        self.order, self.offsets = frozen_row_numbers(order, "order"), offsets
        self.residuals = frozen(np.empty(0) if residuals is None else residuals)
        self.residual_offsets = np.zeros_like(offsets) if residual_offsets is None else residual_offsets

    @classmethod
    def of(cls, groups: Sequence[SelectedGroup]) -> SelectedGroups:
        """Return groups that were made one by one."""
        if isinstance(groups, SelectedGroups):
            return groups
        return cls(
            [group.label for group in groups],
            [group.n_rows for group in groups],
            np.concatenate([np.empty(0, dtype=np.int64), *(group.order for group in groups)]),
            offsets_of([len(group.order) for group in groups]),
            np.concatenate([np.empty(0), *(group.residuals for group in groups)]),
            offsets_of([len(group.residuals) for group in groups]),
        )

    @property
    def sizes(self) -> Indices:
        """The number of picks of each class."""
        return np.diff(self.offsets)

    @property
    def last_residuals(self) -> list[float]:
        """The residual of each class after its last pick; NaN where it was not computed."""
        known = np.diff(self.residual_offsets) > 0
        found = np.full(len(self), np.nan)
        found[known] = self.residuals[self.residual_offsets[1:][known] - 1]
        return found.tolist()

    def prefix(self, sizes: Indices) -> SelectedGroups:
        """Return the first picks of each class, as many as are asked for."""
        order, offsets = _first(self.order, self.offsets, sizes)
        residuals, residual_offsets = _first(self.residuals, self.residual_offsets, sizes)
        return SelectedGroups(self.labels, self.n_rows, order, offsets, residuals, residual_offsets)

    def one(self, at: int) -> SelectedGroup:
        """Return the picks of one class."""
        picks = self.order[self.offsets[at] : self.offsets[at + 1]]
        path = self.residuals[self.residual_offsets[at] : self.residual_offsets[at + 1]]
        return SelectedGroup(self.labels[at], picks, self.n_rows[at], path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == its for one, its in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        state = (self.labels, self.n_rows, self.order, self.offsets, self.residuals, self.residual_offsets)
        return SelectedGroups, state


def _first(values: NDArray[Any], offsets: Indices, sizes: Indices) -> tuple[NDArray[Any], Indices]:
    """Return the first of each run, at most ``sizes``, and where each begins."""
    lengths = np.diff(offsets)
    within = np.arange(len(values)) - np.repeat(offsets[:-1], lengths)
    return values[within < np.repeat(sizes, lengths)], offsets_of(np.minimum(sizes, lengths))


@dataclass(frozen=True, eq=False)
class MergedPicks:
    """The picks of all groups in one order, the position of each pick's group, and where it stood group by group."""

    order: Indices
    owners: Indices
    places: Indices


def merge(groups: SelectedGroups, included: Indices | None = None) -> MergedPicks:
    """Merge the groups' picks as :func:`interleave` does, after those that were there before.

    ``included`` is how many of the first picks of each group were; they come first, in the order of their rows.
    """
    sizes = groups.sizes
    before = np.zeros_like(sizes) if included is None else included
    owners = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(owners)) - (groups.offsets[:-1] + before)[owners]
    places = (within + 0.5) / np.maximum(sizes - before, 1)[owners]
    if included is not None:
        # Whole numbers below 2^53 are exact: included rows are placed before all others, by their number.
        places = np.where(within < 0, groups.order - 2.0**53, places)
    # The sort is stable and the groups are in order, so that ties fall to the first group.
    by_place = np.argsort(places, kind="stable")
    return MergedPicks(groups.order[by_place], owners[by_place], by_place)


def interleave(groups: Sequence[SelectedGroup]) -> Indices:
    """Merge the groups' picks into one order of which every prefix is close to proportional.

    Pick j = 0, 1, ... of a group with q picks is placed at (j + 1/2) / q; ties go to the first group. Among the first
    t of K picks, group i of G ≥ 2 has its proportional share t·qᵢ/K up to an error of at most 1/2 + (G − 2)·qᵢ/(2K):
    below 1 with groups of equal size, 1/2 with two groups. With one large group among many small ones it can exceed
    1, because all groups of one pick are placed at 1/2.

    Examples
    --------
    >>> interleave([SelectedGroup("a", [10, 11, 12, 13], 9), SelectedGroup("b", [20, 21], 9)])
    array([10, 20, 11, 12, 21, 13])
    """
    return merge(SelectedGroups.of(groups)).order


def grouped_picks(
    order: ArrayLike | MergedPicks, groups: Sequence[SelectedGroup], n_rows: int
) -> tuple[Indices, SelectedGroups, Indices]:
    """Return picks, their groups and the position of each pick's group, after checking that they fit together."""
    picks = frozen_row_numbers(order.order if isinstance(order, MergedPicks) else order, "order")
    if len(picks) and int(picks.max()) >= n_rows:
        raise InvalidInputError(f"order names row {picks.max()}, but n_rows={n_rows}: rows count from 0.")
    parts = SelectedGroups.of(groups if len(groups) else (SelectedGroup(None, picks, n_rows),))
    return (
        picks,
        parts,
        frozen(order.owners if isinstance(order, MergedPicks) else match_groups(picks, parts)),
    )


def match_groups(order: Indices, groups: SelectedGroups) -> Indices:
    """The position of each pick's group, after checking that groups and order say the same."""
    if len(set(groups.labels)) < len(groups):
        raise InvalidInputError("groups must have different labels.")
    picks = groups.order
    owners = np.repeat(np.arange(len(groups)), groups.sizes)
    rows, first = np.unique(picks, return_index=True)
    where = np.searchsorted(rows, order)
    if len(picks) != len(order) or not np.array_equal(rows, np.unique(order)):
        raise InvalidInputError("groups and order must hold the same rows.")
    owner_of_row = owners[first]
    if not np.array_equal(owner_of_row[np.searchsorted(rows, picks)], owners):
        raise InvalidInputError("groups must not share a row.")
    owner_of_pick: Indices = owner_of_row[where]
    if not np.array_equal(order[np.argsort(owner_of_pick, kind="stable")], picks):
        raise InvalidInputError("order must have each group's picks in the group's own sequence.")
    return owner_of_pick


def frozen(array: _Array) -> _Array:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


def frozen_row_numbers(values: ArrayLike, name: str) -> Indices:
    """Return a read-only copy of row numbers, after checking that they are some."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInputError(f"{name} must be a one-dimensional array of row numbers.")
    rows = np.array(array, dtype=np.int64)
    if rows.size and rows.min() < 0:
        raise InvalidInputError(f"{name} names row {rows.min()}: rows count from 0.")
    return frozen(rows)


def row_count(n_rows: object) -> int:
    """Return a number of rows, after checking that it is one."""
    if isinstance(n_rows, bool) or not isinstance(n_rows, (int, np.integer)) or n_rows < 0:
        raise InvalidInputError(f"n_rows={n_rows!r}: give the number of rows, an integer of at least 0.")
    return int(n_rows)


def frozen_ids(ids: Any, count: int, of: str) -> NDArray[Any]:
    """Return ids as int64 (uint64 where they need it), or as Python strings, which NumPy's own would clip."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise InvalidTypeError(f"ids has type {type(ids).__name__}: give a list or an array.")
    values = list(ids.tolist() if hasattr(ids, "tolist") else ids)
    if len(values) != count:
        raise InvalidInputError(f"ids has {len(values):,} entries for {count:,} {of}: give one for each.")
    types = {type(value) for value in values}
    if types == {str}:
        array = np.empty(count, dtype=object)
        array[:] = values
        return frozen(array)
    low, high = (min([0, *values]), max([0, *values])) if types <= {int} else (0, 2**64)
    if low >= -(2**63) and high < 2**63:
        return frozen(np.array(values, dtype=np.int64))
    if low >= 0 and high < 2**64:
        return frozen(np.array(values, dtype=np.uint64))
    raise InvalidTypeError(
        "ids must be all integers of 64 bits or all strings; [str(i) for i in ids] makes them so."
    )
