"""Of rows that hang together, those that stay: the most typical one, and what is not a duplicate of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gmmatch.near_duplicates.chains import roots
from gmmatch.near_duplicates.sketch import unit
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Vector

Near = Callable[[Indices, Indices], tuple[Indices, Indices, Vector]]
"""From rows on the left and on the right to the pairs among them that are near-duplicates, and their cosines."""

# Chains of up to so many rows are read, several of them together, and multiplied as a whole.
_SHORT = 2_048
# Rows of a longer chain that are compared with all others at once.
_LINES = 512


def stars(rows: Rows, parent: Indices, counts: Indices, least: float, near: Near) -> tuple[Indices, Vector]:
    """Return the row that each row is a duplicate of (-1 if none), and their cosine (NaN if none).

    In a chain of near-duplicates the first row may have little in common with the last. So rows are gone through in
    the order of how typical they are, by their mean cosine to all rows of the chain, the lowest row first among
    equals: a row that is not a duplicate of one before it stays, and takes its duplicates. ``counts`` says how often
    each row counts; ``near`` is asked about long chains.

    Examples
    --------
    >>> angles = np.radians([0.0, 5.0, 10.0, 15.0, 90.0])
    >>> X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    >>> stars(Rows(X), np.array([0, 0, 0, 0, 4]), np.ones(5, dtype=np.int64), np.cos(np.radians(6.0)), None)[0]
    array([ 1, -1,  1, -1, -1])
    """
    n = len(rows)
    original, similarity = np.full(n, -1, dtype=np.int64), np.full(n, np.nan)
    for chains in _batches(roots(parent, np.arange(n))):
        if len(chains[0]) > _SHORT:
            (chain,) = chains
            _go_through(chain[_order(rows, chain, counts)], near, original, similarity)
            continue
        points, start = unit(rows.gather(np.concatenate(chains))), 0
        for chain in chains:
            mine = points[start : start + len(chain)]
            start += len(chain)
            cosines = np.minimum(mine @ mine.T, 1.0)
            order = np.argsort(-(cosines @ counts[chain]).round(9), kind="stable")
            cosines = cosines[np.ix_(order, order)]
            i, j = np.nonzero(np.triu(cosines >= least, 1))
            _take(chain[order], len(chain), i, j, cosines[i, j], original, similarity)
    return original, similarity


def _go_through(left: Indices, near: Near, original: Indices, similarity: Vector) -> None:
    """Decide about the rows of a long chain, which come in order, some at a time."""
    while len(left):
        count = min(_LINES, len(left))
        i, j, cosines = near(left[:count], left)
        later = i < j
        taken = _take(left, count, i[later], j[later], cosines[later], original, similarity)
        taken[:count] = True
        left = left[~taken]


def _take(
    left: Indices, count: int, i: Indices, j: Indices, cosines: Vector, original: Indices, similarity: Vector
) -> np.ndarray:
    """Let the first rows take their duplicates among later ones, in turn; return which rows were taken."""
    order = np.argsort(i, kind="stable")
    j, cosines = j[order], cosines[order]
    starts = np.searchsorted(i[order], np.arange(count + 1))
    taken = np.zeros(len(left), dtype=np.bool_)
    for place in np.flatnonzero(np.diff(starts)):
        if not taken[place]:
            some = slice(starts[place], starts[place + 1])
            fresh = ~taken[j[some]]
            rows = j[some][fresh]
            taken[rows] = True
            original[left[rows]], similarity[left[rows]] = left[place], cosines[some][fresh]
    return taken


def _order(rows: Rows, chain: Indices, counts: Indices) -> Indices:
    """Return the rows of a long chain in the order of how typical they are."""
    some = rows.subset(chain)
    total = np.zeros(rows.n_features)
    for number in range(some.n_chunks):
        total += counts[chain[slice(*some.bounds(number))]] @ unit(some.block(number, np.float64))
    parts = [unit(some.block(number, np.float64)) @ total for number in range(some.n_chunks)]
    return np.argsort(-np.concatenate(parts).round(9), kind="stable")


def _batches(root: Indices) -> Iterator[list[Indices]]:
    """Yield chains of two rows or more, the rows of each ascending: short ones together, long ones alone."""
    members = np.flatnonzero(np.bincount(root, minlength=len(root))[root] > 1)
    by_chain = members[np.argsort(root[members], kind="stable")]
    borders = np.flatnonzero(np.diff(root[by_chain])) + 1
    batch: list[Indices] = []
    size = 0
    for chain in np.split(by_chain, borders) if len(by_chain) else []:
        if len(chain) > _SHORT:
            yield [chain]
            continue
        batch.append(chain)
        size += len(chain)
        if size >= _SHORT:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
