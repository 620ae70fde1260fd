"""The result everything returns: its views and its prefixes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from fractions import Fraction

import numpy as np
import pytest
from drawn import selections
from hypothesis import given
from hypothesis import strategies as st

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.selection.selection import SelectedGroup, Selection, interleave

# ----------------------------------------------------------------------------------------------- views


def test_the_views_of_a_worked_example(pets):
    assert pets.order.tolist() == [7, 8, 1, 0, 3]
    assert pets.indices.tolist() == list(pets) == [0, 1, 3, 7, 8]
    assert pets.ids.tolist() == ["id0", "id1", "id3", "id7", "id8"]
    assert pets.order_ids.tolist() == ["id7", "id8", "id1", "id0", "id3"]
    assert pets.labels.tolist() == ["dog", "cat", "cat", "cat", "dog"]
    assert np.flatnonzero(pets.mask).tolist() == [0, 1, 3, 7, 8]
    assert pets.mask.shape == (10,)
    assert pets.counts == {"cat": 3, "dog": 2}
    assert pets.residual == {"cat": 0.012, "dog": 0.034}
    assert pets.residual_path["dog"].tolist() == [0.7, 0.034]
    assert pets.k == len(pets) == 5


def test_repr_is_one_short_line(pets):
    assert repr(pets) == "Selection: 5 of 10 rows by gm-matching, 2 classes, residual 0.012 to 0.034"
    assert repr(Selection(range(1000), n_rows=20_000)) == "Selection: 1,000 of 20,000 rows"
    assert repr(Selection([1, 1], n_rows=5)) == "Selection: 2 picks (1 distinct) of 5 rows"
    assert "class 'dog': 2 of 4, residual 0.034" in pets.describe()


def test_repeated_picks_are_kept():
    twice = Selection([4, 2, 4], n_rows=5, ids=["e", "c", "e"])
    assert twice.indices.tolist() == [2, 4, 4]
    assert twice.ids.tolist() == ["c", "e", "e"]
    assert twice.mask.sum() == 2
    assert twice.apply(list("abcde")) == ["c", "e", "e"]
    assert twice.apply(list("abcde"), order=True) == ["e", "c", "e"]


def test_without_groups_all_picks_form_one():
    single = Selection([4, 2], n_rows=5)
    assert single.counts == {None: 2}
    assert np.isnan(single.residual[None])
    assert single.labels.tolist() == [None, None]


def test_number_labels_come_back_as_numbers():
    groups = [SelectedGroup(np.int64(3), [0], n_rows=1), SelectedGroup(5, [1], n_rows=1)]
    assert Selection([0, 1], n_rows=2, groups=groups).labels.dtype == np.int64
    assert type(groups[0].label) is int


@given(selections())
def test_views_agree_with_each_other(selection):
    assert sorted(selection.order.tolist()) == selection.indices.tolist()
    assert set(np.flatnonzero(selection.mask).tolist()) == set(selection)
    assert sum(selection.counts.values()) == len(selection.labels) == selection.k
    for row, label in zip(selection.indices.tolist(), selection.labels.tolist(), strict=True):
        assert label == selection.groups[row % len(selection.groups)].label


# ---------------------------------------------------------------------------------------- immutability


def test_nothing_can_be_changed(pets):
    with pytest.raises(dataclasses.FrozenInstanceError):
        pets.n_rows = 3
    for array in (pets.order, pets.indices, pets.order_ids, pets.groups[0].order, pets.groups[0].residuals):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    with pytest.raises(TypeError, match="unhashable"):
        hash(pets)


def test_the_callers_arrays_and_mappings_are_copied():
    order, residuals, provenance = np.array([2, 1]), np.array([0.5, 0.25]), {"steps": [1]}
    selection = Selection(order, 3, [SelectedGroup("a", order, 3, residuals)], provenance=provenance)
    order[0], residuals[0] = 0, 9.0
    provenance["steps"].append(2)
    assert selection.order.tolist() == [2, 1]
    assert selection.groups[0].order.tolist() == [2, 1]
    assert selection.residual_path["a"].tolist() == [0.5, 0.25]
    assert selection.provenance == {"steps": [1]}


def test_copies_are_equal_and_read_only(pets):
    for twin in (pickle.loads(pickle.dumps(pets)), copy.deepcopy(pets)):
        assert twin == pets
        assert not twin.order.flags.writeable
        assert not twin.groups[0].residuals.flags.writeable


def test_equality_is_by_content(pets):
    def changed(**values):
        parts = {"order": pets.order, "n_rows": 10, "groups": pets.groups, "ids": pets.order_ids}
        return Selection(**{**parts, "provenance": pets.provenance, **values})

    assert changed() == pets
    assert changed(n_rows=11) != pets
    assert changed(ids=None) != pets
    assert changed(provenance={}) != pets
    assert changed(order=[8, 7, 1, 0, 3], ids=pets.order_ids) != pets
    assert pets != "something else"
    assert SelectedGroup(1, [0], 1) != SelectedGroup(True, [0], 1)
    assert SelectedGroup(1, [0], 1, [np.nan]) == SelectedGroup(1, [0], 1, [np.nan])


def test_provenance_becomes_what_json_can_hold():
    given_values = {"seed": np.int64(3), "shape": (2, 3), "quota": {1: 0.5}, "limit": np.inf, "w": np.ones(2)}
    kept = Selection([0], 1, provenance=given_values).provenance
    assert kept == {"seed": 3, "shape": [2, 3], "quota": {"1": 0.5}, "limit": "inf", "w": [1.0, 1.0]}
    with pytest.raises(InvalidTypeError, match=r"provenance\['made'\]\['by'\] has type object"):
        Selection([0], 1, provenance={"made": {"by": object()}})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": [5], "n_rows": 5}, "names row 5, but n_rows=5"),
        ({"order": [-1], "n_rows": 5}, "row -1"),
        ({"order": [0.5], "n_rows": 5}, "row numbers"),
        ({"order": [[0]], "n_rows": 5}, "one-dimensional"),
        ({"order": [0], "n_rows": "5"}, "n_rows='5'"),
        ({"order": [0], "n_rows": 5, "ids": ["a", "b"]}, "ids has 2 entries for 1 picks"),
        ({"order": [0], "n_rows": 5, "ids": [1.5]}, "all integers"),
        ({"order": [0], "n_rows": 5, "ids": "a"}, "ids has type str"),
        ({"order": [0], "n_rows": 5, "groups": [SelectedGroup("a", [1], 5)]}, "same rows"),
        ({"order": [0, 0], "n_rows": 5, "groups": [SelectedGroup("a", [0], 5)]}, "same rows"),
        ({"order": [1, 0], "n_rows": 5, "groups": [SelectedGroup("a", [0, 1], 5)]}, "own sequence"),
        ({"order": [0, 0], "n_rows": 5, "groups": [SelectedGroup(x, [0], 5) for x in "ab"]}, "share a row"),
        ({"order": [0, 1], "n_rows": 5, "groups": [SelectedGroup(1, [x], 5) for x in (0, 1)]}, "different"),
    ],
)
def test_contradictions_are_refused(arguments, message):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        Selection(**arguments)


def test_contradictory_groups_are_refused():
    with pytest.raises(InvalidInputError, match=r"residuals has shape \(1,\) for 2 picks"):
        SelectedGroup("a", [0, 1], 5, [0.1])
    with pytest.raises(InvalidInputError, match="label=nan"):
        SelectedGroup(float("nan"), [0], 5)


# ------------------------------------------------------------------------------ interleaving, prefixes


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any))
def test_every_prefix_is_close_to_proportional(sizes):
    groups = [SelectedGroup(i, np.arange(size) * len(sizes) + i, 99) for i, size in enumerate(sizes)]
    order = interleave(groups)
    total, present = sum(sizes), sum(size > 0 for size in sizes)
    for i, size in enumerate(sizes):
        assert order[order % len(sizes) == i].tolist() == groups[i].order.tolist()
        bound = Fraction(1, 2) + Fraction((present - 2) * size, 2 * total) if present > 1 else 0
        taken = np.cumsum(order % len(sizes) == i).tolist()
        for t, count in enumerate(taken, start=1):
            assert abs(count - Fraction(t * size, total)) <= bound


@given(size=st.integers(1, 30), n_groups=st.integers(2, 10))
def test_groups_of_equal_size_take_turns(size, n_groups):
    groups = [SelectedGroup(i, np.arange(size) * n_groups + i, 99) for i in range(n_groups)]
    assert interleave(groups).tolist() == list(range(size * n_groups))


def test_the_documented_exception_to_within_one():
    # One group of ten among a hundred of one: those all stand at 1/2, after five picks of the ten.
    groups = [SelectedGroup(0, range(10), 10), *(SelectedGroup(i, [9 + i], 1) for i in range(1, 101))]
    assert interleave(groups)[:5].tolist() == [0, 1, 2, 3, 4]


@given(selections().filter(len), st.data())
def test_a_prefix_is_the_first_picks(selection, data):
    k = data.draw(st.integers(1, selection.k))
    short = selection.prefix(k)
    assert short.order.tolist() == selection.order[:k].tolist()
    assert short.n_rows == selection.n_rows
    assert short.provenance == {**selection.provenance, "prefix": k}
    assert (short.order_ids is None) == (selection.order_ids is None)
    if short.order_ids is not None:
        assert short.order_ids.tolist() == selection.order_ids[:k].tolist()
    for part, whole in zip(short.groups, selection.groups, strict=True):
        size = len(part.order)
        assert part == SelectedGroup(whole.label, whole.order[:size], whole.n_rows, whole.residuals[:size])


def test_prefix_takes_any_budget(pets):
    assert pets.prefix("60%").order.tolist() == pets.prefix(0.6).order.tolist() == [7, 8, 1]
    assert pets.prefix(2).residual == {"cat": 0.9, "dog": 0.7}
    with pytest.raises(InvalidInputError, match=r"k=6 exceeds the number of picks \(5\)"):
        pets.prefix(6)
    with pytest.raises(InvalidInputError, match="empty"):
        Selection([], n_rows=3).prefix(1)
