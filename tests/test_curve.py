"""The budget curve: what it measures, what it says, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gmmatch as gm

RANDOM = np.random.default_rng(0)
Y = RANDOM.integers(0, 3, 400)
X = RANDOM.standard_normal((400, 5)) + 2.0 * np.eye(3, 5)[Y]


@pytest.fixture(scope="module")
def curve():
    selection = gm.select(X, Y, k=100, method="easy", random_state=0)
    return gm.budget_curve(selection, X, Y, sizes=[10, 40, 100], repeats=2, random_state=0)


def test_every_size_of_both_methods_is_measured(curve):
    assert curve.methods == ["easy", "random"]
    assert [point.k for point in curve.of("easy")] == [10, 40, 100]
    for point in curve.points:
        assert 0.3 < point.accuracy <= 1.0 and point.low <= point.accuracy <= point.high
        assert point.mmd >= 0.0 and point.coverage_mean <= point.coverage_max
    assert curve.of("random")[-1].moment_error < curve.of("random")[0].moment_error


def test_the_sentence_compares_with_random_rows(curve):
    assert " easy picks " in curve.sentence and " 100 random ones" in curve.sentence
    assert curve.sentence in repr(curve)
    json.dumps(curve.as_json(), allow_nan=False)
    assert curve.to_frame()["k"].tolist() == [10, 40, 100] * 2


def test_the_same_seed_gives_the_same_curve(curve):
    selection = gm.select(X, Y, k=100, method="easy", random_state=0)
    again = gm.budget_curve(selection, X, Y, sizes=[10, 40, 100], repeats=2, random_state=0)
    assert again == curve


def test_test_rows_of_ones_own_judge():
    selection = gm.select(X[:300], Y[:300], k=60, method="herding", random_state=0)
    curve = gm.budget_curve(selection, X[:300], Y[:300], sizes=["20%"], test=(X[300:], Y[300:]), repeats=1)
    assert [point.k for point in curve.of("herding")] == [60]
    assert "100 test rows" in curve.judged_by


def test_without_labels_there_is_no_accuracy():
    curve = gm.budget_curve(gm.select(X, k=50, method="herding"), X, sizes=[10, 50])
    assert all(point.accuracy is None for point in curve.points)
    assert "no accuracy" in curve.sentence


def test_sizes_that_a_selection_does_not_have_are_refused():
    selection = gm.select(X, Y, k=50, method="easy")
    with pytest.raises(gm.GMMatchError, match="sizes"):
        gm.budget_curve(selection, X, Y, sizes=[80])
