"""Short vectors that stand for rows: no two of them are less similar than the rows are.

A row of length 1 is split into its coordinates along a few axes (the head) and the rest (the tail). By Cauchy and
Schwarz, ⟨x, y⟩ ≤ ⟨head(x), head(y)⟩ + ‖tail(x)‖ ‖tail(y)‖, which is again the product of two vectors of length 1, but
short ones. So whatever the axes are, two rows whose short vectors are not similar enough need not be looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import on_device
from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices

# Half a cache line's worth of axes more or less changes little; fewer let too many pairs through to the exact check.
_AXES = 64
_SAMPLE = 5_000
# float32 knows the length of a tail to sqrt(1e-7), and products of them to somewhat less than this.
ROUNDING = 1e-4


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
    width = rows.n_features if axes is None else axes.shape[1] + 1
    out = np.empty((len(rows), width), dtype=np.float32)

    def work(number: int) -> None:
        start, stop = rows.bounds(number)
        block = unit(rows.block(number)).astype(np.float32, copy=False)
        if axes is None:
            out[start:stop] = block
            return
        heads = block @ axes
        out[start:stop, :-1] = heads
        tails = np.einsum("ij,ij->i", block, block) - np.einsum("ij,ij->i", heads, heads)
        out[start:stop, -1] = np.sqrt(np.maximum(tails, 0.0))

    map_in_order(work, rows.n_chunks, threads)
    return out


def first_equal(rows: Rows, threads: int) -> Indices:
    """Return, for every row, the first one with the same numbers.

    Examples
    --------
    >>> first_equal(Rows(np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0]])), 1)
    array([0, 1, 0])
    """
    if on_device(rows):
        from gmmatch.backends.cuda.near_pairs import row_keys

        keys = row_keys(rows)
    else:
        keys = _row_keys(rows, threads)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    first = np.asarray(first[place.ravel()], dtype=np.int64)
    copies = np.flatnonzero(first != np.arange(len(rows)))
    for start in range(0, len(copies), _SAMPLE):
        some = copies[start : start + _SAMPLE]
        same = (rows.gather(some) == rows.gather(first[some])).all(axis=1)
        first[some[~same]] = some[~same]
    return first


def _row_keys(rows: Rows, threads: int) -> NDArray[np.uint64]:
    """Return a number of 64 bits for each row; rows of the same numbers have the same."""
    mix = np.random.default_rng(rows.n_features).integers(1, 2**63, rows.n_features, dtype=np.uint64)
    mix |= np.uint64(1)
    keys = np.empty(len(rows), dtype=np.uint64)

    def work(number: int) -> None:
        start, stop = rows.bounds(number)
        block = rows.block(number) + rows.dtype.type(0.0)  # -0 and 0 are the same number
        bits = block.view(np.uint32 if rows.dtype == np.float32 else np.uint64)
        bits ^= bits >> (4 * bits.itemsize + 1)  # round numbers end in zeros, which a product would keep
        with np.errstate(over="ignore"):
            keys[start:stop] = (bits * mix).sum(axis=1)

    map_in_order(work, rows.n_chunks, threads)
    return keys
