"""Random batches: the paper's way to hold only a part of the rows in memory."""

from __future__ import annotations

import numpy as np

from gmmatch.budget import largest_remainder
from gmmatch.errors import InvalidInputError
from gmmatch.types import Indices, RandomState
from gmmatch.validation import as_generator


def partition(positions: Indices, batches: int, random_state: RandomState) -> list[Indices]:
    """Split positions into batches at random; sizes differ by at most one, none is empty.

    Rows stored in a bad order (sorted by class, by source, by time) would make every batch different
    from the whole, which ruins the matching: hence at random. Within a batch, positions ascend.

    Examples
    --------
    >>> [len(part) for part in partition(np.arange(10), 3, 0)]
    [4, 3, 3]
    """
    if isinstance(batches, bool) or not hasattr(batches, "__index__") or batches < 1:
        raise InvalidInputError(f"batches={batches!r}: expected a whole number of at least 1.")
    shuffled = as_generator(random_state).permutation(positions)
    return [np.sort(part) for part in np.array_split(shuffled, min(int(batches), len(positions)))]


def shares(k: int, batch_rows: list[Indices]) -> Indices:
    """Return how many picks each batch makes: in proportion to its rows, summing to ``k``."""
    return largest_remainder(k, np.array([len(part) for part in batch_rows]))
