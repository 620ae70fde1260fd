"""Provenance: what a selection records is enough to make it again, also after a trip through JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from method_kinds import NEEDS_LABELS, RUNNABLE

import gmmatch as gm
from gmmatch.errors import InvalidInputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5))
Y = np.arange(120) % 3


def again(selection, X, y=None, **arguments):
    """Run a selection again from nothing but its provenance, as a file holds it, and the data."""
    record = json.loads(json.dumps(selection.provenance))
    return gm.Selection([], selection.n_rows, provenance=record).rerun(X, y, **arguments)


@pytest.mark.grid
@pytest.mark.parametrize("method", RUNNABLE)
@pytest.mark.parametrize("labels", [None, Y, np.array(["a", "b", "c"])[Y]], ids=["none", "numbers", "text"])
def test_every_method_can_be_run_again(method, labels):
    if labels is None and method in NEEDS_LABELS:
        pytest.skip("needs labels")
    first = gm.method_class(method)(k=17).select(X, labels)
    assert again(first, X, labels) == first


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("gm-matching", {"k": np.int64(9), "median_fraction": np.float32(0.5)}),
        ("gm-matching", {"per_class": {0: 5, 1: "20%", 2: np.int32(3)}}),
        ("gm-matching", {"per_class": {np.int64(0): 5}}),
        ("gm-matching", {"k": "15%", "kernel": gm.RBF(bandwidth=2.0)}),
        ("gm-matching", {"k": 10, "kernel": ("polynomial", {"degree": 2})}),
        ("kernel-herding", {"k": 10, "kernel": gm.Laplacian()}),
        ("herding", {"k": 10, "preprocess": ("center", "pca:3"), "batches": 3, "carry": False}),
        ("gm-matching", {"k": 10, "kernel": "rbf", "approximation": "fourier", "n_components": 20}),
        ("moderate", {"k": 10, "center": "geometric-median", "unlabeled": "group"}),
        ("random", {"k": 200, "replacement": True}),
        ("random", {"k": 10, "per_class": None}),
    ],
)
def test_every_kind_of_parameter_is_recorded_so_that_it_can_be_given_again(method, parameters):
    first = gm.method_class(method)(**parameters).select(X, Y)
    second = again(first, X, Y)
    assert np.array_equal(second.order, first.order)
    assert second.provenance == first.provenance


@pytest.mark.parametrize(
    "random_state",
    [None, 3, np.int64(3), np.random.default_rng(5), np.random.RandomState(5)],
    ids=["none", "int", "numpy int", "Generator", "RandomState"],
)
def test_the_seed_is_recorded_whatever_it_came_from(random_state):
    first = gm.Random(k=10, random_state=random_state).select(X)
    assert isinstance(first.provenance["seed"], int)
    assert np.array_equal(again(first, X).order, first.order)
    if isinstance(random_state, (int, np.integer)):
        assert first.provenance["seed"] == 3


def test_it_survives_saving(tmp_path):
    first = gm.GMMatching(per_class={0: 5, 2: 7}, kernel=gm.RBF(), batches=2).select(X, Y)
    first.save(tmp_path / "picks.parquet")
    loaded = gm.Selection.load(tmp_path / "picks.parquet")
    assert np.array_equal(again(loaded, X, Y).order, first.order)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("herding", {"sample_weight": np.arange(120.0), "include": [3], "exclude": [5, 6]}),
        ("herding", {"reference": X[:20]}),
        ("el2n", {"scores": np.arange(120.0)}),
        ("optimization", {"vectors": X}),
    ],
)
def test_what_a_selection_does_not_hold_is_asked_for_and_passed_again(method, arguments):
    first = gm.select(X, Y, k=12, method=method, **arguments)
    with pytest.raises(InvalidInputError, match=f"{next(iter(arguments))}=.*pass it again"):
        first.rerun(X, Y)
    assert first.rerun(X, Y, **arguments) == first


def test_a_path_is_recorded_as_one(tmp_path):
    np.save(tmp_path / "scores.npy", np.arange(120.0))
    first = gm.EL2N(k=12, scores=tmp_path / "scores.npy").select(X, Y)
    assert again(first, X, Y) == first


def test_corrected_labels_engines_and_prefixes_are_rerun_too():
    rows = X + 6.0 * np.eye(3, 5)[Y]
    wrong = np.where(np.arange(120) % 10 == 0, (Y + 1) % 3, Y)
    first = gm.select(rows, wrong, k=30, method="robust", relabel=0.9)
    assert first.provenance["relabeled"]["n_rows"] and again(first, rows, wrong) == first
    first = gm.select(X, Y, k=30, method="gm-matching", batches=3, engine="local")
    assert again(first, X, Y).order.tolist() == first.order.tolist()
    first = gm.Herding(k=20).select(X, ids=range(120)).prefix(8)
    assert first.rerun(X, ids=range(120)) == first
    assert first.rerun(X, k=30).k == 30


def test_what_cannot_be_rerun_says_why():
    with pytest.raises(InvalidInputError, match="not recorded"):
        gm.Selection([0], n_rows=120).rerun(X)
    updated = gm.Herding(k=5, updatable=True).select(X[:100]).update(X[100:])
    with pytest.raises(InvalidInputError, match="update it again"):
        updated.rerun(X)


def test_what_is_recorded_beside_the_parameters():
    record = gm.GMMatching(k=12, normalize=True, preprocess=["center", "pca:2"]).select(X, Y).provenance
    assert record["method"] == "gm-matching"
    assert record["version"] == gm.__version__
    assert record["preprocess"] == ["center", "pca:2", "unit"]
    assert (record["input"]["n_rows"], record["input"]["n_features"]) == (120, 5)
    assert record["input"]["dtype"] == "float64"
    assert len(record["groups"]) == 3
    assert all(group["median_converged"] and group["median_gap"] <= 1e-8 for group in record["groups"])
    assert "random_state" not in record["parameters"]


def test_a_kernels_bandwidth_is_recorded_as_the_number_it_became():
    record = gm.KernelHerding(k=12).select(X).provenance
    [group] = record["groups"]
    assert group["kernel"] == "rbf"
    distances = np.linalg.norm(X[:, None] - X, axis=2)[np.triu_indices(120, 1)]
    assert np.isclose(group["bandwidth"], np.median(distances))


# ------------------------------------------------------------------------------------ fingerprints


def prints(X=X, y=None, **arguments):
    return gm.Easy(k=5).select(X, y, **arguments).provenance["input"]


def test_the_fingerprint_is_of_the_values():
    assert prints() == prints(X.copy()) == prints(np.asfortranarray(X)) == prints(X.tolist())
    changed = X.copy()
    changed[60, 2] = np.nextafter(changed[60, 2], 9)
    assert prints(changed)["fingerprint"] != prints()["fingerprint"]
    assert prints(X[::-1])["fingerprint"] != prints()["fingerprint"]
    assert prints(X.astype(np.float32))["fingerprint"] != prints()["fingerprint"]
    assert prints(X.reshape(60, 10))["fingerprint"] != prints()["fingerprint"]


def test_every_other_argument_leaves_its_own_print():
    plain = prints()
    assert set(plain) == {"n_rows", "n_features", "dtype", "fingerprint"}
    swapped = Y.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    weights = np.arange(120.0)
    for name, first, second in [
        ("labels", {"y": Y}, {"y": swapped}),
        ("sample_weight", {"sample_weight": weights}, {"sample_weight": weights[::-1]}),
        ("include", {"include": [1]}, {"include": [2]}),
        ("exclude", {"exclude": [1]}, {"exclude": [2]}),
    ]:
        assert set(prints(**first)) - set(plain) == {name}
        assert prints(**first) == prints(**first)
        assert prints(**first)[name] != prints(**second)[name]
    assert prints(y=Y)["labels"] == prints(y=Y.tolist())["labels"]
    assert prints(y=Y)["labels"] != prints(y=Y.astype(str))["labels"]
