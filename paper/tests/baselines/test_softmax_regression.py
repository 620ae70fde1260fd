"""Softmax regression on rows of any backend."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import gmmatch as gm
from gmmatch.rows.array import ArrayRows
from gmmatch_paper.baselines.softmax_regression import SoftmaxRegression, Standardize

RNG = np.random.default_rng(0)
Y = np.arange(300) % 3
X = RNG.normal(size=(3, 5))[Y] + RNG.normal(size=(300, 5))
STANDARD = (X - X.mean(axis=0)) / X.std(axis=0)


def regression(rows=None, weights=None, **options):
    rows = ArrayRows(X) if rows is None else rows
    return SoftmaxRegression.of(rows, Y, np.ones(300) if weights is None else weights, 3, **options)


def test_it_finds_what_scikit_learn_finds():
    problem = regression(strength=0.01, decay_bias=False)
    # scikit-learn sums the losses and halves the squares: C = 1 / (n λ).
    expected = LogisticRegression(C=1 / (300 * 0.01), tol=1e-10, max_iter=5000).fit(STANDARD, Y)
    parameters = problem.fit()
    np.testing.assert_array_equal(problem.predict(parameters), expected.predict(STANDARD))
    centered = parameters - parameters.mean(axis=0)  # defined up to a constant for all classes
    assert centered[:, :-1] == pytest.approx(expected.coef_ - expected.coef_.mean(axis=0), abs=1e-5)


def test_the_gradient_is_the_derivative_of_the_loss():
    problem = regression(weights=RNG.uniform(size=300), strength=0.1, decay_bias=False)
    at, along = RNG.normal(size=problem.shape), RNG.normal(size=problem.shape)
    high, low = (problem.loss_and_gradient(at + step * along)[0] for step in (1e-6, -1e-6))
    assert (high - low) / 2e-6 == pytest.approx(np.sum(problem.loss_and_gradient(at)[1] * along), rel=1e-6)


@pytest.mark.parametrize("kind", ["files", "tensor"])
def test_every_backend_gives_the_same_loss_and_gradient(kind, tmp_path):
    at = RNG.normal(size=(3, 6))
    loss, gradient = regression().loss_and_gradient(at)
    if kind == "files":
        np.save(tmp_path / "x.npy", X)
        source = str(tmp_path / "x.npy")
    else:
        source = pytest.importorskip("torch").from_numpy(X)
    with gm.open_rows(source) as rows:
        other = regression(rows).loss_and_gradient(at)
    assert other[0] == pytest.approx(loss, rel=1e-12)
    assert other[1] == pytest.approx(gradient, abs=1e-12)


def test_a_certain_and_wrong_prediction_has_a_finite_loss_in_float32():
    problem = regression(dtype="float32")
    loss, gradient = problem.loss_and_gradient(
        np.full(problem.shape, 300.0) * np.array([[1.0], [0.0], [-1.0]])
    )
    assert np.isfinite(loss) and loss > 100 and np.isfinite(gradient).all()


def test_rows_without_weight_do_not_count_whatever_their_class():
    kept = np.arange(300) < 200
    problem = regression(weights=kept * 1.0)
    codes = np.where(kept, Y, -1)
    unlabeled = SoftmaxRegression.of(ArrayRows(X), codes, kept * 1.0, 3)
    subset = SoftmaxRegression.of(ArrayRows(X[:200]), Y[:200], np.ones(200), 3)
    at = RNG.normal(size=problem.shape)
    for other in (unlabeled, subset):
        assert other.loss_and_gradient(at)[0] == pytest.approx(problem.loss_and_gradient(at)[0], rel=1e-10)


def test_standardized_rows_have_mean_0_and_deviation_1_and_constant_columns_are_0():
    columns = np.c_[X, np.full(300, 1e9), X[:, :1] * 1e-6 + 5.0]
    weights = RNG.uniform(0.5, 2.0, 300)
    scaled = Standardize.fit(ArrayRows(columns), weights)(columns)
    assert np.average(scaled, axis=0, weights=weights) == pytest.approx(np.zeros(7), abs=1e-6)
    spread = np.average(scaled**2, axis=0, weights=weights)
    assert spread == pytest.approx([1, 1, 1, 1, 1, 0, 1], abs=1e-3)
