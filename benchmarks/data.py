"""Data for the benchmarks, made afresh from a seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SEED = 20240917


def isotropic(n: int, s: int, dtype: type = np.float32, seed: int = SEED) -> NDArray[np.floating]:
    """Return a standard Gaussian cloud; only one array of the result's size is ever allocated."""
    rows = np.empty((n, s), dtype=dtype)
    fill_gaussian(rows, np.random.default_rng(seed))
    return rows


def fill_gaussian(rows: NDArray[np.floating], random: np.random.Generator, block: int = 2048) -> None:
    """Fill an array of any floating type and order block by block, without a second copy of it."""
    for first in range(0, len(rows), block):
        part = rows[first : first + block]
        part[...] = random.standard_normal(part.shape, dtype=np.float32)


def decaying(n: int, s: int, seed: int = SEED) -> NDArray[np.float32]:
    """Return a Gaussian cloud whose standard deviations along its axes decay as 1/√j, mixed over all columns."""
    rows = isotropic(n, s, seed=seed)
    rows /= np.sqrt(np.arange(1, s + 1, dtype=np.float32))
    mixing, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((s, s)))
    for first in range(0, n, 2048):
        rows[first : first + 2048] = rows[first : first + 2048] @ mixing.astype(np.float32)
    return rows


def with_cluster(n: int, s: int, corrupt: float = 0.3, seed: int = SEED) -> NDArray[np.float32]:
    """Return a cloud with unequal spreads of which a share of the rows form a tight cluster elsewhere."""
    random = np.random.default_rng(seed)
    rows = isotropic(n, s, seed=seed)
    rows *= np.geomspace(2.0, 0.2, s).astype(np.float32)
    outliers = random.permutation(n)[: int(corrupt * n)]
    direction = random.standard_normal(s)
    offset = 40.0 * direction / np.linalg.norm(direction)
    for first in range(0, len(outliers), 2048):
        part = outliers[first : first + 2048]
        rows[part] = 0.1 * rows[part] + offset.astype(np.float32)
    return rows


def typical_distance(s: int) -> float:
    """Return the typical distance between two rows of the isotropic cloud: a kernel's bandwidth."""
    return float(np.sqrt(2.0 * s))
