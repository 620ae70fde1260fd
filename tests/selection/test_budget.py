"""What k means, and how it is shared among classes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmmatch.budget import largest_remainder, resolve_count, share_budget
from gmmatch.errors import InvalidInputError, InvalidTypeError


def quotas(k, labels, sizes, *arguments, **options):
    return share_budget(k, labels, np.array(sizes), *arguments, **options)


def split(k, shares):
    return largest_remainder(k, np.array(shares, dtype=np.int64))


# --------------------------------------------------------------------------------------- resolve_count


@pytest.mark.parametrize(
    ("k", "n", "expected"),
    [
        (500, 1000, 500),
        (1000, 1000, 1000),
        (1, 1000, 1),
        (1.0, 1000, 1000),
        (0.1, 1000, 100),
        ("10%", 1000, 100),
        (" 10 % ", 1000, 100),
        ("100%", 7, 7),
        ("500", 1000, 500),
        ("0.1", 1000, 100),
        ("1", 1000, 1),
        ("1.0", 1000, 1000),
        (np.int32(5), 10, 5),
        (np.float32(0.1), 1000, 100),
        (np.float64(0.5), 10, 5),
        (0.3, 5, 2),  # 1.5 rounds up, although the float 0.3 is a little less than three tenths
        (0.1, 25, 3),  # 2.5 rounds up, where Python's round would go to the even 2
        ("2.5%", 100, 3),
        (0.1, 24, 2),
        (1e-300, 10, 1),
    ],
)
def test_worked_counts(k, n, expected):
    result = resolve_count(k, n)
    assert result == expected
    assert type(result) is int


@given(percent=st.integers(1, 100), n=st.integers(1, 10**9))
def test_a_fraction_rounds_half_up_and_text_means_the_same(percent, n):
    expected = max(1, (2 * percent * n + 100) // 200)
    assert resolve_count(f"{percent}%", n) == expected
    assert resolve_count(percent / 100, n) == expected
    assert 1 <= expected <= n


@pytest.mark.parametrize("k", [0, -1, 0.0, -0.1, "0", "-3", "0%", "-5%", 11, "11", 1.5, "150%", "1e3"])
def test_amounts_out_of_range_are_refused(k):
    with pytest.raises(InvalidInputError, match="k="):
        resolve_count(k, 10)


@pytest.mark.parametrize("k", [float("nan"), float("inf"), "nan", "inf%", "", "%", "ten", "10%%", "1,000"])
def test_what_is_no_amount_is_refused(k):
    with pytest.raises(InvalidInputError, match="fraction"):
        resolve_count(k, 10)


@pytest.mark.parametrize("k", [None, True, np.True_, [5], 5j, np.array([5])])
def test_wrong_types_are_refused(k):
    with pytest.raises(InvalidTypeError, match="count such as 500"):
        resolve_count(k, 10)


def test_replacement_allows_more_picks_than_rows():
    assert resolve_count(20, 10, replacement=True) == 20


# ----------------------------------------------------------------------------------- largest_remainder


def test_worked_remainders():
    # Exact shares 4.1, 3.3, 2.6: what is left over goes to the largest remainder.
    assert split(10, [41, 33, 26]).tolist() == [4, 3, 3]
    # A tie among all three goes to the lowest position.
    assert split(4, [1, 1, 1]).tolist() == [2, 1, 1]
    assert split(2, [0, 5, 0]).tolist() == [0, 2, 0]
    assert split(3, [0, 0]).tolist() == [2, 1]


@given(k=st.integers(0, 10**6), shares=st.lists(st.integers(0, 10**9), min_size=1, max_size=30).filter(any))
def test_quotas_sum_to_k_and_are_within_one_of_proportional(k, shares):
    result = split(k, shares)
    assert result.sum() == k
    for quota, share in zip(result.tolist(), shares, strict=True):
        assert abs(quota - k * Fraction(share) / sum(shares)) < 1
        assert quota == 0 or share > 0


# ---------------------------------------------------------------------------------------------- quotas

CATS_AND_DOGS = ["cat", "dog", "eel"]


@given(sizes=st.lists(st.integers(0, 10**6), min_size=1, max_size=30).filter(any), data=st.data())
def test_proportional_quotas_never_exceed_the_sizes(sizes, data):
    k = data.draw(st.integers(1, sum(sizes)))
    result = quotas(k, list(range(len(sizes))), sizes, "proportional")
    assert result.sum() == k
    assert (result <= np.array(sizes)).all()


@given(k=st.integers(1, 200), groups=st.integers(1, 20))
def test_balanced_quotas_differ_by_at_most_one_and_favour_the_first(k, groups):
    result = quotas(k, list(range(groups)), [200] * groups, "balanced").tolist()
    assert sum(result) == k
    assert max(result) - min(result) <= 1
    assert result == sorted(result, reverse=True)


def test_fractions_are_of_all_rows_unless_in_a_mapping():
    assert quotas(0.1, CATS_AND_DOGS, [50, 30, 20]).tolist() == [5, 3, 2]
    assert quotas("30%", CATS_AND_DOGS, [50, 30, 20], "balanced").tolist() == [10, 10, 10]
    by_class = {"cat": 0.1, "eel": "50%", "dog": 4}
    assert quotas(None, CATS_AND_DOGS, [50, 30, 20], by_class).tolist() == [5, 4, 10]
    assert quotas("19%", CATS_AND_DOGS, [50, 30, 20], by_class).tolist() == [5, 4, 10]


def test_classes_that_a_mapping_leaves_out_get_nothing():
    assert quotas(None, CATS_AND_DOGS, [50, 30, 20], {"dog": 3, "cat": 0, "eel": "0%"}).tolist() == [0, 3, 0]
    assert quotas(None, [0, 1], [5, 5], {np.int64(1): 2}).tolist() == [0, 2]
    with pytest.raises(InvalidInputError, match="no rows at all"):
        quotas(None, CATS_AND_DOGS, [50, 30, 20], {"dog": 0})


def test_replacement_lifts_the_limit_except_for_empty_classes():
    assert quotas(90, CATS_AND_DOGS, [50, 30, 20], "balanced", replacement=True).tolist() == [30] * 3
    assert quotas(300, CATS_AND_DOGS, [50, 30, 20], replacement=True).tolist() == [150, 90, 60]
    assert quotas(None, CATS_AND_DOGS, [50, 30, 20], {"dog": 31}, replacement=True).tolist() == [0, 31, 0]
    for per_class in ("balanced", {"dog": 1}, {"dog": "10%"}):
        with pytest.raises(InvalidInputError, match="class 'dog' has 0 rows"):
            quotas(
                3 if per_class == "balanced" else None,
                CATS_AND_DOGS,
                [50, 0, 20],
                per_class,
                replacement=True,
            )
