"""Samples of rows that need no random numbers."""

from __future__ import annotations

import numpy as np

from gmmatch.types import Indices


def spread_sample(n: int, most: int) -> Indices:
    """Return at most ``most`` positions, evenly spread, whatever the rows hold.

    Examples
    --------
    >>> spread_sample(10, 4)
    array([0, 3, 6, 9])
    """
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))
