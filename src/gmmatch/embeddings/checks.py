"""Checks of what is appended to a store, and its conversion to the store's type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.embeddings.manifest import DTYPES
from gmmatch.errors import InvalidInputError

_SHARD_BYTES = 1 << 26
_SHARD_ROWS = 1 << 18  # the ids and labels of a shard wait in memory, too


def as_matrix(rows: Any) -> NDArray[Any]:
    """Return rows as a two-dimensional array of numbers.

    Examples
    --------
    >>> as_matrix([[1, 2]]).shape
    (1, 2)
    """
    if hasattr(rows, "detach"):  # a torch tensor, maybe on a GPU, maybe bfloat16, which NumPy does not know
        rows = rows.detach()
        rows = (rows.float() if str(rows.dtype) == "torch.bfloat16" else rows).cpu().numpy()
    block = np.asarray(rows)
    if block.ndim != 2 or block.shape[1] == 0 or block.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"rows has shape {block.shape} and dtype {block.dtype}: give a matrix of numbers, rows by features."
        )
    return block


def converted(block: NDArray[Any], dtype: str, names: list[Any]) -> NDArray[Any]:
    """Return rows in the type of the store, all of them finite, or say which is not.

    Parameters
    ----------
    block : array of shape (b, s)
        The rows.
    dtype
        The type of the store.
    names
        The rows' ids, for the message.

    Examples
    --------
    >>> converted(np.array([[1e6]]), "float16", ["a"])
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: rows holds 1e+06 (id 'a'), which float16 cannot: use dtype='float32', \
or scale the embeddings.
    """
    with np.errstate(over="ignore"):
        values: NDArray[Any] = block.astype(dtype, copy=False)
    good = np.isfinite(values).all(axis=1)
    if good.all():
        return values
    whole = np.isfinite(block).all(axis=1)
    if not whole.all():
        raise InvalidInputError(
            f"rows contains NaN or infinity in {int((~whole).sum())} of {len(block)} rows (the first has id "
            f"{names[int(np.argmin(whole))]!r}): the encoder gave no usable embedding; leave these rows out."
        )
    bad = int(np.argmin(good))
    raise InvalidInputError(
        f"rows holds {np.abs(block[bad]).max():.6g} (id {names[bad]!r}), which {dtype} cannot: "
        "use dtype='float32', or scale the embeddings."
    )


def checked_positions(source_rows: Any, count: int, first: int) -> NDArray[np.int64]:
    """Return the source's row numbers of ``count`` rows, which follow ``first`` by default.

    Examples
    --------
    >>> checked_positions(None, 2, 7)
    array([7, 8])
    """
    if source_rows is None:
        return np.arange(first, first + count)
    positions = np.asarray(source_rows)
    numbers = positions.dtype.kind in "iu" or positions.size == 0
    if positions.shape != (count,) or not numbers or np.any(positions < 0) or np.any(np.diff(positions) <= 0):
        raise InvalidInputError(
            f"source_rows must be {count} ascending row numbers, one for each row of rows."
        )
    return positions.astype(np.int64)


def checked_dtype(dtype: Any) -> str:
    """Return the name of a type that a store can have.

    Examples
    --------
    >>> checked_dtype(np.float32)
    'float32'
    """
    try:
        name = str(np.dtype(dtype).name)
    except TypeError:
        name = str(dtype)
    if name not in DTYPES:
        raise InvalidInputError(f"dtype={dtype!r}: give 'float16' or 'float32'.")
    return name


def checked_count(value: Any, name: str) -> int | None:
    """Return a positive integer or None.

    Examples
    --------
    >>> checked_count(0, "n_features")
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: n_features=0: give an integer of at least 1.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidInputError(f"{name}={value!r}: give an integer of at least 1.")
    return int(value)


def default_rows_per_shard(row_bytes: int) -> int:
    """Return the power of two that makes shards of up to 64 MiB and 262,144 rows.

    Examples
    --------
    >>> default_rows_per_shard(512 * 2)
    65536
    """
    rows = min(_SHARD_ROWS, max(1, _SHARD_BYTES // row_bytes))
    return 1 << (rows.bit_length() - 1)
