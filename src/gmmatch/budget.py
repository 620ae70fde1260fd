"""What k means: a count or a fraction, and how it is shared among the groups."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

import numpy as np

from gmmatch._array import Indices
from gmmatch.errors import InvalidInputError, InvalidTypeError, listed

Budget: TypeAlias = "int | float | str"
"""A count (500), a fraction (0.1), or either as text ("500", "0.1", "10%")."""

TRUSTED = "trusted"
"""A budget: every row that a screening trusts, and no other."""

PerClass: TypeAlias = "Literal['proportional', 'balanced'] | Mapping[Any, Budget] | None"
"""How a budget is shared among the classes; None ignores the labels."""

_AMOUNTS = "give a count such as 500, a fraction such as 0.1, or a percentage such as '10%'"
_MOST = 1 << 31


def resolve_count(
    k: Budget | None, n: int, *, name: str = "k", unit: str = "rows", replacement: bool = False
) -> int:
    """Turn a budget into a number of rows out of ``n``, at least 1.

    An integer is a count and a float a fraction, so ``1`` is one row and ``1.0`` all of them. Fractions are read as
    the decimal number that was written, and rounded half up. ``name`` and ``unit`` are what messages call the
    argument and what is counted; ``replacement`` allows a count above ``n``.

    Examples
    --------
    >>> resolve_count(0.1, 250), resolve_count("10%", 5), resolve_count(7, 250)
    (25, 1, 7)
    """
    if n == 0:
        raise InvalidInputError(f"X has no {unit}, so nothing can be picked: give at least one.")
    amount = _parse(k, name)
    if isinstance(amount, Fraction):
        if not 0 < amount <= 1:
            raise InvalidInputError(
                f"{name}={k!r}: write {name}={max(1, round(amount))} for a count, or a fraction above 0 and up to 1."
            )
        return max(1, math.floor(amount * n + Fraction(1, 2)))
    if amount <= 0:
        raise InvalidInputError(f"{name}={k}: give a count of at least 1 or a fraction above 0.")
    if amount > _MOST:
        raise InvalidInputError(f"{name} is above {_MOST:,}, the most picks that there may be.")
    if amount > n and not replacement:
        raise InvalidInputError(
            f"{name}={k} exceeds the number of {unit} ({n:,}): give a count from 1 to {n}, or a fraction."
        )
    return amount


def _parse(k: object, name: str) -> int | Fraction:
    """Return a count as an integer, and a fraction or percentage as a fraction."""
    text = str(k).strip()
    if isinstance(k, (bool, np.bool_)) or not isinstance(k, (str, Real)):
        raise InvalidTypeError(f"{name}={k!r} has type {type(k).__name__}: {_AMOUNTS}.")
    try:
        if isinstance(k, Integral) or re.fullmatch(r"[+-]?[0-9_]+", text):
            return int(text)
        # Through its text, so that 0.3 means three tenths and half of a row is really half of one.
        amount = Fraction(str(float(text.removesuffix("%"))))
        return amount / 100 if text.endswith("%") else amount
    except ValueError:
        raise InvalidInputError(f"{name}={k!r} is not an amount: {_AMOUNTS}.") from None


def largest_remainder(total: int, shares: Indices) -> Indices:
    """Split ``total`` in proportion to ``shares``; what rounding leaves goes to the largest remainders.

    Examples
    --------
    >>> largest_remainder(10, np.array([50, 30, 5, 0]))
    array([6, 3, 1, 0])
    """
    # Integers: the arithmetic is exact, so ties are real ties, and go to the first.
    if not shares.any():
        shares = np.ones_like(shares)
    quotas, remainders = np.divmod(total * shares, int(shares.sum()))
    order = np.argsort(-remainders, kind="stable")
    quotas[order[: total - int(quotas.sum())]] += 1
    return quotas


def share_budget(
    k: Budget | None,
    labels: Sequence[Any],
    capacities: Indices,
    per_class: PerClass = "proportional",
    *,
    unit: str = "rows",
    replacement: bool = False,
) -> Indices:
    """Return the quota of each group, which sum to ``k``.

    Parameters
    ----------
    k : int, float or str, optional
        A count, a fraction or a percentage of all rows that may be picked; "trusted" for all of them.
    labels : sequence of length G
    capacities : int64 array of shape (G,)
        How many rows of each group may be picked.
    per_class : "proportional", "balanced", mapping or None
        A mapping gives a count or a fraction for each class; classes that it does not name get nothing, and ``k``
        may be None or must agree with the sum.
    unit, replacement
        As in :func:`resolve_count`.

    Examples
    --------
    >>> share_budget("10%", ["cat", "dog"], np.array([60, 40]), "balanced")
    array([5, 5])
    >>> share_budget(None, ["cat", "dog"], np.array([70, 30]), {"cat": 5, "dog": "50%"})
    array([ 5, 15])
    """
    total = int(capacities.sum())
    if isinstance(k, str) and k == TRUSTED:
        if replacement or per_class not in (None, "proportional"):
            raise InvalidInputError("k='trusted' picks every trusted row: leave out per_class, replacement.")
        return capacities.copy()
    if isinstance(per_class, Mapping):
        quotas = _quotas_by_class(labels, capacities, per_class)
        if k is not None and resolve_count(k, total, unit=unit, replacement=replacement) != quotas.sum():
            raise InvalidInputError(
                f"k={k} disagrees with per_class, which sums to {quotas.sum()}: leave out k (None) or change it."
            )
    elif per_class in (None, "proportional", "balanced"):
        count = resolve_count(k, total, unit=unit, replacement=replacement)
        quotas = largest_remainder(count, np.ones_like(capacities) if per_class == "balanced" else capacities)
    else:
        raise InvalidInputError(
            f"per_class={per_class!r}: give 'proportional', 'balanced', a mapping of class to count, or None."
        )
    _check_capacities(labels, capacities, quotas, replacement)
    return quotas


def _quotas_by_class(labels: Sequence[Any], capacities: Indices, wanted: Mapping[Any, Budget]) -> Indices:
    position = {label: i for i, label in enumerate(labels)}
    unknown = [label for label in wanted if label not in position]
    if unknown:
        raise InvalidInputError(
            f"per_class names {listed(unknown, 10)}, not found in y: the classes are {listed(labels, 10)}."
        )
    quotas = np.zeros(len(labels), dtype=np.int64)
    for label, budget in wanted.items():
        if _is_zero(budget):
            continue
        i = position[label]
        # An empty class has no fraction; asking for one row of it leads to the error that names it.
        size = max(1, int(capacities[i]))
        quotas[i] = resolve_count(budget, size, name=f"per_class[{label!r}]", replacement=True)
    if not quotas.any():
        raise InvalidInputError("per_class asks for no rows at all: give at least one class a count above 0.")
    return quotas


def _is_zero(budget: object) -> bool:
    if isinstance(budget, str):
        return budget.strip() in {"0", "0%"}
    return isinstance(budget, Real) and not isinstance(budget, bool) and budget == 0


def _check_capacities(labels: Sequence[Any], capacities: Indices, quotas: Indices, replacement: bool) -> None:
    short = (quotas > 0) & (capacities == 0) if replacement else quotas > capacities
    if not short.any():
        return
    i = int(np.argmax(short))
    group = "the group of rows without a label" if labels[i] is None else f"class {labels[i]!r}"
    remedy = (
        "" if replacement and not capacities[i] else ", or pass replacement=True to pick rows more than once"
    )
    others = int(short.sum()) - 1
    also = f" ({others} more are short as well)" if others else ""
    raise InvalidInputError(
        f"{group} has {capacities[i]} rows to pick from but its quota is {quotas[i]}{also}: "
        f"lower k, use per_class='proportional'{remedy}."
    )
