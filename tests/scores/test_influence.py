"""Influence against what it predicts: the parameters after a row was left out and the rest fitted again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gmmatch.scores.influence import exact_hessian, influence_vectors
from gmmatch.scores.softmax_regression import SoftmaxRegression

RNG = np.random.default_rng(0)
CENTERS = RNG.normal(size=(3, 4))
Y = np.arange(60) % 3
X = CENTERS[Y] + RNG.normal(size=(60, 4))


def problem(X=X, y=Y, weights=None, strength=0.05, threads=1):
    weights = np.ones(len(X)) if weights is None else weights
    return SoftmaxRegression.of(X, y, weights, strength=strength, threads=threads)


def vectors(problem, parameters=None, **options):
    parameters = problem.fit() if parameters is None else parameters
    return influence_vectors(problem, parameters, random=np.random.default_rng(0), **options)


def without(problem, row):
    """The same regression, on the same scale, on all rows but one."""
    return problem.subset(np.flatnonzero(np.arange(len(problem.rows)) != row))


@pytest.fixture(scope="module")
def moves():
    """How the parameters move when each row in turn is left out, and those of all rows."""
    whole = problem()
    fitted = whole.fit()
    return fitted, np.array([(without(whole, row).fit() - fitted).ravel() for row in range(len(X))])


def test_the_exact_hessian_predicts_leaving_one_out(moves):
    fitted, truth = moves
    found = vectors(problem(), fitted)
    assert found.hessian == "exact" and not found.projected
    predicted = found.vectors / len(X)
    assert predicted.shape == truth.shape
    assert np.corrcoef(predicted.ravel(), truth.ravel())[0, 1] > 0.99
    lengths = np.linalg.norm(predicted, axis=1), np.linalg.norm(truth, axis=1)
    assert np.corrcoef(*lengths)[0, 1] > 0.99
    assert np.median(lengths[0] / lengths[1]) == pytest.approx(1.0, abs=0.1)


def test_a_whole_group_left_out_moves_the_parameters_by_about_the_sum(moves):
    fitted, _ = moves
    whole = problem()
    found = vectors(whole, fitted).vectors / len(X)
    rows = np.arange(0, 60, 10)
    left = np.setdiff1d(np.arange(60), rows)
    truth = (whole.subset(left).fit() - fitted).ravel()
    predicted = found[rows].sum(axis=0)
    assert np.corrcoef(predicted, truth)[0, 1] > 0.95


def test_the_kronecker_product_orders_rows_much_as_leaving_one_out_does(moves):
    fitted, truth = moves
    found = vectors(problem(), fitted, hessian="kronecker")
    lengths = np.linalg.norm(found.vectors, axis=1), np.linalg.norm(truth, axis=1)
    assert found.hessian == "kronecker"
    assert np.corrcoef(*lengths)[0, 1] > 0.95


def test_a_kronecker_product_is_exact_where_the_errors_do_not_depend_on_the_rows():
    """At θ = 0 all rows have p = 1/c, and then the Hessian is such a product."""
    whole = problem()
    nothing = np.zeros(whole.shape)
    exact, product = (vectors(whole, nothing, hessian=name).vectors for name in ("exact", "kronecker"))
    assert np.allclose(exact @ exact.T, product @ product.T, rtol=1e-4, atol=1e-4 * np.abs(exact).max() ** 2)


def test_the_hessian_is_the_derivative_of_the_gradient():
    whole = problem(weights=RNG.uniform(0.5, 2.0, size=60))
    at = RNG.normal(size=whole.shape)
    step = 1e-5
    columns = []
    for direction in np.eye(at.size):
        shift = step * direction.reshape(at.shape)
        columns.append(
            (whole.loss_and_gradient(at + shift)[1] - whole.loss_and_gradient(at - shift)[1]).ravel()
        )
    assert exact_hessian(whole, at) == pytest.approx(np.array(columns) / (2 * step), abs=1e-8)


def test_the_gradient_is_the_derivative_of_the_loss():
    whole = problem()
    at, along = RNG.normal(size=whole.shape), RNG.normal(size=whole.shape)
    step = 1e-6
    slope = whole.loss_and_gradient(at + step * along)[0] - whole.loss_and_gradient(at - step * along)[0]
    assert slope / (2 * step) == pytest.approx(np.sum(whole.loss_and_gradient(at)[1] * along), rel=1e-6)


def test_all_influence_sums_to_zero():
    weights = RNG.uniform(0.5, 2.0, size=60)
    for hessian in ("exact", "kronecker"):
        found = vectors(problem(weights=weights), hessian=hessian).vectors
        assert np.abs(found.sum(axis=0, dtype=np.float64)).max() < 1e-4 * np.abs(found).max()


def test_a_weight_of_two_is_the_row_twice():
    weights = np.where(np.arange(60) < 20, 2.0, 1.0)
    copied = problem(np.vstack([X, X[:20]]), np.r_[Y, Y[:20]])
    once, twice = problem(weights=weights), copied
    assert once.fit() == pytest.approx(twice.fit(), abs=1e-5)
    # A row of weight two has the influence of its two copies together.
    ours, theirs = vectors(once).vectors / 60, vectors(twice).vectors / 80
    assert ours[20:] == pytest.approx(theirs[20:60], abs=1e-4)
    assert ours[:20] == pytest.approx(theirs[:20] + theirs[60:], abs=1e-4)


@pytest.mark.parametrize(("hessian", "error"), [("exact", 2.0), ("kronecker", 8.0)])
def test_a_projection_keeps_inner_products(hessian, error):
    """Within about ‖u‖‖v‖ √(error / dimensions), as the documentation says: here the root mean square is."""
    wide = RNG.normal(size=(80, 30))
    y = np.arange(80) % 4
    whole = problem(wide, y)
    fitted = whole.fit()
    exact = vectors(whole, fitted, hessian=hessian).vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1)
    ratios = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        found = influence_vectors(whole, fitted, dimensions=64, random=random, hessian=hessian)
        assert found.projected and found.vectors.shape == (80, 64)
        apart = found.vectors @ found.vectors.T - exact @ exact.T
        ratios.append(np.sqrt(np.mean((apart / np.outer(lengths, lengths)) ** 2)))
    assert 0.2 * np.sqrt(error / 64) < np.mean(ratios) < 1.1 * np.sqrt(error / 64)


def test_rows_of_several_blocks_and_threads_give_the_same(monkeypatch):
    from gmmatch.scores import softmax_regression

    whole = vectors(problem()).vectors
    monkeypatch.setattr(softmax_regression, "_BLOCK_ELEMENTS", 1024)
    cut = problem()
    assert cut.n_blocks == 2
    assert vectors(cut).vectors == pytest.approx(whole, abs=1e-3)
    assert np.array_equal(vectors(cut).vectors, vectors(replace(cut, threads=3)).vectors)


def test_float16_rows_far_from_the_origin_are_fitted_as_their_numbers():
    coarse = (X + 100.0).astype(np.float16)
    ours, theirs = problem(coarse), problem(coarse.astype(np.float64))
    assert ours.fit() == pytest.approx(theirs.fit(), abs=1e-6)
