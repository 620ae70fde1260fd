"""The shapes of data that a geometric median meets, made from a seed."""

from __future__ import annotations

import numpy as np

SHAPES = (
    "gaussian",
    "weights",
    "two clusters",
    "equal halves",
    "duplicates",
    "collinear",
    "heavy tails",
    "very heavy tails",
    "median is a row",
    "one repeated row",
    "flat",
    "far from the origin",
)


def make(shape: str, n: int, s: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and weights."""
    random = np.random.default_rng(seed)
    rows = random.standard_normal((n, s))
    weights = np.ones(n)
    if shape == "weights":
        weights = random.exponential(size=n)
    elif shape == "two clusters":
        rows = 0.1 * rows + np.where(random.random(n)[:, None] < 0.45, 10.0, 0.0)
    elif shape == "equal halves":
        rows = 0.1 * rows + np.where((np.arange(n) % 2)[:, None] == 0, 10.0, 0.0)
    elif shape == "duplicates":
        rows = rows[random.integers(0, max(1, n // 4), n)]
    elif shape == "collinear":
        rows = random.standard_normal((n, 1)) * random.standard_normal((1, s))
    elif shape == "heavy tails":
        rows = random.standard_cauchy((n, s))
    elif shape == "very heavy tails":
        rows = random.standard_cauchy((n, s)) ** 3
    elif shape == "median is a row":
        rows = np.vstack([rows, -rows, np.zeros((1, s))]) + 3.0
        weights = np.ones(len(rows))
    elif shape == "one repeated row":
        rows[: n // 3] = rows[0]
    elif shape == "flat":
        rows = rows * np.logspace(0, -4, s)
    elif shape == "far from the origin":
        rows = rows + 1e6
    return rows, weights
