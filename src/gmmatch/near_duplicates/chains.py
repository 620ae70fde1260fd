"""Compiled loops over pairs of rows: their cosines, and which rows hang together by them."""

from __future__ import annotations

import numpy as np
from numba import njit

from gmmatch.types import Indices, Matrix, Vector


# Sums may be taken in any order, which is what lets them be computed side by side.
@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def pair_cosines(left: Matrix, i: Indices, right: Matrix, j: Indices) -> Vector:
    """Return the cosines of pairs of rows, with sums in float64; 0 where a row is all zeros.

    Examples
    --------
    >>> X = np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 0.0]])
    >>> pair_cosines(X, np.array([0, 0]), X, np.array([1, 2]))
    array([0.96, 0.  ])
    """
    found = np.zeros(len(i))
    for place in range(len(i)):
        one, other = left[i[place]], right[j[place]]
        product, square, beside = 0.0, 0.0, 0.0
        for column in range(one.shape[0]):
            x, y = np.float64(one[column]), np.float64(other[column])
            product += x * y
            square += x * x
            beside += y * y
        if square > 0.0 and beside > 0.0:
            found[place] = min(product / np.sqrt(square) / np.sqrt(beside), 1.0)
    return found


@njit(nogil=True, cache=True)
def roots(parent: Indices, rows: Indices) -> Indices:
    """Return the row that stands for each row's chain.

    Examples
    --------
    >>> roots(np.array([0, 0, 1, 3]), np.array([2, 3]))
    array([0, 3])
    """
    found = np.empty(len(rows), dtype=np.int64)
    for place in range(len(rows)):
        row = rows[place]
        while parent[row] != row:
            row = parent[row]
        found[place] = row
    return found


@njit(nogil=True, cache=True)
def link(parent: Indices, left: Indices, right: Indices) -> None:
    """Join the chains of pairs of rows; the lowest row stands for a chain.

    Examples
    --------
    >>> parent = np.arange(4)
    >>> link(parent, np.array([3, 1]), np.array([1, 0]))
    >>> roots(parent, np.arange(4))
    array([0, 0, 2, 0])
    """
    for place in range(len(left)):
        one, other = left[place], right[place]
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        while parent[other] != other:
            parent[other] = parent[parent[other]]
            other = parent[other]
        if one < other:
            parent[other] = one
        elif other < one:
            parent[one] = other
