"""The paper's algorithms in a few lines of NumPy each, written from the paper and not from the package."""

from __future__ import annotations

import numpy as np


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


def greedy(X, target, k, *, start="target", already=(), allowed=None, replacement=False):
    """The paper's listing: θ₀ = μ; pick argmax ⟨θ, x⟩; θ ← θ + μ − x. Ties go to the lowest row."""
    allowed = np.ones(len(X), dtype=bool) if allowed is None else np.array(allowed)
    theta = np.array(target) if start == "target" else np.zeros_like(target)
    picks = list(already)
    for row in already:
        theta = theta + target - X[row]
        allowed[row] = allowed[row] and replacement
    while len(picks) < k:
        best = int(np.argmax(np.where(allowed, (X * theta).sum(axis=1), -np.inf)))
        picks.append(best)
        theta = theta + target - X[best]
        allowed[best] = replacement
    return np.array(picks)


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


def kernel_greedy(gram, coefficients, k, start="target", replacement=False):
    """The same listing where θ is known by its scores ⟨θ, φ(x)⟩ alone."""
    scores_of_target = gram @ coefficients
    scores = scores_of_target.copy() if start == "target" else np.zeros(len(gram))
    allowed = np.ones(len(gram), dtype=bool)
    picks = []
    for _ in range(k):
        best = int(np.argmax(np.where(allowed, scores, -np.inf)))
        picks.append(best)
        allowed[best] = replacement
        scores = scores + scores_of_target - gram[best]
    return np.array(picks)
