"""What k means, how it is shared among classes, and how labels make classes."""

from __future__ import annotations

import enum
import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmmatch.budget import group_rows, largest_remainder, plain_label, quotas, resolve_count
from gmmatch.errors import GMMatchError, InvalidInputError, InvalidTypeError, UnlabeledRowsWarning

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


def test_messages_name_the_argument_and_the_remedy():
    with pytest.raises(InvalidInputError, match=r"k=500\.0: write k=500 for a count or a fraction between"):
        resolve_count(500.0, 1000)
    with pytest.raises(InvalidInputError, match=r"batch=20 is more than .* 1 to 10"):
        resolve_count(20, 10, name="batch")
    with pytest.raises(InvalidInputError, match="X has no rows"):
        resolve_count(5, 0)


def test_replacement_allows_more_picks_than_rows():
    assert resolve_count(20, 10, replacement=True) == 20


# ----------------------------------------------------------------------------------- largest_remainder


def test_worked_remainders():
    # Exact parts 4.1, 3.3, 2.6: the one left over goes to the largest remainder.
    assert largest_remainder(10, [41, 33, 26]).tolist() == [4, 3, 3]
    # A tie among all three goes to the lowest position.
    assert largest_remainder(4, [1, 1, 1]).tolist() == [2, 1, 1]
    # A tie that float arithmetic would break: thirds of 0.1 and their like.
    assert largest_remainder(10, [0.1] * 3).tolist() == [4, 3, 3]
    assert largest_remainder(2, [0, 5, 0]).tolist() == [0, 2, 0]
    assert largest_remainder(3, [0, 0]).tolist() == [2, 1]
    assert largest_remainder(0, []).tolist() == []


@given(
    k=st.integers(0, 10**6),
    shares=st.one_of(
        st.lists(st.integers(0, 10**12), min_size=1, max_size=30),
        st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=1, max_size=30),
    ).filter(any),
)
def test_quotas_sum_to_k_and_are_within_one_of_proportional(k, shares):
    result = largest_remainder(k, shares)
    total = sum(map(Fraction, shares))
    assert result.dtype == np.int64
    assert result.sum() == k
    for quota, share in zip(result.tolist(), shares, strict=True):
        assert abs(quota - k * Fraction(share) / total) < 1
        assert quota == 0 or share > 0


@pytest.mark.parametrize("shares", [[-1, 2], [np.nan], [np.inf, 1.0], [[1, 2]], ["a"]])
def test_impossible_shares_are_refused(shares):
    with pytest.raises(InvalidInputError, match="shares"):
        largest_remainder(3, shares)


def test_nothing_to_share_among_is_refused():
    with pytest.raises(InvalidInputError, match="0 shares"):
        largest_remainder(3, [])


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


@pytest.mark.parametrize(
    ("k", "per_class", "message"),
    [
        (5, {"cow": 5}, "names 'cow'.*classes are 'cat', 'dog', 'eel'"),
        (9, {"cat": 5, "dog": 5}, "k=9 disagrees.*sums to 10"),
        (None, {"cat": -5}, r"per_class\['cat'\]=-5"),
        (None, "balanced", "count such as 500"),
        (5, "even", "per_class='even'.*'proportional', 'balanced'"),
        (90, "balanced", "class 'eel' has 20 rows.*quota is 30.*lower k.*proportional.*replacement=True"),
        (None, {"dog": 31}, "class 'dog' has 30 rows to pick from but its quota is 31"),
        (101, "proportional", "more than there are rows"),
    ],
)
def test_unusable_budgets_say_why(k, per_class, message):
    with pytest.raises(GMMatchError, match=message):
        quotas(k, CATS_AND_DOGS, [50, 30, 20], per_class)


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


# ------------------------------------------------------------------------------------------ group_rows


def as_dict(groups):
    return {group.label: group.rows.tolist() for group in groups}


@pytest.mark.parametrize(("y", "per_class"), [(None, "proportional"), ([1, 0, 1], None)])
def test_without_labels_all_rows_are_one_group(y, per_class):
    assert as_dict(group_rows(y, n=3, per_class=per_class)) == {None: [0, 1, 2]}


@given(st.lists(st.one_of(st.integers(0, 5)), min_size=1, max_size=50))
def test_groups_partition_the_rows_by_label(y):
    groups = group_rows(np.array(y), n=len(y))
    assert [group.label for group in groups] == sorted(set(y))
    for group in groups:
        assert group.rows.tolist() == [row for row, label in enumerate(y) if label == group.label]
        assert group.rows.dtype == np.int64


class Colour(str, enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([10, 9, 10], {9: [1], 10: [0, 2]}),  # numbers in numerical order
        (["10", "9", "10"], {"10": [0, 2], "9": [1]}),  # strings in alphabetical order
        (np.array(["b", "a", "b"]), {"a": [1], "b": [0, 2]}),
        (np.array([b"b", b"a", b"b"]), {"a": [1], "b": [0, 2]}),
        (np.array([True, False, True]), {False: [1], True: [0, 2]}),
        (np.array([0.5, -2.0, 0.5]), {-2.0: [1], 0.5: [0, 2]}),
        (np.array([2, 1, 2], dtype=np.uint8), {1: [1], 2: [0, 2]}),
        (np.array([[2], [1], [2]]), {1: [1], 2: [0, 2]}),
        ([[2], [1], [2]], {1: [1], 2: [0, 2]}),
        (["b", 3, "b"], {3: [1], "b": [0, 2]}),  # a mixture in the order of its texts
        ([np.int64(2), 1, 2], {1: [1], 2: [0, 2]}),
        ((2, 1, 2), {1: [1], 2: [0, 2]}),
        ([Colour.RED, "blue", "red"], {"blue": [1], "red": [0, 2]}),
        (pd.Series(["b", "a", "b"], index=[7, 7, 8]), {"a": [1], "b": [0, 2]}),
        (pd.Categorical(["b", "a", "b"], categories=["b", "a", "unused"]), {"a": [1], "b": [0, 2]}),
        (pd.Series([2, 1, 2], dtype="Int64"), {1: [1], 2: [0, 2]}),
        (pd.DataFrame({"y": [2, 1, 2]}), {1: [1], 2: [0, 2]}),
        (pa.array(["b", "a", "b"]), {"a": [1], "b": [0, 2]}),
    ],
)
def test_labels_come_in_many_forms(y, expected):
    groups = group_rows(y, n=3)
    assert as_dict(groups) == expected
    assert [group.label for group in groups] == list(expected)
    assert [type(group.label) for group in groups] == [type(label) for label in expected]
    assert json.loads(json.dumps([group.label for group in groups])) == list(expected)


def test_torch_labels():
    torch = pytest.importorskip("torch")
    expected = {1: [1], 2: [0, 2]}
    assert as_dict(group_rows(torch.tensor([2, 1, 2]), n=3)) == expected
    assert as_dict(group_rows([torch.tensor(2), torch.tensor(1), torch.tensor(2)], n=3)) == expected
    halves = torch.tensor([2.0, 1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)
    assert as_dict(group_rows(halves, n=3)) == expected


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, -1, 2, 0, -1], {0: [0, 3], 2: [2], None: [1, 4]}),
        (np.array([0, -1, 2, 0, -1], dtype=np.int8), {0: [0, 3], 2: [2], None: [1, 4]}),
        (["a", None, "b", "a", float("nan")], {"a": [0, 3], "b": [2], None: [1, 4]}),
        (["a", -1, "b", "a", None], {"a": [0, 3], "b": [2], None: [1, 4]}),
        (np.array([0.5, np.nan, 2.5, 0.5, np.nan]), {0.5: [0, 3], 2.5: [2], None: [1, 4]}),
        (np.ma.masked_equal([0, 9, 2, 0, 9], 9), {0: [0, 3], 2: [2], None: [1, 4]}),
        (pd.Series([0, None, 2, 0, -1], dtype="Int64"), {0: [0, 3], 2: [2], None: [1, 4]}),
        (pd.Categorical(["a", None, "b", "a", None]), {"a": [0, 3], "b": [2], None: [1, 4]}),
        ([0, pd.NA, 2, 0, pd.NaT], {0: [0, 3], 2: [2], None: [1, 4]}),
    ],
)
def test_rows_without_a_label_form_no_class(y, expected):
    kept = group_rows(y, n=5, unlabeled="group")
    assert as_dict(kept) == expected
    assert kept[-1].label is None
    with pytest.warns(UnlabeledRowsWarning, match="2 of 5 rows .* in rows 1, 4; unlabeled='group'"):
        dropped = group_rows(y, n=5)
    assert as_dict(dropped) == {label: rows for label, rows in expected.items() if label is not None}


def test_minus_one_is_a_class_where_it_cannot_mean_unlabeled():
    assert as_dict(group_rows([1, -1, 1], n=3)) == {-1: [1], 1: [0, 2]}
    assert as_dict(group_rows(["1", "-1", "1"], n=3)) == {"-1": [1], "1": [0, 2]}
    assert as_dict(group_rows([0.5, -1.0, 0.5], n=3)) == {-1.0: [1], 0.5: [0, 2]}
    assert as_dict(group_rows([1, -1, None], n=3, unlabeled="group")) == {-1: [1], 1: [0], None: [2]}


@pytest.mark.parametrize("y", [[None, None], [-1, -1], [float("nan"), None]])
def test_no_label_at_all(y):
    with pytest.raises(InvalidInputError, match=r"no label for any row.*y=None or unlabeled='group'"):
        group_rows(y, n=2)
    assert as_dict(group_rows(y, n=2, unlabeled="group")) == {None: [0, 1]}


def test_one_row():
    assert as_dict(group_rows(["a"], n=1)) == {"a": [0]}


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 2], "y has 2 labels but X has 3 rows"),
        (np.eye(3), r"shape \(3, 3\).*argmax"),
        (np.array(5), r"shape \(\)"),
        (np.array("abc"), r"shape \(\)"),
        (pd.DataFrame({"a": [1, 2, 3], "b": [1, 2, 3]}), r"shape \(3, 2\)"),
        ([[1, 2], [3, 4], [5, 6]], "one label per row"),
        ("abc", "type str"),
        ({"a": 1}, "type dict"),
        (7, "type int"),
        ([{}, {}, {}], "numbers, booleans or strings"),
        ([1j, 2, 3], "label of type complex"),
        (pd.to_datetime(["2020-01-01"] * 3), "label of type Timestamp"),
    ],
)
def test_unusable_labels_say_why(y, message):
    with pytest.raises(GMMatchError, match=message):
        group_rows(y, n=3)


def test_unknown_treatment_of_unlabeled_rows():
    with pytest.raises(InvalidInputError, match="unlabeled='keep': give 'drop' or 'group'"):
        group_rows([1], n=1, unlabeled="keep")


def test_labels_that_are_not_text_are_still_told_apart():
    assert plain_label(b"\xff") != plain_label(b"\xfe")


def test_many_rows_and_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10_000, 1_000_000)
    groups = group_rows(y.astype(str), n=len(y))
    assert [group.label for group in groups] == sorted(map(str, range(10_000)))
    assert np.array_equal(groups[17].rows, np.flatnonzero(y == int(groups[17].label)))
    assert sum(len(group.rows) for group in groups) == len(y)
