"""How labels make groups: which rows are selected from together, and which have no label."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, overload

import numpy as np

from gmmatch.errors import InvalidInputError, InvalidTypeError, UnlabeledRowsWarning
from gmmatch.rows.checks import warn_caller
from gmmatch.selection.budget import PerClass
from gmmatch.types import Indices, Mask, is_tensor, namespace, offsets_of, on_host, stable_order

Label: TypeAlias = "bool | int | float | str | None"
"""The name of a class; None stands for rows without a label, or for all rows when labels are ignored."""

Unlabeled: TypeAlias = Literal["drop", "group"]
"""What becomes of rows without a label: left out, or a group of their own."""

_LISTED_AT_MOST = 10


@dataclass(frozen=True, eq=False)
class Group:
    """Rows that are selected from together, ascending; the label is None for rows without one, or for all rows."""

    label: Label
    rows: Indices


One = TypeVar("One")


class Flat(Sequence[One]):
    """Things of several groups in flat arrays; the object of a group is made when it is asked for."""

    labels: list[Label]

    @abstractmethod
    def one(self, at: int) -> One:
        """Return the object of one group."""

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, number: int) -> One: ...
    @overload
    def __getitem__(self, number: slice) -> list[One]: ...
    def __getitem__(self, number: int | slice) -> One | list[One]:
        found = range(len(self))[number]
        return [self.one(at) for at in found] if isinstance(found, range) else self.one(found)


class Groups(Flat[Group]):
    """All groups in flat arrays; the object of one is made when it is asked for.

    Examples
    --------
    >>> Groups(["a", "b"], np.array([3, 5, 4]), np.array([0, 2, 3])).without(np.arange(6) == 4)
    [Group(label='a', rows=array([3, 5])), Group(label='b', rows=array([], dtype=int64))]
    """

    def __init__(self, labels: list[Label], rows: Indices, offsets: Indices, beside: Any = None) -> None:
        self.labels, self.rows, self.offsets = labels, rows, offsets
        self.beside = beside  # the row numbers on the device that sorted them, if one did

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Groups:
        """Return groups that were made one by one."""
        if isinstance(groups, Groups):
            return groups
        rows = np.concatenate([np.empty(0, np.int64), *(group.rows for group in groups)])
        return cls([group.label for group in groups], rows, offsets_of([len(group.rows) for group in groups]))

    @property
    def sizes(self) -> Indices:
        """The number of rows of each group."""
        return np.diff(self.offsets)

    def counts(self, mask: Mask) -> Indices:
        """Return how many rows of each group a mask of all rows holds."""
        return np.diff(offsets_of(mask[self.rows])[self.offsets])

    def without(self, mask: Mask) -> Groups:
        """Return the groups without the rows of a mask."""
        return Groups(self.labels, self.rows[~mask[self.rows]], offsets_of(self.counts(~mask)))

    def codes(self, n: int) -> Indices:
        """Return the number of each row's group among n rows; -1 for rows of none."""
        found = np.full(n, -1, dtype=np.int64)
        found[self.rows] = np.repeat(np.arange(len(self)), self.sizes)
        return found

    def one(self, at: int) -> Group:
        """Return one group."""
        return Group(self.labels[at], self.rows[self.offsets[at] : self.offsets[at + 1]])

    def __repr__(self) -> str:
        return repr(list(self))


def group_rows(
    y: Any,
    *,
    n: int,
    per_class: PerClass = "proportional",
    unlabeled: Unlabeled = "drop",
    beside: Callable[[Any], Any] | None = None,
    numbered: Callable[[Indices], Indices] | None = None,
) -> Groups:
    """Split ``n`` rows by their labels: in a list, an array, a Series, a Categorical or a tensor.

    Groups come in the order of the labels: numbers numerically, strings alphabetically, a mixture as text. Without
    labels, or with ``per_class=None``, one group holds all rows. ``unlabeled="drop"`` leaves rows without a label out
    with a warning, ``"group"`` makes them a group of their own, placed last.

    A row has no label if its label is None, NaN, ``pd.NA``, or the integer -1, scikit-learn's mark of
    an unlabeled row. One exception: if the integers in ``y`` are exactly -1 and 1, they are the two
    classes of the binary convention.

    ``beside`` moves an array to the device that holds the rows, if one does: sorting is quick there. ``numbered``
    tells the numbers by which a warning names rows, if they are not their positions.

    Examples
    --------
    >>> group_rows(["dog", "cat", "dog"], n=3)
    [Group(label='cat', rows=array([1])), Group(label='dog', rows=array([0, 2]))]
    """
    if unlabeled not in ("drop", "group"):
        raise InvalidInputError(f"unlabeled={unlabeled!r}: give 'drop' or 'group'.")
    if y is None or per_class is None:
        return Groups([None], np.arange(n, dtype=np.int64), np.array([0, n]))
    codes, values = distinct_values(y if beside is None else beside(y))
    if len(codes) != n:
        raise InvalidInputError(f"y has {len(codes):,} labels but X has {n:,} rows: give one label per row.")
    if n == 0:
        raise InvalidInputError("X has no rows, so nothing can be picked: give at least one.")
    labels = [plain_label(value) for value in values]
    if {label for label in labels if type(label) is int} != {-1, 1}:
        labels = [None if type(label) is int and label == -1 else label for label in labels]
    classes: list[Label] = [label for label in dict.fromkeys(labels) if label is not None]
    try:
        classes.sort()
    except TypeError:  # numbers and strings together
        classes.sort(key=lambda label: (str(label), type(label).__name__))
    position: dict[Label, int] = {label: i for i, label in enumerate(classes)}
    # Rows without a label get the position after the last class.
    final = np.array([position.get(label, len(classes)) for label in labels], dtype=np.int64)
    if is_tensor(codes):
        group_of_row = namespace(codes).as_tensor(final, device=codes.device)[codes]
    else:  # as small numbers, which are sorted several times faster
        group_of_row = final.astype(np.min_scalar_type(len(classes)))[codes]
    counts = namespace(codes).bincount(group_of_row, minlength=len(classes) + 1)
    in_order, offsets = stable_order(group_of_row), offsets_of(on_host(counts))
    rows, labeled = on_host(in_order), int(offsets[-2])
    _refuse_measurements(classes, labeled)
    if labeled == n or unlabeled == "drop":
        if labeled < n:
            _report_unlabeled(rows[labeled:], n, numbered)
        rows, in_order, offsets = rows[:labeled], in_order[:labeled], offsets[:-1]
    else:
        classes.append(None)
    return Groups(classes, rows, offsets, in_order if is_tensor(in_order) else None)


def _refuse_measurements(classes: list[Label], labelled: int) -> None:
    """Raise for numbers that are no names of classes: each would be a class of its own."""
    numbers = [label for label in classes if isinstance(label, float)]
    if any(math.isinf(number) for number in numbers):
        raise InvalidInputError("Input y contains infinity: labels are finite numbers, strings or missing.")
    broken = next((number for number in numbers if not number.is_integer()), None)
    # scikit-learn's own measure of what is suspicious.
    if broken is not None and labelled > 20 and len(classes) > labelled / 2:
        raise InvalidInputError(
            f"y holds {len(classes):,} different numbers such as {broken!r} for {labelled:,} rows, which are "
            "measurements and not classes: pass y=None or per_class=None to select from all rows together."
        )


def _report_unlabeled(rows: Indices, n: int, numbered: Callable[[Indices], Indices] | None) -> None:
    if len(rows) == n:
        raise InvalidInputError(
            "y has no label for any row (all are None, NaN or -1): pass y=None or unlabeled='group' "
            "to select from all rows together."
        )
    first = rows[:_LISTED_AT_MOST] if numbered is None else numbered(rows[:_LISTED_AT_MOST])
    warn_caller(
        UnlabeledRowsWarning(
            f"{len(rows):,} of {n:,} rows have no label (None, NaN or -1) and are left out, the first of them "
            f"in rows {', '.join(map(str, first.tolist()))}; unlabeled='group' keeps them as a group of their own."
        )
    )


def plain_label(value: Any) -> Label:
    """Turn one label into a plain Python scalar, and every form of "missing" into None.

    Examples
    --------
    >>> plain_label(np.int32(3)), plain_label(b"cat"), plain_label(float("nan"))
    (3, 'cat', None)
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas' own two
        return None
    # NumPy scalars and tensors of one element.
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool):
        return value
    # Through the base class, so that members of an enumeration become what they stand for.
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    raise InvalidTypeError(
        f"y holds a label of type {type(value).__name__} ({value!r}): labels must be numbers, booleans or "
        "strings; str(label) makes one."
    )


def distinct_values(y: Any) -> tuple[Any, list[Any]]:
    """Codes, one per row, into the list of distinct values of y; on the device of a tensor that lies on one."""
    if isinstance(y, (str, bytes, Mapping, AbstractSet)) or not isinstance(y, Iterable):
        raise InvalidTypeError(f"y has type {type(y).__name__}: give a list or an array, one label per row.")
    if hasattr(y, "detach"):  # a torch tensor, maybe on a GPU, maybe with a gradient
        y = y.detach()
        y = y.double() if y.is_floating_point() else y
        if y.is_cuda:
            distinct, codes = namespace(y).unique(_one_column(y), return_inverse=True)
            return codes, distinct.tolist()
        y = y.numpy()
    if hasattr(y, "to_numpy") and getattr(y, "ndim", 1) == 2:  # a data frame
        y = y.to_numpy()
    if isinstance(y, np.ndarray):
        y = _one_column(y)
        if y.dtype.kind in "biuf" and not isinstance(y, np.ma.MaskedArray):
            distinct, codes = np.unique(y, return_inverse=True)
            return codes.astype(np.int64, copy=False), distinct.tolist()
    to_list = next((name for name in ("to_pylist", "to_list", "tolist") if hasattr(y, name)), None)
    values = list(getattr(y, to_list)() if to_list else y)
    if values and isinstance(values[0], (list, tuple, np.ndarray)):
        odd = next((value for value in values if not hasattr(value, "__len__") or len(value) != 1), None)
        if odd is not None:
            raise InvalidInputError(f"y holds {odd!r} where one label is expected: give one label per row.")
        values = [value[0] for value in values]
    try:
        # A dictionary numbers strings several times faster than sorting them, as np.unique would.
        numbers = {value: i for i, value in enumerate(dict.fromkeys(values))}
    except TypeError:
        raise InvalidTypeError("y must hold numbers, booleans or strings, one label per row.") from None
    return np.fromiter(map(numbers.__getitem__, values), np.int64, len(values)), list(numbers)


def _one_column(labels: Any) -> Any:
    if labels.ndim == 1 or (labels.ndim == 2 and labels.shape[1] == 1):
        return labels.ravel()
    raise InvalidInputError(
        f"y has shape {tuple(labels.shape)}: give one label per row, shape (n,) "
        "(y.argmax(axis=1) turns one-hot rows into labels)."
    )
