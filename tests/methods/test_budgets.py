"""How many rows every method picks, of which class, and what happens to rows without a label."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmmatch as gm
from gmmatch.errors import UnlabeledRowsWarning
from tests.methods.conftest import ROW_BASED

X = np.random.default_rng(0).normal(size=(100, 3))
Y = np.repeat(["a", "b", "c", "d"], [50, 30, 19, 1])  # d is a class of one row

every_method = pytest.mark.parametrize("method", ROW_BASED)


def select(method, X=X, y=None, **options):
    return gm.select(X, y=y, method=method, random_state=0, **options)


def assert_valid(selection, k, n=100):
    assert selection.k == k
    assert selection.n_rows == n
    assert len(set(selection.order.tolist())) == k
    assert selection.indices.tolist() == sorted(selection.order.tolist())
    assert np.array_equal(np.flatnonzero(selection.mask), selection.indices)


@pytest.mark.parametrize("method", [method for method in ROW_BASED if method != "random"])
def test_a_class_is_picked_as_if_it_were_alone(method):
    selection = select(method, y=Y, k=20)
    for label in "abc":
        own = selection.order[Y[selection.order] == label]
        alone = select(method, X[label == Y], k=len(own))
        assert np.array_equal(np.flatnonzero(label == Y)[alone.order], own)


@every_method
def test_ignoring_the_labels_is_having_none(method):
    assert np.array_equal(select(method, y=Y, k=15, per_class=None).order, select(method, y=None, k=15).order)


@every_method
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_quotas_sum_to_k_whatever_the_classes(method, data):
    y = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=40))
    k = data.draw(st.integers(1, len(y)))
    selection = select(method, X[: len(y)], y=y, k=k)
    assert_valid(selection, k, n=len(y))
    for label, count in selection.counts.items():
        share = k * y.count(label) / len(y)
        assert share - 1 < count < share + 1


# --------------------------------------------------------------------------- rows without a label


@every_method
@pytest.mark.parametrize("missing", [None, float("nan"), -1])
def test_rows_without_a_label_are_left_out(method, missing):
    y = [missing] * 20 + [1] * 50 + [2] * 30
    with pytest.warns(UnlabeledRowsWarning, match="20 of 100 rows have no label"):
        selection = select(method, y=y, k="10%")
    assert selection.counts == {1: 5, 2: 3}  # a tenth of the rows that have a label
    assert selection.indices.min() >= 20
    assert_valid(selection, 8)


@every_method
def test_or_kept_as_a_group_of_their_own(method):
    y = [None] * 20 + ["a"] * 50 + ["b"] * 30
    selection = select(method, y=y, k="10%", unlabeled="group")
    assert selection.counts == {"a": 5, "b": 3, None: 2}
    assert set(selection.order[selection.group_of_pick == 2]) < set(range(20))


@every_method
def test_ids_come_along(method):
    ids = [f"row-{number}" for number in range(100)]
    selection = select(method, y=Y, k=10, ids=ids)
    assert selection.ids.tolist() == [f"row-{row}" for row in selection.indices]
    assert selection.order_ids.tolist() == [f"row-{row}" for row in selection.order]
    numbers = select(method, y=Y, k=10, ids=np.arange(100) + 2**62)
    assert numbers.ids.tolist() == [int(row) + 2**62 for row in numbers.indices]
    assert select(method, y=Y, k=10).ids is None


def noisy_rows():
    """Four classes far apart, a tenth of the labels wrong and one row copied."""
    centers, y = 6.0 * np.eye(4), np.repeat(np.arange(4), 40)
    rows = centers[y] + 0.5 * np.random.default_rng(1).normal(size=(160, 4))
    rows[159] = rows[158]
    y[::10] = (y[::10] + 1) % 4
    return rows, y


@every_method
@pytest.mark.parametrize("per_class", ["proportional", None])
def test_trusted_picks_every_trusted_row_and_no_other(method, per_class):
    rows, y = noisy_rows()
    scores = {"scores": rows[:, 0]} if method == "by-score" else {}
    screening = gm.Screening()
    selection = select(method, rows, y, k="trusted", per_class=per_class, screening=screening, **scores)
    result = selection.screening
    trusted = result.trusted & (result.duplicate_of < 0)
    assert 120 < trusted.sum() < 160
    assert_valid(selection, trusted.sum(), 160)
    assert np.array_equal(selection.mask, trusted)
    kept = gm.rerun(selection, rows, y, k="trusted", **scores, screening=gm.Screening(duplicates="keep"))
    assert np.array_equal(kept.mask, kept.screening.trusted)


def test_trusted_says_what_it_needs():
    with pytest.raises(gm.GMMatchError, match="does not screen"):
        select("easy", k="trusted")
    with pytest.raises(gm.GMMatchError, match="leave out per_class"):
        select("robust", *noisy_rows(), k="trusted", per_class="balanced")


def test_a_count_above_the_trusted_rows_is_announced():
    rows, y = noisy_rows()
    with pytest.warns(gm.errors.GMMatchWarning, match="more rows are asked for than can be trusted"):
        selection = select("robust", rows, y, k=155)
    assert selection.k == 155
