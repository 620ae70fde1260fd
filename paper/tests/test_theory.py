"""The paper's bounds: hand-worked values, and that they hold on data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmmatch.errors import InvalidInputError
from gmmatch_paper import theory


def geometric_median(X: np.ndarray, iterations: int = 2000) -> np.ndarray:
    """Weiszfeld's iteration from the mean, as plain as it gets."""
    point = X.mean(axis=0)
    for _ in range(iterations):
        weights = 1.0 / np.maximum(np.linalg.norm(X - point, axis=1), 1e-12)
        point = weights @ X / weights.sum()
    return point


def objective(X: np.ndarray, point: np.ndarray) -> float:
    return float(np.linalg.norm(X - point, axis=1).sum())


def corrupted(share: float, seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Clean Gaussian rows, and the same with ``share`` of all rows far away in one direction."""
    rng = np.random.default_rng(seed)
    n_corrupt = int(share * n)
    clean = rng.normal(size=(n - n_corrupt, 3))
    return clean, np.concatenate([clean, rng.normal(size=(n_corrupt, 3)) + 50.0])


class TestCleanVariance:
    @pytest.mark.parametrize("offset", [0.0, 1e8])
    def test_is_the_trace_of_the_covariance(self, offset: float) -> None:
        X = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 2.0, 3.0]
        expected = np.trace(np.cov(X.T, bias=True))
        assert theory.clean_variance(X + offset) == pytest.approx(expected, rel=1e-7 if offset else 1e-12)

    def test_a_far_first_row_costs_no_digits(self) -> None:
        X = np.array([[1e9], [0.0], [1.0]])
        assert theory.clean_variance(X) == pytest.approx(float(np.var(X)), rel=1e-12)


class TestMedianErrorBound:
    @pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.45])
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_holds_for_the_exact_median(self, share: float, seed: int) -> None:
        clean, rows = corrupted(share, seed)
        error = np.sum((geometric_median(rows) - clean.mean(axis=0)) ** 2)
        bound = theory.median_error_bound(len(clean), len(rows) - len(clean), theory.clean_variance(clean))
        assert error <= bound
        if share >= 0.1:
            # The mean, which the theorem does not speak of, breaks the same bound.
            assert np.sum((rows.mean(axis=0) - clean.mean(axis=0)) ** 2) > bound

    @pytest.mark.parametrize("share", [0.1, 0.3, 0.45])
    @pytest.mark.parametrize("iterations", [0, 1, 3])
    def test_holds_for_a_crude_median_with_its_own_eps(self, share: float, iterations: int) -> None:
        clean, rows = corrupted(share, seed=3)
        crude = geometric_median(rows, iterations)
        best = objective(rows, geometric_median(rows))
        eps = objective(rows, crude) / best - 1.0
        assert eps > 0.0
        counts = len(clean), len(rows) - len(clean)
        variance = theory.clean_variance(clean)
        error = np.sum((crude - clean.mean(axis=0)) ** 2)
        assert error <= theory.median_error_bound(*counts, variance, eps, best)

    @given(n=st.integers(3, 10_000), data=st.data())
    def test_grows_with_the_share_of_corruption(self, n: int, data: st.DataObject) -> None:
        fewer = data.draw(st.integers(0, (n - 1) // 2 - 1))
        more = data.draw(st.integers(fewer + 1, (n - 1) // 2))
        assert theory.median_error_bound(n - more, more, 1.0) > theory.median_error_bound(
            n - fewer, fewer, 1.0
        )


class TestMomentErrorBound:
    @given(
        k=st.integers(1, 1000),
        n_clean=st.integers(2, 1000),
        share=st.floats(0, 0.99),
        variance=st.floats(0, 100),
        eps=st.floats(0, 1),
        constant=st.floats(0, 1000),
    )
    def test_is_the_lemma_and_twice_the_theorem(
        self, k: int, n_clean: int, share: float, variance: float, eps: float, constant: float
    ) -> None:
        n_corrupt = int(share * n_clean)
        total = 7.0 * n_clean
        ours = theory.moment_error_bound(
            k, n_clean, n_corrupt, variance, eps, total, herding_constant=constant
        )
        alpha = n_corrupt / n_clean
        lemma = (
            2 * constant / k**2
            + 16 / (1 - alpha) ** 2 * variance
            + 4 * (eps * total) ** 2 / (n_clean**2 * (1 - alpha) ** 2)
        )
        assert ours == pytest.approx(lemma, rel=1e-9)
        theorem = theory.median_error_bound(n_clean, n_corrupt, variance, eps, total)
        assert ours - 2 * constant / k**2 == pytest.approx(2 * theorem, rel=1e-9, abs=1e-9)


class TestMatchingResidualBound:
    @pytest.mark.parametrize("seed", range(5))
    def test_holds_for_herding_with_replacement(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(50, 2))
        target = geometric_median(X)
        theta, least_cosine, total = target.copy(), 0.5, np.zeros(2)
        for k in range(1, 201):
            pick = X[np.argmax(X @ theta)]
            step = pick - target
            least_cosine = min(least_cosine, theta @ step / (np.linalg.norm(theta) * np.linalg.norm(step)))
            theta = theta - step
            total += pick
            residual = np.linalg.norm(target - total / k)
            bound = theory.matching_residual_bound(
                k, float(np.linalg.norm(target)), float(np.linalg.norm(X, axis=1).max()), float(least_cosine)
            )
            assert residual <= bound * (1 + 1e-12)


class TestBatchesAndSubsampling:
    def test_subsampling_variance_is_that_of_a_mean(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(100, 2))
        means = np.array([X[rng.choice(100, 25, replace=False)].mean(axis=0) for _ in range(20_000)])
        measured = np.mean(np.sum((means - X.mean(axis=0)) ** 2, axis=1))
        predicted = theory.subsampling_variance(0.25, theory.clean_variance(X), 100)
        # 20,000 squares of two degrees of freedom: a relative standard error of 0.7 per cent.
        assert measured == pytest.approx(predicted * 100 / 99, rel=0.03)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.median_error_bound(50, 50, 1.0), "fewer corrupted rows than clean"),
        (lambda: theory.moment_error_bound(1, 5, 6, 1.0, herding_constant=1.0), "n_corrupt=6 .* n_clean=5"),
        (lambda: theory.median_error_bound(5, 1, 1.0, eps=0.1), "optimal_objective is missing"),
        (lambda: theory.clean_variance([[np.nan]]), "NaN"),
        (lambda: theory.clean_variance(np.zeros((0, 2))), r"rows has shape \(0, 2\)"),
    ],
)
def test_errors_say_what_is_wrong(call: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()  # type: ignore[operator]
