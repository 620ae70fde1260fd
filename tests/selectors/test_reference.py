"""``reference=``: picks that follow other rows than the data's own."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.metrics import mmd
from gmmatch.report.summary import python_to_run_again

RNG = np.random.default_rng(0)
CENTRES = 3.0 * RNG.standard_normal((4, 8))
DOMAIN = np.arange(1200) % 4
X = (CENTRES[DOMAIN] + RNG.standard_normal((1200, 8))).astype(np.float32)
Y = np.array(["a", "b", "c"])[np.arange(1200) // 400]
Z = (CENTRES[2] + RNG.standard_normal((80, 8))).astype(np.float32)


@pytest.mark.parametrize("labels", [None, Y])
@pytest.mark.parametrize(
    "selector",
    [
        gm.KernelHerding(k=90, reference=Z, random_state=0),
        gm.KernelHerding(k=90, reference=Z, approximation="nystroem", n_components=200, random_state=0),
        gm.GMMatching(k=90, kernel="rbf", reference=Z, random_state=0),
        gm.Robust(k=90, reference=Z, random_state=0, screen="none"),
    ],
    ids=["kernel-herding", "features", "median", "robust"],
)
def test_picks_come_from_the_domain_of_the_reference(selector, labels):
    found = selector.select(X, labels)
    assert (DOMAIN[found.indices] == 2).mean() >= 0.95
    assert found.provenance["reference"]["n_rows"] == 80
    again = {}
    code = python_to_run_again(found).replace("import gmmatch as gm", "")
    exec(code, {"gm": gm, "X": X, "y": labels, "reference": Z}, again)
    assert np.array_equal(again["selection"].order, found.order)


def test_the_mean_in_a_kernels_space_is_as_near_as_picks_from_that_domain_alone():
    inside = X[DOMAIN == 2]
    best = gm.KernelHerding(k=60, reference=Z, refine=10).select(inside)
    found = gm.KernelHerding(k=60, reference=Z, refine=10).select(X)
    assert mmd(X[found.indices], Z) <= 1.1 * mmd(inside[best.indices], Z)
    assert found.residual[None] == pytest.approx(mmd(X[found.indices], Z), abs=1e-6)


@pytest.mark.parametrize("method", ["herding", "gm-matching", "kernel-herding"])
def test_the_residual_is_the_distance_to_the_mixed_target(method):
    found = gm.select(X, k=50, method=method, reference=Z, reference_weight=0.25, random_state=0)
    if method == "kernel-herding":
        kernel = gm.RBF().fit(X)
        rows = np.concatenate([X, Z])
        shares = np.concatenate([np.full(1200, 0.75 / 1200), np.full(80, 0.25 / 80)])
        picked = np.bincount(found.indices, minlength=1280) / 50.0
        apart = picked - shares
        assert found.residual[None] == pytest.approx(
            float(np.sqrt(apart @ kernel(rows, rows) @ apart)), abs=1e-7
        )
        return
    if method == "herding":
        own, theirs = X.mean(axis=0), Z.mean(axis=0)
    else:
        own, theirs = gm.geometric_median(X).point, gm.geometric_median(Z).point
    target = 0.75 * own + 0.25 * theirs
    assert found.residual[None] == pytest.approx(
        np.linalg.norm(X[found.indices].mean(axis=0) - target), abs=1e-4
    )


def test_the_reference_is_preprocessed_like_the_rows():
    asked = {"k": 30, "method": "herding", "preprocess": ["center", "scale"], "start": "zero"}
    moved, plain = gm.select(X + 5.0, reference=Z + 5.0, **asked), gm.select(X, reference=Z, **asked)
    assert np.mean(moved.order == plain.order) > 0.9


def test_with_labels_each_class_follows_its_own_reference_rows():
    both = np.concatenate([Z, (CENTRES[1] + RNG.standard_normal((60, 8))).astype(np.float32)])
    labels = ["a"] * 80 + ["b"] * 60
    found = gm.KernelHerding(per_class={"a": 20, "b": 20}, reference=(both, labels)).select(X, Y)
    domains = DOMAIN[found.indices]
    assert (domains[found.labels == "a"] == 2).mean() >= 0.9 and (
        domains[found.labels == "b"] == 1
    ).mean() >= 0.9
    with pytest.raises(gm.GMMatchError, match="reference has no rows of class 'c'"):
        gm.KernelHerding(k=30, reference=(both, labels)).select(X, Y)
    with pytest.raises(gm.GMMatchError, match="labels of the reference"):
        gm.KernelHerding(k=30, reference=(both, labels[:-1])).select(X, Y)


def test_the_same_from_disk_and_on_an_engine(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "reference.npy", Z)
    disk, other = (np.load(tmp_path / name, mmap_mode="r") for name in ("rows.npy", "reference.npy"))
    for method in ("herding", "gm-matching"):
        here = gm.select(X, y=Y, k=30, method=method, reference=Z, random_state=0)
        there = gm.select(disk, y=Y, k=30, method=method, reference=other, random_state=0)
        assert np.array_equal(here.order, there.order)
        engine = gm.select(
            X, y=Y, k=30, method=method, reference=Z, random_state=0, batches=1, engine="local"
        )
        assert np.array_equal(here.order, engine.order)
    asked = {"method": "robust", "screen": "none", "approximation": "fourier", "engine": "local"}
    found = gm.select(X, y=Y, k=30, reference=Z, **asked)
    assert (DOMAIN[found.indices] == 2).mean() >= 0.9


def test_what_makes_no_sense_is_refused():
    with pytest.raises(gm.GMMatchError, match="reference has 7 columns and X has 8"):
        gm.Herding(k=5, reference=Z[:, :7]).select(X)
    with pytest.raises(gm.GMMatchError, match=r"reference_weight=1\.5"):
        gm.Herding(k=5, reference=Z, reference_weight=1.5).select(X)
    with pytest.raises(gm.GMMatchError, match="goes with reference="):
        gm.Herding(k=5, reference_weight=0.5).select(X)
    with pytest.raises(gm.GMMatchError, match="Input reference contains NaN"):
        gm.Herding(k=5, reference=np.full((2, 8), np.nan)).select(X)
    with pytest.raises(gm.GMMatchError, match="reference= is not a parameter"):
        gm.select(X, k=5, method="easy", reference=Z)
