"""Kernels: their Gram matrices, their features, and matching in their spaces."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

import gmmatch as gm
from gmmatch.problem import Problem

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((150, 4))


def test_gram_matrices_are_those_of_scikit_learn():
    A, B = X[:40], X[40:90]
    np.testing.assert_allclose(gm.RBF(1.7).gram(A, B), rbf_kernel(A, B, gamma=0.5 / 1.7**2), atol=1e-12)
    np.testing.assert_allclose(
        gm.Laplacian(1.7).gram(A, B), laplacian_kernel(A, B, gamma=1 / 1.7), atol=1e-12
    )
    expected = polynomial_kernel(A, B, degree=3, gamma=1.0, coef0=0.5)
    np.testing.assert_allclose(gm.Polynomial(3, 0.5).gram(A, B), expected)


def test_gram_matrices_of_far_rows_and_of_any_bandwidth():
    far = X + 1e8
    np.testing.assert_allclose(gm.RBF(1.0).gram(far[:9], far[:9]), gm.RBF(1.0).gram(X[:9], X[:9]), atol=1e-6)
    for bandwidth in (1e-200, 1e200):
        gram = gm.RBF(bandwidth).gram(X[:9], X[:9])
        np.testing.assert_allclose(gram, np.eye(9) if bandwidth < 1 else np.ones((9, 9)), atol=1e-12)


def test_the_median_bandwidth_is_that_within_groups():
    blocks = [X[:70], X[70:] + 100.0]
    pairs = [np.linalg.norm(b[:, None] - b, axis=2)[np.triu_indices(len(b), 1)] for b in blocks]
    assert gm.RBF().fit(blocks).scale == pytest.approx(np.median(np.concatenate(pairs)))
    assert gm.RBF().fit([np.ones((5, 2))]).scale == 1.0
    assert gm.RBF(3.0).fit(blocks).scale == 3.0


@pytest.mark.parametrize("kernel", [gm.RBF(2.0), gm.Laplacian(4.0)])
def test_random_features_have_length_one_and_the_kernel_as_their_product(kernel):
    with gm.open_rows(X) as rows:
        features = gm.RandomFeatures(kernel, 8000).fit(Problem.of(rows, k=1, random_state=0))(X)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0)
    np.testing.assert_allclose(features @ features.T, kernel.gram(X, X), atol=0.08)


def test_nystroem_with_all_rows_is_exact():
    kernel = gm.RBF(2.0)
    with gm.open_rows(X) as rows:
        features = gm.Nystroem(kernel, 150).fit(Problem.of(rows, k=1, random_state=0))(X)
    np.testing.assert_allclose(features @ features.T, kernel.gram(X, X), atol=1e-6)


def test_matching_by_features_of_all_rows_is_matching_by_the_kernel():
    exact = gm.KernelHerding(k=30, kernel=gm.RBF(2.0)).select(X)
    features = gm.KernelHerding(k=30, kernel=gm.Nystroem(gm.RBF(2.0), 150)).select(X)
    assert exact.order.tolist() == features.order.tolist()
    np.testing.assert_allclose(exact.residuals, features.residuals, atol=1e-5)


def test_the_linear_kernel_is_plain_matching():
    """(⟨x, y⟩ + 0)¹ is the inner product itself, for the mean and for the geometric median."""
    for target in (gm.Mean(), gm.GeometricMedian(eps=1e-11)):
        kernel = gm.Matching(k=40, target=target, kernel=gm.Polynomial(1, 0.0)).select(X)
        assert kernel.order.tolist() == gm.Matching(k=40, target=target).select(X).order.tolist()


def test_what_has_no_meaning_in_a_kernel_space_is_refused():
    with pytest.raises(gm.GMMatchError, match=r"give Mean\(\) or GeometricMedian\(\)"):
        gm.KernelHerding(k=3, target=gm.CoordinateMedian()).select(X)
    with pytest.raises(gm.GMMatchError, match="an array has no meaning"):
        gm.KernelHerding(k=3, start=np.zeros(4)).select(X)
    with pytest.raises(gm.GMMatchError, match="is matched at once"):
        gm.KernelHerding(k=3, batches=2).select(X)
    with pytest.raises(gm.GMMatchError, match="overflows"):
        gm.KernelHerding(k=3, kernel=gm.Polynomial(200)).select(X * 1e3)
