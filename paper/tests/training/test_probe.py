"""The linear probe."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from gmmatch.errors import InvalidInputError
from gmmatch_paper.training.probe import STRENGTHS, fit_linear_probe, stratified_folds


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:1200], y[:1200], X[1200:], y[1200:]


def test_it_finds_what_scikit_learn_finds(digits):
    X, y, X_test, _ = digits
    strength = 1e-2
    probe = fit_linear_probe(X, y, strengths=[strength], max_iter=1000)
    scale = X.std(axis=0)
    scale[scale == 0] = 1.0
    standard = (X - X.mean(axis=0)) / scale
    # scikit-learn sums the losses and halves the squares: C = 1 / (n λ).
    peer = LogisticRegression(C=1 / (len(X) * strength), tol=1e-8, max_iter=5000).fit(standard, y)
    theirs = peer.decision_function((X_test - X.mean(axis=0)) / scale)
    ours = probe.scores(X_test)
    # Softmax scores are defined up to a constant per row.
    ours -= ours.mean(axis=1, keepdims=True)
    theirs -= theirs.mean(axis=1, keepdims=True)
    assert np.abs(ours - theirs).max() < 0.05
    assert probe.predict(X_test).tolist() == peer.predict((X_test - X.mean(axis=0)) / scale).tolist()


@pytest.mark.slow
def test_cross_validation_regularises_noise_more_than_signal(digits):
    X, y, X_test, y_test = digits
    rng = np.random.default_rng(0)
    clear = fit_linear_probe(X, y)
    assert clear.accuracy(X_test, y_test) > 0.9
    wrong = rng.permutation(len(y))[:400]
    noisy = y.copy()
    noisy[wrong] = rng.integers(0, 10, len(wrong))
    wide = np.hstack([X, rng.normal(size=(len(X), 400))])
    assert fit_linear_probe(wide, noisy).strength > clear.strength
    assert set(clear.validation) == set(STRENGTHS)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_float_and_a_column_that_does_not_vary(dtype):
    X = np.array([[0, 5, 1], [1, 5, 0], [0, 5, 2], [1, 5, 1]], dtype=dtype)
    X.flags.writeable = False
    probe = fit_linear_probe(X, ["a", "b", "a", "b"], strengths=[1e-3])
    assert probe.predict(X).tolist() == ["a", "b", "a", "b"]
    assert np.all(np.isfinite(probe.weights))


def test_folds_spread_every_class_evenly():
    codes = np.repeat([0, 1, 2], [30, 9, 3])
    fold_of = stratified_folds(codes, 3, 0)
    counts = [np.bincount(fold_of[codes == code], minlength=3).tolist() for code in range(3)]
    assert counts == [[10, 10, 10], [3, 3, 3], [1, 1, 1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [0, 1, 0]}, "3 labels for 4 rows"),
        ({"strengths": []}, "strengths"),
        ({"strengths": [-1.0]}, "strengths"),
        ({"folds": 1}, "folds=1"),
        ({"y": [[0], [1], [0], [1]]}, "y has 2 dimensions"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    given = {"X": [[0.0], [1.0], [2.0], [3.0]], "y": [0, 1, 0, 1], **arguments}
    with pytest.raises(InvalidInputError, match=message):
        fit_linear_probe(given.pop("X"), given.pop("y"), **given)
