"""No command replaces what it reads, finds out after the work that it cannot write, or keeps quiet about results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch as gm


@pytest.fixture
def nothing_selects(monkeypatch):
    """Fail if any rows are selected from: what is wrong must be said before the work."""

    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work began")

    monkeypatch.setattr("gmmatch.selectors.base.Selector.select", work)


@pytest.mark.parametrize("name", ["x.npy", "x.parquet"])
def test_picks_never_replace_the_vectors(name, tmp_path, refused):
    X, path = np.eye(4, dtype=np.float32), tmp_path / name
    if name == "x.npy":
        np.save(path, X)
    else:
        pq.write_table(pa.table({"v": list(X)}), path)
    before = path.read_bytes()
    assert "is also an input" in refused("select", path, "-k", 2, "-o", path, "--force")
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_picks_never_replace_the_labels_or_lie_in_the_store(vectors, tmp_path, succeeds, refused):
    labels, store = tmp_path / "labels.npy", tmp_path / "x.emb"
    np.save(labels, np.arange(40) % 2)
    line = refused("select", vectors, "-k", 2, "-o", labels, "--labels", labels, "--force")
    assert "is also an input" in line and np.load(labels).tolist() == [0, 1] * 20
    succeeds("embed", vectors, "-o", store, "--encoder", "identity")
    assert "lies within" in refused("select", store, "-k", 2, "-o", store / "picks.parquet")


def test_an_export_never_replaces_the_picks(tmp_path, succeeds, refused):
    pq.write_table(pa.table({"v": list(np.eye(4, dtype=np.float32))}), tmp_path / "x.parquet")
    picks = tmp_path / "picks.parquet"
    succeeds("select", tmp_path / "x.parquet", "-k", 2, "-o", picks)
    assert "is also an input" in refused("export", picks, tmp_path / "x.parquet", "-o", picks, "--force")
    assert gm.Selection.load(picks).k == 2


def test_a_store_among_the_images_would_end_as_one_of_them(photos, succeeds, refused):
    line = refused("embed", photos, "-o", photos / "x.emb", "--encoder", "pixels")
    assert "lies within" in line and not (photos / "x.emb").exists()
    assert "is also an input" in refused("embed", photos, "-o", photos, "--encoder", "pixels", "--force")


def test_a_store_is_no_source_of_embeddings(photos, tmp_path, succeeds, refused):
    succeeds("embed", photos, "-o", tmp_path / "x.emb", "--encoder", "pixels:2x2")
    assert "gmmatch select" in refused("embed", tmp_path / "x.emb", "-o", tmp_path / "y.emb")


@pytest.mark.parametrize("name", ["there.json", "there.parquet", "there.npy"])
def test_a_folder_is_no_place_for_picks(name, vectors, tmp_path, refused, nothing_selects):
    (tmp_path / name).mkdir()
    line = refused("select", vectors, "-k", 2, "-o", tmp_path / name, "--force")
    assert f"--output {tmp_path / name} is a folder" in line


def test_a_folder_is_no_place_for_a_page(vectors, tmp_path, refused, nothing_selects):
    page = tmp_path / "page.html"
    page.mkdir()
    for command in (["select", vectors, "-o", tmp_path / "p.json"], ["compare", vectors]):
        assert f"--report {page} is a folder" in refused(*command, "-k", 2, "--report", page, "--force")
    assert not (tmp_path / "p.json").exists()


def test_where_a_store_cannot_be_is_said_before_a_model_is_loaded(photos, tmp_path, refused, monkeypatch):
    def load(*_: object, **__: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("gmmatch.encoders.load_encoder", load)
    (tmp_path / "file").touch()
    assert "there is no folder" in refused("embed", photos, "-o", tmp_path / "no" / "x.emb")
    assert "is a file: give a folder" in refused("embed", photos, "-o", tmp_path / "file")


def test_a_demo_has_no_picture_in_place_of_a_folder(tmp_path, refused, monkeypatch):
    (tmp_path / "demo.svg").mkdir()
    assert "is a folder" in refused("demo", "-o", tmp_path / "demo.svg")


@pytest.fixture
def no_page(monkeypatch):
    """Let the disk be full when a page is written."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gmmatch.report.write_report", full)
    monkeypatch.setattr("gmmatch.report.write_comparison", full)


def test_picks_are_there_without_the_page_and_it_is_said(vectors, tmp_path, gmmatch, no_page):
    picks = tmp_path / "p.json"
    result = gmmatch("select", vectors, "-k", 2, "-o", picks, "--report", tmp_path / "p.html")
    assert result.exit_code == 2 and "No space left" in result.stderr
    assert f"Wrote {picks}, but no page" in result.stderr and gm.Selection.load(picks).k == 2


def test_figures_are_shown_without_the_page(vectors, tmp_path, gmmatch, no_page):
    arguments = ["compare", vectors, "-k", 2, "--methods", "random,easy", "--report", tmp_path / "p.html"]
    result = gmmatch(*arguments, "--json")
    assert result.exit_code == 2 and "p.html could not be written" in result.stderr
    assert [row["method"] for row in json.loads(result.stdout)["rows"]] == ["random", "easy"]


_INTERRUPTED = """
import os, signal, sys, time
import gmmatch.selectors.registry as registry

def interrupted(*_, **__):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)  # another thread may be the first to see the signal

# A shell starts what runs in the background with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
registry.make_selector = interrupted
from gmmatch.cli import main
sys.argv[0] = "gmmatch"
main()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_leaves_nothing_behind(vectors, tmp_path):
    typed = ["select", vectors, "-k", "3", "-o", tmp_path / "p.json"]
    script = [sys.executable, "-c", _INTERRUPTED, *map(str, typed)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")
    assert list(tmp_path.iterdir()) == [vectors]
