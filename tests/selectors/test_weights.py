"""Weights and swap refinement: nearer to the target than the picks alone, and never beyond the constraints."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.optimize import minimize

import gmmatch as gm
from gmmatch.kernels.kernels import RBF
from gmmatch.matching import weights as module
from gmmatch.matching.weights import matching_weights
from gmmatch.metrics import mmd

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 4)).astype(np.float32)
Y = np.arange(300) % 3


def test_weights_are_those_of_a_general_solver(monkeypatch):
    apart = RNG.standard_normal((12, 3)) + 0.6
    found = matching_weights(apart)
    sums = {"type": "eq", "fun": lambda w: w.sum() - 1.0}
    general = minimize(
        lambda w: float(np.sum((apart.T @ w) ** 2)) + 1e-6 * float(np.mean(np.sum(apart**2, axis=1))) * w @ w,
        np.full(12, 1 / 12), bounds=[(0, None)] * 12, constraints=sums, options={"ftol": 1e-15, "maxiter": 1000},
    )  # fmt: skip
    assert found.min() >= 0.0 and found.sum() == pytest.approx(1.0)
    assert np.linalg.norm(apart.T @ found) == pytest.approx(np.linalg.norm(apart.T @ general.x), abs=1e-4)
    monkeypatch.setattr(module, "_EXACT_PICKS", 0)
    for other in (matching_weights(apart), matching_weights(apart, apart @ apart.T)):
        assert np.linalg.norm(apart.T @ other) == pytest.approx(np.linalg.norm(apart.T @ found), abs=1e-4)


def test_of_weights_that_match_equally_well_the_most_even_are_taken():
    assert matching_weights(np.array([[-1.0], [1.0], [-1.0], [1.0]])) == pytest.approx(np.full(4, 0.25))
    assert matching_weights(np.zeros((3, 2))) == pytest.approx(np.full(3, 1 / 3))


@pytest.mark.parametrize("method", ["gm-matching", "herding", "kernel-herding", "robust"])
def test_weights_sum_to_the_rows_of_each_class_and_bring_the_mean_nearer(method):
    plain = gm.select(X, y=Y, k=60, method=method, random_state=0)
    found = gm.select(X, y=Y, k=60, method=method, random_state=0, weights=True)
    assert np.array_equal(plain.order, found.order) and plain.weights is None
    for group in found.groups:
        own = found.weights[found.labels == group.label]
        assert own.min() >= 0.0 and own.sum() == pytest.approx(group.n_rows)
    if method == "kernel-herding":
        for label in range(3):
            data, picked = X[label == Y], found.indices[found.labels == label]
            kernel = RBF().fit(data)
            heavy = mmd(X[picked], data, weights=found.weights[found.labels == label], kernel=kernel)
            assert heavy < mmd(X[picked], data, kernel=kernel)
            assert mmd(X[picked], data, weights=np.ones(len(picked)), kernel=kernel) == pytest.approx(
                mmd(X[picked], data, kernel=kernel)
            )


@pytest.mark.parametrize("method", ["gm-matching", "kernel-herding"])
@pytest.mark.parametrize("replacement", [False, True])
def test_swaps_end_where_no_single_swap_of_a_pick_helps(method, replacement):
    rows = X[:40].astype(np.float64)
    asked = {"k": 8, "method": method, "replacement": replacement, "include": [3], "exclude": [5, 6]}
    plain, found = gm.select(rows, **asked), gm.select(rows, refine=50, **asked)
    assert found.residual[None] < plain.residual[None]
    assert found.mask[3] and not found.mask[[5, 6]].any() and found.k == 8
    assert found.provenance["groups"][0]["swaps"] > 0
    kernel = RBF().fit(rows)
    points, target = rows, gm.geometric_median(rows).point
    if method == "kernel-herding":  # coordinates whose products are the kernel's
        values, vectors = np.linalg.eigh(kernel(rows, rows))
        points = vectors * np.sqrt(np.maximum(values, 0.0))
        target = points.mean(axis=0)
    order = found.order
    least = np.linalg.norm(points[order].mean(axis=0) - target)
    assert found.residual[None] == pytest.approx(least, abs=1e-7)
    for place in range(1, 8):
        for row in range(40):
            if row in (5, 6) or (not replacement and row in order):
                continue
            other = order.copy()
            other[place] = row
            assert np.linalg.norm(points[other].mean(axis=0) - target) >= least - 1e-7


def test_a_weighted_selection_is_saved_exported_and_sampled(tmp_path):
    torch = pytest.importorskip("torch")
    selection = gm.KernelHerding(k=20, weights=True, random_state=0).select(X, ids=np.arange(300) + 7)
    for name in ("picks.parquet", "picks.json", "picks.npy"):
        selection.save(tmp_path / name)
        again = gm.Selection.load(tmp_path / name)
        assert again == selection and np.array_equal(again.weights, selection.weights)
    assert pq.read_table(tmp_path / "picks.parquet").column("weight").to_numpy() == pytest.approx(
        selection.order_weights
    )
    drawn = list(selection.sampler(20_000, torch.Generator().manual_seed(0)))
    shares = np.bincount(drawn, minlength=20) / 20_000
    assert shares == pytest.approx(selection.weights / selection.weights.sum(), abs=0.02)
    assert selection.prefix(5).weights is None
    with pytest.raises(gm.GMMatchError, match="weights=True"):
        selection.prefix(5).sampler()


def test_what_makes_no_sense_is_refused():
    with pytest.raises(gm.GMMatchError, match="refine=-1"):
        gm.Herding(k=2, refine=-1).select(X)
    with pytest.raises(gm.GMMatchError, match="weights"):
        gm.select(X, k=2, method="easy", weights=True)
    with pytest.raises(gm.GMMatchError, match="refine= has no meaning on an engine"):
        gm.select(X, k=2, refine=1, engine="local", method="gm-matching")
    with pytest.raises(gm.GMMatchError, match="biased=True"):
        mmd(X, X, weights=np.ones(300), biased=False)


def test_weights_on_an_engine_and_from_disk(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    here = gm.select(X, y=Y, k=30, method="herding", weights=True, random_state=0)
    disk = gm.select(
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
        y=Y,
        k=30,
        method="herding",
        weights=True,
        random_state=0,
    )
    assert np.array_equal(disk.order, here.order) and disk.weights == pytest.approx(here.weights, rel=1e-6)
    there = gm.select(X, y=Y, k=30, method="herding", weights=True, batches=1, random_state=0, engine="local")
    assert np.array_equal(there.order, here.order) and there.weights == pytest.approx(here.weights, rel=1e-6)
