"""Files of selections."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drawn import selections
from hypothesis import given, settings
from hypothesis import strategies as st

from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.selection.selection import Selection

SUFFIXES = [".parquet", ".json", ".npy"]


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
