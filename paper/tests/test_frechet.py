"""The Fréchet distance: exact for Gaussians, equal to the textbook's formula, at ease with singular covariances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

from gmmatch.errors import InvalidInputError
from gmmatch_paper.frechet import Moments, frechet_distance, squared_distance


def reference(A: np.ndarray, B: np.ndarray) -> float:
    """The formula as the paper prints it, with the square root of the product of covariances."""
    first, second = np.cov(A, rowvar=False), np.cov(B, rowvar=False)
    gap = A.mean(axis=0) - B.mean(axis=0)
    return float(gap @ gap + np.trace(first + second - 2.0 * np.real(sqrtm(first @ second))))


def features(seed: int, n: int = 400, width: int = 24) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.standard_normal((n, width)) @ random.standard_normal(
        (width, width)
    ) + random.standard_normal(width)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_formula_of_the_paper(seed: int) -> None:
    A, B = features(seed), features(seed + 100)
    assert frechet_distance(A, B) == pytest.approx(reference(A, B), rel=1e-9, abs=1e-4)


def test_gaussians_that_share_their_axes_have_the_distance_of_their_means_and_deviations() -> None:
    random = np.random.default_rng(0)
    axes = np.linalg.qr(random.standard_normal((6, 6)))[0]
    means, deviations = random.standard_normal((2, 6)), random.uniform(0.1, 3.0, (2, 6))
    both = [
        Moments(mean, axes @ np.diag(deviation**2) @ axes.T, 100)
        for mean, deviation in zip(means, deviations, strict=True)
    ]
    expected = np.sum((means[0] - means[1]) ** 2) + np.sum((deviations[0] - deviations[1]) ** 2)
    assert squared_distance(*both) == pytest.approx(expected, rel=1e-12)


def test_fewer_rows_than_columns_are_no_trouble() -> None:
    wide = np.random.default_rng(1).standard_normal((10, 300))
    assert frechet_distance(wide, wide) == pytest.approx(0.0, abs=1e-10)
    assert frechet_distance(wide, wide + 2.0) == pytest.approx(4.0 * 300, rel=1e-10)
    # The same rows in a space with unused dimensions are as far apart.
    A, B = features(2, width=5), features(3, width=5)
    padded = [np.pad(rows, ((0, 0), (0, 200))) for rows in (A, B)]
    assert frechet_distance(*padded) == pytest.approx(frechet_distance(A, B), rel=1e-9)


def test_it_is_symmetric_and_does_not_depend_on_the_axes() -> None:
    A, B = features(4), features(5)
    turn = np.linalg.qr(np.random.default_rng(6).standard_normal((24, 24)))[0]
    assert frechet_distance(A, B) == pytest.approx(frechet_distance(B, A), rel=1e-12)
    assert frechet_distance(A @ turn, B @ turn) == pytest.approx(frechet_distance(A, B), rel=1e-9)


def test_far_from_zero_the_digits_are_kept() -> None:
    A, B = features(7), features(8)
    assert frechet_distance(A + 1e6, B + 1e6) == pytest.approx(frechet_distance(A, B), rel=1e-6)


@pytest.mark.parametrize(
    ("A", "B", "words"),
    [
        (np.zeros((1, 2)), np.zeros((3, 2)), "two or more"),
        (np.zeros((3, 2)), np.zeros((3, 4)), "2 and 4 columns"),
        (np.array([[np.nan], [1.0]]), np.zeros((3, 1)), "NaN"),
    ],
)
def test_what_cannot_be_compared_is_refused(A: np.ndarray, B: np.ndarray, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        frechet_distance(A, B)
