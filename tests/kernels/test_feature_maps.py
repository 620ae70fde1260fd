"""Feature maps: inner products of features approach the kernel."""

from __future__ import annotations

import numpy as np
import pytest

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.kernels import feature_maps
from gmmatch.kernels.feature_maps import FourierFeatures, NystroemFeatures
from gmmatch.kernels.kernels import RBF, Kernel, Laplacian, Linear, Polynomial


def sample(n: int = 120, s: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, s))


def rms_error(features: np.ndarray, gram: np.ndarray) -> float:
    return float(np.sqrt(np.mean((features @ features.T - gram) ** 2)))


@pytest.mark.parametrize("kernel", [RBF(2.0), Laplacian(4.0)], ids=repr)
def test_fourier_error_falls_as_the_theory_says(kernel: Kernel) -> None:
    X = sample()
    gram = kernel(X, X)
    errors = {}
    for count in (32, 512, 8192):
        errors[count] = np.sqrt(
            np.mean(
                [
                    rms_error(FourierFeatures(kernel, count, seed, np.float64).fit_transform(X), gram) ** 2
                    for seed in range(5)
                ]
            )
        )
        # Each product's deviation is at most (2D)^(-1/2) with D = count / 2; 1.5 leaves room for chance.
        assert errors[count] < 1.5 / np.sqrt(count)
    # 16 times the features should give a quarter of the error.
    assert errors[512] < errors[32] / 2.5
    assert errors[8192] < errors[512] / 2.5


@pytest.mark.parametrize("kernel", [RBF(2.0), Laplacian(4.0)], ids=repr)
def test_fourier_features_have_length_one(kernel: Kernel) -> None:
    features = FourierFeatures(kernel, 64).fit_transform(sample())
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, rtol=1e-6)


def test_fourier_features_do_not_mind_an_offset() -> None:
    X = sample()
    near = FourierFeatures(RBF(2.0), 256, dtype=np.float64).fit_transform(X)
    far = FourierFeatures(RBF(2.0), 256, dtype=np.float64).fit_transform(X + 1e6)
    # Adding 1e6 rounds the rows themselves to about 1e-10.
    np.testing.assert_allclose(far, near, atol=1e-8)


@pytest.mark.parametrize("kernel", [RBF(2.0), Laplacian(4.0), Polynomial(3), Linear()], ids=repr)
def test_nystroem_with_every_row_reproduces_the_gram_matrix(kernel: Kernel) -> None:
    X = sample()
    gram = kernel(X, X)
    features = NystroemFeatures(kernel, len(X), dtype=np.float64).fit_transform(X)
    np.testing.assert_allclose(features @ features.T, gram, rtol=0, atol=1e-6 * max(1.0, gram.max()))


def test_nystroem_is_exact_between_landmarks() -> None:
    X = sample()
    nystroem = NystroemFeatures(RBF(2.0), 20, dtype=np.float64)
    features = nystroem.fit_transform(X)[nystroem.landmark_indices_]
    landmarks = X[nystroem.landmark_indices_]
    np.testing.assert_allclose(features @ features.T, RBF(2.0)(landmarks, landmarks), atol=1e-8)


def test_nystroem_error_falls_with_more_landmarks() -> None:
    X = sample(400)
    gram = RBF(2.0)(X, X)
    errors = [rms_error(NystroemFeatures(RBF(2.0), count).fit_transform(X), gram) for count in (10, 50, 200)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.01


def test_nystroem_drops_what_duplicates_make_empty() -> None:
    X = np.repeat(sample(6), 5, axis=0)
    features = NystroemFeatures(RBF(2.0), 30, dtype=np.float64).fit_transform(X)
    assert features.shape == (30, 6)
    np.testing.assert_allclose(features @ features.T, RBF(2.0)(X, X), atol=1e-8)


def test_nystroem_linear_kernel_needs_no_more_than_the_columns() -> None:
    assert NystroemFeatures("linear", 50).fit_transform(sample()).shape == (120, 4)


def test_nystroem_keeps_its_own_copy() -> None:
    X = sample()
    fitted = NystroemFeatures(RBF(2.0), len(X)).fit(X)
    new = sample(10, seed=1)
    before = fitted.transform(new)
    X[:] = 0.0
    np.testing.assert_array_equal(fitted.transform(new), before)


MAPS = [FourierFeatures, NystroemFeatures]


@pytest.mark.parametrize("kind", MAPS)
def test_same_seed_same_features(kind: type) -> None:
    X = sample()
    first = kind("rbf", 32, 7).fit_transform(X)
    np.testing.assert_array_equal(first, kind("rbf", 32, 7).fit_transform(X))
    assert not np.array_equal(first, kind("rbf", 32, 8).fit_transform(X))


@pytest.mark.parametrize("kind", MAPS)
def test_median_bandwidth_is_fitted_to_the_rows(kind: type) -> None:
    X = sample()
    assert kind("rbf", 32).fit(X).kernel_ == RBF().fit(X)


@pytest.mark.parametrize("kind", MAPS)
def test_blocks_and_out_give_the_same(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    X = sample().astype(np.float32)
    fitted = kind(RBF(2.0), 32).fit(X)
    whole = fitted.transform(X)
    assert whole.dtype == np.float32
    monkeypatch.setattr(feature_maps, "_BLOCK_ELEMENTS", 500)  # some ten rows a block
    out = np.full(whole.shape, np.nan)
    assert fitted.transform(X, out=out) is out
    np.testing.assert_allclose(out, whole, atol=1e-6)


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_of_the_features(kind: type, dtype: type) -> None:
    assert kind("rbf", 32, dtype=dtype).fit_transform(sample()).dtype == dtype


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: FourierFeatures("rbf", 31).fit(sample()), InvalidInputError, "even"),
        (lambda: FourierFeatures("linear", 32).fit(sample()), InvalidTypeError, "NystroemFeatures"),
        (lambda: NystroemFeatures("rbf", 0).fit(sample()), InvalidInputError, "n_components=0"),
        (lambda: NystroemFeatures("rbf", 5, dtype=np.float16).fit(sample()), InvalidInputError, "float32"),
        (lambda: NystroemFeatures("rbf", 5, tolerance=1.0).fit(sample()), InvalidInputError, "tolerance"),
        (lambda: NystroemFeatures("linear", 5).fit(np.zeros((6, 2))), InvalidInputError, "0 between all"),
        (lambda: NystroemFeatures("rbf", 5).transform(sample()), InvalidInputError, r"fit\(X\)"),
        (
            lambda: FourierFeatures("rbf", 4).fit(sample()).transform(sample(s=3)),
            InvalidInputError,
            "3 columns",
        ),
        (
            lambda: FourierFeatures("rbf", 4).fit(sample()).transform(sample(), out=np.zeros((1, 4))),
            InvalidInputError,
            "out has shape",
        ),
        (lambda: FourierFeatures("rbf", 4).fit([[np.inf], [0.0]]), InvalidInputError, "infinity"),
    ],
)
def test_errors_say_what_is_wrong(make: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()  # type: ignore[operator]
