"""Distance to the nearest prototype: how unlike the centres of all clusters a row is."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from gmmatch.rows.parallel import map_in_order, one_blas_thread
from gmmatch.rows.rows import Rows
from gmmatch.types import Vector

# Prototypes of more rows than this are found on a sample: they are means, and means of many rows.
SAMPLED_ROWS = 50_000
_STARTS = 3


def find_prototypes(
    rows: Rows, n_clusters: int, weights: Vector, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return the centres that k-means finds, shape (clusters, s).

    Fewer than ``n_clusters`` where there are fewer rows with a weight. The best of three starts, on a
    sample of 50,000 rows where there are more.

    Examples
    --------
    >>> rows = Rows(np.array([[0.0], [1.0], [10.0], [11.0]]))
    >>> np.sort(find_prototypes(rows, 2, np.ones(4), np.random.default_rng(0)), axis=0)
    array([[ 0.5],
           [10.5]])
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    chosen = np.flatnonzero(weights > 0.0)
    if len(chosen) > SAMPLED_ROWS:
        chosen = np.sort(random.choice(chosen, SAMPLED_ROWS, replace=False))
    kmeans = KMeans(
        n_clusters=min(n_clusters, len(chosen)), n_init=_STARTS, random_state=int(random.integers(2**31 - 1))
    )
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters
        kmeans.fit(rows.gather(chosen), sample_weight=weights[chosen])
    return np.asarray(kmeans.cluster_centers_, dtype=np.float64)


def prototype_distances(rows: Rows, prototypes: NDArray[np.float64], threads: int = 1) -> Vector:
    """Return the distance of every row to its nearest prototype, block by block.

    Examples
    --------
    >>> prototype_distances(Rows(np.array([[0.0], [4.0], [9.0]])), np.array([[1.0], [10.0]]))
    array([1., 3., 1.])
    """
    distances = np.empty(len(rows))

    def work(number: int) -> None:
        first, last = rows.bounds(number)
        block = rows.block(number, np.float64)
        nearest = np.full(len(block), np.inf)
        for prototype in prototypes:
            # Not by ‖x‖² − 2xp + ‖p‖², which loses the digits that a row close to its prototype has.
            apart = block - prototype
            np.minimum(nearest, np.einsum("ij,ij->i", apart, apart), out=nearest)
        distances[first:last] = np.sqrt(nearest)

    map_in_order(work, rows.n_chunks, threads)
    return distances
