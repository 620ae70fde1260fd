"""Picking by batches in plain NumPy float64, one loop per sentence of the algorithm."""

from __future__ import annotations

import numpy as np

from gmmatch.selection.budget import largest_remainder


def plain_picks(X, target, k, batch, n_batches, start="target"):
    """Return the picks of one class in the order of the rounds.

    ``batch`` is the batch of each row. Batches share θ₀; each makes its picks; then pairs of batches, pairs of pairs,
    ... make four picks each, from the sum of their θ; and the last sixteen (or what is left) are made by all.
    """
    free = np.ones(len(X), dtype=bool)
    theta = np.tile(target / n_batches if start == "target" else 0.0 * target, (n_batches, 1))
    order = []

    def pick(group, level):
        mine = free & (batch >> level == group)
        if not mine.any():
            return False
        scores = np.cumsum(X * theta[group], axis=1)[:, -1]
        scores[~mine] = -np.inf
        row = int(np.argmax(scores))
        free[row] = False
        theta[group] += target - X[row]
        order.append(row)
        return True

    def rounds(quota, level):
        left = np.array(quota)
        while left.any():
            for group in np.flatnonzero(left):
                left[group] = left[group] - 1 if pick(group, level) else 0

    levels = int(np.ceil(np.log2(n_batches)))
    groups = [-(-n_batches // 2**level) for level in range(levels + 1)]
    held_back = 4 * sum(groups[1:]) + 16 if n_batches > 1 else 0
    rounds(largest_remainder(k - held_back, np.bincount(batch, minlength=n_batches)), 0)
    for level in range(1, levels + 1):
        if len(theta) % 2:
            theta = np.concatenate([theta, np.zeros((1, X.shape[1]))])
        theta = theta[0::2] + theta[1::2]
        rounds([4] * groups[level], level)
    rounds([k - len(order)], levels)
    return np.array(order)
