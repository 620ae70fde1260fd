"""Influence against what it predicts: the parameters after a row was left out and the rest fitted again."""

from __future__ import annotations

import numpy as np
import pytest

from gmmatch.rows.array import ArrayRows
from gmmatch_paper.baselines.influence import exact_hessian, influence_vectors
from gmmatch_paper.baselines.softmax_regression import SoftmaxRegression

RNG = np.random.default_rng(0)
CENTERS = RNG.normal(size=(3, 4))
Y = np.arange(60) % 3
X = CENTERS[Y] + RNG.normal(size=(60, 4))


def regression(X=X, y=Y, weights=None, strength=0.05):
    weights = np.ones(len(X)) if weights is None else weights
    return SoftmaxRegression.of(ArrayRows(X), y, weights, int(y.max()) + 1, strength=strength)


def influence(problem, parameters=None, **options):
    parameters = problem.fit() if parameters is None else parameters
    return influence_vectors(problem, parameters, random=np.random.default_rng(0), **options)


@pytest.fixture(scope="module")
def refitted():
    """The parameters of all rows, and how they change when each row in turn is left out."""
    problem = regression()
    fitted = problem.fit()
    others = [problem.reweight((np.arange(60) != row) * 1.0).fit(fitted) for row in range(60)]
    return fitted, np.array([(parameters - fitted).ravel() for parameters in others])


def test_the_exact_hessian_predicts_leaving_one_row_out(refitted):
    fitted, changes = refitted
    exact = influence(regression(), fitted)
    assert exact.hessian == "exact" and not exact.projected
    predicted = exact.vectors / len(X)
    assert np.corrcoef(predicted.ravel(), changes.ravel())[0, 1] > 0.99
    lengths = np.linalg.norm(predicted, axis=1), np.linalg.norm(changes, axis=1)
    assert np.corrcoef(*lengths)[0, 1] > 0.99
    assert np.median(lengths[0] / lengths[1]) == pytest.approx(1.0, abs=0.1)


def test_the_kronecker_product_orders_rows_much_as_leaving_one_out_does(refitted):
    fitted, changes = refitted
    approximate = influence(regression(), fitted, hessian="kronecker")
    lengths = np.linalg.norm(approximate.vectors, axis=1), np.linalg.norm(changes, axis=1)
    assert approximate.hessian == "kronecker"
    assert np.corrcoef(*lengths)[0, 1] > 0.95


def test_the_hessian_is_the_derivative_of_the_gradient():
    problem = regression(weights=RNG.uniform(0.5, 2.0, size=60))
    at, step = RNG.normal(size=problem.shape), 1e-5
    shifts = [step * direction.reshape(at.shape) for direction in np.eye(at.size)]
    columns = [
        problem.loss_and_gradient(at + shift)[1] - problem.loss_and_gradient(at - shift)[1]
        for shift in shifts
    ]
    expected = np.array([column.ravel() for column in columns]) / (2 * step)
    assert exact_hessian(problem, at) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("hessian", ["exact", "kronecker"])
def test_all_influence_sums_to_zero(hessian):
    vectors = influence(regression(weights=RNG.uniform(0.5, 2.0, size=60)), hessian=hessian).vectors
    assert np.abs(vectors.sum(axis=0, dtype=np.float64)).max() < 1e-4 * np.abs(vectors).max()


def test_a_weight_of_two_is_the_row_twice():
    once = regression(weights=np.where(np.arange(60) < 20, 2.0, 1.0))
    twice = regression(np.vstack([X, X[:20]]), np.r_[Y, Y[:20]])
    assert once.fit() == pytest.approx(twice.fit(), abs=1e-5)
    # A row of weight two has the influence of its two copies together.
    of_once, of_twice = influence(once).vectors / 60, influence(twice).vectors / 80
    assert of_once[20:] == pytest.approx(of_twice[20:60], abs=1e-4)
    assert of_once[:20] == pytest.approx(of_twice[:20] + of_twice[60:], abs=1e-4)


@pytest.mark.parametrize(("hessian", "error"), [("exact", 2.0), ("kronecker", 8.0)])
def test_a_projection_keeps_inner_products(hessian, error):
    """Within about ‖u‖‖v‖ √(error / dimensions), in the root mean square."""
    problem = regression(RNG.normal(size=(80, 30)), np.arange(80) % 4)
    fitted = problem.fit()
    exact = influence(problem, fitted, hessian=hessian).vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1)
    ratios = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        projected = influence_vectors(problem, fitted, dimensions=64, random=random, hessian=hessian)
        assert projected.projected and projected.vectors.shape == (80, 64)
        difference = projected.vectors @ projected.vectors.T - exact @ exact.T
        ratios.append(np.sqrt(np.mean((difference / np.outer(lengths, lengths)) ** 2)))
    assert 0.2 * np.sqrt(error / 64) < np.mean(ratios) < 1.1 * np.sqrt(error / 64)
