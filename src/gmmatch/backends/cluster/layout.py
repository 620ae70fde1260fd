"""How rows are cut into pieces, who owns which, and the one order in which sums over pieces are added.

Pieces are runs of rows, and there is a power of two of them: the leaves of a binary tree. How many depends on
the data alone. Every sum over rows is made per piece and added up along the tree, so it has the same bits
however many workers there are; a worker that owns a whole subtree adds that up itself and sends one number
where there were many.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.rows.rows import CHUNK_ELEMENTS
from gmmatch.types import Indices

Value = TypeVar("Value")

# Enough for a few dozen workers to have shares of nearly the same size.
_LEAST_PIECES = 64
# Shares end where few subtrees make them up, at a multiple of a piece in this many per worker.
_STEPS_PER_WORKER = 16


def piece_count(n_rows: int, n_features: int) -> int:
    """Return the number of pieces: a power of two, such that a piece fits memory as float64 many times.

    Examples
    --------
    >>> piece_count(1000, 8), piece_count(20_000_000, 64)
    (64, 1024)
    """
    rows_per_piece = max(32, CHUNK_ELEMENTS // max(1, n_features))
    wanted = max(_LEAST_PIECES, -(-n_rows // rows_per_piece))
    return 1 << (wanted - 1).bit_length()


def piece_bounds(n_rows: int, n_pieces: int) -> Indices:
    """Return where the pieces begin, and the end of the last one.

    Examples
    --------
    >>> piece_bounds(10, 4)
    array([ 0,  2,  5,  7, 10])
    """
    return np.arange(n_pieces + 1, dtype=np.int64) * n_rows // n_pieces


def assign_pieces(n_pieces: int, n_workers: int) -> list[tuple[int, int]]:
    """Return the run of pieces of each worker, as equal as subtrees of some size allow.

    Examples
    --------
    >>> assign_pieces(64, 4)
    [(0, 16), (16, 32), (32, 48), (48, 64)]
    >>> assign_pieces(1024, 3)
    [(0, 336), (336, 688), (688, 1024)]
    """
    if not 1 <= n_workers <= n_pieces:
        raise InvalidInputError(f"workers={n_workers}: give a number from 1 to {n_pieces}.")
    steps = min(n_pieces, max(_LEAST_PIECES, 1 << (_STEPS_PER_WORKER * n_workers - 1).bit_length()))
    size = n_pieces // steps
    cuts = [(2 * steps * worker + n_workers) // (2 * n_workers) * size for worker in range(n_workers + 1)]
    return list(pairwise(cuts))


def subtrees(first: int, stop: int) -> list[tuple[int, int]]:
    """Return the largest whole subtrees that make up a run of pieces.

    Examples
    --------
    >>> subtrees(16, 32), subtrees(3, 8)
    ([(16, 32)], [(3, 4), (4, 8)])
    """
    found = []
    while first < stop:
        size = first & -first if first else 1 << (stop - first).bit_length()
        while first + size > stop:
            size //= 2
        found.append((first, first + size))
        first += size
    return found


def fold(
    first: int,
    stop: int,
    known: Callable[[int, int], Value | None],
    combine: Callable[[Value, Value], Value],
) -> Value:
    """Combine values along the tree, from the largest subtrees of a run of pieces whose value is known.

    Examples
    --------
    >>> values = {(0, 2): "(01)", (2, 3): "2", (3, 4): "3"}
    >>> fold(0, 4, lambda first, stop: values.get((first, stop)), lambda left, right: f"({left}{right})")
    '((01)(23))'
    """
    value = known(first, stop)
    if value is not None:
        return value
    middle = (first + stop) // 2
    left = fold(first, middle, known, combine)
    return combine(left, fold(middle, stop, known, combine))
