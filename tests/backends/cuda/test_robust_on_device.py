"""Robust on the rows of a tensor: the same code on the CPU's tensors, which every machine has, and on a GPU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.backends.cuda.blocks import TensorSource
from gmmatch.rows.rows import Rows
from gmmatch.screening.blocks import Blocks, host

torch = pytest.importorskip("torch")

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")),
]


def labelled(n: int = 3000, width: int = 24, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return rows of five classes, a fifth of the labels wrong and a tenth of the rows moved, and both masks."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 5, n)
    X = (rng.standard_normal((n, width)) + 6.0 * np.eye(width)[true]).astype(np.float32)
    wrong = rng.random(n) < 0.2
    y = np.where(wrong, (true + 1 + rng.integers(0, 4, n)) % 5, true)
    foreign = rng.random(n) < 0.1
    X[foreign, -1] += 14.0
    return X, y, foreign | wrong


def as_source(X: Any, device: str) -> TensorSource:
    return TensorSource(torch.from_numpy(np.array(X)).to(device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_blocks_are_those_of_the_host(device: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((200, 7)) + 10.0).astype(dtype)
    order = rng.permutation(200)[:150]
    here, there = Blocks(Rows(X, order)), Blocks(Rows(as_source(X, device), order))
    axes = rng.standard_normal((7, 3))
    for one, other in ((here, there), (here.along(axes), there.along(axes))):
        found, expected = (part.scores(lambda block, where: block) for part in (other, one))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        codes = np.arange(150) % 4 - 1
        np.testing.assert_allclose(host(other.class_means(codes, 3)), one.class_means(codes, 3), atol=1e-5)
        np.testing.assert_allclose(host(other.take(codes + 1)), one.take(codes + 1), atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_labelled_rows_on_a_device_are_screened_and_picked_as_on_the_host(device: str) -> None:
    X, y, bad = labelled()
    host = gm.select(X, y=y, k=300, method="robust", random_state=0)
    there = gm.Robust(k=300, random_state=0).select(as_source(X, device), y)
    # Rounding may move a row across the threshold, not more.
    assert np.mean(host.screening.kept != there.screening.kept) <= 0.002
    assert bad[there.indices].mean() <= 0.03
    assert there.counts == host.counts
    # The same features, up to rounding: the picks follow the clean distribution just as closely.
    clean = X[~bad]
    apart = [np.linalg.norm(X[one.indices].mean(axis=0) - clean.mean(axis=0)) for one in (host, there)]
    assert apart[1] <= 1.1 * apart[0] + 0.02


@pytest.mark.parametrize("device", DEVICES)
def test_rows_without_labels_and_rows_that_are_picked_already(device: str) -> None:
    X, y, _ = labelled(1500)
    found = gm.Robust(k=60, random_state=0).select(as_source(X, device), y, include=[5, 9])
    assert set(found.indices[:2].tolist()) == {5, 9}
    assert len(set(found.indices.tolist())) == 60
    rng = np.random.default_rng(0)
    cloud = rng.standard_normal((400, 3)).astype(np.float32)
    cloud[:100] += 20.0
    there = gm.Robust(k=40, random_state=0).select(as_source(cloud, device))
    assert np.array_equal(there.indices, gm.Robust(k=40, random_state=0).select(cloud).indices)
    assert not there.mask[:100].any()


@pytest.mark.parametrize("device", DEVICES)
def test_many_rows_without_labels_go_through_the_features_on_the_device(device: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12_000, 4)).astype(np.float32)
    X[:3000] += 15.0
    found = gm.Robust(k=100, random_state=0).select(as_source(X, device))
    assert found.provenance["groups"][0]["approximation"] == "fourier"
    assert found.provenance["groups"][0]["device"].startswith(device)
    assert not found.mask[:3000].any()
    assert np.linalg.norm(X[found.indices].mean(axis=0) - X[3000:].mean(axis=0)) < 0.1
    here = gm.Robust(k=100, random_state=0).select(X)
    assert np.mean(np.isin(found.indices, here.indices)) > 0.9


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "options", [{"replacement": True}, {"start": "zero"}, {"batches": 3}, {"unit_target": True}]
)
def test_options_of_the_matching_hold_on_a_device(device: str, options: dict[str, Any]) -> None:
    X = np.random.default_rng(0).standard_normal((6000, 4)).astype(np.float32)
    there = gm.Robust(k=50, random_state=0, **options).select(as_source(X, device))
    here = gm.Robust(k=50, random_state=0, **options).select(X)
    assert np.mean(np.isin(there.order, here.order)) > 0.9
