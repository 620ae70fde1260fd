"""Short vectors instead of rows: two of them are never less similar than the rows are.

A row of length 1 is split into its coordinates along a few axes (the head) and the rest (the tail). By Cauchy and
Schwarz, ⟨x, y⟩ ≤ ⟨head(x), head(y)⟩ + ‖tail(x)‖ ‖tail(y)‖, which is again the product of two vectors of length 1, but
short ones. So whatever the axes are, two rows whose short vectors are not similar enough need not be looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Matrix, Vector

# Half a cache line's worth of axes more or less changes little; fewer let too many pairs through to the exact check.
_AXES = 64
_SAMPLE = 5_000
# float32 knows the length of a tail to sqrt(1e-7), and products of them to somewhat less than this.
ROUNDING = 1e-4
# Keys have as many bits as a float64 holds.
_KEYS = (1 << 52) - 1


def unit(block: NDArray[Any]) -> NDArray[Any]:
    """Return rows scaled to length 1; rows of zeros stay as they are.

    Examples
    --------
    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    largest = np.abs(block).max(axis=1, keepdims=True)
    scaled: NDArray[Any] = block / np.where(largest > 0.0, largest, 1.0).astype(block.dtype)
    lengths = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    lengths[lengths == 0.0] = 1.0
    scaled /= lengths
    return scaled


def sketch_axes(rows: Rows, random: np.random.Generator) -> NDArray[np.float32] | None:
    """Return the axes along which a sample of the rows is longest, as columns; None if rows are short themselves."""
    if rows.n_features <= _AXES + 32:
        return None
    from sklearn.utils.extmath import randomized_svd

    some = np.sort(random.permutation(len(rows))[:_SAMPLE])
    sample = unit(rows.gather(some)).astype(np.float32)
    if len(sample) <= _AXES:  # fewer rows than axes: any directions will do
        sample = np.concatenate([sample, np.eye(_AXES, rows.n_features, dtype=np.float32)])
    _, _, axes = randomized_svd(sample, _AXES, n_iter=2, random_state=0)
    return np.ascontiguousarray(axes.T, dtype=np.float32)


def sketches(rows: Rows, axes: NDArray[np.float32] | None, threads: int) -> NDArray[np.float32]:
    """Return the short vectors of all rows, in one pass over them.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((5, 200)).astype(np.float32)
    >>> short = sketches(Rows(X), sketch_axes(Rows(X), np.random.default_rng(0)), 1)
    >>> short.shape, bool(np.all(short @ short.T >= unit(X) @ unit(X).T - 1e-6))
    ((5, 65), True)
    """
    return rows.each(_sketched, axes, threads=threads)


def _sketched(block: NDArray[Any], index: Indices, axes: NDArray[np.float32] | None) -> NDArray[Any]:
    points = unit(block[index]).astype(np.float32, copy=False)
    if axes is None:
        return points
    heads = points @ axes
    tails = np.einsum("ij,ij->i", points, points) - np.einsum("ij,ij->i", heads, heads)
    return np.column_stack([heads, np.sqrt(np.maximum(tails, 0.0))])


def first_equal(rows: Rows, threads: int) -> Indices:
    """Return, for every row, the first one with the same numbers.

    Examples
    --------
    >>> first_equal(Rows(np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0]])), 1)
    array([0, 1, 0])
    """
    mix = np.random.default_rng(rows.n_features).integers(-(2**62), 2**62, rows.n_features) | 1
    keys = rows.each(row_keys, mix, threads=threads)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    first = np.asarray(first[place.ravel()], dtype=np.int64)
    copies = np.flatnonzero(first != np.arange(len(rows)))
    for start in range(0, len(copies), _SAMPLE):
        some = copies[start : start + _SAMPLE]
        same = (rows.gather(some) == rows.gather(first[some])).all(axis=1)
        first[some[~same]] = some[~same]
    return first


def row_keys(block: Any, index: Any, mix: Any) -> Any:
    """Return a whole number for each row, the same for rows of the same numbers: a sum of their bits, mixed."""
    if isinstance(block, np.ndarray):
        keys = np.empty(len(index))
        write_keys(block, block.view(np.int32 if block.itemsize == 4 else np.int64), index, mix, keys)
        return keys
    import torch

    numbers = block + 0.0  # -0 and 0 are the same number
    bits = numbers.view(torch.int32 if numbers.dtype == torch.float32 else torch.int64).long()
    return (((bits ^ (bits >> 17)) * mix).sum(dim=1) & _KEYS).double()


@njit(nogil=True, cache=True, boundscheck=False)
def write_keys(block: Matrix, bits: Indices, index: Indices, mix: Indices, keys: Vector) -> None:
    """Write the keys of some rows, given the numbers and their bits."""
    for place in range(len(index)):
        row, key = index[place], np.int64(0)
        for column in range(block.shape[1]):
            if block[row, column] != 0:
                number = np.int64(bits[row, column])
                key += (number ^ (number >> 17)) * mix[
                    column
                ]  # round numbers end in zeros, which a product keeps
        keys[place] = key & _KEYS
