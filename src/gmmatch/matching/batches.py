"""Random batches: the paper's way to hold only a part of the rows in memory."""

from __future__ import annotations

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.rows.checks import as_generator
from gmmatch.rows.rows import Rows
from gmmatch.selection.budget import largest_remainder
from gmmatch.types import Indices, RandomState

# Where rows come from files, a batch is made of runs of this many bytes: random enough for the matching
# (there are thousands of them), long enough for the disk.
RUN_BYTES = 1 << 16
# A batch that is chosen automatically has at most this many numbers, so that its one-byte codes stay
# in the cache, and makes at least so many picks, so that it can settle.
_BATCH_ELEMENTS = 1 << 22
_LEAST_PICKS = 16


def automatic_batches(rows: Rows, k: int, memory: int) -> int:
    """Return how many batches to use where the user did not say: one, unless rows come from files.

    Each batch is held in memory as floats with its codes, in at most half of the memory that there is.
    """
    if not rows.on_disk:
        return 1
    elements = len(rows) * rows.n_features
    needed = elements * (rows.dtype.itemsize + 1) + 64 * len(rows)
    must = -(-needed // max(1, memory // 2))
    wanted = min(-(-elements // _BATCH_ELEMENTS), max(1, k // _LEAST_PICKS))
    return int(min(len(rows), max(1, must, wanted)))


def partition(positions: Indices, batches: int, random_state: RandomState, *, run: int = 1) -> list[Indices]:
    """Split positions into batches at random, in runs of ``run`` neighbours; no batch is empty.

    Rows stored in a bad order (sorted by class, by source, by time) would make every batch different
    from the whole, which ruins the matching: hence at random. Within a batch, positions ascend.

    Examples
    --------
    >>> [len(part) for part in partition(np.arange(10), 3, 0)]
    [4, 3, 3]
    """
    if isinstance(batches, bool) or not hasattr(batches, "__index__") or batches < 1:
        raise InvalidInputError(f"batches={batches!r}: expected a whole number of at least 1.")
    count = min(int(batches), len(positions))
    random = as_generator(random_state)
    run = max(1, min(run, len(positions) // (4 * count)))
    if run == 1:
        return [np.sort(part) for part in np.array_split(random.permutation(positions), count)]
    starts = np.array_split(random.permutation(np.arange(0, len(positions), run)), count)
    return [
        positions[np.concatenate([np.arange(s, min(s + run, len(positions))) for s in np.sort(part)])]
        for part in starts
    ]


def shares(k: int, batch_rows: list[Indices]) -> Indices:
    """Return how many picks each batch makes: in proportion to its rows, summing to ``k``."""
    return largest_remainder(k, np.array([len(part) for part in batch_rows]))
