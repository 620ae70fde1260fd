"""How much is kept: a share of all rows, or a number per class."""

from __future__ import annotations

from typing import Any

from gmmatch.errors import InvalidInputError


def parse_amount(text: str) -> str:
    """Return an amount in the form that tables and files have it.

    Examples
    --------
    >>> parse_amount("0.2"), parse_amount("20 %"), parse_amount("10/class")
    ('20%', '20%', '10/class')
    """
    cleaned = text.replace(" ", "")
    try:
        if cleaned.endswith("/class"):
            count = int(cleaned.removesuffix("/class"))
            if count > 0:
                return f"{count}/class"
        else:
            percent = float(cleaned.removesuffix("%")) * (1.0 if cleaned.endswith("%") else 100.0)
            if 0.0 < percent <= 100.0:
                return f"{percent:g}%"
    except ValueError:
        pass
    raise InvalidInputError(
        f"--ratios {text}: give a share such as 0.2 or 20%, or a number of images per class such as 10/class."
    )


def budget(amount: str, n_classes: int) -> dict[str, Any]:
    """Return an amount as ``select`` takes it.

    Examples
    --------
    >>> budget("20%", 10), budget("10/class", 10)
    ({'k': '20%'}, {'k': 100, 'per_class': 'balanced'})
    """
    if amount.endswith("/class"):
        return {"k": int(amount.removesuffix("/class")) * n_classes, "per_class": "balanced"}
    return {"k": amount}


def rows_of(amount: str, n_rows: int, n_classes: int) -> int:
    """Return about how many rows an amount is.

    Examples
    --------
    >>> rows_of("20%", 50_000, 10), rows_of("10/class", 50_000, 10)
    (10000, 100)
    """
    if amount.endswith("/class"):
        return int(amount.removesuffix("/class")) * n_classes
    return round(float(amount.removesuffix("%")) / 100.0 * n_rows)
