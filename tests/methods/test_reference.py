"""``reference=``: picks that follow other rows than the data's own."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.metrics import mmd

RNG = np.random.default_rng(0)
CENTRES = 3.0 * RNG.standard_normal((4, 8))
DOMAIN = np.arange(1200) % 4
X = (CENTRES[DOMAIN] + RNG.standard_normal((1200, 8))).astype(np.float32)
Y = np.array(["a", "b", "c"])[np.arange(1200) // 400]
Z = (CENTRES[2] + RNG.standard_normal((80, 8))).astype(np.float32)


@pytest.mark.parametrize("labels", [None, Y])
@pytest.mark.parametrize(
    "method",
    [
        gm.KernelHerding(k=90, kernel=gm.RandomFeatures(), random_state=0),
        gm.KernelHerding(k=90, kernel=gm.Nystroem(gm.RBF(), 200), random_state=0),
        gm.GMMatching(k=90, kernel=gm.RandomFeatures(), random_state=0),
        gm.Robust(k=90, random_state=0, screening=None),
    ],
    ids=["kernel-herding", "features", "median", "robust"],
)
def test_picks_come_from_the_domain_of_the_reference(method, labels):
    selection = method.select(X, labels, reference=Z)
    assert (DOMAIN[selection.indices] == 2).mean() >= 0.95
    assert selection.provenance["reference"]["n_rows"] == 80
    assert selection.rerun(X, labels, reference=Z) == selection
    with pytest.raises(gm.GMMatchError, match="made with reference="):
        selection.rerun(X, labels)


def test_a_kernel_itself_stands_back_for_its_features():
    with pytest.warns(gm.errors.ApproximationWarning, match="without reference rows"):
        selection = gm.KernelHerding(k=60, random_state=0).select(X, reference=Z)
    assert mmd(X[selection.indices], Z) < 0.5 * mmd(X, Z)


def test_rankings_measure_from_the_center_of_the_reference():
    selection = gm.Easy(k=50).select(X, reference=Z)
    nearest = np.argsort(np.linalg.norm(X - Z.mean(axis=0), axis=1))[:50]
    assert set(selection.indices) == set(nearest)


@pytest.mark.parametrize("method", ["herding", "gm-matching"])
def test_the_residual_is_the_distance_to_the_mixed_target(method):
    selection = gm.select(X, k=50, method=method, reference=Z, reference_weight=0.25, random_state=0)
    if method == "herding":
        own, theirs = X.mean(axis=0), Z.mean(axis=0)
    else:
        own, theirs = gm.geometric_median(X).point, gm.geometric_median(Z).point
    target = 0.75 * own + 0.25 * theirs
    expected = np.linalg.norm(X[selection.indices].mean(axis=0) - target)
    assert selection.residual[None] == pytest.approx(expected, abs=1e-4)


def test_the_reference_is_preprocessed_like_the_rows():
    asked = {"k": 30, "method": "herding", "preprocess": ["center", "scale"], "start": "zero"}
    moved, plain = gm.select(X + 5.0, reference=Z + 5.0, **asked), gm.select(X, reference=Z, **asked)
    assert np.mean(moved.order == plain.order) > 0.9


def test_with_labels_each_class_follows_its_own_reference_rows():
    both = np.concatenate([Z, (CENTRES[1] + RNG.standard_normal((60, 8))).astype(np.float32)])
    labels = ["a"] * 80 + ["b"] * 60
    herding = {"kernel": gm.RandomFeatures(), "random_state": 0}
    selection = gm.KernelHerding(per_class={"a": 20, "b": 20}, **herding).select(
        X, Y, reference=(both, labels)
    )
    domains = DOMAIN[selection.indices]
    assert (domains[selection.labels == "a"] == 2).mean() >= 0.9
    assert (domains[selection.labels == "b"] == 1).mean() >= 0.9
    with pytest.raises(gm.GMMatchError, match="reference has no rows of class 'c'"):
        gm.KernelHerding(k=30, **herding).select(X, Y, reference=(both, labels))
    with pytest.raises(gm.GMMatchError, match="labels of the reference"):
        gm.KernelHerding(k=30, **herding).select(X, Y, reference=(both, labels[:-1]))


def test_what_makes_no_sense_is_refused():
    with pytest.raises(gm.GMMatchError, match="reference has 7 columns and X has 8"):
        gm.Herding(k=5).select(X, reference=Z[:, :7])
    with pytest.raises(gm.GMMatchError, match=r"reference_weight=1\.5"):
        gm.Herding(k=5).select(X, reference=Z, reference_weight=1.5)
    with pytest.raises(gm.GMMatchError, match="goes with reference"):
        gm.Herding(k=5).select(X, reference_weight=0.5)
    with pytest.raises(gm.GMMatchError, match="reference contains NaN"):
        gm.Herding(k=5).select(X, reference=np.full((2, 8), np.nan))
    with pytest.raises(gm.GMMatchError, match="'random' follows no target"):
        gm.select(X, k=5, method="random", reference=Z)
