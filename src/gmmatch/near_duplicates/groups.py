"""Of rows that hang together, those that stay: the most typical one, and what is not a duplicate of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gmmatch.near_duplicates.chains import roots
from gmmatch.near_duplicates.sketch import unit
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Vector

# Rows of several chains are read together.
_ROWS = 1 << 13


def stars(
    rows: Rows, parent: Indices, counts: Indices, threshold: float, tolerance: float
) -> tuple[Indices, Vector]:
    """Return the row that each row is a duplicate of (-1 if none), and their cosine (NaN if none).

    In a chain of near-duplicates the first row may have little in common with the last. So the most typical row, the
    one with the largest mean cosine to all others, takes only its own duplicates; then the most typical one of the
    rest takes its own, until no row is left. The lowest row wins a tie. ``counts`` says how often each row counts.

    Examples
    --------
    >>> angles = np.radians([0.0, 5.0, 10.0, 15.0, 90.0])
    >>> X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    >>> parent = np.array([0, 0, 0, 0, 4])
    >>> stars(Rows(X), parent, np.ones(5, dtype=np.int64), np.cos(np.radians(6.0)), 1e-7)[0]
    array([ 1, -1,  1, -1, -1])
    """
    n = len(rows)
    original, similarity = np.full(n, -1, dtype=np.int64), np.full(n, np.nan)
    for chains in _batches(roots(parent, np.arange(n))):
        points = unit(rows.gather(np.concatenate(chains)))
        start = 0
        for chain in chains:
            mine = points[start : start + len(chain)]
            start += len(chain)
            _split(chain, mine, counts[chain], threshold - tolerance, original, similarity)
    return original, similarity


def _split(
    chain: Indices,
    points: NDArray[np.float64],
    counts: Indices,
    least: float,
    original: Indices,
    similarity: Vector,
) -> None:
    left = np.arange(len(chain))
    while len(left) > 1:
        typical = points[left] @ (counts[left] @ points[left])
        best = left[np.argmax(typical >= typical.max() * (1.0 - 1e-9))]
        cosines = np.minimum(points[left] @ points[best], 1.0)
        near = cosines >= least
        taken = left[near & (left != best)]
        original[chain[taken]] = chain[best]
        similarity[chain[taken]] = cosines[near & (left != best)]
        left = left[~near & (left != best)]


def _batches(root: Indices) -> Iterator[list[Indices]]:
    """Yield chains of two rows or more, the rows of each ascending, some at a time."""
    members = np.flatnonzero(np.bincount(root, minlength=len(root))[root] > 1)
    by_chain = members[np.argsort(root[members], kind="stable")]
    borders = np.flatnonzero(np.diff(root[by_chain])) + 1
    batch: list[Indices] = []
    size = 0
    for chain in np.split(by_chain, borders) if len(by_chain) else []:
        batch.append(chain)
        size += len(chain)
        if size >= _ROWS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
