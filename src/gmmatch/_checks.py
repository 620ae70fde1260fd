"""Checks of arguments that many functions share; every message names the argument and the remedy."""

from __future__ import annotations

import sys
import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, RandomState, Vector, is_torch_array, to_numpy
from gmmatch.errors import GMMatchError, InvalidInputError, InvalidTypeError, NotFiniteError, first_line

# Squares of larger numbers overflow float64.
LARGEST = 1e150
# Weights of which the largest lies between these are used as they are.
_SMALLEST_WEIGHT, _LARGEST_WEIGHT = 1e-20, 1e20


def not_finite(name: str, count: int, bad: Indices, n: int) -> NotFiniteError:
    """Return the error for rows of n that cannot be used, of which the first are known."""
    # The words "NaN" and "infinity" are what scikit-learn's conformance suite looks for.
    first = ", ".join(str(row) for row in bad[:5]) + (", ..." if count > 5 else "")
    return NotFiniteError(
        f"{name} contains NaN, infinity or a value too large to square, in {count} of {n} "
        f"rows (first: {first}). Drop these rows or fill them in; none is dropped silently."
    )


def unusable(block: NDArray[Any]) -> Indices:
    """Return which rows of a block are not finite, or too large to square.

    Examples
    --------
    >>> unusable(np.array([[1.0], [np.nan], [1e200]]))
    array([1, 2])
    """
    # NaN is the largest and the smallest number wherever there is one.
    if float(block.max(initial=0.0)) <= LARGEST and float(block.min(initial=0.0)) >= -LARGEST:
        return np.empty(0, dtype=np.int64)
    good = np.isfinite(block).all(axis=1) & (np.abs(block, dtype=np.float64) <= LARGEST).all(axis=1)
    return np.flatnonzero(~good)


def check_array(
    values: Any, name: str, what: str, *, numbers: bool = False, dtype: Any = None
) -> NDArray[Any]:
    """Return an array, tensor or list as a NumPy array; an error names the argument and says what it must be.

    Real ``numbers`` keep their type; texts that read as numbers become float64.

    Examples
    --------
    >>> check_array([1j, 2], "scores", "one number per row", numbers=True)
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: scores: Complex data not supported; pass real numbers.
    """
    if hasattr(values, "toarray"):
        raise InvalidTypeError(f"{name} is a sparse matrix: pass {name}.toarray() or fewer columns.")
    if type(values).__name__ == "LazyFrame":
        raise InvalidTypeError(f"{name} is a LazyFrame, which holds no rows yet: pass {name}.collect().")
    try:
        array = to_numpy(values) if is_torch_array(values) else np.asarray(values, dtype=dtype)
        if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
            raise InvalidInputError(f"{name} has masked values, which have no meaning here: fill them in.")
        if numbers and array.dtype == object and array.size and np.ndim(array.flat[0]):
            array = _stack_vectors(array.ravel(), name)
        if numbers and array.dtype.kind in "OSU":
            array = array.astype(np.float64)
    except (GMMatchError, MemoryError):
        raise
    except Exception as error:  # an object decides itself what it raises where it is converted
        raise InvalidInputError(f"{name} must be {what}: {first_line(error)}.") from error
    if numbers and array.dtype.kind == "c":  # scikit-learn's own words
        raise InvalidInputError(f"{name}: Complex data not supported; pass real numbers.")
    if numbers and array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise InvalidTypeError(f"{name} has dtype {array.dtype}: expected numbers.")
    return array


def _stack_vectors(column: Any, name: str) -> Any:
    """Return a column of vectors, as a table holds them, as a matrix."""
    vectors = [np.asarray(vector) for vector in column]
    odd = next((i for i, vector in enumerate(vectors) if vector.shape != vectors[0].shape), None)
    if odd is not None:
        shapes = f"shape {vectors[odd].shape} in row {odd}, {vectors[0].shape} in row 0"
        raise InvalidInputError(f"{name} is a column of vectors of different lengths: {shapes}.")
    return np.stack(vectors)


def check_sample_weight(weights: Any, n: int, *, name: str = "sample_weight") -> Vector:
    """Return one non-negative float64 weight per row, 1 where none were given."""
    if weights is None:
        return np.ones(n)
    array = check_array(weights, name, "one number per row", numbers=True).astype(np.float64)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise InvalidInputError(f"{name} needs one number per row: expected shape ({n},), got {array.shape}.")
    if not np.all(np.isfinite(array)) or np.any(array < 0.0):
        bad = int(np.flatnonzero(~(np.isfinite(array) & (array >= 0.0)))[0])
        raise InvalidInputError(f"{name}[{bad}] is {array[bad]}; weights must be finite and at least 0.")
    if not array.any():
        raise InvalidInputError(f"{name} is zero for every row; at least one row needs a positive weight.")
    # Only their proportions count. Products of extreme ones with the rows would overflow or vanish; a power of two
    # changes no digit.
    largest = float(array.max())
    if not _SMALLEST_WEIGHT < largest < _LARGEST_WEIGHT:
        array = np.ldexp(array, 1 - int(np.frexp(largest)[1]))
    return np.ascontiguousarray(array)


def check_columns(rows: Any, others: Any, name: str, other_name: str = "X") -> None:
    """Raise unless two sets of rows are as wide as each other."""
    if rows.n_features != others.n_features:
        problem = f"{name} has {rows.n_features:,} columns and {other_name} has {others.n_features:,}"
        raise InvalidInputError(f"{problem}: both need the same ones.")


def check_positions(rows: Any, n: int, name: str) -> Indices:
    """Return row numbers of X from row numbers, a mask of all rows, or anything with ``.indices``.

    Examples
    --------
    >>> check_positions([True, False, True], 3, "include")
    array([0, 2])
    """
    of_rows = getattr(rows, "n_rows", n)
    if of_rows != n:
        raise InvalidInputError(f"{name} is a selection from {of_rows:,} rows; expected one from {n:,}.")
    indices = getattr(rows, "indices", None)
    rows = rows if indices is None or callable(indices) else indices  # of a tensor it is a method
    rows = list(rows) if isinstance(rows, (set, frozenset, range)) else rows
    array = check_array(rows, name, "a list of row numbers or a boolean mask")
    if array.dtype == bool:
        if array.shape != (n,):
            raise InvalidInputError(f"{name} is a mask of shape {array.shape}; expected ({n},), one per row.")
        return np.flatnonzero(array)
    if array.ndim == 1 and array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{name} must be a list of row numbers or a boolean mask; got dtype {array.dtype} of shape "
            f"{array.shape}."
        )
    if array.min() < 0 or array.max() >= n:
        bad = int(array[(array < 0) | (array >= n)][0])
        raise InvalidInputError(f"{name} names row {bad}; X has rows 0 to {n - 1}.")
    return array.astype(np.int64)


def check_fraction(fraction: float, name: str) -> None:
    """Raise unless ``fraction`` lies in (0, 1]."""
    if not isinstance(fraction, (int, float, np.floating)) or not 0.0 < fraction <= 1.0:
        raise InvalidInputError(f"{name}={fraction!r}: expected a number above 0 and at most 1.")


def check_whole_number(value: Any, name: str, least: int = 1, what: str = "whole number") -> None:
    """Raise unless a value is a whole number of at least ``least``.

    Examples
    --------
    >>> check_whole_number(0, "epochs", 1)
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: epochs=0: expected a whole number of at least 1.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidInputError(f"{name}={value!r}: expected a {what} of at least {least}.")


def check_number(value: Any, name: str, *, above_zero: bool = False) -> None:
    """Raise unless a value is a finite number of at least 0, or above 0."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not 0.0 <= value < np.inf or (above_zero and value == 0.0):
        raise InvalidInputError(
            f"{name}={value!r}: expected a finite number {'above' if above_zero else 'of at least'} 0."
        )


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Return a NumPy generator from anything scikit-learn accepts as ``random_state``.

    A legacy ``RandomState`` is drawn from once, so passing the same object twice gives different
    streams, as it does in scikit-learn. The global random state is never touched.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(0, 2**31 - 1)))
    if random_state is None or isinstance(random_state, (int, np.integer)):
        if random_state is not None and random_state < 0:
            raise InvalidInputError(f"random_state={random_state!r}: a seed must be at least 0.")
        return np.random.default_rng(None if random_state is None else int(random_state))
    raise InvalidTypeError(f"random_state={random_state!r}: expected an integer, Generator or RandomState.")


def warn_caller(warning: Warning) -> None:
    """Give a warning at the line outside of this package that led to it, however deep it arose."""
    frame = sys._getframe(1)
    level = 2
    # Between two functions of this package there may be the code of a context manager.
    ours = ("gmmatch", "contextlib")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        frame = frame.f_back
        level += 1
    warnings.warn(warning, stacklevel=level)
