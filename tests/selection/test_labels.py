"""How labels make groups."""

from __future__ import annotations

import enum
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmmatch.errors import GMMatchError, InvalidInputError, UnlabeledRowsWarning
from gmmatch.groups import Groups, plain_label


def group_rows(y, n, **options):
    return Groups.of(y, n, **options)


def as_dict(groups):
    rows = groups.split(np.ones(len(groups.codes), dtype=bool))
    return {label: own.tolist() for label, own in zip(groups.labels, rows, strict=True)}


def test_without_labels_all_rows_are_one_group():
    assert as_dict(group_rows(None, n=3)) == {None: [0, 1, 2]}


@given(st.lists(st.one_of(st.integers(0, 5)), min_size=1, max_size=50))
def test_groups_partition_the_rows_by_label(y):
    groups = group_rows(np.array(y), n=len(y))
    assert groups.labels == sorted(set(y))
    for label, rows in as_dict(groups).items():
        assert rows == [row for row, other in enumerate(y) if label == other]


class Colour(str, enum.Enum):  # noqa: UP042
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
    assert groups.labels == list(expected)
    assert [type(label) for label in groups.labels] == [type(label) for label in expected]
    assert json.loads(json.dumps(groups.labels)) == list(expected)


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
    assert kept.labels[-1] is None
    with pytest.warns(UnlabeledRowsWarning, match="2 of 5 rows .* in rows 1, 4; a label of their own"):
        dropped = group_rows(y, n=5)
    assert as_dict(dropped) == {label: rows for label, rows in expected.items() if label is not None}


def test_minus_one_is_a_class_where_it_cannot_mean_unlabeled():
    assert as_dict(group_rows([1, -1, 1], n=3)) == {-1: [1], 1: [0, 2]}
    assert as_dict(group_rows(["1", "-1", "1"], n=3)) == {"-1": [1], "1": [0, 2]}
    assert as_dict(group_rows([0.5, -1.0, 0.5], n=3)) == {-1.0: [1], 0.5: [0, 2]}
    assert as_dict(group_rows([1, -1, None], n=3, unlabeled="group")) == {-1: [1], 1: [0], None: [2]}


@pytest.mark.parametrize("y", [[None, None], [-1, -1], [float("nan"), None]])
def test_no_label_at_all(y):
    with pytest.raises(InvalidInputError, match=r"No row has a label.*leave the labels out"):
        group_rows(y, n=2)
    assert as_dict(group_rows(y, n=2, unlabeled="group")) == {None: [0, 1]}


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


def test_labels_that_are_not_text_are_still_told_apart():
    assert plain_label(b"\xff") != plain_label(b"\xfe")


def test_measurements_are_no_classes():
    """Each would be a class of its own, and the first ones would get all picks."""
    prices = np.random.default_rng(0).normal(size=100)
    with pytest.raises(InvalidInputError, match=r"y holds 100 different numbers such as .*per_class=None"):
        group_rows(prices, n=100)
    doses = np.round(prices) / 2  # few different numbers are classes, broken or not
    assert len(group_rows(doses, n=100)) == len(set(doses))
    assert len(group_rows(np.arange(100.0), n=100)) == 100
    with pytest.raises(InvalidInputError, match="y contains infinity"):
        group_rows([1.0, np.inf], n=2)
