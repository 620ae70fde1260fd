"""The paper's listing in plain float64: what every fast path has to agree with."""

from __future__ import annotations

import numpy as np


def textbook_picks(X, target, k, *, theta=None, available=None, replacement=False):
    """Return row numbers: argmax ⟨θ, x⟩ with sums from left to right, ties to the lowest row; θ ← θ + μ − x."""
    X = np.asarray(X, dtype=np.float64)
    theta = (target if theta is None else theta).astype(np.float64).copy()
    available = np.ones(len(X), dtype=bool) if available is None else available.copy()
    order = []
    for _ in range(k):
        scores = np.where(available, np.cumsum(X * theta, axis=1)[:, -1], -np.inf)
        order.append(int(np.argmax(scores)))
        available[order[-1]] = replacement
        theta += target - X[order[-1]]
    return order


def objective(X, point, weights=None):
    """Return Σ w ‖x − z‖."""
    lengths = np.linalg.norm(np.asarray(X, dtype=np.float64) - point, axis=1)
    return float(lengths.sum() if weights is None else weights @ lengths)
