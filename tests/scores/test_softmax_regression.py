"""Softmax regression: one code for blocks of rows, rows that are held, tensors, hard and soft targets."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gmmatch.scores.softmax_regression import SoftmaxRegression

RNG = np.random.default_rng(0)
Y = np.arange(300) % 3
X = RNG.normal(size=(3, 5))[Y] + RNG.normal(size=(300, 5))
STANDARD = (X - X.mean(axis=0)) / X.std(axis=0)


def soft(y, classes=3):
    return np.eye(classes)[y]


def probabilities(problem, parameters):
    return np.concatenate(
        [problem.block(parameters, number).probabilities for number in range(problem.n_blocks)]
    )


def test_it_finds_what_scikit_learn_finds():
    problem = SoftmaxRegression.of(X, Y, strength=0.01, decay_bias=False)
    # scikit-learn sums the losses and halves the squares: C = 1 / (n λ).
    peer = LogisticRegression(C=1 / (300 * 0.01), tol=1e-10, max_iter=5000).fit(STANDARD, Y)
    assert probabilities(problem, problem.fit()) == pytest.approx(peer.predict_proba(STANDARD), abs=1e-6)


def test_probabilities_of_one_are_class_numbers():
    hard, certain = SoftmaxRegression.of(X, Y), SoftmaxRegression.of(X, soft(Y))
    assert hard.n_classes == certain.n_classes == 3
    assert hard.fit() == pytest.approx(certain.fit(), abs=1e-6)


def test_a_target_of_half_and_half_is_the_row_twice_at_half_the_weight():
    mixed = 0.5 * soft(Y) + 0.5 * soft((Y + 1) % 3)
    twice = SoftmaxRegression.of(np.vstack([X, X]), np.r_[Y, (Y + 1) % 3])
    assert SoftmaxRegression.of(X, mixed).fit() == pytest.approx(twice.fit(), abs=1e-6)


@pytest.mark.parametrize("targets", [Y, 0.7 * soft(Y) + 0.1], ids=["hard", "soft"])
@pytest.mark.parametrize("decay_bias", [True, False])
def test_the_gradient_is_the_derivative_of_the_loss(targets, decay_bias):
    problem = SoftmaxRegression.of(X, targets, RNG.uniform(size=300), strength=0.1, decay_bias=decay_bias)
    at, along = RNG.normal(size=problem.shape), RNG.normal(size=problem.shape)
    high, low = (problem.loss_and_gradient(at + step * along)[0] for step in (1e-6, -1e-6))
    assert (high - low) / 2e-6 == pytest.approx(np.sum(problem.loss_and_gradient(at)[1] * along), rel=1e-6)


@pytest.mark.parametrize("targets", [Y, 0.7 * soft(Y) + 0.1], ids=["hard", "soft"])
def test_held_rows_and_tensors_give_the_same(targets):
    torch = pytest.importorskip("torch")
    read, held = (SoftmaxRegression.of(X, targets, hold=hold) for hold in (False, True))
    at = RNG.normal(size=read.shape)
    tensors = SoftmaxRegression(
        torch.as_tensor(held.rows),
        torch.as_tensor(targets),
        torch.as_tensor(held.shares),
        3,
        0.01,
        held.scale,
    )
    for other in (held, tensors):
        assert other.loss_and_gradient(at)[0] == pytest.approx(read.loss_and_gradient(at)[0], rel=1e-5)
        assert other.loss_and_gradient(at)[1] == pytest.approx(read.loss_and_gradient(at)[1], abs=1e-6)
        assert probabilities(other, at) == pytest.approx(probabilities(read, at), abs=1e-5)
    some = np.arange(0, 300, 7)
    assert tensors.subset(some).loss_and_gradient(at)[0] == pytest.approx(
        read.subset(some).loss_and_gradient(at)[0], rel=1e-5
    )


def test_a_start_near_the_optimum_stays_there():
    problem = SoftmaxRegression.of(X, Y)
    fitted = problem.fit()
    assert problem.fit(fitted, max_iter=2) == pytest.approx(fitted, abs=1e-6)


def test_a_sure_and_wrong_prediction_has_a_finite_loss_in_float32():
    problem = SoftmaxRegression.of(X, Y, hold=True)
    loss, gradient = problem.loss_and_gradient(
        np.full(problem.shape, 300.0) * np.array([[1.0], [0.0], [-1.0]])
    )
    assert np.isfinite(loss) and loss > 100 and np.isfinite(gradient).all()
