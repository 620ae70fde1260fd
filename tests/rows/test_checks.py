"""Checks of arguments: what passes, and what the messages say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gmmatch as gm
from gmmatch.errors import GMMatchError, InvalidInputError, InvalidTypeError
from gmmatch.rows import checks
from gmmatch.rows.checks import as_generator, check_finite, check_fraction, check_rows, check_sample_weight
from gmmatch.rows.rows import Rows


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_bad_rows_are_named(dtype, bad):
    X = np.zeros((10, 3), dtype=dtype)
    X[[4, 7, 8], [0, 2, 1]] = bad
    with pytest.raises(
        InvalidInputError, match=r"X contains NaN, infinity.* 3 of 10 rows \(first: 4, 7, 8\)"
    ):
        check_rows(X)


def test_five_bad_rows_are_named_and_the_rest_counted():
    with pytest.raises(InvalidInputError, match=r"9 of 9 rows \(first: 0, 1, 2, 3, 4, \.\.\.\)"):
        check_rows(np.full((9, 1), np.nan))


def test_opposite_infinities_are_found():
    """They add up to NaN, not to infinity; and opposite large numbers add up to nothing."""
    for X in ([[np.inf, -np.inf]], [[1e200, -1e200]]):
        with pytest.raises(InvalidInputError, match="first: 0"):
            check_rows(X)
        with np.errstate(over="ignore"), pytest.raises(InvalidInputError, match="first: 0"):
            check_rows(np.array(X, dtype=np.float32))


def test_bad_rows_beyond_the_first_chunk_are_found():
    X = np.zeros((70_000, 32), dtype=np.float32)
    X[69_999, 31] = np.nan
    assert check_rows(X[:-1]).n_chunks > 1
    with pytest.raises(InvalidInputError, match=r"1 of 70000 rows \(first: 69999\)"):
        check_rows(X)


def test_a_part_of_the_rows_is_judged_by_itself():
    X = np.array([[0.0], [np.nan], [2.0], [np.nan]])
    check_finite(Rows(X, np.array([2, 0])))
    with pytest.raises(InvalidInputError, match=r"1 of 3 rows \(first: 2\)"):
        check_finite(Rows(X, np.array([2, 0, 3])))


def test_it_uses_as_many_threads_as_it_is_given(monkeypatch):
    used = []
    monkeypatch.setattr(checks, "map_in_order", lambda work, count, threads: used.append(threads) or [[]])
    for n_jobs, threads in ((1, 1), (3, 3), (None, 1)):
        gm.Easy(k=1, n_jobs=n_jobs).select(np.eye(3))
        assert used.pop() == threads and not used


def test_the_largest_finite_numbers_of_small_types_are_fine():
    assert len(check_rows(np.full((4, 4), np.finfo(np.float32).max, dtype=np.float32))) == 4
    assert len(check_rows(np.full((4, 4), np.finfo(np.float16).max, dtype=np.float16))) == 4
    assert len(check_rows(np.full((4, 4), np.iinfo(np.int64).max))) == 4


def test_bfloat16():
    torch = pytest.importorskip("torch")
    X = torch.zeros(5, 2, dtype=torch.bfloat16)
    X[3, 1] = float("nan")
    with pytest.raises(InvalidInputError, match=r"1 of 5 rows \(first: 3\)"):
        check_rows(X)


@given(hnp.arrays(np.float64, st.integers(1, 30), elements=st.just(0.0) | st.floats(1e-9, 1e6)))
def test_weights_pass_unchanged(weights):
    if weights.sum() == 0.0:
        with pytest.raises(InvalidInputError, match="sample_weight is zero for every row"):
            check_sample_weight(weights, len(weights))
    else:
        assert np.array_equal(check_sample_weight(weights.tolist(), len(weights)), weights)


def test_weights_that_are_not_given_or_one_number():
    assert check_sample_weight(None, 3).tolist() == [1.0, 1.0, 1.0]
    assert check_sample_weight(2, 3).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -2.0, 1.0], r"sample_weight\[1\] is -2.0; weights must be finite and at least 0"),
        ([1.0, 1.0, np.nan], r"sample_weight\[2\] is nan"),
        ([np.inf, 1.0, 1.0], r"sample_weight\[0\] is inf"),
        ([1.0, 1.0], r"sample_weight must be one number per row: expected shape \(3,\), got \(2,\)"),
        ([[1.0], [1.0], [1.0]], r"expected shape \(3,\), got \(3, 1\)"),
        (["a", "b", "c"], r"sample_weight must be one number per row: could not convert .* 'a'"),
        ([[1.0, 2.0], [3.0]], "sample_weight must be one number per row"),
        (object(), "sample_weight must be one number per row"),
    ],
)
def test_weights_that_cannot_be_used(weights, message):
    with pytest.raises(InvalidInputError, match=message):
        check_sample_weight(weights, 3)


@pytest.mark.parametrize("largest", [1e308, 1e200, 1e-200, 5e-324])
def test_extreme_weights_count_by_their_proportions(largest):
    weights = np.array([1.0, 0.0, 0.5]) * largest
    scaled = check_sample_weight(weights, 3)
    assert 1.0 <= scaled.max() < 2.0
    assert np.array_equal(scaled / scaled.max(), weights / weights.max())


@pytest.mark.parametrize("fraction", [0, -0.1, 1.1, np.nan, "0.5", None])
def test_fractions_lie_between_0_and_1(fraction):
    with pytest.raises(InvalidInputError, match=r"median_fraction=.*above 0 and at most 1"):
        check_fraction(fraction, "median_fraction")
    check_fraction(1, "median_fraction")
    check_fraction(np.float32(0.5), "median_fraction")


def test_seeds():
    assert as_generator(7).integers(10**9) == as_generator(np.int32(7)).integers(10**9)
    own = np.random.default_rng(0)
    assert as_generator(own) is own
    legacy = np.random.RandomState(0)
    assert as_generator(legacy).integers(10**9) != as_generator(legacy).integers(10**9)


def test_the_global_random_state_is_not_touched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    as_generator(None).random()
    as_generator(np.random.RandomState(0)).random()
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_what_is_no_seed():
    with pytest.raises(InvalidInputError, match="random_state=-1: a seed must be at least 0"):
        as_generator(-1)
    with pytest.raises(InvalidTypeError, match="random_state='x': expected an integer"):
        as_generator("x")


def test_errors_are_the_builtins_that_callers_expect():
    assert issubclass(InvalidInputError, GMMatchError) and issubclass(InvalidInputError, ValueError)
    assert issubclass(InvalidTypeError, GMMatchError) and issubclass(InvalidTypeError, TypeError)
