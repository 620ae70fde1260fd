"""Means in a kernel's space over rows that count for several groups at once, each with a probability."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.kernels.feature_maps import FourierFeatures
from gmmatch.rows.rows import Rows

_PART_ELEMENTS = 1 << 18


def narrow_features(
    features: FourierFeatures, rows: Rows, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return the Fourier features of the rows, computed in float32: enough for a mean, in a third of the time.

    Examples
    --------
    >>> from gmmatch.kernels.kernels import RBF
    >>> rows = Rows(np.array([[0.0], [1.0]]))
    >>> features = FourierFeatures(RBF(1.0), 100).fit(rows)
    >>> bool(np.allclose(narrow_features(features, rows), features.transform(rows), atol=1e-5))
    True
    """
    # Rows are divided by a length before they are narrowed: float32 holds no numbers of any size.
    length = 1.0 / max(float(np.abs(features.frequencies_).max()), 1e-300)
    frequencies = (features.frequencies_ * length).astype(np.float32)
    half = frequencies.shape[1]
    if out is None:
        out = np.empty((len(rows), 2 * half), dtype=np.float32)
    factor = np.float32(1.0 / np.sqrt(half))
    # Rows of a chunk in parts that stay in the cache.
    step = max(1, _PART_ELEMENTS // max(half, rows.n_features))
    phases = np.empty((step, half), dtype=np.float32)
    for number in range(rows.n_chunks):
        first, last = rows.bounds(number)
        block = rows.block(number)
        centre, narrow = features.centre_.astype(block.dtype), block.dtype == np.float32
        for start in range(0, last - first, step):
            apart = block[start : start + step] - centre
            apart *= 1.0 / length
            turned = np.matmul(
                apart if narrow else apart.astype(np.float32), frequencies, out=phases[: len(apart)]
            )
            part = out[first + start : first + start + len(apart)]
            np.cos(turned, out=part[:, :half])
            np.sin(turned, out=part[:, half:])
            part *= factor
    return out


def shared_means(
    features: FourierFeatures, rows: Rows, shares: NDArray[Any], out: NDArray[np.float32] | None = None
) -> NDArray[np.float64]:
    """Return Σ shareᵢ φ(xᵢ) / Σ shareᵢ for each column of shares (n, G), reading the rows once.

    With ``shares`` the probabilities of each class for each row, this is the mean that a class would have
    if every label were right: rows that were given another label by mistake count, rows that have its
    label by mistake do not, and rows that are hard to tell count in part, so that the easy ones do not
    outweigh them. ``out`` keeps the features.

    Examples
    --------
    >>> from gmmatch.kernels.kernels import RBF
    >>> rows = Rows(np.array([[0.0], [1.0]]))
    >>> features = FourierFeatures(RBF(1.0), 1000).fit(rows)
    >>> means = shared_means(features, rows, np.array([[1.0, 1.0], [0.0, 1.0]]))
    >>> float((means[0] @ means[1]).round(1))  # (k(0, 0) + k(0, 1)) / 2
    0.8
    """
    totals = np.zeros((shares.shape[1], features.n_features_out_))
    for number in range(rows.n_chunks):
        first, last = rows.bounds(number)
        place = None if out is None else out[first:last]
        block = narrow_features(features, rows.subset(np.arange(first, last)), place)
        totals += shares[first:last].T.astype(np.float32) @ block
    totals /= np.maximum(shares.sum(axis=0, dtype=np.float64), 1e-300)[:, None]
    return totals
