"""Labels become groups: the rows that are picked from together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Literal, TypeAlias

import numpy as np

from gmmatch._array import Indices, Mask, is_torch_array
from gmmatch._checks import check_array, warn_caller
from gmmatch.errors import InvalidInputError, InvalidTypeError, UnlabeledRowsWarning

Label: TypeAlias = "bool | int | float | str | None"
"""The name of a class; None stands for rows without a label, or for all rows when labels are ignored."""

Unlabeled: TypeAlias = Literal["drop", "group"]
"""What becomes of rows without a label: left out, or a group of their own."""

_LISTED_ROWS = 10


class MeasurementsError(InvalidInputError):
    """Labels are measurements, each of which would be a class of its own."""


@dataclass(frozen=True, eq=False)
class Groups:
    """All groups in flat arrays.

    Attributes
    ----------
    labels : list of length G
        The label of each group, in order: numbers numerically, strings alphabetically, a mixture as text. None for
        all rows, or for the rows without a label.
    codes : int64 array of shape (n,)
        The group of each row, -1 for rows of none.
    sizes : int64 array of shape (G,)
        How many rows each group has.

    Examples
    --------
    >>> groups = Groups.of(["dog", "cat", "dog"], 3)
    >>> groups.labels, groups.codes, groups.split(np.array([True, True, False]))
    (['cat', 'dog'], array([1, 0, 1]), [array([1]), array([0])])
    """

    labels: list[Label]
    codes: Indices
    sizes: Indices = field(init=False)

    @classmethod
    def of(cls, y: Any, n: int, *, unlabeled: Unlabeled = "drop", warn: bool = True) -> Groups:
        """Group ``n`` rows by their labels, in any array or list; without labels they are one group.

        A row has no label if its label is None, NaN, ``pd.NA``, or the integer -1, scikit-learn's mark of an
        unlabeled row. One exception: if the integers in ``y`` are exactly -1 and 1, they are two classes.
        ``unlabeled="drop"`` leaves such rows out, with a warning; ``"group"`` makes them the last group.
        """
        if not isinstance(unlabeled, str) or unlabeled not in ("drop", "group"):
            raise InvalidInputError(f"unlabeled={unlabeled!r}: give 'drop' or 'group'.")
        if y is None:
            return cls([None], np.zeros(n, dtype=np.int64))
        codes, values = encode_labels(y)
        if len(codes) != n:
            raise InvalidInputError(f"y has {len(codes):,} labels but X has {n:,} rows: give one per row.")
        labels = list(map(plain_label, values))
        classes = _sort_classes(labels)
        positions = dict(zip(classes, range(len(classes)), strict=True))
        codes = np.array(list(map(positions.get, labels, repeat(-1))), dtype=np.int64)[codes]
        missing = np.flatnonzero(codes < 0)
        if float in map(type, classes):
            _refuse_measurements(classes, n - len(missing))
        if len(missing) and unlabeled == "group":
            codes[missing] = len(classes)
            classes.append(None)
        elif len(missing) == n:
            raise InvalidInputError(
                "No row has a label, as all are missing or -1: leave the labels out to treat all rows alike."
            )
        elif len(missing) and warn:
            warn_caller(_unlabeled_warning(missing, n))
        return cls(classes, codes)

    def __len__(self) -> int:
        return len(self.labels)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", np.bincount(self.codes + 1, minlength=len(self.labels) + 1)[1:])

    def split(self, mask: Mask) -> list[Indices]:
        """Return the rows of each group that a mask of all rows holds, ascending."""
        rows = np.flatnonzero(mask & (self.codes >= 0))
        # Small numbers are sorted several times faster.
        codes = self.codes[rows].astype(np.min_scalar_type(len(self)))
        rows = rows[np.argsort(codes, kind="stable")]
        return np.split(rows, np.cumsum(np.bincount(codes, minlength=len(self)))[:-1])

    def count(self, mask: Mask) -> Indices:
        """Return how many rows of each group a mask of all rows holds."""
        if mask.all():
            return self.sizes
        if not mask.any():
            return np.zeros(len(self), dtype=np.int64)
        return np.bincount(self.codes[mask] + 1, minlength=len(self) + 1)[1:]


def describe_group(label: Label) -> str:
    """Return what a message calls the group with a label."""
    return "the data" if label is None else f"class {label!r}"


def _sort_classes(labels: list[Label]) -> list[Label]:
    """Return the names of the classes in order; None and the mark of an unlabeled row are none."""
    classes = list(dict.fromkeys(labels))
    if None in classes:
        classes.remove(None)
    # 1.0 and True equal 1, so types are compared as well.
    whole = set(filter(lambda label: type(label) is int, classes)) if -1 in classes else set()
    if -1 in whole and whole != {-1, 1}:
        classes = [label for label in classes if not (type(label) is int and label == -1)]
    try:
        classes.sort()
    except TypeError:  # numbers and strings together
        classes.sort(key=lambda label: (str(label), type(label).__name__))
    return classes


def _refuse_measurements(classes: list[Label], n_labeled: int) -> None:
    """Raise for numbers that are no names of classes: each would be a class of its own."""
    numbers = [label for label in classes if isinstance(label, float)]
    if any(math.isinf(number) for number in numbers):
        raise InvalidInputError("Input y contains infinity: labels are finite numbers, strings or missing.")
    broken = next((number for number in numbers if not number.is_integer()), None)
    # scikit-learn's own measure of what is suspicious.
    if broken is not None and n_labeled > 20 and len(classes) > n_labeled / 2:
        raise MeasurementsError(
            f"y holds {len(classes):,} different numbers such as {broken!r} for {n_labeled:,} rows, which are "
            "measurements and not classes: pass y=None or per_class=None to select from all rows together."
        )


def _unlabeled_warning(rows: Indices, n: int) -> UnlabeledRowsWarning:
    first = ", ".join(map(str, rows[:_LISTED_ROWS].tolist()))
    return UnlabeledRowsWarning(
        f"{len(rows):,} of {n:,} rows have no label (None, NaN or -1) and are left out, the first of them "
        f"in rows {first}; a label of their own would keep them as a group."
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


def encode_labels(y: Any) -> tuple[Indices, list[Any]]:
    """Return codes, one per row, into the list of distinct values of y."""
    if isinstance(y, (str, bytes, Mapping, AbstractSet)) or not isinstance(y, Iterable):
        raise InvalidTypeError(f"y has type {type(y).__name__}: give a list or an array, one label per row.")
    if is_torch_array(y):
        tensor: Any = y
        y = check_array(tensor.double() if tensor.is_floating_point() else tensor, "y", "one label per row")
    if hasattr(y, "to_numpy") and getattr(y, "ndim", 1) == 2:  # a data frame
        y = y.to_numpy()
    if isinstance(y, np.ndarray):
        y = y if y.ndim == 1 else _one_column(y)
        if y.dtype.kind in "biuf" and not isinstance(y, np.ma.MaskedArray):
            return _encode_numbers(y)
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


def _encode_numbers(y: Any) -> tuple[Indices, list[Any]]:
    if y.dtype.kind in "biu" and len(y):
        low, high = int(y.min()), int(y.max())
        if high - low < 1 << 20:
            # Counting is several times faster than the sort of np.unique.
            shifted = y.astype(np.int64) - low
            present = np.flatnonzero(np.bincount(shifted, minlength=1))
            codes = np.zeros(high - low + 1, dtype=np.int64)
            codes[present] = np.arange(len(present))
            return codes[shifted], (present + low).astype(y.dtype).tolist()
    distinct, inverse = np.unique(y, return_inverse=True)
    return inverse.astype(np.int64, copy=False), distinct.tolist()


def _one_column(labels: Any) -> Any:
    if labels.ndim == 2 and labels.shape[1] == 1:
        return labels.ravel()
    raise InvalidInputError(
        f"y has shape {tuple(labels.shape)}: give one label per row, shape (n,) "
        "(y.argmax(axis=1) turns one-hot rows into labels)."
    )
