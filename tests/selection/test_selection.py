"""The result everything returns: its views, its prefixes, and its files."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmmatch as gm
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError

LABELS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=5),
    st.sampled_from(["a\x00", "", "null", "1", "ночь"]),
)  # fmt: skip
IDS = st.sampled_from([st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)])


@st.composite
def selections(draw):
    """Selections drawn at random: rows picked twice, classes without picks, NaN among residuals."""
    classes = draw(st.lists(LABELS, min_size=1, max_size=4, unique_by=lambda label: (type(label), label)))
    size = draw(st.integers(0, 12))
    order = draw(st.lists(st.integers(0, 19), min_size=size, max_size=size))
    ids = draw(st.none() | st.lists(draw(IDS), min_size=size, max_size=size))
    return gm.Selection(
        order, 20, classes=classes, group_of_pick=[row % len(classes) for row in order],
        group_sizes=[20] * len(classes), ids=ids,
        residuals=draw(st.lists(st.floats(allow_infinity=False), min_size=size, max_size=size)),
        provenance=draw(st.dictionaries(st.text(max_size=3), st.lists(st.floats() | st.text(max_size=3)))),
    )  # fmt: skip


def test_the_views_of_a_worked_example(pets):
    assert pets.order.tolist() == [7, 8, 1, 0, 3]
    assert pets.indices.tolist() == list(pets) == [0, 1, 3, 7, 8]
    assert pets.ids.tolist() == ["id0", "id1", "id3", "id7", "id8"]
    assert pets.labels.tolist() == ["dog", "cat", "cat", "cat", "dog"]
    assert np.flatnonzero(pets.mask).tolist() == [0, 1, 3, 7, 8]
    assert pets.counts == {"cat": 3, "dog": 2}
    assert pets.residual == {"cat": 0.012, "dog": 0.034}
    assert pets.residual_path["dog"].tolist() == [0.7, 0.034]
    assert pets.k == len(pets) == 5


def test_repr_is_one_short_line(pets):
    assert repr(pets) == "Selection: 5 of 10 rows by gm-matching, 2 classes, residual 0.012 to 0.034"
    assert repr(gm.Selection(range(1000), n_rows=20_000)) == "Selection: 1,000 of 20,000 rows"
    assert repr(gm.Selection([1, 1], n_rows=5)) == "Selection: 2 picks (1 distinct) of 5 rows"
    assert "dog: 2 of 4, residual 0.034" in pets.describe()
    assert "<td>dog</td><td>2</td><td>4</td>" in pets._repr_html_()


def test_repeated_picks_are_kept():
    twice = gm.Selection([4, 2, 4], n_rows=5, ids=["e", "c", "e"])
    assert twice.indices.tolist() == [2, 4, 4]
    assert twice.ids.tolist() == ["c", "e", "e"]
    assert twice.mask.sum() == 2
    assert twice.apply(list("abcde")) == ["c", "e", "e"]
    assert twice.apply(list("abcde"), order=True) == ["e", "c", "e"]


def test_nothing_can_be_changed(pets):
    with pytest.raises(dataclasses.FrozenInstanceError):
        pets.n_rows = 3
    for twin in (pets, pickle.loads(pickle.dumps(pets)), copy.deepcopy(pets)):
        assert twin == pets
        for array in (twin.order, twin.order_ids, twin.residuals):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = array[1]
    order, steps = np.array([2, 1]), [1]
    selection = gm.Selection(order, 3, provenance={"steps": steps})
    order[0], steps[0] = 0, 2
    assert selection.order.tolist() == [2, 1] and selection.provenance == {"steps": [1]}


def test_equality_is_by_content(pets):
    def changed(**values):
        return pets.change(slice(None), **values)

    assert changed() == pets
    assert changed(ids=None) != pets
    assert changed(provenance={}) != pets
    assert changed(weights=np.ones(5)) != pets
    assert pets != "something else"
    assert gm.Selection([0], 1, classes=[1]) != gm.Selection([0], 1, classes=[True])


def test_provenance_becomes_what_json_can_hold():
    given_values = {"seed": np.int64(3), "shape": (2, 3), "quota": {1: 0.5}, "limit": np.inf, "w": np.ones(2)}
    kept = gm.Selection([0], 1, provenance=given_values).provenance
    assert kept == {"seed": 3, "shape": [2, 3], "quota": {"1": 0.5}, "limit": "inf", "w": [1.0, 1.0]}
    with pytest.raises(InvalidTypeError, match=r"provenance\['made'\]\['by'\] has type object"):
        gm.Selection([0], 1, provenance={"made": {"by": object()}})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": [5]}, "order holds 5, of 5 rows"),
        ({"order": [-1]}, "order holds -1"),
        ({"order": [0.5]}, "order needs whole numbers"),
        ({"order": [[0]]}, r"shape \(1, 1\)"),
        ({"order": [0], "ids": ["a", "b"]}, "ids has 2 entries for 1 picks"),
        ({"order": [0], "ids": [1.5]}, "give integers or strings"),
        ({"order": [0], "group_of_pick": [1]}, "group_of_pick holds 1, of 1 classes"),
        ({"order": [0], "residuals": [0.1, 0.2]}, r"residuals has shape \(2,\): expected \(1,\)"),
        ({"order": [0], "weights": [-1.0]}, "weights must be finite and at least 0"),
    ],
)
def test_contradictions_are_refused(arguments, message):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        gm.Selection(n_rows=5, **arguments)


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_every_prefix_is_close_to_proportional(sizes):
    y = np.repeat(np.arange(len(sizes)), sizes)
    order = gm.Random(k="100%", random_state=0).select(np.zeros((len(y), 1)), y).order
    for label, size in enumerate(sizes):
        bound = Fraction(1, 2) + Fraction((len(sizes) - 2) * size, 2 * len(y)) if len(sizes) > 1 else 0
        for t, count in enumerate(np.cumsum(y[order] == label).tolist(), start=1):
            assert abs(count - Fraction(t * size, len(y))) <= bound


@given(selections().filter(len), st.data())
def test_a_prefix_is_the_first_picks(selection, data):
    k = data.draw(st.integers(1, selection.k))
    short = selection.prefix(k)
    assert short.order.tolist() == selection.order[:k].tolist()
    assert short.provenance == {**selection.provenance, "prefix": k}
    for label, residuals in short.residual_path.items():
        np.testing.assert_array_equal(residuals, selection.residual_path[label][: len(residuals)])


def test_prefix_takes_any_budget(pets):
    assert pets.prefix("60%").order.tolist() == pets.prefix(0.6).order.tolist() == [7, 8, 1]
    assert pets.prefix(2).residual == {"cat": 0.9, "dog": 0.7}
    with pytest.raises(InvalidInputError, match=r"k=6 exceeds the number of picks \(5\)"):
        pets.prefix(6)
    with pytest.raises(InvalidInputError, match="empty"):
        gm.Selection([], n_rows=3).prefix(1)


# ----------------------------------------------------------------------------------------------- files


@settings(max_examples=60, deadline=None)
@given(selections())
def test_saving_and_loading_is_exact(selection):
    with tempfile.TemporaryDirectory() as folder:
        selection.save(Path(folder, "picks.parquet"))
        assert gm.Selection.load(Path(folder, "picks.parquet")) == selection


def test_parquet_and_csv_are_tables_that_other_tools_can_read(pets, tmp_path):
    expected = {
        "row": [7, 8, 1, 0, 3],
        "group": ["cat", "dog", "cat", "dog", "cat"],
        "id": ["id7", "id8", "id1", "id0", "id3"],
        "residual": [0.9, 0.7, 0.5, 0.034, 0.012],
    }
    pets.save(tmp_path / "picks.parquet")
    pets.save(str(tmp_path / "picks.csv"))
    assert pd.read_parquet(tmp_path / "picks.parquet").to_dict("list") == expected
    assert pd.read_csv(tmp_path / "picks.csv").to_dict("list") == expected
    assert pets.to_frame().to_dict("list") == expected
    metadata = json.loads(pq.read_schema(tmp_path / "picks.parquet").metadata[b"gmmatch"])
    assert metadata["provenance"] == {"method": "gm-matching"}


def test_files_that_are_not_there_or_something_else(pets, tmp_path):
    with pytest.raises(DataFileNotFoundError, match="no such file"):
        gm.Selection.load(tmp_path / "picks.parquet")
    with pytest.raises(DataFileNotFoundError, match=r"folder .* does not exist"):
        pets.save(tmp_path / "missing" / "picks.parquet")
    with pytest.raises(InvalidInputError, match=r"use \.parquet or \.csv"):
        pets.save(tmp_path / "picks.json")
    pets.save(tmp_path / "picks.csv")
    with pytest.raises(InvalidInputError, match=r"is read from \.parquet"):
        gm.Selection.load(tmp_path / "picks.csv")
    path = tmp_path / "picks.parquet"
    for write in (
        lambda: pq.write_table(pa.table({"row": [1]}), path),
        lambda: path.write_bytes(pickle.dumps([1])),
        lambda: path.write_bytes(b""),
        lambda: pq.write_table(pa.table({"row": [1]}).replace_schema_metadata({b"gmmatch": b"{"}), path),
    ):
        write()
        with pytest.raises(InvalidInputError, match="not a gmmatch selection, or is truncated or damaged"):
            gm.Selection.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 99}, "newer gmmatch .*upgrade"),
        ({"format_version": "1"}, "format_version is '1'"),
        ({"format": "other"}, "does not say format"),
        ({"n_rows": 3}, "order holds 7"),
        ({"provenance": []}, "provenance"),
        ({"groups": []}, "damaged"),
    ],
)
def test_the_header_of_a_file_is_checked(pets, tmp_path, change, message):
    path = tmp_path / "picks.parquet"
    pets.save(path)
    table = pq.read_table(path)
    header = {**json.loads(table.schema.metadata[b"gmmatch"]), **change}
    pq.write_table(table.replace_schema_metadata({b"gmmatch": json.dumps(header).encode()}), path)
    with pytest.raises(InvalidInputError, match=message):
        gm.Selection.load(path)
