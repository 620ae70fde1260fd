"""What open_source recognises, what it says about it, and what it refuses in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gmmatch.data import open_source
from gmmatch.errors import InvalidInputError

from .helpers import png, write_tar


def test_a_source_is_returned_as_it_is():
    source = open_source(np.zeros((2, 2)))
    assert open_source(source) is source

    class Mine:
        batches = describe = fingerprint = None

        @property
        def ids(self):
            raise AssertionError("reading was not asked for")

    mine = Mine()
    assert open_source(mine) is mine


def test_unknown_suffixes_list_what_is_known(tmp_path):
    (tmp_path / "x.docx").touch()
    with pytest.raises(
        InvalidInputError, match=r"x\.docx: the suffix '\.docx' is not known; expected .*\.parquet"
    ):
        open_source(tmp_path / "x.docx")
    (tmp_path / "noname").touch()
    with pytest.raises(InvalidInputError, match="the suffix '' is not known"):
        open_source(tmp_path / "noname")


def test_an_empty_name():
    with pytest.raises(InvalidInputError, match="path is empty"):
        open_source("")


def test_a_folder_of_two_kinds_is_ambiguous(tmp_path):
    (tmp_path / "1.png").write_bytes(png())
    write_tar(tmp_path / "x.tar", [("1.txt", b"a")])
    with pytest.raises(InvalidInputError, match="holds 1 WebDataset file and 1 image file:"):
        open_source(tmp_path)


def test_a_table_beside_images_is_a_note_about_them(tmp_path):
    (tmp_path / "1.png").write_bytes(png())
    (tmp_path / "metadata.csv").write_text("text\na\n")
    assert open_source(tmp_path).kind == "image"


def test_files_of_two_formats_in_a_pattern(tmp_path):
    (tmp_path / "a.csv").write_text("text\na\n")
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(InvalidInputError, match="several formats"):
        open_source(f"{tmp_path}/a.*")


def test_several_array_files(tmp_path):
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, np.zeros((2, 2)))
    with pytest.raises(InvalidInputError, match="names 2 files of arrays: give one"):
        open_source(f"{tmp_path}/*.npy")


def test_a_store_of_embeddings_is_pointed_elsewhere(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps({"format": "gmmatch-embeddings"}))
    with pytest.raises(InvalidInputError, match="open_store"):
        open_source(tmp_path)


def test_marks_of_a_pattern_in_a_name_that_exists(tmp_path):
    for name in ("a[1].csv", "what?.csv", "a::b.csv"):
        (tmp_path / name).write_text("text\na\n")
        assert open_source(tmp_path / name).n_rows == 1


def test_a_split_of_files_in_a_pattern(tmp_path):
    for name in ("train-0", "train-1", "test-0"):
        (tmp_path / f"{name}.csv").write_text(f"text\n{name}\n")
    source = open_source(f"{tmp_path}/*.csv", split="train")
    assert [row for batch in source.batches(9) for row in batch.rows] == ["train-0", "train-1"]
    assert "the files that match" in source.how


def test_descriptions_can_be_written_as_json(tmp_path, image_folder):
    np.save(tmp_path / "x.npy", np.zeros((2, 2)))
    for spec in (image_folder, tmp_path / "x.npy"):
        source = open_source(spec)
        description = source.describe()
        assert json.loads(json.dumps(description)) == description
        assert description["location"] == str(spec)
        assert description["n_rows"] == len(source)
        assert str(spec) in repr(source)
