"""Near-duplicates of a tensor are those of the array; the operations are the same on any device."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.backends.cuda import near_pairs
from gmmatch.near_duplicates import groups

torch = pytest.importorskip("torch")
from gmmatch.backends.cuda.blocks import TensorSource  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(near_pairs, "_BLOCK", 128)
    monkeypatch.setattr(groups, "_SHORT", 10)  # longer chains are gone through on the device
    random = np.random.default_rng(0)
    X = random.standard_normal((30, 100))[random.integers(0, 30, 700)] + 0.5 * random.standard_normal(
        (700, 100)
    )
    X[650:] = X[:50] + 0.1 * random.standard_normal((50, 100))
    X[300:320] = X[5]
    X[400] = 0.0
    return X.astype(np.float32)


def on_device(X):
    return TensorSource(torch.from_numpy(X).to(DEVICE))


@pytest.mark.parametrize("threshold", [None, 0.7, 0.95])
def test_groups_are_the_same(rows, threshold):
    here, there = gm.duplicates(rows, threshold), gm.duplicates(on_device(rows), threshold)
    assert np.array_equal(here.original, there.original) and here.threshold == there.threshold
    assert np.allclose(here.similarity, there.similarity, equal_nan=True, atol=1e-9)
    assert here.mask.sum() > 20


def test_rows_of_another_set_on_the_device_or_not(rows):
    X, Y = rows[:400], rows[400:]
    wanted = gm.duplicates(X, 0.9, against=Y)
    for other in (on_device(Y), Y):
        found = gm.duplicates(on_device(X), 0.9, against=other)
        assert np.array_equal(found.original, wanted.original) and wanted.mask.sum() > 20
