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


def fold_slices(folds: Indices, count: int) -> list[slice]:
    """Return where each fold's rows stand among rows that are sorted by fold.

    Examples
    --------
    >>> fold_slices(np.array([0, 0, 2]), 3)
    [slice(0, 2, None), slice(2, 2, None), slice(2, 3, None)]
    """
    ends = np.cumsum(np.bincount(folds, minlength=count)).tolist()
    return [slice(first, last) for first, last in zip([0, *ends[:-1]], ends, strict=True)]
