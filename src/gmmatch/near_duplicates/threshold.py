"""How similar two rows have to be to count as near-duplicates, from the rows themselves."""

from __future__ import annotations

import numpy as np

from gmmatch.near_duplicates.sketch import unit
from gmmatch.rows.rows import Rows

# Rows whose neighbours are looked at, and rows among which they are looked for.
_ASKED, _AMONG = 500, 50_000
# The neighbours that tell how dense the rows are; copies of a row are hardly ever as many.
_NEIGHBOURS = 10
# Pairs of natural rows that are expected to be as near as duplicates, in the whole data set.
_EXPECTED = 0.05
# Rows less similar than this are no duplicates, however far apart all others are.
_LEAST = 0.9
# Too few rows tell nothing about neighbours: only copies count.
_FEWEST, _COPIES = 50, 1.0 - 1e-6


def natural_threshold(rows: Rows) -> float:
    """Return the cosine that rows would hardly reach by chance.

    Within a small distance r of a row there are about c·rᵈ others, where d is the dimension of the data as its
    neighbors see it: the distances to the 10th and the 20th neighbor tell both d and c. The threshold is where so
    few neighbors are left, with c as in the densest tenth of the data, that 0.05 pairs are expected in all rows.
    It is never below 0.9.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((400, 8))
    >>> round(natural_threshold(Rows(X)), 2)
    0.99
    """
    n = len(rows)
    if n < _FEWEST:
        return _COPIES
    random = np.random.default_rng([*b"neighbours"])
    among = np.sort(random.permutation(n)[:_AMONG])
    asked = np.sort(random.permutation(len(among))[:_ASKED])
    points = unit(rows.subset(among).copied()).astype(np.float32, copy=False)
    count = 2 * _NEIGHBOURS
    similar = points[asked] @ points.T
    similar[np.arange(len(asked)), asked] = -2.0
    nearest = -np.sort(-np.partition(similar, len(among) - count, axis=1)[:, -count:], axis=1)
    tenth, twentieth = (np.sqrt(np.maximum(2.0 - 2.0 * nearest[:, k - 1], 0.0)) for k in (_NEIGHBOURS, count))
    apart = tenth > 1e-3  # else all of them are copies
    if apart.sum() < 10:
        return _COPIES
    dimension = np.log(2.0) / max(float(np.median(np.log(twentieth[apart] / tenth[apart]))), 1e-3)
    # Of n rows, as many more lie within a distance as were looked through.
    neighbours = _NEIGHBOURS * n / len(among)
    part = (2.0 * _EXPECTED / (n * neighbours)) ** (1.0 / dimension)
    distance = float(np.quantile(tenth[apart], 0.1)) * part
    return float(np.clip(1.0 - distance**2 / 2.0, _LEAST, _COPIES))
