"""What k means: a count, a fraction, and how it is shared among the classes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gmmatch.errors import InvalidInputError, InvalidTypeError, UnlabeledRowsWarning
from gmmatch.types import Indices

Label: TypeAlias = "bool | int | float | str | None"
"""The name of a class; None stands for rows without a label, or for all rows when labels are ignored."""

Budget: TypeAlias = "int | float | str"
"""A count (500), a fraction (0.1), or either as text ("500", "0.1", "10%")."""

PerClass: TypeAlias = "Literal['proportional', 'balanced'] | Mapping[Any, Budget] | None"
"""How a budget is shared among the classes; None ignores the labels."""

Unlabeled: TypeAlias = Literal["drop", "group"]
"""What becomes of rows without a label: left out, or a group of their own."""

_LISTED_AT_MOST = 10


def resolve_count(
    k: Budget | None, n: int, *, name: str = "k", unit: str = "rows", replacement: bool = False
) -> int:
    """Turn a budget into a number of rows.

    Parameters
    ----------
    k
        A count (``500``), a fraction in (0, 1] (``0.1``), or either as text (``"500"``, ``"0.1"``,
        ``"10%"``). An integer is always a count and a float always a fraction, so ``1`` is one row
        and ``1.0`` all of them.
    n
        How many rows there are.
    name
        The argument's name in error messages.
    unit
        What is counted, for error messages.
    replacement
        Whether a row may be picked more than once, which allows a count above ``n``.

    Returns
    -------
    int
        At least 1. Fractions are read as the decimal number that was written and rounded half up.

    Examples
    --------
    >>> resolve_count(0.1, 250), resolve_count("10%", 5), resolve_count(7, 250)
    (25, 1, 7)
    """
    if n == 0:
        raise InvalidInputError(f"X has no {unit}, so nothing can be picked: give at least one.")
    amount = _parse_text(k, name) if isinstance(k, str) else _parse_number(k, name)
    if amount <= 0:
        raise InvalidInputError(f"{name}={k}: give a count of at least 1 or a fraction above 0.")
    if isinstance(amount, Fraction):
        if amount > 1:
            raise InvalidInputError(_above_one(k, amount, name))
        return max(1, math.floor(amount * n + Fraction(1, 2)))
    if amount > n and not replacement:
        raise InvalidInputError(
            f"{name}={k} is more than there are {unit} ({n:,}): give a count from 1 to {n} "
            f"or a fraction such as {name}=0.1."
        )
    return amount


def _parse_number(k: object, name: str) -> int | Fraction:
    if isinstance(k, (bool, np.bool_)) or not isinstance(k, Real):
        raise InvalidTypeError(
            f"{name}={k!r} has type {type(k).__name__}: give a count such as 500, "
            "a fraction such as 0.1, or a text such as '10%'."
        )
    if isinstance(k, Integral):
        return int(k)
    if not math.isfinite(k):
        raise InvalidInputError(f"{name}={k}: give a count such as 500 or a fraction between 0 and 1.")
    # Through its text, so that 0.3 means three tenths and half of a row is really half of one.
    return Fraction(str(k))


def _parse_text(k: str, name: str) -> int | Fraction:
    text = k.strip()
    try:
        if text.endswith("%"):
            return Fraction(_parse_number(float(text[:-1]), name)) / 100
        try:
            return int(text)
        except ValueError:
            return _parse_number(float(text), name)
    except ValueError:
        raise InvalidInputError(
            f"{name}={k!r} is not an amount: write a count such as '500', a fraction such as '0.1', "
            "or a percentage such as '10%'."
        ) from None


def _above_one(k: Budget | None, amount: Fraction, name: str) -> str:
    if isinstance(k, str) and k.strip().endswith("%"):
        return f"{name}={k!r} is more than everything: give a percentage above 0% and up to 100%."
    return (
        f"{name}={k}: write {name}={round(amount)} for a count or a fraction between 0 and 1 "
        "(a count must be an integer)."
    )


def largest_remainder(k: int, shares: ArrayLike) -> Indices:
    """Split k into whole quotas proportional to the shares.

    Each share gets its exact part rounded down; what is left over goes to the largest remainders, and
    among equal ones to the lowest position. The arithmetic is exact, so ties are real ties.

    Parameters
    ----------
    k
        What to split, at least 0.
    shares
        Non-negative numbers, shape (g,). A share of zero gets nothing, unless all are zero: then k is
        split evenly.

    Returns
    -------
    array of int64, shape (g,)
        Quotas that sum to ``k``, each within 1 of its exact part.

    Examples
    --------
    >>> largest_remainder(10, [50, 30, 5, 0])
    array([6, 3, 1, 0])
    """
    weights = _exact_weights(shares)
    if k < 0 or (k > 0 and not weights):
        raise InvalidInputError(f"k={k} cannot be split into {len(weights)} shares.")
    total = sum(weights)
    if total == 0:
        weights, total = [1] * len(weights), len(weights)
    parts = [divmod(k * weight, total) for weight in weights]
    result = np.array([whole for whole, _ in parts], dtype=np.int64)
    left_over = k - sum(whole for whole, _ in parts)
    # The sort is stable, so equal remainders stay in the order of their positions.
    for position in sorted(range(len(parts)), key=lambda i: -parts[i][1])[:left_over]:
        result[position] += 1
    return result


def _exact_weights(shares: ArrayLike) -> list[int]:
    """Integers in exactly the same proportions as the shares."""
    values = np.asarray(shares)
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise InvalidInputError("shares must be a one-dimensional array of numbers.")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise InvalidInputError("shares must be finite and not negative.")
    ratios = [value.as_integer_ratio() for value in values.tolist()]
    # Denominators of floats are powers of two, so the largest is a multiple of all of them.
    scale = max((denominator for _, denominator in ratios), default=1)
    return [numerator * (scale // denominator) for numerator, denominator in ratios]


def quotas(
    k: Budget | None,
    labels_of_groups: Sequence[Hashable],
    sizes: ArrayLike,
    per_class: PerClass = "proportional",
    *,
    replacement: bool = False,
) -> Indices:
    """Share a budget among the groups.

    Parameters
    ----------
    k
        The whole budget, as in :func:`resolve_count`. May be None when ``per_class`` is a mapping; if
        it is given too, it must agree with the mapping's sum.
    labels_of_groups
        The groups' labels, one per group.
    sizes
        How many rows of each group may be picked, shape (g,).
    per_class
        ``"proportional"``: in proportion to ``sizes``, by largest remainder. ``"balanced"``: equal
        shares, the remainder to the first groups. A mapping: class to count, or to fraction of that
        class (``0.1``, ``"10%"``); classes it does not name get nothing. None: as ``"proportional"``.
    replacement
        Whether a row may be picked more than once, so that a quota may exceed its group's size.

    Returns
    -------
    array of int64, shape (g,)
        Quotas that sum to the budget.

    Examples
    --------
    >>> quotas(0.1, ["cat", "dog"], [70, 30])
    array([7, 3])
    >>> quotas(None, ["cat", "dog"], [70, 30], {"cat": 5, "dog": "50%"})
    array([ 5, 15])
    """
    rows = np.asarray(sizes, dtype=np.int64)
    if rows.shape != (len(labels_of_groups),):
        raise InvalidInputError(f"sizes has shape {rows.shape} for {len(labels_of_groups)} groups.")
    total = int(rows.sum())
    if isinstance(per_class, Mapping):
        result = _mapped_quotas(labels_of_groups, rows, per_class)
        if k is not None and resolve_count(k, total, replacement=replacement) != result.sum():
            raise InvalidInputError(
                f"k={k} disagrees with per_class, which sums to {result.sum()}: leave out k or change it."
            )
    elif per_class in (None, "proportional", "balanced"):
        count = resolve_count(k, total, replacement=replacement)
        result = largest_remainder(count, np.ones_like(rows) if per_class == "balanced" else rows)
    else:
        raise InvalidInputError(
            f"per_class={per_class!r}: give 'proportional', 'balanced', a mapping of class to count, or None."
        )
    _require_enough_rows(labels_of_groups, rows, result, replacement)
    return result


def _mapped_quotas(labels: Sequence[Hashable], sizes: Indices, wanted: Mapping[Any, Budget]) -> Indices:
    position = {label: i for i, label in enumerate(labels)}
    unknown = [label for label in wanted if label not in position]
    if unknown:
        raise InvalidInputError(
            f"per_class names {_listed(unknown)}, which is no class of y: the classes are {_listed(labels)}."
        )
    result = np.zeros(len(labels), dtype=np.int64)
    for label, budget in wanted.items():
        if _is_zero(budget):
            continue
        i = position[label]
        # An empty class has no fraction; asking for one row of it leads to the error that names it.
        size = max(1, int(sizes[i]))
        result[i] = resolve_count(budget, size, name=f"per_class[{label!r}]", replacement=True)
    if not result.any():
        raise InvalidInputError("per_class asks for no rows at all: give at least one class a count above 0.")
    return result


def _is_zero(budget: object) -> bool:
    if isinstance(budget, str):
        return budget.strip() in {"0", "0%"}
    return isinstance(budget, Real) and not isinstance(budget, bool) and budget == 0


def _require_enough_rows(
    labels: Sequence[Hashable], sizes: Indices, wanted: Indices, replacement: bool
) -> None:
    short = (wanted > 0) & (sizes == 0) if replacement else wanted > sizes
    if not short.any():
        return
    i = int(np.argmax(short))
    group = "the group of rows without a label" if labels[i] is None else f"class {labels[i]!r}"
    remedy = "" if replacement and not sizes[i] else ", or pass replacement=True to pick rows more than once"
    others = int(short.sum()) - 1
    also = f" ({others} more are short as well)" if others else ""
    raise InvalidInputError(
        f"{group} has {sizes[i]} rows to pick from but its quota is {wanted[i]}{also}: "
        f"lower k, use per_class='proportional'{remedy}."
    )


def _listed(values: Iterable[Hashable]) -> str:
    names = [repr(value) for value in values]
    more = len(names) - _LISTED_AT_MOST
    return ", ".join(names[:_LISTED_AT_MOST]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, eq=False)
class Group:
    """Rows that are selected from together.

    Attributes
    ----------
    label
        The class as a plain Python scalar; None for rows without a label, or for all rows.
    rows
        Row numbers, ascending.

    Examples
    --------
    >>> Group("cat", np.array([0, 2]))
    Group(label='cat', rows=array([0, 2]))
    """

    label: Label
    rows: Indices


def group_rows(
    y: Any, *, n: int, per_class: PerClass = "proportional", unlabeled: Unlabeled = "drop"
) -> list[Group]:
    """Split the rows by their labels.

    Parameters
    ----------
    y
        One label per row: a list, a NumPy array, a pandas Series or Categorical, a torch tensor, or
        None. Labels are numbers, booleans or strings.
    n
        How many rows there are.
    per_class
        Only whether it is None matters here: then labels are ignored.
    unlabeled
        What becomes of rows without a label: ``"drop"`` leaves them out with a warning, ``"group"``
        makes them a group of their own, with label None, placed last.

    Returns
    -------
    list of Group
        In the order of the labels: numbers numerically, strings alphabetically, a mixture as text.
        Without labels, one group with label None that holds all rows.

    Notes
    -----
    A row has no label if its label is None, NaN, ``pd.NA``, or the integer -1, scikit-learn's mark of
    an unlabeled row. One exception: if the integers in ``y`` are exactly -1 and 1, they are the two
    classes of the binary convention.

    Examples
    --------
    >>> group_rows(["dog", "cat", "dog"], n=3)
    [Group(label='cat', rows=array([1])), Group(label='dog', rows=array([0, 2]))]
    """
    if unlabeled not in ("drop", "group"):
        raise InvalidInputError(f"unlabeled={unlabeled!r}: give 'drop' or 'group'.")
    if y is None or per_class is None:
        return [Group(None, np.arange(n, dtype=np.int64))]
    codes, values = _distinct_values(y)
    if len(codes) != n:
        raise InvalidInputError(f"y has {len(codes):,} labels but X has {n:,} rows: give one label per row.")
    if n == 0:
        raise InvalidInputError("X has no rows, so nothing can be picked: give at least one.")
    labels = _labels_of(values)
    classes = _sorted_labels({label for label in labels if label is not None})
    position: dict[Label, int] = {label: i for i, label in enumerate(classes)}
    # Rows without a label get the position after the last class.
    final = np.array([position.get(label, len(classes)) for label in labels], dtype=np.int64)[codes]
    ends = np.cumsum(np.bincount(final, minlength=len(classes) + 1))
    *by_class, without_label = np.split(np.argsort(final, kind="stable"), ends[:-1])
    groups = [Group(label, rows) for label, rows in zip(classes, by_class, strict=True)]
    if len(without_label) and unlabeled == "group":
        groups.append(Group(None, without_label))
    elif len(without_label):
        _report_unlabeled(without_label, n)
    return groups


def _labels_of(values: list[Any]) -> list[Label]:
    """The distinct values of y as plain labels, None where they mean that there is none."""
    labels = [plain_label(value) for value in values]
    if {label for label in labels if type(label) is int} == {-1, 1}:
        return labels
    return [None if type(label) is int and label == -1 else label for label in labels]


def _report_unlabeled(rows: Indices, n: int) -> None:
    if len(rows) == n:
        raise InvalidInputError(
            "y has no label for any row (all are None, NaN or -1): pass y=None or unlabeled='group' "
            "to select from all rows together."
        )
    first = ", ".join(map(str, rows[:_LISTED_AT_MOST].tolist()))
    warnings.warn(
        f"{len(rows):,} of {n:,} rows have no label (None, NaN or -1) and are left out, the first of them "
        f"in rows {first}; unlabeled='group' keeps them as a group of their own.",
        UnlabeledRowsWarning,
        stacklevel=3,
    )


def _sorted_labels(labels: AbstractSet[Label]) -> list[Label]:
    try:
        return sorted(labels)  # type: ignore[type-var]
    except TypeError:  # numbers and strings together
        return sorted(labels, key=lambda label: (str(label), type(label).__name__))


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


def _distinct_values(y: Any) -> tuple[Indices, list[Any]]:
    """Codes, one per row, into the list of distinct values of y."""
    if isinstance(y, (str, bytes, Mapping, AbstractSet)) or not isinstance(y, Iterable):
        raise InvalidTypeError(f"y has type {type(y).__name__}: give a list or an array, one label per row.")
    if hasattr(y, "detach"):  # a torch tensor, maybe on a GPU, maybe with a gradient
        y = y.detach().cpu()
        y = (y.double() if y.is_floating_point() else y).numpy()
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
        values = [_only_element(value) for value in values]
    try:
        # A dictionary numbers strings several times faster than sorting them, as np.unique would.
        numbers = {value: i for i, value in enumerate(dict.fromkeys(values))}
    except TypeError:
        raise InvalidTypeError("y must hold numbers, booleans or strings, one label per row.") from None
    return np.fromiter(map(numbers.__getitem__, values), np.int64, len(values)), list(numbers)


def _one_column(labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if labels.ndim == 1 or (labels.ndim == 2 and labels.shape[1] == 1):
        return labels.ravel()
    raise InvalidInputError(
        f"y has shape {labels.shape}: give one label per row, shape (n,) "
        "(y.argmax(axis=1) turns one-hot rows into labels)."
    )


def _only_element(value: Any) -> Any:
    if isinstance(value, (list, tuple, np.ndarray)) and len(value) == 1:
        return value[0]
    raise InvalidInputError(f"y holds {value!r} where one label is expected: give one label per row.")
