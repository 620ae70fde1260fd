"""The geometric median and its certificate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gmmatch as gm
from tests.textbook import objective


def shapes(n, s, seed):
    """Return rows of every shape that a geometric median meets, by name."""
    random = np.random.default_rng(seed)
    rows = random.standard_normal((n, s))
    repeated = rows.copy()
    repeated[: n // 3] = rows[0]
    return {
        "gaussian": rows,
        "two clusters": 0.1 * rows + np.where(random.random(n)[:, None] < 0.45, 10.0, 0.0),
        "equal halves": 0.1 * rows + 10.0 * (np.arange(n) % 2)[:, None],
        "duplicates": rows[random.integers(0, max(1, n // 4), n)],
        "collinear": random.standard_normal((n, 1)) * random.standard_normal((1, s)),
        "heavy tails": random.standard_cauchy((n, s)),
        "very heavy tails": random.standard_cauchy((n, s)) ** 3,
        "median is a row": np.vstack([rows, -rows, np.zeros((1, s))]) + 3.0,
        "one repeated row": repeated,
        "flat": rows * np.logspace(0, -4, s),
        "far from the origin": rows + 1e6,
    }


VALUES = st.floats(-100, 100).map(lambda x: round(x, 1))  # rounded: rows coincide
MATRICES = st.tuples(st.integers(1, 9), st.integers(1, 3)).flatmap(
    lambda shape: arrays(float, shape, elements=VALUES)
)


@settings(max_examples=150, deadline=None)
@given(MATRICES, st.integers(1, 6), st.sampled_from([0.0, 0.3]), st.integers(0, 2**32 - 1))
@pytest.mark.filterwarnings("ignore::gmmatch.errors.ConvergenceWarning")
def test_the_certificate_is_never_below_the_true_gap(X, max_iter, delta, seed):
    weights = np.random.default_rng(seed).integers(1, 4, len(X)).astype(float)
    rough = gm.geometric_median(X, sample_weight=weights, eps=1e-3, max_iter=max_iter, delta=delta)
    fine = gm.geometric_median(X, sample_weight=weights, eps=1e-12, max_iter=3000)
    best = min(fine.objective, *(objective(X, row, weights) for row in X))
    assert rough.gap == np.inf or rough.objective <= (1 + rough.gap) * best * (1 + 1e-12) + 1e-12
    assert fine.gap < 1e-6


@pytest.mark.parametrize("shape", shapes(2, 2, 0))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "s"), [(1, 2), (2, 3), (7, 2), (60, 20), (300, 5)])
def test_hard_shapes_are_certified(shape, weighted, n, s):
    X = shapes(n, s, seed=n)[shape]
    weights = np.random.default_rng(n).exponential(size=len(X)) if weighted else np.ones(len(X))
    result = gm.geometric_median(X, sample_weight=weights)
    assert result.converged and result.gap <= 1e-8
    assert result.objective == pytest.approx(objective(X, result.point, weights), rel=1e-9, abs=1e-300)
    for row in X[:20]:
        assert result.objective <= objective(X, row, weights) * (1 + 1e-8) + 1e-300


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        ([[3.0, 4.0]], [3, 4]),
        ([[1.0], [1.0], [1.0]], [1]),
        ([[0.0, 0.0], [1.0, 1.0], [5.0, 5.0]], [1, 1]),
        ([[0.0, 0.0]] * 5 + [[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 2, [0, 0]),
        ([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]], [0, 0]),
        ([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0], [4.0, 3.0]], [2, 1.5]),  # where the diagonals cross
    ],
)
def test_worked_examples(X, expected):
    np.testing.assert_allclose(gm.geometric_median(X).point, expected, atol=1e-7)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 10.0))
def test_it_moves_with_the_data(seed, scale):
    random = np.random.default_rng(seed)
    X = random.standard_t(3, (40, 3))
    rotation, _ = np.linalg.qr(random.standard_normal((3, 3)))
    shift = random.standard_normal(3)
    moved = gm.geometric_median(scale * X @ rotation + shift, eps=1e-12).point
    np.testing.assert_allclose(
        moved, scale * gm.geometric_median(X, eps=1e-12).point @ rotation + shift, atol=1e-5
    )


@settings(max_examples=30, deadline=None)
@given(st.floats(0.0, 0.49), st.floats(1.0, 1e12), st.integers(0, 10**6))
def test_less_than_half_of_the_rows_cannot_carry_it_away(share, distance, seed):
    random = np.random.default_rng(seed)
    X = random.standard_normal((100, 4))
    n_bad = int(share * 100)
    X[:n_bad] = distance * np.ones(4) + random.standard_normal((n_bad, 4))
    radius = np.linalg.norm(X[n_bad:], axis=1).max()
    assert np.linalg.norm(gm.geometric_median(X).point) <= radius * (1 + 2 / (1 - 2 * n_bad / 100))


def test_weights_are_copies():
    X = np.random.default_rng(0).standard_normal((30, 3))
    weights = np.arange(30) % 3
    weighted = gm.geometric_median(X, sample_weight=weights, eps=1e-12)
    copied = gm.geometric_median(np.repeat(X, weights, axis=0), eps=1e-12)
    np.testing.assert_allclose(weighted.point, copied.point, atol=1e-6)
    assert weighted.objective == pytest.approx(copied.objective)


def test_many_groups_are_searched_together():
    random = np.random.default_rng(2)
    X, y = random.standard_normal((2000, 4)), random.integers(0, 300, 2000)
    with gm.open_rows(X) as rows:
        medians = rows.group_medians(y, np.ones(2000), 300, eps=1e-8, max_iter=1000, delta=0.0)
    assert medians.gaps.max() <= 1e-8
    np.testing.assert_allclose(medians.points[123], gm.geometric_median(X[y == 123]).point, atol=1e-7)


def test_large_data_starts_from_a_sample_and_ends_at_the_same_point():
    X = np.random.default_rng(3).standard_t(2, (20_000, 6)).astype(np.float32)
    result = gm.geometric_median(X)
    assert result.converged
    gradient = (X - result.point) / np.linalg.norm(X - result.point, axis=1, keepdims=True)
    assert np.linalg.norm(gradient.sum(axis=0)) < 1e-6 * len(X)


def test_running_out_of_passes_is_a_warning():
    X = np.random.default_rng(0).random((20, 3))
    with pytest.warns(gm.errors.ConvergenceWarning, match=r"certified gap of .* raise max_iter or eps"):
        result = gm.geometric_median(X, max_iter=1)
    assert not result.converged and result.gap > 1e-8 and result.iterations == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eps": -1}, "eps=-1: expected a finite number of at least 0"),
        ({"max_iter": 0}, "max_iter=0: expected a whole number"),
        ({"delta": "x"}, "delta='x'"),
        ({"sample_weight": [1.0]}, r"sample_weight .*expected shape \(3,\)"),
        ({"sample_weight": [0, 0, 0]}, "sample_weight is zero for every row"),
        ({"X": [[np.nan], [1.0], [2.0]]}, "X contains NaN"),
        ({"X": [[1e200], [1.0], [2.0]]}, "too large to square"),
        ({"X": [1.0, 2.0, 3.0]}, r"X has shape \(3,\)"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(gm.GMMatchError, match=message):
        gm.geometric_median(**{"X": [[0.0], [1.0], [2.0]], **arguments})
