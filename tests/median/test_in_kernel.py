"""The geometric median in a kernel's space."""

from __future__ import annotations

import numpy as np
import pytest
from shapes import SHAPES, make

from gmmatch import RBF, Laplacian, Polynomial, geometric_median
from gmmatch.median.in_kernel import kernel_geometric_median


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if not shape.startswith(("far", "very"))])
def test_linear_kernel_gives_the_ordinary_median(shape):
    rows, weights = make(shape, 60, 4, seed=1)
    plain = geometric_median(rows, sample_weight=weights)
    inside = kernel_geometric_median(rows @ rows.T, weights)
    assert inside.converged
    assert inside.objective == pytest.approx(plain.objective, rel=2e-8)
    again = np.linalg.norm(rows - rows.T @ inside.point, axis=1) @ weights
    assert again == pytest.approx(plain.objective, rel=1e-6)


@pytest.mark.parametrize("kernel", [RBF(1.0), Laplacian(2.0), Polynomial(3), Polynomial(10)])
def test_agrees_with_explicit_features(kernel):
    """Factors of the Gram matrix are coordinates; their median is what α must describe."""
    rows = np.random.default_rng(0).standard_normal((50, 3))
    gram = kernel(rows, rows)
    values, vectors = np.linalg.eigh(gram)
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    explicit = geometric_median(features, eps=1e-10)
    inside = kernel_geometric_median(gram, eps=1e-10)
    assert inside.objective == pytest.approx(explicit.objective, rel=1e-8)
    scale = np.linalg.norm(explicit.point)
    assert np.linalg.norm(features.T @ inside.point - explicit.point) < 1e-4 * scale
    assert inside.point.sum() == pytest.approx(1.0)


def test_certificate_holds_at_every_stage():
    rows = np.random.default_rng(0).standard_cauchy((40, 2))
    gram = Polynomial(3)(rows, rows)
    best = kernel_geometric_median(gram, eps=1e-12).objective
    for passes in (1, 2, 3, 5, 9):
        result = kernel_geometric_median(gram, eps=0.0, max_iter=passes)
        assert result.objective <= best * (1.0 + result.gap) * (1.0 + 1e-12)


def test_one_row_and_equal_rows():
    assert kernel_geometric_median(np.array([[4.0]])).point == pytest.approx([1.0])
    result = kernel_geometric_median(np.ones((5, 5)))
    assert result.objective == 0.0
    assert result.gap == 0.0


def test_a_heavy_row_is_the_median_exactly():
    rows = np.random.default_rng(0).standard_normal((10, 2))
    result = kernel_geometric_median(RBF(1.0)(rows, rows), np.array([50.0] + [1.0] * 9))
    assert result.point[0] == pytest.approx(1.0)
    assert result.gap < 1e-10
