"""The result everything returns: its views, its prefixes, what it is applied to, and its files."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError
from gmmatch.selection.selection import SelectedGroup, Selection, interleave

SUFFIXES = [".parquet", ".json", ".npy"]

LABELS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from(["a\x00", "", "null", "1", "\ud800", "ночь"]),
)
IDS = st.sampled_from(
    [
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**64 - 1),
        st.text(max_size=5),
        st.sampled_from(["\x00"]),
    ]
)


@st.composite
def groups_of_picks(draw, labels=LABELS, max_groups=5):
    """Groups that share no row, some with rows picked twice, some without picks or residuals."""
    names = draw(st.lists(labels, min_size=1, max_size=max_groups, unique=True))
    groups = []
    for i, name in enumerate(names):
        own_rows = st.integers(0, 9).map(lambda row, i=i: row * len(names) + i)
        order = draw(st.lists(own_rows, max_size=8))
        width = draw(st.sampled_from([0, len(order)]))
        residuals = draw(st.lists(st.floats(), min_size=width, max_size=width))
        groups.append(SelectedGroup(name, order, n_rows=10, residuals=residuals))
    return groups


@st.composite
def selections(draw):
    groups = draw(groups_of_picks())
    order = interleave(groups)
    ids = draw(st.none() | st.lists(draw(IDS), min_size=len(order), max_size=len(order)))
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    )
    provenance = draw(st.dictionaries(st.text(max_size=5), json_values, max_size=3))
    return Selection(order, n_rows=10 * len(groups), groups=groups, ids=ids, provenance=provenance)


@pytest.fixture
def pets():
    """Five picks of ten rows in two classes, with ids and residuals."""
    groups = [
        SelectedGroup("cat", [7, 1, 3], n_rows=6, residuals=[0.9, 0.5, 0.012]),
        SelectedGroup("dog", [8, 0], n_rows=4, residuals=[0.7, 0.034]),
    ]
    order = interleave(groups)
    ids = [f"id{row}" for row in order]
    return Selection(order, n_rows=10, groups=groups, ids=ids, provenance={"method": "gm-matching"})


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


# ----------------------------------------------------------------------------------------------- apply


def in_both_orders(selection, dataset, to_list=list):
    return to_list(selection.apply(dataset)), to_list(selection.apply(dataset, order=True))


BOTH_ORDERS = ([10, 12, 13], [13, 10, 12])
PICKS = Selection([3, 0, 2], n_rows=4)
ROWS = [10, 11, 12, 13]


class Squares:
    """A sequence that is nothing but a sequence."""

    shape = (99, 99)  # of its images, not of the set

    def __len__(self):
        return 4

    def __getitem__(self, row):
        return ROWS[row]


@pytest.mark.parametrize("dataset", [ROWS, tuple(ROWS), range(10, 14), Squares()])
def test_sequences_give_lists(dataset):
    assert in_both_orders(PICKS, dataset, lambda rows: rows) == BOTH_ORDERS


def test_numpy(tmp_path):
    assert in_both_orders(PICKS, np.array(ROWS)) == BOTH_ORDERS
    np.save(tmp_path / "rows.npy", np.array(ROWS)[:, None])
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert in_both_orders(PICKS, mapped, lambda rows: rows[:, 0].tolist()) == BOTH_ORDERS


def test_pandas():
    frame = pd.DataFrame({"x": ROWS}, index=[3, 2, 1, 0])
    assert in_both_orders(PICKS, frame, lambda rows: rows["x"].tolist()) == BOTH_ORDERS
    assert PICKS.apply(frame).index.tolist() == [3, 1, 0]
    assert in_both_orders(PICKS, frame["x"], lambda rows: rows.tolist()) == BOTH_ORDERS
    assert in_both_orders(PICKS, pd.Index(ROWS), lambda rows: rows.tolist()) == BOTH_ORDERS


def test_polars():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"x": ROWS})
    assert isinstance(PICKS.apply(frame), pl.DataFrame) and isinstance(PICKS.apply(frame["x"]), pl.Series)
    assert in_both_orders(PICKS, frame, lambda rows: rows["x"].to_list()) == BOTH_ORDERS
    assert in_both_orders(PICKS, frame["x"], lambda rows: rows.to_list()) == BOTH_ORDERS


def test_pyarrow():
    table = pa.table({"x": ROWS})
    assert in_both_orders(PICKS, table, lambda rows: rows["x"].to_pylist()) == BOTH_ORDERS
    assert in_both_orders(PICKS, table["x"], lambda rows: rows.to_pylist()) == BOTH_ORDERS
    batch = table.to_batches()[0]
    assert in_both_orders(PICKS, batch, lambda rows: rows["x"].to_pylist()) == BOTH_ORDERS


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil"])
def test_scipy_sparse(kind):
    matrix = scipy.sparse.csr_array(np.array(ROWS)[:, None]).asformat(kind)
    assert PICKS.apply(matrix).format == kind
    assert in_both_orders(PICKS, matrix, lambda rows: rows.toarray()[:, 0].tolist()) == BOTH_ORDERS


def test_torch():
    torch = pytest.importorskip("torch")
    from torch.utils.data import IterableDataset, Subset, TensorDataset

    rows = torch.tensor(ROWS)
    assert in_both_orders(PICKS, rows, lambda picked: picked.tolist()) == BOTH_ORDERS
    subset = PICKS.apply(TensorDataset(rows), order=True)
    assert type(subset) is Subset
    assert [int(row) for (row,) in subset] == BOTH_ORDERS[1]

    class Stream(IterableDataset):
        def __len__(self):
            return 4

        def __iter__(self):
            return iter(ROWS)

    with pytest.raises(InvalidTypeError, match="Stream, whose rows cannot be looked up"):
        PICKS.apply(Stream())
    with pytest.raises(InvalidTypeError, match="list"):
        PICKS.apply(torch.utils.data.Dataset())


def test_hugging_face():
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"x": ROWS})
    assert in_both_orders(PICKS, dataset, lambda picked: list(picked["x"])) == BOTH_ORDERS
    with pytest.raises(InvalidTypeError, match="looked up"):
        PICKS.apply(dataset.to_iterable_dataset())


def test_hugging_face_is_told_by_name():
    """The same door without the package: what counts is the module's name and ``select``."""

    class Dataset(Squares):
        __module__ = "datasets.arrow_dataset"

        def select(self, rows):
            return ("selected", list(rows))

    assert PICKS.apply(Dataset()) == ("selected", [0, 2, 3])


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        ([1, 2], InvalidInputError, "dataset has 2 rows, but the selection was made from 4"),
        (np.ones((5, 4)), InvalidInputError, "5 rows"),
        (iter(ROWS), InvalidTypeError, "looked up by number"),
        ({10, 11, 12, 13}, InvalidTypeError, "looked up by number"),
        ("abcd", InvalidTypeError, "type str"),
        (np.array(4), InvalidTypeError, "type ndarray"),
        (None, InvalidTypeError, "NoneType"),
        ({"train": ROWS}, InvalidTypeError, "mapping"),
    ],
)
def test_what_cannot_be_applied_to(dataset, error, message):
    with pytest.raises(error, match=message):
        PICKS.apply(dataset)


# ----------------------------------------------------------------------------------------------- files


@settings(max_examples=300, deadline=None)
@given(selections())
def test_saving_and_loading_is_exact(selection):
    with tempfile.TemporaryDirectory() as folder:
        for suffix in SUFFIXES:
            path = Path(folder, "picks" + suffix)
            selection.save(path)
            twin = Selection.load(path)
            assert twin == selection
            assert repr(twin.residual_path) == repr(selection.residual_path)
            if selection.order_ids is not None:
                assert twin.order_ids.dtype == selection.order_ids.dtype


def test_ids_that_are_not_unicode_need_json(tmp_path):
    odd = Selection([0], n_rows=1, ids=["\udcff.jpg"])
    with pytest.raises(InvalidInputError, match=r"save as \.json"):
        odd.save(tmp_path / "picks.parquet")
    odd.save(tmp_path / "picks.json")
    assert Selection.load(tmp_path / "picks.json") == odd


def test_parquet_is_a_table_that_other_tools_can_read(pets, tmp_path):
    pets.save(tmp_path / "picks.parquet")
    frame = pd.read_parquet(tmp_path / "picks.parquet")
    assert frame.to_dict("list") == {
        "row": [7, 8, 1, 0, 3],
        "group": ["cat", "dog", "cat", "dog", "cat"],
        "id": ["id7", "id8", "id1", "id0", "id3"],
        "residual": [0.9, 0.7, 0.5, 0.034, 0.012],
    }
    metadata = json.loads(pq.read_schema(tmp_path / "picks.parquet").metadata[b"gmmatch"])
    assert metadata["format_version"] == 1
    assert metadata["provenance"] == {"method": "gm-matching"}


def test_npy_is_the_order_alone(pets, tmp_path):
    pets.save(str(tmp_path / "picks.npy"))
    assert np.load(tmp_path / "picks.npy", allow_pickle=False).tolist() == pets.order.tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["picks.npy", "picks.npy.json"]
    (tmp_path / "picks.npy.json").unlink()
    with pytest.raises(DataFileNotFoundError, match=r"picks\.npy\.json beside it, which is missing"):
        Selection.load(tmp_path / "picks.npy")


def test_an_array_with_anothers_sidecar_is_refused(pets, tmp_path):
    pets.save(tmp_path / "picks.npy")
    np.save(tmp_path / "picks.npy", pets.order[::-1])
    with pytest.raises(InvalidInputError, match="belongs to another array"):
        Selection.load(tmp_path / "picks.npy")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(pets, tmp_path, monkeypatch, suffix):
    path = tmp_path / f"picks{suffix}"
    pets.save(path)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}

    def full_disk(*_):
        raise OSError("No space left on device")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, full_disk)
            with pytest.raises(OSError, match="No space"):
                pets.prefix(2).save(path)
        assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    pets.prefix(2).save(path)
    assert Selection.load(path).k == 2


def test_a_link_stays_a_link(pets, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "picks.json"
    link.symlink_to(tmp_path / "elsewhere" / "real.json")
    pets.save(link)
    assert link.is_symlink()
    assert Selection.load(tmp_path / "elsewhere" / "real.json") == pets


def test_files_that_are_not_there(pets, tmp_path):
    for suffix in SUFFIXES:
        with pytest.raises(DataFileNotFoundError, match="no such file"):
            Selection.load(tmp_path / f"picks{suffix}")
    with pytest.raises(DataFileNotFoundError, match=r"folder .* does not exist"):
        pets.save(tmp_path / "missing" / "picks.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InvalidInputError, match="is a folder"):
        Selection.load(tmp_path / "folder.json")


@pytest.mark.parametrize("name", ["picks.csv", "picks", "picks.npz"])
def test_other_suffixes(pets, tmp_path, name):
    for action in (pets.save, Selection.load):
        with pytest.raises(InvalidInputError, match=r"use \.parquet, \.json or \.npy"):
            action(tmp_path / name)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_are_something_else(tmp_path, suffix):
    path = tmp_path / f"picks{suffix}"
    (tmp_path / "picks.npy.json").write_text("{}")
    valid_but_foreign = {".parquet": lambda: pq.write_table(pa.table({"row": [1]}), path)}
    valid_but_foreign[".json"] = lambda: path.write_text('{"rows": [1]}')
    valid_but_foreign[".npy"] = lambda: np.save(path, np.array([1]))
    pickled = lambda: path.write_bytes(pickle.dumps([1]))  # noqa: E731
    for write in (valid_but_foreign[suffix], pickled, lambda: path.write_bytes(b"")):
        write()
        with pytest.raises(InvalidInputError, match="not a gmmatch selection, or is damaged") as caught:
            Selection.load(path)
        assert f"picks{suffix}" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_pickles_are_never_opened(tmp_path):
    np.save(tmp_path / "picks.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(InvalidInputError, match="allow_pickle"):
        Selection.load(tmp_path / "picks.npy")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_half_a_file_is_refused(pets, tmp_path, suffix):
    path = tmp_path / f"picks{suffix}"
    pets.save(path)
    for file in sorted(tmp_path.iterdir()):
        whole = file.read_bytes()
        for length in range(0, len(whole) - 1, 7):
            file.write_bytes(whole[:length])
            with pytest.raises(InvalidInputError, match="picks"):
                Selection.load(path)
        file.write_bytes(whole)
    assert Selection.load(path) == pets


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "newer gmmatch .*upgrade"),
        ({"format_version": "1"}, "format_version is '1'"),
        ({"format": "other"}, "does not say format"),
        ({"order": [7, 8, 1, 0]}, "different lengths"),
        ({"order": [7, 8, 1, 0, 99]}, "names row 99"),
        ({"order": [7, 8, 1, 0, 3.5]}, "not integers"),
        ({"order": None}, "not integers"),
        ({"group_of_pick": [0, 1, 0, 1, 2]}, "belongs to no group"),
        ({"residuals": [[0.1], [0.2, 0.3]]}, "residuals has shape"),
        ({"ids": 5}, "ids has type int"),
        ({"provenance": []}, "provenance"),
        ({"groups": [], "residuals": []}, "different lengths"),
        ({"groups": [{"label": [], "n_rows": 1}] * 2}, "type list"),
        ({"n_rows": -1}, "n_rows=-1"),
    ],
)
def test_each_part_of_a_file_is_checked(pets, tmp_path, change, message):
    path = tmp_path / "picks.json"
    pets.save(path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **change}))
    with pytest.raises(InvalidInputError, match=message):
        Selection.load(path)
    for name in change:
        path.write_text(json.dumps({key: value for key, value in document.items() if key != name}))
        with pytest.raises(InvalidInputError, match=f"'{name}' is missing|does not say format"):
            Selection.load(path)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_flipped_bits_never_surprise(data):
    selection = Selection([3, 0, 2], n_rows=4, ids=["x", "y", "z"], provenance={"method": "herding"})
    with tempfile.TemporaryDirectory() as folder:
        suffix = data.draw(st.sampled_from(SUFFIXES))
        path = Path(folder, f"picks{suffix}")
        selection.save(path)
        damaged = bytearray(path.read_bytes())
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
        path.write_bytes(damaged)
        try:
            assert isinstance(Selection.load(path), Selection)  # a digit may turn into another digit
        except InvalidInputError as error:
            assert "picks" in str(error)
