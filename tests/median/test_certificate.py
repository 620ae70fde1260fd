"""The certified gap is never below the true one, and it does become small."""

from __future__ import annotations

import warnings

import mpmath
import numpy as np
import pytest
from shapes import SHAPES, make

from gmmatch import geometric_median
from gmmatch.errors import ConvergenceWarning

Long = np.longdouble


def objective(point, rows, weights):
    """ρ in extended precision (64-bit mantissa)."""
    rows, point = rows.astype(Long), np.asarray(point, dtype=Long)
    return (weights.astype(Long) * np.sqrt(((rows - point) ** 2).sum(axis=1))).sum()


def least_objective(rows, weights):
    """The smallest ρ, by Weiszfeld's iteration in extended precision, or at a row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        point = geometric_median(rows, sample_weight=weights, eps=1e-13, max_iter=3000).point.astype(Long)
    wide, w = rows.astype(Long), weights.astype(Long)
    best = min(objective(point, rows, weights), min(objective(row, rows, weights) for row in rows))
    for _ in range(60):
        d = np.sqrt(((wide - point) ** 2).sum(axis=1))
        if np.any(d == 0):
            break
        point = ((w / d)[:, None] * wide).sum(axis=0) / (w / d).sum()
        best = min(best, objective(point, rows, weights))
    return best


def stopped_early(rows, weights, passes, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return geometric_median(rows, sample_weight=weights, eps=0.0, max_iter=passes, **options)


@pytest.mark.grid
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("n", "s"), [(1, 2), (2, 3), (7, 2), (40, 2), (41, 3), (60, 20), (60, 200), (300, 5)]
)
def test_gap_never_lies_and_reaches_a_millionth(shape, n, s):
    rows, weights = make(shape, n, s, seed=n + s)
    least = least_objective(rows, weights)
    for passes in (1, 2, 3, 5, 8):
        for accelerate in (True, False):
            result = stopped_early(rows, weights, passes, accelerate=accelerate)
            true_gap = objective(result.point, rows, weights) / least - 1 if least > 0 else Long(0)
            assert true_gap <= result.gap
    final = geometric_median(rows, sample_weight=weights, eps=1e-6)
    assert final.converged
    assert final.gap <= 1e-6
    assert objective(final.point, rows, weights) <= (1 + Long(final.gap)) * least


@pytest.mark.parametrize("shape", ["gaussian", "collinear", "duplicates", "median is a row", "heavy tails"])
def test_gap_against_fifty_digits(shape):
    """The same, against Weiszfeld's iteration with 50 digits, where no rounding can hide a lie."""
    rows, weights = make(shape, 9, 2, seed=4)
    with mpmath.workdps(50):
        exact = [[mpmath.mpf(float(value)) for value in row] for row in rows]
        w = [mpmath.mpf(float(value)) for value in weights]

        def rho(point):
            return mpmath.fsum(
                wi * mpmath.sqrt(mpmath.fsum((a - b) ** 2 for a, b in zip(row, point, strict=True)))
                for wi, row in zip(w, exact, strict=True)
            )

        point = [mpmath.mpf(float(value)) for value in geometric_median(rows, sample_weight=weights).point]
        best = min([rho(point)] + [rho(row) for row in exact])
        for _ in range(400):
            d = [
                mpmath.sqrt(mpmath.fsum((a - b) ** 2 for a, b in zip(row, point, strict=True)))
                for row in exact
            ]
            if any(value == 0 for value in d):
                break
            total = mpmath.fsum(wi / di for wi, di in zip(w, d, strict=True))
            point = [
                mpmath.fsum(wi * row[j] / di for wi, row, di in zip(w, exact, d, strict=True)) / total
                for j in range(2)
            ]
        best = min(best, rho(point))
        for passes in (1, 2, 4, 50):
            result = stopped_early(rows, weights, passes)
            true_gap = rho([mpmath.mpf(float(value)) for value in result.point]) / best - 1
            assert true_gap <= mpmath.mpf(result.gap)


@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize("delta", [1e-3, 0.1, 2.0])
@pytest.mark.parametrize("shape", ["gaussian", "duplicates", "one repeated row", "heavy tails"])
def test_delta_gives_the_smoothed_median_and_a_gap_that_counts_it(shape, delta, accelerate):
    """A row near the smoothed median is none, and the pull that δ has weakened proves less than it seems."""
    for n in (9, 40):
        rows, weights = make(shape, n, 2, seed=n)
        result = geometric_median(rows, delta=delta, accelerate=accelerate)
        pull = weights / (np.linalg.norm(rows - result.point, axis=1) + delta)
        assert result.point == pytest.approx(pull @ rows / pull.sum(), abs=1e-6)
        assert result.converged
        least = least_objective(rows, weights)
        assert objective(result.point, rows, weights) <= (1 + Long(result.gap)) * least


@pytest.mark.filterwarnings("ignore::gmmatch.errors.ConvergenceWarning")  # the plain iteration may not arrive
def test_acceleration_needs_fewer_passes_for_the_same_certificate():
    fast = slow = 0
    for number, shape in enumerate(SHAPES):
        rows, weights = make(shape, 400, 4, seed=number)
        quick = geometric_median(rows, sample_weight=weights)
        assert quick.converged
        fast += quick.iterations
        slow += geometric_median(rows, sample_weight=weights, accelerate=False).iterations
    assert fast < 0.5 * slow


def test_gap_counts_the_weight_of_rows_at_the_point():
    """At a row that is the median the plain gradient does not vanish; the certificate must."""
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.1], [0.0, 2.0]])
    result = geometric_median(rows, sample_weight=[3.0, 1.0, 1.0, 1.0])
    assert np.array_equal(result.point, [0.0, 0.0])
    assert result.gap < 1e-12


def test_a_median_very_close_to_a_row_is_reached():
    """Weiszfeld's iteration sticks near the row: its parabola is as steep as the row is close."""
    rows, weights = make("flat", 40, 2, seed=42)
    with pytest.warns(ConvergenceWarning):
        stuck = geometric_median(rows, sample_weight=weights, accelerate=False)
    result = geometric_median(rows, sample_weight=weights)
    assert result.gap <= 1e-8 < stuck.gap
    assert result.iterations < 60


def test_rows_at_equal_distance_are_not_taken_for_copies():
    """Four corners are equally near to the centre; none of them weighs more than itself."""
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert geometric_median(square).point == pytest.approx([0.5, 0.5], abs=1e-7)
    start = geometric_median(np.vstack([square, [[0.5, 3.0]]]), init=[0.5, 0.5])
    assert start.converged
    assert 0.5 < start.point[1] < 1.0
