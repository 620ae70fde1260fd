"""Scores, recordings and influence vectors of one's own, in place of a model that is trained on the rows."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
from method_kinds import MODEL_BASED, RUNNABLE

import gmmatch as gm
from gmmatch.errors import DataFileNotFoundError, InvalidInputError

by_score = pytest.mark.parametrize("method", [name for name in MODEL_BASED if name != "optimization"])

RNG = np.random.default_rng(0)
Y = np.arange(90) % 3
X = RNG.normal(size=(3, 5))[Y] + RNG.normal(size=(90, 5))


def select(method, X=X, y=Y, **options):
    return gm.select(X, y=y, method=method, random_state=0, **{"k": 30, **options})


# ---------------------------------------------------------------------------------- scores of one's own


@by_score
@pytest.mark.parametrize("y", [None, Y], ids=["no labels", "labels"])
def test_scores_are_ranked_from_the_top_with_ties_to_the_lowest_row(method, y):
    scores = RNG.integers(0, 6, 90).astype(float)
    selection = gm.select(X, y=y, k=30, method=method, scores=scores)
    for group in selection.groups:
        mine = np.arange(90) if group.label is None else np.flatnonzero(group.label == Y)
        expected = sorted(mine, key=lambda row: (-scores[row], row))[: len(group.order)]
        assert group.order.tolist() == expected


@by_score
def test_shuffled_rows_give_shuffled_picks_for_the_same_scores(method):
    scores = RNG.permutation(90).astype(float)
    order = RNG.permutation(90)
    straight = gm.select(X, y=Y, k=30, method=method, scores=scores)
    shuffled = gm.select(X[order], y=Y[order], k=30, method=method, scores=scores[order])
    for one, other in zip(straight.groups, shuffled.groups, strict=True):
        assert np.array_equal(order[other.order], one.order)


def test_scores_need_no_torch_no_labels_and_may_be_a_file_or_a_tensor(tmp_path, monkeypatch):
    scores = RNG.permutation(90).astype(float)
    expected = np.argsort(-scores)[:30]
    np.save(tmp_path / "scores.npy", scores)
    assert np.array_equal(select("el2n", y=None, scores=str(tmp_path / "scores.npy")).order, expected)
    if "el2n" in RUNNABLE:
        import torch

        assert np.array_equal(select("el2n", y=None, scores=torch.from_numpy(scores)).order, expected)
    monkeypatch.setitem(sys.modules, "torch", None)
    found = select("el2n", y=None, scores=scores.tolist())
    assert np.array_equal(found.order, expected)
    assert found.provenance["parameters"]["scores"] == "given"  # and not 90 numbers
    assert found.provenance["model"]["scores"] == "given"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scores": [1.0, 2.0]}, r"scores has shape \(2,\): expected \(90,\), one number per row"),
        ({"scores": ["a"] * 90}, "scores must be one number per row"),
        ({"scores": np.r_[np.nan, np.ones(89)]}, "Row 0 and 0 more have no el2n score"),
        ({"scores": np.ones(90), "dynamics": gm.Dynamics(90)}, "scores and dynamics are both given"),
        ({"dynamics": gm.Dynamics(80)}, "dynamics is of 80 rows, but X has 90"),
        ({"dynamics": np.ones(90)}, r"dynamics must be a gmmatch.Dynamics, a list of them, or the path"),
        ({"dynamics": []}, "dynamics must be"),
        ({"epochs": 0}, "epochs=0: expected a whole number of at least 1"),
        ({"runs": 1.5}, "runs=1.5"),
        ({"hidden": -1}, "hidden=-1: expected a whole number of at least 0"),
    ],
)
def test_wrong_options_of_the_rankings(options, message):
    with pytest.raises(InvalidInputError, match=message):
        select("el2n", **options)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("grand", {"parameters": "some"}, 'parameters=\'some\': expected "all" or "last-layer"'),
        ("self-supervised", {"n_clusters": 0}, "n_clusters=0: expected a whole number of at least 1"),
        ("optimization", {"strength": 0.0}, r"strength=0.0: expected a finite number above 0"),
        ("optimization", {"sweeps": -1}, "sweeps=-1"),
        ("optimization", {"memory_limit": "1GB"}, "memory_limit='1GB'"),
        ("optimization", {"vectors": np.ones((3, 2))}, "vectors has 3 rows: expected 90"),
        ("optimization", {"vectors": np.full((90, 2), np.nan)}, "vectors contains NaN, infinity"),
    ],
)
def test_wrong_options_of_the_others(method, options, message):
    with pytest.raises(InvalidInputError, match=message):
        select(method, **options)


def test_files_that_are_not_there():
    for options in ({"scores": "nothing.npy"}, {"dynamics": "nothing.npz"}):
        with pytest.raises(DataFileNotFoundError, match="there is no such file"):
            select("el2n", **options)


# ------------------------------------------------------------------------------------------ recordings


def record(scores, steps=4):
    """A recording in which EL2N rises with the score."""
    recorder = gm.Dynamics(len(scores))
    for _ in range(steps):
        logits = np.zeros((len(scores), 3))
        logits[np.arange(len(scores)), Y] = -scores
        recorder.update(np.arange(len(scores)), logits, Y, features=np.ones((len(scores), 2)))
        recorder.end_epoch()
    return recorder


@pytest.mark.parametrize("method", ["el2n", "grand"])
def test_a_recording_is_ranked_like_its_scores(method, tmp_path):
    scores = RNG.permutation(90) / 30.0
    recorder = record(scores)
    expected = np.argsort(-scores)[:30]
    recorder.save(tmp_path / "run.npz")
    for dynamics in (recorder, [recorder, record(scores)], str(tmp_path / "run.npz")):
        found = gm.select(X, k=30, method=method, dynamics=dynamics)
        assert np.array_equal(found.order, expected)
    assert found.provenance["parameters"]["dynamics"] == str(tmp_path / "run.npz")


def test_forgetting_takes_the_never_learnt_first_then_the_most_forgotten():
    recorder = gm.Dynamics(4)
    for right in ([1, 0, 1, 1], [1, 0, 0, 1], [1, 0, 1, 0], [1, 0, 0, 1]):
        recorder.update([0, 1, 2, 3], [[2.0 * mark, 1.0] for mark in right], [0, 0, 0, 0])
    assert gm.select(X[:4], k=4, method="forgetting", dynamics=recorder).order.tolist() == [1, 2, 3, 0]


def test_a_row_that_was_never_recorded_must_be_left_out():
    recorder = gm.Dynamics(5)
    recorder.update([0, 1, 2, 3], [[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 3.0]], [0, 0, 0, 0])
    with pytest.raises(
        InvalidInputError, match=r"Row 4 and 0 more have no el2n score.*never recorded.*exclude"
    ):
        gm.select(X[:5], k=2, method="el2n", dynamics=recorder)
    assert gm.select(X[:5], k=2, method="el2n", dynamics=recorder, exclude=[4]).order.tolist() == [3, 1]


def test_a_selector_with_scores_or_a_recording_goes_through_pickle():
    scores = RNG.permutation(90).astype(float)
    for options in ({"scores": scores}, {"dynamics": record(scores / 30)}):
        selector = pickle.loads(pickle.dumps(gm.EL2N(k=30, **options)))
        assert np.array_equal(selector.select(X, Y).order, gm.EL2N(k=30, scores=scores).select(X, Y).order)


def test_vectors_of_ones_own_for_optimization():
    vectors = RNG.normal(size=(90, 4))
    selection = gm.select(X, k=30, method="optimization", vectors=vectors, random_state=0)
    at_random = gm.select(X, k=30, method="optimization", vectors=vectors, random_state=0, sweeps=0)
    lengths = [np.linalg.norm(vectors[one.indices].sum(axis=0)) for one in (selection, at_random)]
    record = selection.provenance["model"]
    assert [record["summed_influence"], record["summed_influence_at_random"]] == pytest.approx(
        lengths, rel=1e-3
    )
    assert lengths[0] < 0.2 * lengths[1]
    assert selection.provenance["parameters"]["vectors"] == "given"
