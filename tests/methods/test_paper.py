"""The paper's own experiment, and its algorithms against plain NumPy: the picks must be equal."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from tests.textbook import geometric_median, kernel_median, kernel_picks, noisy_gaussian, rbf, textbook_picks

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_picks_of_the_noisy_gaussian_are_those_of_plain_numpy(seed):
    X, _ = noisy_gaussian(seed)
    assert np.array_equal(gm.GMMatching(k=100).select(X).order, textbook_picks(X, geometric_median(X), 100))
    assert np.array_equal(gm.Herding(k=100).select(X).order, textbook_picks(X, X.mean(axis=0), 100))


def test_the_noisy_gaussian_is_matched_as_the_paper_says():
    """At 40% corruption: contamination 0.11 against 0.38, error of the mean 0.97 against 4.7."""
    contamination = {"gm-matching": [], "herding": []}
    error = {"gm-matching": [], "herding": []}
    for seed in SEEDS:
        X, corrupt = noisy_gaussian(seed)
        for method in contamination:
            rows = gm.select(X, k=100, method=method).indices
            contamination[method].append(corrupt[rows].mean())
            error[method].append(np.linalg.norm(X[rows].mean(axis=0)))
    assert np.mean(contamination["gm-matching"]) == pytest.approx(0.11, abs=0.02)
    assert np.mean(contamination["herding"]) == pytest.approx(0.38, abs=0.03)
    assert np.mean(error["gm-matching"]) == pytest.approx(0.97, abs=0.2)
    assert np.mean(error["herding"]) == pytest.approx(4.7, abs=0.3)


def test_without_corruption_both_match_the_mean():
    X, _ = noisy_gaussian(0, psi=0.0)
    for method in ("gm-matching", "herding"):
        rows = gm.select(X, k=100, method=method).indices
        assert np.linalg.norm(X[rows].mean(axis=0) - X.mean(axis=0)) < 0.1


def test_the_authors_released_behaviour():
    """Unit-length rows matched to a unit-length median: ``preprocess="unit"`` and ``GeometricMedian(unit=True)``."""
    X, _ = noisy_gaussian(0)
    X = np.hstack([X, np.random.default_rng(1).normal(size=(1_000, 6)) + 1.0])
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    median = geometric_median(unit)
    theirs = textbook_picks(unit, median / np.linalg.norm(median), 100)
    selection = gm.GMMatching(k=100, target=gm.GeometricMedian(unit=True)).select(X, preprocess="unit")
    assert np.array_equal(selection.order, theirs)
    # Its residual is to the unit-length target, which the mean of unit rows cannot reach.
    expected = np.linalg.norm(unit[theirs].mean(axis=0) - median / np.linalg.norm(median))
    assert selection.residual[None] == pytest.approx(expected, rel=1e-6)
    # With a plain target it is the text's algorithm on unit rows.
    text = gm.GMMatching(k=100).select(X, preprocess="unit")
    assert np.array_equal(text.order, textbook_picks(unit, median, 100))
    assert text.residual[None] < 0.1 * selection.residual[None]


def test_a_target_of_zeros_cannot_be_of_unit_length():
    X = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    selection = gm.Herding(k=4, target=gm.Mean(unit=True)).select(X)
    assert selection.residual[None] == 0.0


@pytest.mark.parametrize("start", ["target", "zero"])
def test_kernel_methods_are_those_of_plain_numpy(start):
    X, _ = noisy_gaussian(1, n=200)
    gram = rbf(X, 3.0)
    ours = gm.GMMatching(k=40, kernel=gm.RBF(3.0), start=start).select(X)
    assert np.array_equal(ours.order, kernel_picks(gram, kernel_median(gram), 40, start))
    ours = gm.KernelHerding(k=40, kernel=gm.RBF(3.0), start=start).select(X)
    assert np.array_equal(ours.order, kernel_picks(gram, np.full(200, 1 / 200), 40, start))


@pytest.mark.parametrize("degree", [1, 3])
def test_the_papers_polynomial_kernels(degree):
    X = np.random.default_rng(2).normal(size=(150, 3))
    gram = (X @ X.T + 1.0) ** degree
    ours = gm.GMMatching(k=30, kernel=gm.Polynomial(degree=degree)).select(X)
    assert np.array_equal(ours.order, kernel_picks(gram, kernel_median(gram), 30))


def test_coordinate_median():
    X = np.random.default_rng(4).standard_t(2, size=(301, 3))
    ours = gm.Matching(k=20, target=gm.CoordinateMedian(), start="zero").select(X).order
    assert np.array_equal(ours, textbook_picks(X, np.median(X, axis=0), 20, theta=np.zeros(3)))


@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("easy", lambda d: d),
        ("hard", lambda d: -d),
        ("moderate", lambda d: np.abs(d - np.median(d))),
    ],
)
@pytest.mark.parametrize(
    ("center", "middle"),
    [
        (gm.Mean(), lambda X: X.mean(axis=0)),
        (gm.CoordinateMedian(), lambda X: np.median(X, axis=0)),
        (gm.GeometricMedian(), geometric_median),
    ],
)
def test_rankings(method, key, center, middle):
    X = np.random.default_rng(6).standard_t(3, size=(201, 4))
    distances = np.linalg.norm(X - middle(X), axis=1)
    ours = gm.select(X, k=50, method=method, center=center).order
    assert np.array_equal(ours, np.argsort(key(distances), kind="stable")[:50])
