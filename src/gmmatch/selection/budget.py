"""What k means: a count, a fraction, and how it is shared among the classes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gmmatch.errors import InvalidInputError, InvalidTypeError, listed
from gmmatch.types import Indices

Budget: TypeAlias = "int | float | str"
"""A count (500), a fraction (0.1), or either as text ("500", "0.1", "10%")."""

PerClass: TypeAlias = "Literal['proportional', 'balanced'] | Mapping[Any, Budget] | None"
"""How a budget is shared among the classes; None ignores the labels."""


def resolve_count(
    k: Budget | None, n: int, *, name: str = "k", unit: str = "rows", replacement: bool = False
) -> int:
    """Turn a budget into a number of rows, at least 1.

    An integer is always a count and a float always a fraction, so ``1`` is one row and ``1.0`` all of them. Fractions
    are read as the decimal number that was written and rounded half up. ``name`` and ``unit`` are what messages call
    the argument and what is counted; ``replacement`` allows a count above ``n``.

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
            f"{name}={k} exceeds the number of {unit} ({n:,}): give a count from 1 to {n} "
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
    """Split k into whole quotas proportional to the shares, each within 1 of its exact part.

    Each share gets its exact part rounded down; what is left over goes to the largest remainders, and
    among equal ones to the lowest position. The arithmetic is exact, so ties are real ties. A share of zero gets
    nothing, unless all are zero: then k is split evenly.

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
    unit: str = "rows",
    replacement: bool = False,
) -> Indices:
    """Share a budget among the groups, of which ``sizes`` rows each may be picked.

    ``per_class="proportional"`` or None: in proportion to the sizes, by largest remainder. ``"balanced"``: equal
    shares, the remainder to the first groups. A mapping: class to count, or to fraction of that class (``0.1``,
    ``"10%"``); classes it does not name get nothing, and ``k`` may be None or must agree with the sum. ``unit`` and
    ``replacement`` are as in :func:`resolve_count`.

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
        if k is not None and resolve_count(k, total, unit=unit, replacement=replacement) != result.sum():
            raise InvalidInputError(
                f"k={k} disagrees with per_class, which sums to {result.sum()}: leave out k (None) or change it."
            )
    elif per_class in (None, "proportional", "balanced"):
        count = resolve_count(k, total, unit=unit, replacement=replacement)
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
            f"per_class names {listed(unknown, 10)}, not found in y: the classes are {listed(labels, 10)}."
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
