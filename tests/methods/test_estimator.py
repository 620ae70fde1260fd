"""scikit-learn's and imbalanced-learn's conventions, used the way a pipeline uses them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from imblearn.pipeline import Pipeline
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler

import gmmatch as gm
from gmmatch.errors import GMMatchError, InvalidInputError
from tests.methods.conftest import RUNNABLE

RNG = np.random.default_rng(0)
X = np.vstack([RNG.normal(size=(60, 4)), RNG.normal(size=(40, 4)) + 2.0])
Y = np.r_[np.zeros(60, dtype=int), np.ones(40, dtype=int)]

every_method = pytest.mark.parametrize("method", RUNNABLE)


def make(method, **parameters):
    return gm.method_class(method)(**{"k": 20, "random_state": 0, **parameters})


@every_method
def test_fit_is_select_and_leaves_its_results(method):
    selector = make(method)
    assert selector.fit(X, Y) is selector
    assert selector.selection_ == make(method).select(X, Y)
    assert np.array_equal(selector.sample_indices_, selector.selection_.indices)
    assert selector.sampling_strategy_ == {0: 12, 1: 8}
    assert selector.n_features_in_ == 4


def tensors():
    torch = pytest.importorskip("torch")
    return torch.from_numpy(X), torch.from_numpy(Y)


def frames():
    index = np.arange(100) + 1_000
    return pd.DataFrame(X, columns=list("abcd"), index=index), pd.Series(Y, index=index, name="kind")


@pytest.mark.parametrize("make_data", [lambda: (X, Y), lambda: (X.tolist(), Y.tolist()), frames, tensors])
def test_fit_resample_gives_back_what_came_in(make_data):
    selector, given = make("easy"), make_data()
    parts = selector.fit_resample(*given)
    rows = selector.sample_indices_
    assert [type(part) for part in parts] == [type(whole) for whole in given]
    assert np.array_equal(np.asarray(parts[0]), X[rows]) and np.array_equal(np.asarray(parts[1]), Y[rows])
    if isinstance(parts[0], pd.DataFrame):
        assert parts[0].index.tolist() == parts[1].index.tolist() == (rows + 1_000).tolist()
        assert selector.feature_names_in_.tolist() == list("abcd") and parts[1].name == "kind"


def test_fit_takes_weights():
    weights = np.r_[np.zeros(30), np.ones(70)]
    fitted = make("easy").fit(X, Y, sample_weight=weights)
    assert fitted.selection_ == make("easy").select(X, Y, sample_weight=weights)
    part, _ = make("easy").fit_resample(X, Y, sample_weight=weights)
    assert np.array_equal(part, X[fitted.sample_indices_])


# -------------------------------------------------------------------- parameters, clones and pickles


@every_method
def test_parameters_go_round(method):
    selector = make(method, k="20%")
    parameters = selector.get_params()
    assert {"k", "per_class", "screening", "random_state"} <= set(parameters)
    assert gm.method_class(method)(**parameters).get_params() == parameters
    selector.set_params(k=7)
    assert selector.select(X, Y).k == 7
    with pytest.raises(ValueError, match="Invalid parameter 'kk'"):
        selector.set_params(kk=7)


def test_repr_shows_what_was_changed():
    assert repr(gm.GMMatching(k=5, kernel=gm.RBF())) == "GMMatching(k=5, kernel=RBF(bandwidth='median'))"
    assert repr(gm.Easy()) == "Easy()"


def test_parameters_are_given_by_name():
    with pytest.raises(TypeError):
        gm.GMMatching(5)
    with pytest.raises(TypeError, match="kk"):
        gm.GMMatching(kk=5)


# ------------------------------------------------------------------------------- pipelines and grids


class Recorder(BaseEstimator):
    """A classifier that remembers what it was trained on."""

    def fit(self, X, y):
        self.X_, self.y_ = X, y
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


def test_a_pipeline_selects_what_it_trains_on_and_nothing_else():
    pipeline = Pipeline([("scale", StandardScaler()), ("pick", make("gm-matching")), ("end", Recorder())])
    pipeline.fit(X, Y)
    scaled = StandardScaler().fit_transform(X)
    rows = make("gm-matching").fit(scaled, Y).sample_indices_
    assert np.array_equal(pipeline["end"].X_, scaled[rows])
    assert np.array_equal(pipeline["end"].y_, Y[rows])
    assert len(pipeline.predict(X)) == len(X)


def test_a_grid_searches_over_the_budget():
    pipeline = Pipeline([("pick", gm.GMMatching(random_state=0)), ("end", LogisticRegression())])
    search = GridSearchCV(
        pipeline,
        {"pick__k": [4, 30], "pick__target": [gm.Mean(), gm.GeometricMedian()]},
        cv=StratifiedKFold(2, shuffle=True, random_state=0),
    ).fit(X, Y)
    assert len(search.cv_results_["params"]) == 4
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert search.best_estimator_["pick"].selection_.k == search.best_params_["pick__k"]


# ----------------------------------------------------------------------------------------- bad labels


@pytest.mark.parametrize("y", [X[:, 0], X[:10, 0].tolist() * 10])
def test_measurements_need_per_class_none(y):
    with pytest.raises(InvalidInputError, match=r"Unknown label type: continuous.*per_class=None"):
        make("easy").fit(X, y)
    part, targets = make("easy", per_class=None).fit_resample(X, y)
    assert len(part) == len(targets) == 20


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, r"Easy estimator requires y to be passed.*use select\(X\)"),
        (np.tile([1, 1], (100, 1)), r"Multilabel.*shape \(100, 2\)"),
        (np.r_[np.inf, np.ones(99)], "y contains infinity"),
        (Y[:-1], "y has 99 labels but X has 100 rows"),
    ],
)
def test_labels_that_cannot_be_used(y, message):
    with pytest.raises(GMMatchError, match=message) as caught:
        make("easy").fit_resample(X, y)
    assert isinstance(caught.value, ValueError)


def test_one_hot_rows_and_columns_are_read_as_labels():
    expected = make("easy").fit(X, Y).sample_indices_
    hot = np.eye(2, dtype=int)[Y]
    part, labels = make("easy").fit_resample(X, hot)
    assert np.array_equal(part, X[expected]) and np.array_equal(labels, hot[expected])
    with pytest.warns(DataConversionWarning, match=r"y.ravel\(\)"):
        selector = make("easy").fit(X, Y[:, None])
    assert np.array_equal(selector.sample_indices_, expected)


def test_fit_without_labels_selects_from_all_rows():
    assert np.array_equal(make("easy").fit(X).sample_indices_, make("easy").select(X).indices)
