"""What open_source recognises, what it says about it, and what it refuses in one line."""

from __future__ import annotations

import json

import numpy as np

from gmmatch.data import open_source

from .helpers import png


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


def test_a_table_beside_images_is_a_note_about_them(tmp_path):
    (tmp_path / "1.png").write_bytes(png())
    (tmp_path / "metadata.csv").write_text("text\na\n")
    assert open_source(tmp_path).kind == "image"


def test_marks_of_a_pattern_in_a_name_that_exists(tmp_path):
    for name in ("a[1].csv", "what?.csv", "a::b.csv"):
        (tmp_path / name).write_text("text\na\n")
        assert open_source(tmp_path / name).n_rows == 1


def test_descriptions_can_be_written_as_json(tmp_path, image_folder):
    np.save(tmp_path / "x.npy", np.zeros((2, 2)))
    for spec in (image_folder, tmp_path / "x.npy"):
        source = open_source(spec)
        description = source.describe()
        assert json.loads(json.dumps(description)) == description
        assert description["location"] == str(spec)
        assert description["n_rows"] == len(source)
        assert str(spec) in repr(source)
