"""The page on adding a method, followed step by step: its files, lines in the registry, target and backend."""

from __future__ import annotations

import ast
import importlib.util
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.methods import registry
from tests.conformance.conftest import open_rows_on

from .blocks import ROOT, Shell, blocks_of, run_block

PAGE = "docs/add-a-method.md"
CODE = [block.text for block in blocks_of(PAGE) if block.language == "python"]
LISTINGS = [block.text for block in blocks_of(PAGE) if block.language == "text"]
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
METHODS = ast.literal_eval("{" + LISTINGS[0] + "}")


@pytest.fixture(scope="module")
def classes():
    """The classes of the page: methods in modules of the names that it gives their files, then target and backend."""
    names: dict = {}
    modules = [location.partition(":")[0] for location in METHODS.values()]
    for name, source in zip(modules, CODE, strict=False):
        assert f"`src/{name.replace('.', '/')}.py`" in TEXT
        spec = importlib.util.spec_from_loader(name, loader=None)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        exec(compile(source, name, "exec"), module.__dict__)
        names |= vars(module)
    for source in CODE[len(modules) :]:
        exec(source, names)
    yield names
    for name in modules:
        del sys.modules[name]


@pytest.fixture
def registered(classes, monkeypatch):
    for name, location in METHODS.items():
        monkeypatch.setitem(registry.METHODS, name, location)
    return classes


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    return random.normal(1.0, 1.0, (400, 5)).astype(np.float32), np.arange(400) % 3


def test_the_ranking_does_what_the_page_says(classes):
    assert classes["Longest"](k=2).select([[0.0], [-3.0], [1.0], [2.0]]).indices.tolist() == [1, 3]


@pytest.fixture(params=["files", "tensor", "list", "ray"])
def rows(request, data, tmp_path, monkeypatch):
    """The data on a backend."""
    return open_rows_on(request.param, data[0], tmp_path, monkeypatch)


@pytest.mark.parametrize("method", METHODS)
def test_they_pick_the_same_rows_wherever_the_rows_are(registered, data, rows, method):
    X, y = data
    in_memory = gm.select(X, y, k=60, method=method, random_state=0)
    assert gm.select(rows, y, k=60, method=method, random_state=0).order.tolist() == in_memory.order.tolist()


def test_they_are_known_everywhere_once_they_are_registered(registered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(50, 3))
    assert set(METHODS) <= set(gm.methods())
    assert gm.select(rows, k=5, method="longest").provenance["method"] == "longest"
    np.savez("digits.npz", X=rows)
    (commands,) = (block for block in blocks_of(PAGE) if block.reason and block.reason.startswith("part of"))
    run_block(commands, {}, Shell(monkeypatch))
    lengths = np.linalg.norm(rows, axis=1)
    assert gm.Selection.load("longest.parquet").indices.tolist() == sorted(np.argsort(-lengths)[:5].tolist())


def test_a_package_of_your_own_registers_by_an_entry_point(classes, monkeypatch):
    assert 'longest = "yours.longest:Longest"' in TEXT
    point = EntryPoint("longest", METHODS["longest"], "gmmatch.methods")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])
    assert "longest" in gm.methods() and gm.method_class("longest") is classes["Longest"]


def test_the_target_and_the_backend_work(classes, data):
    X, y = data
    assert "gm.Matching(k=10, target=FirstRow())" in TEXT
    target = classes["FirstRow"]()
    in_memory = gm.Matching(k=30, target=target).select(X.astype(float), y)
    in_lists = gm.Matching(k=30, target=target).select(classes["ListRows"](X.tolist()), y)
    assert in_memory.order.tolist() == in_lists.order.tolist()
    first = np.linalg.norm(X[in_memory.order[0]] - X[0])
    assert in_memory.residual_path[0][0] == pytest.approx(first, abs=1e-6)
