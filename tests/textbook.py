"""The paper's algorithms in plain float64, written from the paper: what every fast path has to agree with."""

from __future__ import annotations

import numpy as np


def textbook_picks(X, target, k, *, theta=None, already=(), available=None, replacement=False):
    """Return row numbers: argmax ⟨θ, x⟩ with sums from left to right, ties to the lowest row; θ ← θ + μ − x."""
    X = np.asarray(X, dtype=np.float64)
    theta = (target if theta is None else theta).astype(np.float64).copy()
    available = np.ones(len(X), dtype=bool) if available is None else available.copy()
    order = list(already)
    for row in already:
        theta += target - X[row]
        available[row] = available[row] and replacement
    while len(order) < k:
        scores = np.where(available, np.cumsum(X * theta, axis=1)[:, -1], -np.inf)
        order.append(int(np.argmax(scores)))
        available[order[-1]] = replacement
        theta += target - X[order[-1]]
    return order


def objective(X, point, weights=None):
    """Return Σ w ‖x − z‖."""
    lengths = np.linalg.norm(np.asarray(X, dtype=np.float64) - point, axis=1)
    return float(lengths.sum() if weights is None else weights @ lengths)


def noisy_gaussian(seed, psi=0.4, n=1_000):
    """Rows and whether each is corrupt: the paper's two Gaussians (section "Noisy Distributions")."""
    rng = np.random.default_rng(seed)
    corrupt = round(psi * n)
    clean = rng.multivariate_normal([0, 0], [[1, -0.5], [-0.5, 0.5]], n - corrupt)
    wrong = rng.multivariate_normal([10, 6], [[1, 0.5], [0.5, 0.5]], corrupt)
    return np.vstack([clean, wrong]), np.arange(n) >= n - corrupt


def geometric_median(X, weights=None, tolerance=1e-14):
    """Weiszfeld's re-weighted mean, until it moves no more; for medians that are no row."""
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    z = np.average(X, axis=0, weights=weights)
    for _ in range(100_000):
        inverse = weights / np.linalg.norm(X - z, axis=1)
        new = inverse @ X / inverse.sum()
        if np.linalg.norm(new - z) <= tolerance * (1.0 + np.linalg.norm(z)):
            return new
        z = new
    raise AssertionError("Weiszfeld's iteration did not settle")


def rbf(X, bandwidth):
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    return np.exp(-squares / (2 * bandwidth**2))


def kernel_median(gram, weights=None):
    """The coefficients of the geometric median in a kernel's space, by Weiszfeld on the Gram matrix."""
    weights = np.ones(len(gram)) if weights is None else np.asarray(weights, dtype=float)
    a = weights / weights.sum()
    for _ in range(100_000):
        distances = np.sqrt(a @ gram @ a - 2 * gram @ a + np.diag(gram))
        new = weights / distances
        new /= new.sum()
        if np.abs(new - a).max() <= 1e-15:
            return new
        a = new
    raise AssertionError("Weiszfeld's iteration did not settle")


def kernel_picks(gram, coefficients, k, start="target"):
    """The same listing where θ is known by its scores ⟨θ, φ(x)⟩ alone."""
    scores_of_target = gram @ coefficients
    scores = scores_of_target.copy() if start == "target" else np.zeros(len(gram))
    allowed = np.ones(len(gram), dtype=bool)
    picks = []
    for _ in range(k):
        picks.append(int(np.argmax(np.where(allowed, scores, -np.inf))))
        allowed[picks[-1]] = False
        scores = scores + scores_of_target - gram[picks[-1]]
    return np.array(picks)
