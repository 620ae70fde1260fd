"""Which batch a row belongs to: a function of the seed and the row's number, so that nobody needs to be asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gmmatch.types import Indices

# As for independent batches in memory: with fewer picks a batch cannot settle.
LEAST_PICKS = 32
# Chosen automatically, a batch has at least this many rows, and all θ together at most this many numbers.
_LEAST_ROWS = 2048
_THETA_ELEMENTS = 1 << 23


def batch_counts(
    quota: Sequence[int] | Indices, sizes: Sequence[int] | Indices, n_features: int, batches: int | None
) -> Indices:
    """Return the number of batches of each class; the workers play no part in it.

    Parameters
    ----------
    quota, sizes
        Picks and rows per class.
    n_features
        Numbers per row.
    batches
        What the user asked for; merged where a batch would make fewer than 32 picks.

    Examples
    --------
    >>> batch_counts([10_000, 50], [1_000_000, 500], 64, None), batch_counts([10_000, 50], [1_000_000, 500], 64, 8)
    (array([312,   1]), array([8, 1]))
    """
    picks, rows = np.asarray(quota, dtype=np.int64), np.asarray(sizes, dtype=np.int64)
    wanted = rows // _LEAST_ROWS if batches is None else np.full_like(rows, batches)
    counts = np.maximum(1, np.minimum(picks // LEAST_PICKS, wanted))
    room = max(1, _THETA_ELEMENTS // max(1, n_features))
    if batches is None and counts.sum() > room:
        counts = np.maximum(1, counts * room // int(counts.sum()))
    return counts
