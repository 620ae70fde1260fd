"""Small images that a network can learn."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny networks are faster on one thread, and tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
