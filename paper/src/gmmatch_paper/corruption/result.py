"""What every corruption returns: the corrupted copy, and what was done to which row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.arrays import Indices, Mask


@dataclass(frozen=True, eq=False)
class Corrupted:
    """A corrupted copy of some rows, with the ground truth that a selection method must not see.

    Attributes
    ----------
    data
        The rows, of the type that was given. Nothing in it is shared with the input.
    mask : bool array of shape (n,)
        Which rows are corrupted.
    kinds : str array of shape (n,)
        The kind of corruption of each row; empty for clean rows.

    Examples
    --------
    >>> result = Corrupted([5, 1], np.array([True, False]), np.array(["symmetric", ""]))
    >>> result.rows, result.counts
    (array([0]), {'symmetric': 1})
    """

    data: Any
    mask: Mask
    kinds: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def rows(self) -> Indices:
        """The numbers of the corrupted rows, ascending."""
        return np.flatnonzero(self.mask)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each kind of corruption has."""
        return dict(sorted(Counter(self.kinds[self.mask].tolist()).items()))


def one_kind(name: str, mask: Mask) -> NDArray[np.str_]:
    """Return the kinds of rows of which the masked ones were touched in the same way."""
    return np.where(mask, name, "")
