"""Rows with something wrong, and what it is."""

from __future__ import annotations

from typing import Any

import numpy as np


def classes(
    n: int = 1200, width: int = 10, count: int = 4, apart: float = 5.0, seed: int = 0
) -> tuple[Any, Any]:
    """Return rows of Gaussian classes, and their true labels."""
    random = np.random.default_rng(seed)
    labels = np.arange(n) % count
    return random.normal(size=(n, width)) + apart * np.eye(width)[labels], labels


def mislabeled(labels: Any, share: float, kind: str = "symmetric", seed: int = 1) -> tuple[Any, Any]:
    """Return labels of which a share is wrong, and which: of any other class, or of the next one."""
    random = np.random.default_rng(seed)
    count = int(labels.max()) + 1
    wrong = np.zeros(len(labels), dtype=bool)
    wrong[random.permutation(len(labels))[: round(share * len(labels))]] = True
    step = random.integers(1, count, len(labels)) if kind == "symmetric" else 1
    return np.where(wrong, (labels + step) % count, labels), wrong
