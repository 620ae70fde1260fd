"""Every method: the same picks on every backend, budgets, conventions, provenance; and methods of a user's own."""

from __future__ import annotations

import copy
import inspect
import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import gmmatch as gm
from gmmatch.methods.base import Method
from tests.conformance.toy import FirstRow, LargestColumn

METHODS = [
    "robust",
    "gm-matching",
    "random",
    "easy",
    "hard",
    "moderate",
    "herding",
    "kernel-herding",
    "matching",
    "by-score",
]
ARGUMENTS = {
    "plain": {},
    "labels": {"y": True},
    "balanced": {"y": True, "per_class": "balanced"},
    "ignored labels": {"y": True, "per_class": None},
    "include, exclude": {"y": True, "include": [3, 5, 77], "exclude": [1, 2, 70]},
    "labels, weights": {"y": True, "sample_weight": True},
    "preprocess": {"y": True, "preprocess": ["center", "scale", "pca:3", "unit"]},
}
OPTIONS = {
    "start zero": {"start": "zero"},
    "replacement": {"replacement": True},
    "carried batches": {"batches": 4},
    "independent batches": {"batches": gm.Independent(3)},
    "fraction": {"target": gm.GeometricMedian(fraction=0.5)},
    "unit target": {"target": gm.GeometricMedian(unit=True)},
    "delta": {"target": gm.GeometricMedian(delta=0.1)},
    "coordinate median": {"target": gm.CoordinateMedian()},
    "own target": {"target": FirstRow()},
    "random features": {"kernel": gm.RandomFeatures(gm.RBF(), 32)},
    "Nyström": {"kernel": gm.Nystroem(gm.Polynomial(2), 32)},
    "kernel": {"kernel": gm.RBF()},
}

every_method = pytest.mark.parametrize("method", METHODS)


def fill(arguments, data):
    values = {"y": data[1], "sample_weight": data[2]}
    return {name: values[name] if value is True else value for name, value in arguments.items()}


def select(method, X, data, k=60, **arguments):
    scores = {"scores": data[0][:, 0]} if method == "by-score" else {}
    return gm.select(X, k=k, method=method, random_state=7, **scores, **fill(arguments, data))


@pytest.mark.grid
@every_method
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_every_backend_gives_the_picks_of_memory(method, arguments, backend, data, open_backend):
    selection = select(method, open_backend(backend), data, **ARGUMENTS[arguments])
    expected = select(method, data[0], data, **ARGUMENTS[arguments])
    assert selection.order.tolist() == expected.order.tolist()
    np.testing.assert_allclose(selection.residuals, expected.residuals, atol=1e-7, rtol=1e-6)


@pytest.mark.grid
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("labels", [False, True])
def test_every_option_runs_on_every_backend(options, labels, backend, data, open_backend):
    method = gm.GMMatching(k=200, random_state=7, **OPTIONS[options])
    y = data[1] if labels else None
    selection, expected = method.select(open_backend(backend), y), method.select(data[0], y)
    assert selection.order.tolist() == expected.order.tolist()


def test_a_new_method_runs_on_every_backend(backend, data, open_backend):
    X, y, _ = data
    selection = LargestColumn(k=30, number=2).select(open_backend(backend), y)
    for group, quota in enumerate(np.bincount(y[selection.order])):
        own = np.flatnonzero(y == group)
        assert set(selection.order[y[selection.order] == group]) == set(own[np.argsort(-X[own, 2])[:quota]])


@every_method
def test_budgets_hold(method, data):
    X = data[0]
    for k, count in ((1, 1), (0.1, 42), ("10%", 42), (len(X), len(X))):
        selection = select(method, X, data, k=k, y=True, screening=None)
        assert selection.k == count == len(set(selection.order.tolist())) == sum(selection.counts.values())
    balanced = select(method, X, data, k=30, y=True, per_class="balanced", screening=None)
    assert balanced.counts == {0: 10, 1: 10, 2: 10}
    by_class = select(method, X, data, k=None, y=True, per_class={1: 5, 2: "10%"}, screening=None)
    assert by_class.counts[0] == 0 and by_class.counts[1] == 5


@every_method
def test_small_and_odd_inputs(method):
    one = {"scores": [1.0]} if method == "by-score" else {}
    assert gm.select([[1.0, 2.0]], k=1, method=method, **one).order.tolist() == [0]
    X = np.zeros((6, 2))  # all rows equal
    given = {"scores": np.zeros(6)} if method == "by-score" else {}
    picks = gm.select(
        X, [0, 0, 0, 0, 0, 1], k=6, method=method, random_state=0, screening=None, **given
    ).order
    assert sorted(picks.tolist()) == list(range(6))


@every_method
def test_scikit_learn_conventions(method, data):
    X, y, _ = data
    if method == "by-score":
        pytest.skip("it needs scores, which fit_resample does not take")
    estimator = clone(gm.method_class(method)()).set_params(k=12, random_state=0)
    assert estimator.get_params()["k"] == 12
    X_small, y_small = estimator.fit_resample(X, y)
    np.testing.assert_array_equal(X_small, X[estimator.sample_indices_])
    np.testing.assert_array_equal(y_small, y[estimator.sample_indices_])
    assert repr(estimator).startswith(type(estimator).__name__)
    for trip in (lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy):
        assert trip(estimator).selection_ == estimator.selection_
        assert trip(estimator).select(X, y).order.tolist() == estimator.selection_.order.tolist()
    with pytest.raises(TypeError):
        gm.method_class(method)(eps=0.5)


@every_method
def test_a_selection_can_be_rerun_from_its_provenance(method, data):
    selection = select(method, data[0], data, y=True, preprocess="unit")
    json.dumps(selection.provenance, allow_nan=False)
    scores = {"scores": data[0][:, 0]} if method == "by-score" else {}
    assert selection.rerun(data[0], data[1], **scores) == selection
    assert selection.rerun(data[0], data[1], k=12, **scores).k == 12


def test_a_parameter_that_a_method_does_not_have_is_an_error():
    with pytest.raises(TypeError, match="eps"):
        gm.Mean(eps=1e-3)
    assert set(gm.Easy().get_params()) == {"k", "per_class", "screening", "random_state", "center"}
    assert len(gm.GMMatching().get_params()) == 9


def test_select_has_the_arguments_of_methods():
    chosen = {
        "method",
        "options",
        *inspect.signature(Method).parameters,
        *inspect.signature(Method.select).parameters,
    }
    assert set(inspect.signature(gm.select).parameters) == chosen - {"self"}
