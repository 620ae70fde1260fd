"""Prototypes: the centers of k-means clusters, and the distance of each row to the nearest of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from gmmatch.rows import Rows
from gmmatch_paper.arrays import Matrix, Vector

# Prototypes are means of many rows: a sample of so many rows, or of so many numbers, is enough.
SAMPLE_ROWS, SAMPLE_ELEMENTS = 50_000, 1 << 25
_STARTS = 3


def find_prototypes(rows: Rows, n_clusters: int, weights: Vector, random: np.random.Generator) -> Matrix:
    """Return the centers that k-means finds, the best of three starts, shape (clusters, s).

    Fewer than ``n_clusters`` where fewer rows have a weight. Of more than 50,000 rows (fewer if they have more than
    671 columns) a sample is used.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    chosen = np.flatnonzero(weights > 0.0)
    size = min(SAMPLE_ROWS, max(1, SAMPLE_ELEMENTS // rows.n_features))
    if len(chosen) > size:
        chosen = np.sort(random.choice(chosen, size, replace=False))
    n_clusters, seed = min(n_clusters, len(chosen)), int(random.integers(2**31 - 1))
    kmeans = KMeans(n_clusters=n_clusters, n_init=_STARTS, random_state=seed, copy_x=False)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters
        kmeans.fit(rows.take(chosen), sample_weight=weights[chosen])
    return np.asarray(kmeans.cluster_centers_, dtype=np.float64)


def prototype_distances(rows: Rows, prototypes: Matrix) -> Vector:
    """Return the distance of every row to the nearest prototype, shape (n,)."""
    distances: Vector = rows.map_blocks(_nearest_distance, prototypes)
    return distances


def _nearest_distance(block: Any, prototypes: Any) -> Any:
    xp = array_namespace(block)
    rows = xp.astype(block, xp.float64)
    nearest = xp.argmin(xp.sum(prototypes**2, axis=1) - 2.0 * (rows @ prototypes.T), axis=1)
    # From the differences: the product above has lost the digits of a row close to its prototype.
    return xp.linalg.vector_norm(rows - prototypes[nearest], axis=1)
