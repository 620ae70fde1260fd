"""The residual that is reported is the one that can be recomputed from the picks, at every step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmmatch as gm
from tests.textbook import geometric_median, kernel_median, noisy_gaussian, rbf

X, _ = noisy_gaussian(7, n=300)
Y = np.arange(300) % 3

TARGETS = {
    "random": lambda X: X.mean(axis=0),
    "easy": lambda X: X.mean(axis=0),
    "hard": lambda X: X.mean(axis=0),
    "moderate": lambda X: X.mean(axis=0),
    "herding": lambda X: X.mean(axis=0),
    "matching": lambda X: X.mean(axis=0),
    "gm-matching": geometric_median,
}


def path(rows, target):
    """‖target − mean of the first t picks‖ for t = 1, 2, ..."""
    means = np.cumsum(rows, axis=0) / np.arange(1, len(rows) + 1)[:, None]
    return np.linalg.norm(means - target, axis=1)


def kernel_path(gram, coefficients, order):
    steps = []
    for t in range(1, len(order) + 1):
        difference = coefficients.copy()
        np.subtract.at(difference, order[:t], 1.0 / t)
        steps.append(np.sqrt(max(0.0, difference @ gram @ difference)))
    return np.array(steps)


@pytest.mark.parametrize("method", TARGETS)
@pytest.mark.parametrize("options", [{}, {"preprocess": ["center", "scale"]}], ids=["plain", "scaled"])
def test_the_whole_path(method, options):
    selection = gm.select(X, y=Y, k=60, method=method, random_state=0, **options)
    rows = (X - X.mean(axis=0)) / X.std(axis=0) if options else X
    for label, residuals in selection.residual_path.items():
        own = selection.order[Y[selection.order] == label]
        assert np.allclose(
            residuals, path(rows[own], TARGETS[method](rows[label == Y])), rtol=1e-6, atol=1e-7
        )
        assert selection.residual[label] == residuals[-1]


@pytest.mark.parametrize(
    "options",
    [
        {"start": "zero"},
        {"replacement": True},
        {"batches": 4},
        {"batches": gm.Independent(4)},
        {"batches": gm.Independent(40)},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_whatever_the_way_to_the_picks(options, dtype):
    rows = X.astype(dtype)
    selection = gm.Herding(k=80, random_state=0, **options).select(rows)
    wide = rows.astype(np.float64)
    expected = path(wide[selection.order], wide.mean(axis=0))
    assert np.allclose(selection.residual_path[None], expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("target", [gm.Mean(), gm.GeometricMedian()])
@pytest.mark.parametrize("options", [{}, {"start": "zero"}, {"replacement": True}], ids=str)
def test_in_a_kernels_space(target, options):
    small = X[::3]
    gram = rbf(small, 2.0)
    selection = gm.Matching(k=40, target=target, kernel=gm.RBF(2.0), random_state=0, **options).select(small)
    coefficients = np.full(100, 0.01) if target == gm.Mean() else kernel_median(gram)
    expected = kernel_path(gram, coefficients, selection.order)
    assert np.allclose(selection.residual_path[None], expected, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.sampled_from(list(TARGETS)))
def test_a_prefix_is_a_selection_with_the_residuals_of_its_own_picks(k, method):
    whole = gm.select(X, y=Y, k=60, method=method, random_state=0)
    part = whole.prefix(k)
    assert np.array_equal(part.order, whole.order[:k])
    for label, residual in part.residual.items():
        own = part.order[Y[part.order] == label]
        if len(own):
            expected = np.linalg.norm(X[own].mean(axis=0) - TARGETS[method](X[label == Y]))
            assert residual == pytest.approx(expected, abs=1e-6)


def test_matching_beats_chance_by_far():
    """The greedy bound: the residual falls like 1/k, that of a random draw like 1/√k."""
    clean = np.random.default_rng(0).normal(size=(2_000, 8))
    herded = gm.Herding(k=200, start="zero").select(clean).residual[None]
    drawn = gm.Random(k=200, random_state=0).select(clean).residual[None]
    assert herded < drawn / 10
