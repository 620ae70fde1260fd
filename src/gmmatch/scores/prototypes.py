"""Distance to the nearest prototype: how unlike the centers of all clusters a row is."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.rows.parallel import one_blas_thread
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Matrix, Vector, is_tensor, namespace

# Prototypes of more rows than this, or of so many numbers, are found on a sample: they are means of many rows.
SAMPLED_ROWS = 50_000
SAMPLED_ELEMENTS = 1 << 25
_STARTS = 3
# Rows whose differences to a prototype are held at a time: they should stay in the cache.
_AT_ONCE = 256
# Products of rows with prototypes that are held at a time on a device.
_TENSOR_ELEMENTS = 1 << 25


def find_prototypes(
    rows: Rows, n_clusters: int, weights: Vector, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return the centers that k-means finds, shape (clusters, s).

    Fewer than ``n_clusters`` where there are fewer rows with a weight. The best of three starts, on a
    sample of 50,000 rows (fewer if they are longer than 671 numbers) where there are more.

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
    most = sample_size(rows.n_features)
    if len(chosen) > most:
        chosen = np.sort(random.choice(chosen, most, replace=False))
    n_clusters, seed = min(n_clusters, len(chosen)), int(random.integers(2**31 - 1))
    if hasattr(rows.source, "tensor"):
        from gmmatch.backends.cuda.kmeans import kmeans_centers

        return kmeans_centers(rows, chosen, weights[chosen], n_clusters, _STARTS, seed)
    kmeans = KMeans(n_clusters=n_clusters, n_init=_STARTS, random_state=seed, copy_x=False)
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters
        # Whole numbers have many rows as far from a centre as others: rounding to float32 would decide.
        stored = np.dtype(getattr(rows.source, "dtype", rows.dtype))
        dtype = rows.dtype if stored.kind == "f" or rows.bfloat16 else np.dtype(np.float64)
        sample = np.require(rows.gather(chosen, dtype), requirements="W")  # centred in place
        # In units of their size, of which float32 holds the squares; a power of two changes no digit.
        exponent = int(np.frexp(np.abs(sample).max())[1])
        np.ldexp(sample, -exponent, out=sample)
        kmeans.fit(sample, sample_weight=weights[chosen])
    return np.ldexp(np.asarray(kmeans.cluster_centers_, dtype=np.float64), exponent)


def sample_size(n_features: int) -> int:
    """Return how many rows prototypes are found on, if there are more.

    Examples
    --------
    >>> sample_size(512), sample_size(2048)
    (50000, 16384)
    """
    return min(SAMPLED_ROWS, max(1, SAMPLED_ELEMENTS // n_features))


def prototype_distances(rows: Rows, prototypes: NDArray[np.float64], threads: int = 1) -> Vector:
    """Return the distance of every row to its nearest prototype, block by block.

    Examples
    --------
    >>> prototype_distances(Rows(np.array([[0.0], [4.0], [9.0]])), np.array([[1.0], [10.0]]))
    array([1., 3., 1.])
    """
    return rows.each(_nearest, prototypes, threads=threads)


def _nearest(block: Matrix, index: Indices, prototypes: NDArray[np.float64]) -> Vector:
    if is_tensor(block):
        found_there: Vector = _nearest_tensor(block, prototypes)
        return found_there
    nearest = np.full(len(index), np.inf)
    for first in range(0, len(index), _AT_ONCE):
        part = block[index[first : first + _AT_ONCE]].astype(np.float64)
        found = nearest[first : first + _AT_ONCE]
        for prototype in prototypes:
            # Not by ‖x‖² − 2xp + ‖p‖², which loses the digits that a row close to its prototype has.
            apart = part - prototype
            np.minimum(found, np.einsum("ij,ij->i", apart, apart), out=found)
    distances: Vector = np.sqrt(nearest)
    return distances


def _nearest_tensor(block: Any, prototypes: Any) -> Any:
    """Find the nearest prototype by a product of matrices, and take the distance to it from the differences."""
    found = []
    for part in block.split(max(1, _TENSOR_ELEMENTS // len(prototypes))):
        wide = part.double()
        closest = (prototypes.square().sum(dim=1) - 2.0 * wide @ prototypes.T).argmin(dim=1)
        found.append((wide - prototypes[closest]).norm(dim=1))
    return namespace(block).cat(found)
