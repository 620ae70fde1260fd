"""The page's lines of Python make the selection again."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine
from gmmatch.cli import build_app
from gmmatch.report.summary import python_to_run_again

from .conftest import blobs
from .reading import Page

X, Y = blobs(60)
WEIGHTS = np.linspace(1.0, 2.0, 60)


@pytest.mark.parametrize(
    ("selector", "called_with"),
    [
        (gm.GMMatching(k=6), {}),
        (gm.GMMatching(k="10%", normalize=True, unit_target=True), {"y": Y}),
        (gm.GMMatching(k=0.2, per_class="balanced", preprocess=["center", "pca:3"]), {"y": Y}),
        (gm.Easy(center="geometric-median", per_class={"class 0": 3, "class 1": 2, "class 2": 1}), {"y": Y}),
        (gm.Easy(per_class={0: 3, 1: 2, 2: 1}), {"y": [int(label[-1]) for label in Y]}),
        (gm.Random(k=7), {"y": Y, "sample_weight": WEIGHTS, "include": [3], "exclude": [5, 6]}),
        (gm.KernelHerding(k=5, kernel=gm.RBF(bandwidth=2.0)), {}),
        (gm.KernelHerding(k=5, kernel=("rbf", {"bandwidth": 3.0})), {"y": Y}),
        (gm.Herding(k=4, per_class=None), {"y": Y}),
        (gm.Moderate(k=6, random_state=11), {"y": Y}),
    ],
)
def test_running_it_gives_the_same_picks(selector, called_with):
    selection = selector.select(X, **called_with)
    names = {"X": X, **called_with}
    exec(compile(python_to_run_again(selection), "page", "exec"), names)
    assert names["selection"].order.tolist() == selection.order.tolist()


def test_a_prefix_is_taken_again():
    selection = gm.Easy(k=10, random_state=0).select(X).prefix(4)
    names = {"X": X}
    exec(compile(python_to_run_again(selection), "page", "exec"), names)
    assert names["selection"].order.tolist() == selection.order.tolist()


def test_what_is_not_recorded_is_not_made_up(page_of):
    for provenance in ({}, {"method": "mine", "parameters": {}, "seed": 0}, {"method": "easy"}):
        assert python_to_run_again(gm.Selection([0], n_rows=60, provenance=provenance)) is None
    page = page_of(gm.Selection([0], n_rows=60), X)
    assert "How this selection was made is not recorded" in page.words()


def test_the_page_shows_the_lines_and_the_command(made):
    code = [text for _, text in made.page.all("code")]
    assert code[0] == "gmmatch select rows.emb -k 24 -o picks.parquet --report picks.html"
    assert "gm.GMMatching(k=24, random_state=3).select(X, y, exclude=exclude)" in code[1]


@pytest.fixture
def sorted_rows(tmp_path):
    """Rows sorted by where they lie, in two files, and their labels; enough for several batches."""
    rows = np.random.default_rng(3).normal(size=(6000, 4))
    rows = rows[np.argsort(rows[:, 0])]
    files = [str(tmp_path / "first.npy"), str(tmp_path / "second.npy")]
    np.save(files[0], rows[:2500])
    np.save(files[1], rows[2500:])
    return rows, files, np.arange(6000) % 2


@pytest.mark.parametrize(
    ("labelled", "options"),
    [
        (False, {"k": 200, "batches": 4}),
        (True, {"k": "5%", "batches": 3, "per_class": "balanced", "start": "zero"}),
        (True, {"k": 0.05, "method": "herding", "per_class": None, "batches": 5}),
        (False, {"k": 150, "normalize": True, "unit_target": True}),
    ],
)
def test_picks_of_an_engine_are_made_by_an_engine_again(sorted_rows, labelled, options):
    rows, files, labels = sorted_rows
    y = labels if labelled else None
    selection = gm.select(
        files, engine=LocalEngine(workers=2), y=y, **{"method": "gm-matching", "random_state": 4, **options}
    )
    assert "engine" in selection.provenance
    names = {"X": rows, "y": y}
    code = python_to_run_again(selection)
    exec(compile(code, "page", "exec"), names)
    assert names["selection"].order.tolist() == selection.order.tolist()


def test_with_several_batches_the_method_in_memory_picks_the_same_rows_if_batches_are_independent(
    sorted_rows,
):
    rows, files, _ = sorted_rows
    found = gm.select(files, engine=LocalEngine(), k=200, batches=4, random_state=4, method="gm-matching")
    carried = gm.GMMatching(k=200, batches=4, random_state=4).select(rows)
    independent = gm.GMMatching(k=200, batches=4, carry=False, random_state=4).select(rows)
    assert found.order.tolist() != carried.order.tolist()
    assert found.order.tolist() == independent.order.tolist()


def test_files_that_could_not_be_read_are_left_out_again(sorted_rows):
    _, files, _ = sorted_rows
    Path(files[0]).write_bytes(b"")
    selection = gm.select(
        files, engine=LocalEngine(skip_unreadable=True), k=20, random_state=0, method="gm-matching"
    ).prefix(5)
    code = python_to_run_again(selection)
    names: dict = {}
    exec(compile(code, "page", "exec"), names)
    assert names["selection"].order.tolist() == selection.order.tolist() and len(selection.order) == 5
    assert "skip_unreadable=True" in code


def test_picks_of_a_cluster_name_ray(sorted_rows):
    _, files, _ = sorted_rows
    found = gm.select(files[1], engine=LocalEngine(), k=5, random_state=2, method="gm-matching")
    facts = {**found.provenance, "engine": {**found.provenance["engine"], "name": "ray"}}
    code = python_to_run_again(gm.Selection(found.order, found.n_rows, provenance=facts))
    assert code is not None and code.splitlines()[0] == "import gmmatch as gm"
    assert (
        f"    selection = gm.select({files[1]!r}, engine=engine, method='gm-matching', k=5, random_state=2)"
        in code.splitlines()
    )
    assert 'with RayEngine(device="cpu") as engine:' in code
    compile(code, "page", "exec")


def test_picks_that_were_made_on_a_gpu_ask_for_one(sorted_rows):
    _, files, _ = sorted_rows
    found = gm.select(files[1], engine=LocalEngine(), k=5, random_state=2, method="gm-matching")
    facts = {**found.provenance, "engine": {**found.provenance["engine"], "devices": ["cuda:0", "cuda:1"]}}
    code = python_to_run_again(gm.Selection(found.order, found.n_rows, provenance=facts))
    assert code is not None and code.splitlines()[3] == 'engine = LocalEngine(device="cuda")'


def test_the_command_on_the_page_of_an_engine_makes_the_same_picks(sorted_rows, tmp_path, monkeypatch):
    rows, _, _ = sorted_rows
    (tmp_path / "once").mkdir()
    (tmp_path / "again").mkdir()
    typed = "select rows.npy -k 200 -o picks.npy -m gm-matching --set batches=4 --engine local --workers 2"
    typed += " --report page.html"
    found = {}
    for place, words in (("once", shlex.split(typed)), ("again", None)):
        monkeypatch.chdir(tmp_path / place)
        np.save("rows.npy", rows)
        if words is None:
            page = Page(tmp_path / "once" / "page.html")
            command, python = (text for _, text in page.all("code"))
            words = shlex.split(command)[1:]
        done = CliRunner().invoke(build_app(), words)
        assert done.exit_code == 0, done.stderr
        found[place] = np.load("picks.npy").tolist()
    assert "--engine" in words and "batches=4" in words
    assert found["once"] == found["again"]
    names: dict = {}
    exec(compile(python, "page", "exec"), names)
    assert names["selection"].indices.tolist() == sorted(found["once"])
