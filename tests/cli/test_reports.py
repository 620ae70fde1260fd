"""``--report``: the page that commands write, and the pictures and texts on it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest


@pytest.fixture
def page_of(tmp_path, gmmatch):
    """Select four rows with a page; return what was said, and the page."""

    def run(path, *options):
        asked = ["select", path, "-k", 4, "-m", "easy", "-o", tmp_path / "p.parquet", "--force"]
        result = gmmatch(*asked, "--report", tmp_path / "p.html", *options)
        assert result.exit_code == 0, result.stderr
        return result.stderr, (tmp_path / "p.html").read_text(encoding="utf-8")

    return run


def test_the_page_shows_the_pictures_that_were_embedded(store, page_of):
    said, page = page_of(store)
    assert "open it in a browser" in said and "4 of 24 rows" in page
    assert "data:image/" in page and "cat/0.png" in page


def test_pictures_that_have_moved_are_left_out_with_a_note_and_found_by_name(
    photos, store, tmp_path, page_of
):
    shutil.move(photos, tmp_path / "elsewhere")
    said, page = page_of(store)
    assert "The page has no pictures" in said and "data:image/" not in page
    said, page = page_of(store, "--source", tmp_path / "elsewhere")
    assert "no pictures" not in said and "data:image/" in page


def test_vectors_of_a_file_can_have_texts(vectors, tmp_path, page_of):
    (tmp_path / "t.csv").write_text("\n".join(["text", *(f"the text of {i}" for i in range(40))]))
    _, page = page_of(vectors, "--source", tmp_path / "t.csv")
    assert "the text of" in page


def test_a_screening_has_a_page(vectors, labels, tmp_path, succeeds):
    succeeds("screen", vectors, "--labels", labels, "--report", tmp_path / "s.html")
    assert "40 rows" in (tmp_path / "s.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_picks_are_there_without_the_page_and_it_is_said(more, vectors, tmp_path, gmmatch, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gmmatch.files.write_file", full)
    asked = ["select", vectors, "-k", 3, "-m", "easy", "-o", tmp_path / "p.parquet"]
    result = gmmatch(*asked, "--report", tmp_path / "p.html", *more)
    assert result.exit_code == 2 and (tmp_path / "p.parquet").exists()
    wrote, error = result.stderr.splitlines()
    assert "p.parquet" in wrote and wrote.startswith("Wrote") and "p.html could not be written" in error


def test_a_page_cannot_be_where_a_folder_is(vectors, tmp_path, refused):
    (tmp_path / "p.html").mkdir()
    asked = ["select", vectors, "-k", 3, "-o", tmp_path / "p.parquet", "--report", tmp_path / "p.html"]
    assert "is a folder" in refused(*asked)
    assert not (tmp_path / "p.parquet").exists()


def test_without_jinja_it_is_said_before_the_work(vectors, tmp_path, refused, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setattr("gmmatch.select", lambda *_, **__: pytest.fail("worked first"), raising=False)
    asked = ["select", vectors, "-k", 3, "-o", tmp_path / "p.parquet", "--report", tmp_path / "p.html"]
    assert "[report]" in refused(*asked)
    assert np.load(vectors).shape == (40, 3)
