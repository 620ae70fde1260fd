"""The page on adding a method, followed to the letter: its files, its lines in the registries, the suites."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys

import numpy as np
import pytest
from imblearn.utils.estimator_checks import parametrize_with_checks as parametrize_with_sampler_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine
from gmmatch.embeddings import StoreWriter, open_store
from gmmatch.selectors import registry

from .blocks import ROOT, blocks_of
from .running import run_block
from .shell import Shell

PAGE = "docs/add-a-method.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
CODE = [block.text for block in blocks_of(PAGE) if block.language == "python"]
FILES = re.findall(r"`src/gmmatch/selectors/(_\w+)\.py`", TEXT)
METHODS, WHERE = (
    ast.literal_eval("{" + block.text + "}") for block in blocks_of(PAGE) if block.language == "text"
)


def classes() -> list[type]:
    """The page's classes, each from a module with the name that the page gives its file."""
    found = []
    for name, source in zip(FILES, CODE, strict=True):
        spec = importlib.util.spec_from_loader(f"gmmatch.selectors.{name}", loader=None)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        exec(compile(source, name, "exec"), module.__dict__)
        (attribute,) = (value.partition(":")[2] for value in METHODS.values() if value.startswith(f"{name}:"))
        found.append(getattr(module, attribute))
    return found


CLASSES = classes()
ROWS = np.random.default_rng(0).normal(1.0, 1.0, (400, 5)).astype(np.float32)
SELECTORS = [cls(k=0.5, random_state=0) for cls in CLASSES]
# imbalanced-learn gives pytest a generator, which pytest 10 will not take.
SAMPLER_CHECKS = parametrize_with_sampler_checks(SELECTORS)
# What a budget contradicts; tests/selectors/test_conformance.py has the reason.
CONTRADICTED = {"check_samplers_one_label"}


@pytest.fixture
def registered(monkeypatch):
    """The lines of the page in the registries."""
    for name, where in METHODS.items():
        monkeypatch.setitem(registry._METHODS, name, where)
    for name, where in WHERE.items():
        monkeypatch.setitem(gm._WHERE, name, where)
    yield
    for name in WHERE:
        vars(gm).pop(name, None)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(SELECTORS)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(SAMPLER_CHECKS.args[0], list(SAMPLER_CHECKS.args[1]), **SAMPLER_CHECKS.kwargs)
def test_imbalanced_learn(estimator, check):
    if getattr(check, "func", check).__name__ not in CONTRADICTED:
        check(estimator)


def test_the_methods_do_what_the_page_says():
    longest, steady = CLASSES
    assert longest(k=2).select([[0.0], [-3.0], [1.0], [2.0]]).indices.tolist() == [1, 3]
    rows = np.random.default_rng(0).normal(3.0, 1.0, (200, 4))
    matched = steady(k=40).select(rows)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    error = np.linalg.norm(units[matched.indices].mean(axis=0) - gm.geometric_median(units).point)
    assert error == pytest.approx(matched.residual[None], abs=1e-6) and error < 0.05


def in_a_store(rows, folder):
    path = folder / "rows.emb"
    with StoreWriter(
        path, encoder="mine", encoder_fingerprint="1", dtype="float32", rows_per_shard=100
    ) as writer:
        writer.append(rows, ids=np.arange(len(rows)))
        writer.finish()
    return open_store(path).as_array()


def on_a_device(rows, folder):
    torch = pytest.importorskip("torch")
    from gmmatch.backends.cuda.blocks import TensorSource

    return TensorSource(torch.from_numpy(rows).to("cuda" if torch.cuda.is_available() else "cpu"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", [in_a_store, on_a_device], ids=lambda place: place.__name__)
def test_they_pick_the_same_rows_wherever_the_rows_are(registered, tmp_path, method, place):
    labels = np.arange(400) % 3
    here = gm.select(ROWS, y=labels, k=60, method=method)
    there = gm.select(place(ROWS, tmp_path), y=labels, k=60, method=method)
    assert there.order.tolist() == here.order.tolist()
    assert there.residual == pytest.approx(here.residual, abs=1e-6)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(("method", "options"), [("longest", {}), ("steady", {"batches": 1})])
def test_they_run_on_an_engine(registered, workers, method, options):
    labels = np.arange(400) % 3
    here = gm.select(ROWS, y=labels, k=60, method=method)
    there = gm.select(ROWS, y=labels, k=60, method=method, engine=LocalEngine(workers), **options)
    assert there.order.tolist() == here.order.tolist()


def test_they_are_known_everywhere_once_they_are_registered(registered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(50, 3))
    assert set(METHODS) <= set(gm.methods())
    assert gm.Longest is CLASSES[0] and gm.Steady is CLASSES[1]
    assert gm.select(rows, k=5, method="longest").provenance["method"] == "longest"
    np.savez("digits.npz", X=rows)
    (commands,) = (block for block in blocks_of(PAGE) if block.reason and block.reason.startswith("part of"))
    run_block(commands, {}, Shell(monkeypatch))
    lengths = np.linalg.norm(rows, axis=1)
    assert gm.Selection.load("longest.parquet").indices.tolist() == sorted(np.argsort(-lengths)[:5].tolist())
