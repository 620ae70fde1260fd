"""Kernels as the selectors use them: exact where it fits, explicit features where not."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from plain_numpy import greedy, kernel_greedy, kernel_median, rbf

import gmmatch as gm
from gmmatch.errors import ApproximationWarning, InvalidInputError

X = np.random.default_rng(0).normal(size=(120, 4))
Y = np.arange(120) % 2

both_targets = pytest.mark.parametrize("target", ["mean", "geometric-median"])


def picks(X=X, y=None, k=30, **options):
    return gm.MomentMatching(k=k, random_state=0, **options).select(X, y).order


@both_targets
def test_the_linear_kernel_in_all_its_disguises(target):
    plain = picks(target=target)
    for kernel in (
        "linear",
        gm.Linear(),
        gm.Polynomial(degree=1, c=0),
        ("polynomial", {"degree": 1, "c": 0}),
    ):
        assert np.array_equal(picks(target=target, kernel=kernel), plain)


@both_targets
def test_a_constant_in_the_kernel_is_one_more_column(target):
    """⟨x, y⟩ + c is the inner product of rows with √c appended."""
    longer = np.hstack([X, np.full((120, 1), np.sqrt(2.0))])
    assert np.array_equal(
        picks(target=target, kernel=gm.Polynomial(degree=1, c=2.0)), picks(longer, target=target)
    )


@both_targets
def test_a_quadratic_kernel_is_the_products_of_columns(target):
    products = (X[:, :, None] * X[:, None, :]).reshape(120, 16)
    assert np.array_equal(
        picks(target=target, kernel=gm.Polynomial(degree=2, c=0.0)), picks(products, target=target)
    )


@both_targets
def test_names_objects_and_pairs_mean_the_same(target):
    named = picks(target=target, kernel="rbf")
    assert np.array_equal(named, picks(target=target, kernel=gm.RBF()))
    assert np.array_equal(named, picks(target=target, kernel=["rbf", {"bandwidth": "median"}]))
    assert not np.array_equal(named, picks(target=target, kernel=gm.RBF(0.1)))
    assert np.array_equal(
        picks(target=target, kernel="laplacian"), picks(target=target, kernel=gm.Laplacian())
    )


@both_targets
def test_weights_in_a_kernels_space(target):
    weights = np.random.default_rng(1).uniform(0.1, 3.0, size=120)
    gram = rbf(X, 1.5)
    coefficients = weights / weights.sum() if target == "mean" else kernel_median(gram, weights)
    ours = gm.MomentMatching(k=30, target=target, kernel=gm.RBF(1.5)).select(X, sample_weight=weights)
    assert np.array_equal(ours.order, kernel_greedy(gram, coefficients, 30))


@both_targets
def test_replacement_in_a_kernels_space(target):
    few = X[:12]
    gram = rbf(few, 1.5)
    coefficients = np.full(12, 1 / 12) if target == "mean" else kernel_median(gram)
    ours = picks(few, k=40, target=target, kernel=gm.RBF(1.5), replacement=True)
    assert np.array_equal(ours, kernel_greedy(gram, coefficients, 40, replacement=True))


def test_the_target_of_unit_length_in_a_kernels_space():
    gram = rbf(X, 1.5)
    coefficients = kernel_median(gram)
    coefficients /= np.sqrt(coefficients @ gram @ coefficients)
    ours = gm.GMMatching(k=30, kernel=gm.RBF(1.5), unit_target=True).select(X)
    assert np.array_equal(ours.order, kernel_greedy(gram, coefficients, 30))


def test_a_part_of_the_rows_for_the_median():
    """The median of any half of the rows is close to that of all, and no half is all."""
    whole = gm.GMMatching(k=60, kernel="rbf").select(X).residual[None]
    for seed in range(3):
        half = gm.GMMatching(k=60, kernel="rbf", median_fraction=0.5, random_state=seed).select(X)
        assert half.residual[None] != whole
        assert half.residual[None] < 3 * whole


# ------------------------------------------------------------------------------------ approximations


@both_targets
@pytest.mark.parametrize("kernel", [gm.RBF(1.5), gm.Laplacian(4.0), gm.Polynomial(degree=2)], ids=str)
def test_all_rows_as_landmarks_give_nearly_the_exact_picks(target, kernel):
    exact = picks(target=target, kernel=kernel)
    features = picks(target=target, kernel=kernel, approximation="nystroem", n_components=120)
    assert np.array_equal(features[:20], exact[:20])
    assert len(set(features) & set(exact)) >= 28


@both_targets
@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
def test_features_match_in_the_space_they_stand_for(target, approximation):
    """Their picks, judged by the exact kernel, come close to those of the exact method."""
    gram = rbf(X, 1.5)
    coefficients = np.full(120, 1 / 120) if target == "mean" else kernel_median(gram)

    def residual(order):
        difference = coefficients.copy()
        difference[order] -= 1.0 / len(order)
        return np.sqrt(difference @ gram @ difference)

    options = {"target": target, "kernel": gm.RBF(1.5), "approximation": approximation}
    few, many = (residual(picks(n_components=count, **options)) for count in (4, 512))
    exact = residual(picks(target=target, kernel=gm.RBF(1.5)))
    drawn = residual(gm.Random(k=30, random_state=0).select(X).order)
    assert exact <= many < 0.6 * drawn
    assert many < few


def test_what_is_recorded_of_an_approximation():
    [details] = (
        gm.KernelHerding(k=10, approximation="fourier", n_components=32).select(X).provenance["groups"]
    )
    assert details["approximation"] == "fourier" and details["n_components"] == 32
    assert details["kernel"] == "rbf" and details["bandwidth"] > 0


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
@pytest.mark.parametrize("n", [1, 2, 61])
def test_the_number_of_features_need_not_be_given(approximation, n):
    order = gm.KernelHerding(k=1, kernel=gm.RBF(1.0), approximation=approximation).select(X[:n]).order
    assert len(order) == 1


def test_a_gram_matrix_that_does_not_fit_is_an_error_where_no_approximation_is_wanted():
    selector = gm.GMMatching(k=10, kernel="rbf", approximation=None, memory_limit=100_000)
    with pytest.raises(
        InvalidInputError, match=r"approximation=None: the Gram matrix of 120 rows.*Raise memory_limit or use"
    ):
        selector.select(X)
    assert selector.set_params(memory_limit=120_000).select(X).k == 10


def test_the_limit_counts_for_each_class_on_its_own():
    limit = 8 * 60 * 60
    assert gm.GMMatching(k=10, kernel="rbf", memory_limit=limit).select(X, Y).k == 10
    with pytest.warns(ApproximationWarning):
        gm.GMMatching(k=10, kernel="rbf", memory_limit=limit).select(X)


def test_large_classes_in_parallel_do_not_wait_for_each_other():
    """Each class has several chunks, whose check once waited for the threads that the classes held."""
    wide = np.random.default_rng(0).normal(size=(2_600, 1_700)).astype(np.float32)
    y = np.arange(2_600) % 2
    selector = gm.KernelHerding(k=4, approximation="nystroem", n_components=4, random_state=0)
    parallel, serial = (selector.set_params(n_jobs=n_jobs).select(wide, y) for n_jobs in (-1, 1))
    assert np.array_equal(parallel.order, serial.order)


# --------------------------------------------------------------------------- options that do not fit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "rfb"}, "kernel='rfb': .*Did you mean 'rbf'"),
        ({"kernel": ("rbf", {"width": 2})}, "kernel 'rbf' has no parameter 'width'; it takes bandwidth"),
        ({"kernel": "rbf", "target": "coordinate-median"}, 'target="coordinate-median" has no meaning .*rbf'),
        ({"kernel": "rbf", "batches": 2, "carry": False}, r"carry=False: .*carry=True or approximation="),
        ({"approximation": "svd"}, "approximation='svd': expected"),
        ({"n_components": 0}, "n_components=0: expected a whole number of at least 1"),
        ({"n_components": 2.5}, "n_components=2.5"),
        ({"memory_limit": -1}, "memory_limit=-1: expected a number of bytes of at least 0"),
        ({"memory_limit": "1GB"}, "memory_limit='1GB': expected a number of bytes"),
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(InvalidInputError, match=message):
        picks(**options)


@pytest.mark.parametrize("kernel", [gm.Polynomial(), "polynomial"])
def test_fourier_features_of_a_kernel_that_has_none(kernel):
    with pytest.raises(TypeError, match="Fourier features exist here for RBF and Laplacian"):
        picks(kernel=kernel, approximation="fourier")


def test_a_kernel_class_in_place_of_an_instance():
    with pytest.raises(TypeError, match=r"kernel=RBF is a class; give an instance: RBF\(\)"):
        picks(kernel=gm.RBF)


def test_an_own_kernel():
    """Anything with the six members of a kernel can be matched in."""

    class Cosine:
        name = "cosine"
        params: ClassVar[dict] = {}
        is_linear = False
        is_translation_invariant = False

        def fit(self, X, random_state=0):
            return self

        def diagonal(self, A):
            return np.ones(len(A))

        def __call__(self, A, B, out=None):
            left, right = (np.asarray(M, dtype=float) for M in (A, B))
            left = left / np.linalg.norm(left, axis=1, keepdims=True)
            right = right / np.linalg.norm(right, axis=1, keepdims=True)
            return np.matmul(left, right.T, out=out)

    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    selection = gm.MomentMatching(k=30, kernel=Cosine()).select(X)
    assert np.array_equal(selection.order, greedy(unit, unit.mean(axis=0), 30))
    assert selection.provenance["parameters"]["kernel"] == ["cosine", {}]
