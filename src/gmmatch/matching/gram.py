"""Greedy matching by a Gram matrix, where θ is known only by its scores: s ← s + ⟨μ, φ(·)⟩ − k(x, ·)."""

from __future__ import annotations

import numpy as np

from gmmatch._array import Indices, Mask, Matrix, Vector

# Scores this close, relative to what went into them, are equal: kernel values of equal rows differ in the last bits.
_TIE = 2.0**-49


def pick_by_gram(
    gram: Matrix,
    target_scores: Vector,
    scores: Vector,
    available: Mask,
    quota: int,
    *,
    replacement: bool,
) -> Indices:
    """Return ``quota`` positions: the best score each time, the lowest position of equal ones.

    Parameters
    ----------
    gram : array of shape (m, m)
    target_scores : array of shape (m,)
        ⟨μ, φ(x)⟩ of every row.
    scores : array of shape (m,)
        ⟨θ, φ(x)⟩ before the first pick; changed in place.
    available : boolean array of shape (m,)
        Changed in place.
    quota : int
    replacement : bool

    Examples
    --------
    >>> X = np.array([[-1.0], [0.5], [2.0]])
    >>> pick_by_gram(X @ X.T, X[:, 0] * 0.5, X[:, 0] * 0.5, np.ones(3, bool), 2, replacement=False)
    array([2, 0])
    """
    order = np.empty(quota, dtype=np.int64)
    lengths = np.sqrt(np.abs(np.diagonal(gram)))
    picked_length = 0.0
    for t in range(quota):
        open_scores = np.where(available, scores, -np.inf)
        best = int(np.argmax(open_scores))
        # What rounding may have moved a score by, after Cauchy and Schwarz.
        tie = 2.0 * _TIE * ((t + 1) * abs(target_scores[best]) + lengths[best] * picked_length)
        best = int(np.argmax(open_scores >= open_scores[best] - tie))
        order[t] = best
        available[best] = replacement
        picked_length += float(lengths[best])
        scores += target_scores - gram[best]
    return order


def measure_residuals(gram: Matrix, target_scores: Vector, target_norm: float, order: Indices) -> Vector:
    """Return ‖μ − mean of the first t picks‖ in the space of the kernel, t = 1, 2, ...; ``target_norm`` is ‖μ‖²."""
    picked = gram[np.ix_(order, order)]
    counts = np.arange(1, len(order) + 1)
    # ‖Σ φ‖² of the first t picks: twice what lies below the diagonal, and the diagonal.
    sums = np.cumsum(2.0 * np.tril(picked, -1).sum(axis=1) + np.diagonal(picked))
    squared = target_norm - 2.0 * np.cumsum(target_scores[order]) / counts + sums / counts**2
    return np.sqrt(np.maximum(0.0, squared))
