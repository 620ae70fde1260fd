"""Kernels: positive semi-definite, equal to scikit-learn's, exact far from the origin."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial.distance import cdist, pdist
from sklearn.metrics import pairwise

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.kernels.distances import ScaledRows
from gmmatch.kernels.kernels import RBF, Kernel, Laplacian, Linear, Polynomial, resolve_kernel, row_means

KERNELS: list[Kernel] = [
    Linear(),
    Polynomial(degree=1),
    Polynomial(degree=3),
    Polynomial(degree=10, c=0.5),
    RBF(bandwidth=0.7),
    RBF(bandwidth=20.0),
    Laplacian(bandwidth=3.0),
]


def sample(n: int, s: int = 5, seed: int = 0, dtype: type = np.float64) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, s)).astype(dtype)


matrices = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 4)),
    elements=st.floats(-3, 3, allow_subnormal=False),
)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@given(X=matrices)
@settings(max_examples=40, deadline=None)
def test_matrices_are_symmetric_and_positive_semi_definite(kernel: Kernel, X: np.ndarray) -> None:
    gram = kernel(X, X)
    largest = np.abs(gram).max()
    np.testing.assert_allclose(gram, gram.T, rtol=0, atol=1e-12 * largest)
    values = np.linalg.eigvalsh((gram + gram.T) / 2)
    assert values[0] >= -1e-8 * max(values[-1], 1e-300)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("kernel", "theirs"),
    [
        (Linear(), pairwise.linear_kernel),
        (
            Polynomial(degree=5, c=1.0),
            lambda A, B: pairwise.polynomial_kernel(A, B, degree=5, gamma=1, coef0=1),
        ),
        (
            Polynomial(degree=2, c=0.0),
            lambda A, B: pairwise.polynomial_kernel(A, B, degree=2, gamma=1, coef0=0),
        ),
        (RBF.from_gamma(0.3), lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.3)),
        (Laplacian(bandwidth=4.0), lambda A, B: pairwise.laplacian_kernel(A, B, gamma=0.25)),
    ],
    ids=lambda value: repr(value) if isinstance(value, Kernel) else "",
)
def test_agrees_with_scikit_learn(kernel: Kernel, theirs: object, dtype: type) -> None:
    A, B = sample(40, dtype=dtype), sample(30, seed=1, dtype=dtype)
    ours = kernel(A, B)
    assert ours.dtype == np.float64
    expected = theirs(A.astype(np.float64), B.astype(np.float64))  # type: ignore[operator]
    np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-10)


def test_worked_values() -> None:
    x, y = [[1.0, 2.0]], [[4.0, 6.0]]  # inner product 16, distance 5, L1 distance 7
    assert Linear()(x, y)[0, 0] == 16.0
    assert Polynomial(degree=2, c=1.0)(x, y)[0, 0] == 289.0
    assert RBF(bandwidth=5.0)(x, y)[0, 0] == pytest.approx(np.exp(-0.5), rel=1e-14)
    assert Laplacian(bandwidth=7.0)(x, y)[0, 0] == pytest.approx(np.exp(-1.0), rel=1e-14)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_diagonal_is_the_matrix_diagonal(kernel: Kernel) -> None:
    X = sample(25, dtype=np.float32)
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(kernel(X, X)), rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_translation_invariance_is_as_claimed(kernel: Kernel) -> None:
    A, B = sample(20), sample(15, seed=1)
    change = np.abs(kernel(A + 2.5, B + 2.5) - kernel(A, B)).max()
    assert (change < 1e-12) == kernel.is_translation_invariant


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_is_linear_is_as_claimed(kernel: Kernel) -> None:
    A, B = sample(20), sample(15, seed=1)
    assert np.allclose(kernel(A, B), A @ B.T) == kernel.is_linear


def test_a_polynomial_can_be_linear() -> None:
    A, B = sample(20), sample(15, seed=1)
    disguised = Polynomial(degree=1, c=0.0)
    assert disguised.is_linear
    np.testing.assert_allclose(disguised(A, B), Linear()(A, B))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_writes_into_out(kernel: Kernel) -> None:
    A, B = sample(8), sample(6, seed=1)
    out = np.full((8, 6), np.nan)
    assert kernel(A, B, out) is out
    np.testing.assert_array_equal(out, kernel(A, B))


def exact_rbf(A: np.ndarray, B: np.ndarray, bandwidth: float) -> np.ndarray:
    return np.exp(-cdist(A, B, "sqeuclidean") / (2 * bandwidth**2))


def test_rbf_far_from_the_origin() -> None:
    A, B = sample(60) + 1e6, sample(50, seed=1) + 1e6
    np.testing.assert_allclose(RBF(1.0)(A, B), exact_rbf(A, B, 1.0), rtol=0, atol=1e-12)
    # What the shift is for: through norms at the origin hardly a digit survives.
    assert np.abs(pairwise.rbf_kernel(A, B, gamma=0.5) - exact_rbf(A, B, 1.0)).max() > 1e-4


@pytest.mark.parametrize("far", [1e3, 1e6, 1e12, 1e100, 1e200])
def test_rbf_keeps_its_digits_in_two_distant_clusters(far: float) -> None:
    A = np.concatenate([sample(30), sample(30, seed=1) + far])
    exact = exact_rbf(A[:, :], A[:, :], 1.0)
    np.testing.assert_allclose(RBF(1.0)(A, A), exact, rtol=0, atol=1e-9)


def test_rbf_of_narrow_bandwidth_is_the_identity() -> None:
    A = sample(40)
    np.testing.assert_array_equal(RBF(1e-6)(A, A), np.eye(40))


def test_scaled_distances_are_never_positive() -> None:
    A = np.repeat(sample(1, 50, seed=3), 20, axis=0) * 100
    rows = ScaledRows(A, A[0], 0.01)
    assert rows.exponents(rows[:]).max() <= 0.0


@pytest.mark.parametrize(("kind", "metric"), [(RBF, "euclidean"), (Laplacian, "cityblock")])
def test_median_bandwidth_is_the_median_of_the_kernels_own_distance(kind: type, metric: str) -> None:
    X = sample(200, dtype=np.float32)
    expected = np.median(pdist(X.astype(np.float64), metric))
    assert kind().fit(X).bandwidth == pytest.approx(expected, rel=1e-12)


def test_median_bandwidth_of_many_rows_is_a_seeded_estimate() -> None:
    X = sample(3000)
    whole = float(np.median(pdist(X)))
    first = RBF().fit(X)
    assert first == RBF().fit(X)
    assert first != RBF().fit(X, random_state=1)
    assert first.bandwidth == pytest.approx(whole, rel=0.02)


def test_median_bandwidth_of_duplicates() -> None:
    X = np.zeros((20, 1))
    X[19] = 3.0
    assert RBF().fit(X).bandwidth == 3.0
    X[18] = 1.0  # distances: 18 of 1, 18 of 3, 1 of 2
    assert RBF().fit(X).bandwidth == pytest.approx((18 + 54 + 2) / 37)
    assert RBF().fit(np.ones((5, 2))).bandwidth == 1.0
    assert Laplacian().fit([[1.0, 2.0]]).bandwidth == 1.0


@pytest.mark.parametrize("kernel", [*KERNELS[:4], RBF(2.0), Laplacian(2.0)], ids=repr)
def test_fit_leaves_numbers_alone(kernel: Kernel) -> None:
    assert kernel.fit(sample(10)) == kernel


@pytest.mark.parametrize("kernel", [RBF(), Laplacian()], ids=repr)
def test_unfitted_kernel_says_to_call_fit(kernel: Kernel) -> None:
    with pytest.raises(InvalidInputError, match=r"fit\(X\)"):
        kernel(sample(3), sample(3))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_name_and_params_survive_json(kernel: Kernel) -> None:
    assert resolve_kernel(json.loads(json.dumps([kernel.name, kernel.params]))) == kernel


def test_parameters_from_numpy_become_plain_numbers() -> None:
    assert json.dumps(Polynomial(np.int64(4), np.float32(0.5)).params) == '{"degree": 4, "c": 0.5}'
    assert json.dumps(RBF(np.float32(0.5)).params) == '{"bandwidth": 0.5}'


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("linear", Linear()),
        ("poly", Polynomial()),
        ("Polynomial", Polynomial(3, 1.0)),
        (("polynomial", {"degree": 5}), Polynomial(5)),
        ("gaussian", RBF()),
        (("rbf", {"bandwidth": 2}), RBF(2.0)),
        ("laplacian", Laplacian()),
        (RBF(3.0), RBF(3.0)),
    ],
)
def test_resolve_kernel(spec: object, expected: Kernel) -> None:
    assert resolve_kernel(spec) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: resolve_kernel("gausian"), InvalidInputError, "'gaussian'"),
        (lambda: resolve_kernel("zzz"), InvalidInputError, "'rbf'.*'laplacian'"),
        (lambda: resolve_kernel(("rbf", {"width": 1.0})), InvalidInputError, "'width'.*bandwidth"),
        (lambda: resolve_kernel(RBF), InvalidTypeError, r"RBF\(\)"),
        (lambda: resolve_kernel(3), InvalidTypeError, "kernel=3"),
        (lambda: Polynomial(degree=0), InvalidInputError, "degree=0"),
        (lambda: Polynomial(degree=2.5), InvalidInputError, "degree=2.5"),
        (lambda: Polynomial(c=-1.0), InvalidInputError, "c=-1.0"),
        (lambda: RBF(bandwidth=0.0), InvalidInputError, "bandwidth=0.0"),
        (lambda: RBF(bandwidth="mean"), InvalidInputError, "'median'"),
        (lambda: Laplacian(bandwidth=np.nan), InvalidInputError, "bandwidth=nan"),
        (lambda: RBF.from_gamma(-1.0), InvalidInputError, "gamma=-1.0"),
        (lambda: Linear()(np.zeros((2, 3)), np.zeros((2, 4))), InvalidInputError, "3 columns and B has 4"),
        (lambda: Linear()(np.zeros(3), np.zeros((2, 3))), InvalidInputError, "A must be two-dimensional"),
        (lambda: RBF().fit([[np.nan], [1.0]]), InvalidInputError, "NaN"),
    ],
)
def test_errors_say_what_is_wrong(make: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()  # type: ignore[operator]


class TestRowMeans:
    @pytest.mark.parametrize("kernel", KERNELS, ids=repr)
    @pytest.mark.parametrize("block", [1, 7, 64, 1000])
    def test_equals_the_mean_of_the_matrix(self, kernel: Kernel, block: int) -> None:
        A, B = sample(33, dtype=np.float32), sample(20, seed=1, dtype=np.float32)
        weights = np.random.default_rng(2).random(33)
        scale = np.abs(kernel(A, A)).max()
        expected = kernel(A, A).mean(axis=1)
        np.testing.assert_allclose(row_means(kernel, A, block=block), expected, rtol=0, atol=1e-13 * scale)
        expected = kernel(A, A) @ weights / weights.sum()
        np.testing.assert_allclose(
            row_means(kernel, A, weights=weights, block=block), expected, rtol=0, atol=1e-13 * scale
        )
        expected = kernel(A, B) @ weights[:20] / weights[:20].sum()
        np.testing.assert_allclose(
            row_means(kernel, A, B, weights[:20], block=block), expected, rtol=0, atol=1e-13 * scale
        )

    @pytest.mark.parametrize("kernel", [RBF(2.0), Laplacian(2.0), Polynomial(3)], ids=repr)
    def test_threads_do_not_change_a_bit(self, kernel: Kernel) -> None:
        X = sample(700, 17, dtype=np.float32)
        one = row_means(kernel, X, block=64, n_jobs=1)
        for n_jobs in (2, 3, -1):
            np.testing.assert_array_equal(row_means(kernel, X, block=64, n_jobs=n_jobs), one)

    def test_each_pair_is_evaluated_once(self) -> None:
        evaluated = []

        class Counting(RBF):
            def __call__(self, A: np.ndarray, B: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
                evaluated.append(len(A) * len(B))
                return super().__call__(A, B, out)

        row_means(Counting(1.0), sample(100), block=10)
        # 45 blocks above the diagonal and 10 on it, 100 values each.
        assert sum(evaluated) == 5500

    def test_a_kernel_that_ignores_out_still_works(self) -> None:
        class Fresh(RBF):
            def __call__(self, A: np.ndarray, B: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
                return super().__call__(A, B)

        X = sample(30)
        np.testing.assert_array_equal(row_means(Fresh(1.0), X, block=8), row_means(RBF(1.0), X, block=8))

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_input_is_not_modified(self, order: str) -> None:
        X = np.array(sample(50), order=order)  # type: ignore[call-overload]
        before = X.copy()
        row_means(RBF(1.0), X, block=16)
        np.testing.assert_array_equal(X, before)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"A": [[np.nan]]}, "A contains NaN"),
            ({"A": [[1.0]], "B": [[1.0, 2.0]]}, "1 columns and B has 2"),
            ({"A": [[1.0]], "weights": [1.0, 2.0]}, "weights"),
            ({"A": [[1.0]], "weights": [-1.0]}, "weights"),
            ({"A": [[1.0]], "block": 0}, "block=0"),
        ],
    )
    def test_errors(self, arguments: dict[str, object], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            row_means(RBF(1.0), **arguments)  # type: ignore[arg-type]

    @pytest.mark.filterwarnings("ignore:overflow")
    def test_overflow_is_an_error(self) -> None:
        with pytest.raises(InvalidInputError, match="overflows"):
            row_means(Polynomial(degree=10), [[1e20], [2e20]])
