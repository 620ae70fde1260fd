"""Small images that a network can learn."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def stripes():
    """Return a maker of noisy images with vertical (0) or horizontal (1) stripes."""

    def make(n, seed=0, size=8, channels=3):
        random = np.random.default_rng(seed)
        labels = np.arange(n) % 2
        waves = np.where(np.arange(size) % 4 < 2, 200, 40)
        pictures = np.where(labels[:, None, None] == 0, waves[None, None, :], waves[None, :, None])
        noisy = pictures[..., None] + random.integers(-30, 30, (n, size, size, channels))
        return noisy.clip(0, 255).astype(np.uint8), labels

    return make
