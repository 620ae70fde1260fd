"""Rows in files for engines to select from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def clouds() -> np.ndarray:
    """3,000 rows around two centres, the rarer ones first, as sorted shards would have them."""
    random = np.random.default_rng(7)
    rows = random.normal(size=(3000, 6)) + 1.0
    rows[:700] += 3.0
    return rows


@pytest.fixture
def rows_file(clouds, tmp_path) -> Path:
    path = tmp_path / "rows.npy"
    np.save(path, clouds)
    return path
