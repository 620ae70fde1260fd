"""What fuzzing found: each defect as the shortest call that showed it."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.errors import InvalidInputError
from gmmatch.matching.match import match
from gmmatch.matching.reference import reference_picks
from gmmatch.rows.rows import Rows

R = np.random.default_rng(0)
X = R.standard_normal((30, 3))


def test_one_row_was_picked_again_and_again_where_bounds_of_codes_overflowed():
    rows = R.standard_normal((60, 1)) * R.choice([1e-100, 1.0, 1e18, 1e100, 1e148], size=(60, 1))
    target = rows.mean(axis=0)
    picks = match(Rows(rows), target, 50, strategy="coded")
    assert picks.order.tolist() == reference_picks(rows, target, 50).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, bool])
@pytest.mark.parametrize("value", [0, 1])
def test_equal_rows_were_nan_to_the_screening(dtype, value):
    assert gm.select(np.full((60, 3), value, dtype=dtype), k=5, method="robust").k == 5


@pytest.mark.parametrize("size", [1e298, 1e-300])
def test_weights_of_extreme_size_overflowed(size):
    weights = R.random(30)
    expected = gm.select(X, k=9, method="gm-matching", sample_weight=weights).order
    scaled = gm.select(X, k=9, method="gm-matching", sample_weight=weights * 2.0 ** int(np.log2(size))).order
    assert scaled.tolist() == expected.tolist()


def test_a_row_without_a_label_stood_for_its_duplicates():
    rows = np.repeat(np.eye(3), 4, axis=0)
    y = [None, "a", "a", "a"] * 3
    with pytest.warns(gm.errors.UnlabeledRowsWarning):
        picks = gm.select(rows, y=y, k=3, method="easy", duplicates="one")
    assert [y[row] for row in picks.indices] == ["a"] * 3
    assert len(np.unique(rows[picks.indices], axis=0)) == 3


def test_a_budget_beyond_what_duplicates_leave_was_explained_by_labels():
    with pytest.raises(
        InvalidInputError, match=r"k=5 exceeds the number of rows that duplicates='one' leaves \(3\)"
    ):
        gm.select(np.repeat(np.eye(3), 20, axis=0), k=5, method="easy", duplicates="one")


def test_a_class_of_which_no_row_was_left_had_no_mean(recwarn):
    rows = np.array([[1.0], [2.0], [3.0]])  # all of one direction
    picks = gm.select(rows, y=[1, 0, 0], k=1, method="optimization", duplicates="one", random_state=0)
    assert picks.k == 1 and not recwarn.list


def test_a_median_of_equal_rows_weighed_infinitely_much():
    picks = gm.select(np.ones((10, 2)), k=3, method="gm-matching", updatable=True)
    assert np.isfinite(picks.past.masses).all()
    assert picks.update(np.ones((10, 2))).k == 3


def test_weights_of_a_class_were_all_zero_beside_a_reference():
    with pytest.raises(InvalidInputError, match="sample_weight is 0 for every row of class 1"):
        gm.select(
            X, y=np.arange(30) % 2, k=4, method="herding", reference=X[:3], reference_weight=0.5,
            sample_weight=1.0 - np.arange(30) % 2,
        )  # fmt: skip


def test_k_means_overflowed_float32():
    small, large = (gm.select((X * 2.0**e).astype(np.float32), k=9, method="self-supervised", random_state=0)
                    for e in (0, 120))  # fmt: skip
    assert small.order.tolist() == large.order.tolist()


@pytest.mark.parametrize(("dtype", "size"), [(np.float64, 1e149), (np.float32, 1e38), (np.float32, 1e-40)])
def test_phases_of_fourier_features_overflowed_float32(dtype, size, recwarn):
    rows = (X * size).astype(dtype)
    rows[:5] = 0.0
    picks = gm.select(
        rows, k=9, method="kernel-herding", kernel=("rbf", {"bandwidth": 1e-30}), approximation="fourier"
    )
    assert np.isfinite(picks.groups[0].residuals).all() and not recwarn.list


def test_the_inverse_of_a_tiny_bandwidth_was_infinite(recwarn):
    picks = gm.select(X * 1e-311, k=3, method="kernel-herding", kernel="laplacian")
    assert picks.k == 3 and not recwarn.list


def test_values_of_an_unbounded_kernel_overflowed():
    with pytest.raises(
        InvalidInputError, match=r"kernel='polynomial' has the value \de\+\d+ at row \d+, which is too"
    ):
        gm.select(X * 1e18, k=3, method="herding", kernel="polynomial", approximation="nystroem")


@pytest.mark.parametrize(
    "options", [{"preprocess": "center"}, {"preprocess": ["center", "pca:2"]}, {"refine": 1}]
)
def test_differences_overflowed_float32(options, recwarn):
    rows = np.full((20, 2), 3.4e38, dtype=np.float32)
    rows[::3] *= -1
    picks = gm.select(rows, k=5, method="herding", **options)
    assert np.isfinite(picks.groups[0].residuals).all() and not recwarn.list


def test_columns_whose_squares_vanish_were_divided_by_zero():
    picks = gm.select(X * 1e-200, k=3, method="herding", preprocess=["scale"])
    assert np.isfinite(picks.groups[0].residuals).all()


def test_a_ratio_of_a_hundred_digits_was_written_out():
    rows = X.copy()
    rows[0] = 1e120
    with pytest.warns(gm.errors.FarRowWarning, match=r"Row 0 lies \de\+1\d\d times as far"):
        gm.select(rows, k=3, method="gm-matching")


def test_vectors_that_are_no_numbers_gave_a_foreign_error():
    with pytest.raises(gm.errors.InvalidTypeError, match="vectors has type str: expected rows by features"):
        gm.select(X, k=3, method="optimization", vectors="vectors")


def test_a_reference_had_fewer_features_than_rows_on_an_engine():
    y = np.repeat([0, 1], [4, 26])  # the features of a class are at most as many as its rows
    asked = {"method": "kernel-herding", "approximation": "nystroem", "reference": X[:5]}
    assert gm.select(X, y=y, k=6, **asked, engine="local").k == 6


def test_a_mean_had_other_bits_on_an_engine_and_ties_fell_otherwise():
    line = np.arange(30)[:, None] / 30 * R.standard_normal(17)
    for method in ("easy", "moderate", "herding"):
        expected = gm.select(line, k=23, method=method).order.tolist()
        assert gm.select(line, k=23, method=method, engine="local").order.tolist() == expected


@pytest.mark.parametrize("weight", [1.0, 1e300])
def test_points_that_a_median_was_sought_at_overflowed(weight, recwarn):
    rows = np.array([[0.0, 0.0], [1e100, 1e149], [1e150, -1e150]])
    picks = gm.select(rows, k=1, method="gm-matching", eps=0.0, sample_weight=[1.0, 2.5, weight])
    assert picks.k == 1
    assert all(issubclass(one.category, gm.errors.GMMatchWarning) for one in recwarn.list)


def test_a_class_without_picks_and_without_weight_was_divided_by():
    y = np.repeat(np.arange(100), 2)
    weights = np.where(y == 99, 0.0, 1.0)
    picks = gm.select(
        R.standard_normal((200, 1)), y=y, k=1, method="optimization", sample_weight=weights, random_state=0,
        vectors=R.standard_normal((200, 2)),
    )  # fmt: skip
    assert picks.k == 1


def test_columns_whose_variance_vanishes_were_divided_by_zero(recwarn):
    picks = gm.select(X * 3e-162, k=3, method="herding", preprocess=["center", "scale"])
    assert np.isfinite(picks.groups[0].residuals).all() and not recwarn.list


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_reference_in_other_units_overflowed(dtype, recwarn):
    asked = {"k": 3, "method": "herding", "preprocess": ["scale"], "reference": X[:3].astype(dtype)}
    picks = gm.select(X * 1e-160, **asked)
    assert np.isfinite(picks.groups[0].residuals).all()
    assert all(issubclass(one.category, gm.errors.GMMatchWarning) for one in recwarn.list)
