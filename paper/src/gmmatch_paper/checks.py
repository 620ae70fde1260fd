"""Checks of arguments that many functions share; every message names the argument and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, NotFiniteError
from gmmatch_paper.arrays import float_blocks


def check_whole_number(value: Any, name: str, least: int = 1) -> None:
    """Raise unless a value is a whole number of at least ``least``.

    Examples
    --------
    >>> check_whole_number(0, "epochs", 1)
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: epochs=0: expected a whole number of at least 1.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise InvalidInputError(f"{name}={value!r}: expected a whole number of at least {least}.")


def check_number(value: Any, name: str, *, above_zero: bool = False) -> None:
    """Raise unless a value is a finite number of at least 0, or above 0."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not 0.0 <= value < np.inf or (above_zero and value == 0.0):
        raise InvalidInputError(
            f"{name}={value!r}: expected a finite number {'above' if above_zero else 'of at least'} 0."
        )


def check_matrix(X: Any, name: str = "X") -> NDArray[Any]:
    """Return rows as an array of their own type; raise unless they are finite numbers of shape (n, s).

    Examples
    --------
    >>> check_matrix([[0.0], [float("nan")]])
    Traceback (most recent call last):
    gmmatch.errors.NotFiniteError: X contains NaN or infinity in 1 of 2 rows (first: 1).
    """
    array = np.asarray(X.detach().cpu() if hasattr(X, "detach") else X)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind in "OSUM":
        raise InvalidInputError(
            f"{name} has shape {array.shape} and type {array.dtype}: expected numbers, at least one row "
            "and one column."
        )
    bad = np.flatnonzero(~np.concatenate([np.isfinite(block).all(axis=1) for block in float_blocks(array)]))
    if len(bad):
        first = ", ".join(map(str, bad[:5].tolist()))
        raise NotFiniteError(
            f"{name} contains NaN or infinity in {len(bad)} of {len(array)} rows (first: {first})."
        )
    return array
