"""Every method on an engine: the picks that it makes in memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine, open_shards
from gmmatch.errors import ApproximationWarning, InvalidInputError

from .test_faults import MortalEngine

FEATURES = {"approximation": "nystroem", "n_components": 24, "carry": False}
METHODS = {
    "random": {},
    "easy": {},
    "hard": {},
    "moderate": {},
    "moderate, geometric median": {"center": "geometric-median"},
    "self-supervised": {"n_clusters": 4},
    "herding": {"carry": False},
    "gm-matching": {"carry": False},
    "moment-matching": {"carry": False},
    "kernel-herding": FEATURES,
    "kernel-herding, Fourier": {**FEATURES, "approximation": "fourier"},
    "gm-matching, kernel": {**FEATURES, "kernel": "rbf"},
    "el2n": {"scores": np.sin(np.arange(3000.0))},
    "optimization": {"vectors": np.sin(np.arange(6000.0)).reshape(3000, 2)},
}
STEPS = [["unit"], ["center", "scale"], ["pca:3"], ["scale", "pca:4", "unit"]]


def picks(X, name, **more):
    options = {"k": 150, "random_state": 3, **METHODS[name], **more}
    return gm.select(X, method=name.partition(",")[0], **options)


slow = pytest.mark.slow


@pytest.mark.parametrize("labels", [pytest.param(False, marks=slow), True], ids=["one group", "classes"])
@pytest.mark.parametrize("name", METHODS)
def test_the_picks_are_those_made_in_memory(clouds, rows_file, name, labels):
    y = np.random.default_rng(1).integers(0, 3, len(clouds)) if labels else None
    expected = picks(clouds, name, y=y)
    found = picks(rows_file, name, y=y, engine=LocalEngine(3))
    assert found.order.tolist() == expected.order.tolist()
    assert found.residual == pytest.approx(expected.residual, rel=1e-6)
    assert found.provenance["engine"]["workers"] == 3


@pytest.mark.parametrize(
    "steps", [*(pytest.param(some, marks=slow) for some in STEPS[:-1]), STEPS[-1]], ids=str
)
@pytest.mark.parametrize("name", ["easy", "gm-matching", "kernel-herding", "self-supervised"])
def test_rows_are_preprocessed_by_workers(clouds, rows_file, name, steps):
    expected = picks(clouds, name, preprocess=steps)
    found = picks(rows_file, name, preprocess=steps, engine=LocalEngine(2))
    assert found.order.tolist() == expected.order.tolist()


@pytest.mark.parametrize("dtype", [np.float16, pytest.param(np.float32, marks=slow), np.int16])
@pytest.mark.parametrize("name", ["easy", "moderate", "self-supervised"])
def test_equal_rows_are_told_apart_by_their_numbers(clouds, tmp_path, name, dtype):
    rows = np.round(clouds * 4).astype(dtype)  # with many equal rows
    np.save(tmp_path / "rows.npy", rows)
    expected = picks(rows, name)
    assert picks(tmp_path / "rows.npy", name, engine=LocalEngine(3)).order.tolist() == expected.order.tolist()


@pytest.mark.parametrize(
    "name", [name if name == "moderate" else pytest.param(name, marks=slow) for name in METHODS]
)
def test_workers_that_die_at_random_change_nothing(clouds, rows_file, name):
    labels = np.arange(len(clouds)) % 3
    expected = picks(rows_file, name, y=labels, preprocess=["scale"], engine=LocalEngine(1))
    # With another seed, one may die six times in a row, and the engine gives up as it should.
    engine = MortalEngine(3, lambda placement, number: 0.1, seed=1)
    found = picks(rows_file, name, y=labels, preprocess=["scale"], engine=engine)
    assert engine.placement.deaths
    assert found.order.tolist() == expected.order.tolist()


@pytest.mark.parametrize("name", ["kernel-herding", "robust"])
def test_a_kernel_of_few_rows_is_exact_as_in_memory(clouds, rows_file, name):
    asked = {"method": name, "k": 60, "random_state": 0}
    found = gm.select(rows_file, **asked, engine=LocalEngine(2))
    assert found.order.tolist() == gm.select(clouds, **asked).order.tolist()
    assert "approximation" not in found.provenance["groups"][0]


def test_a_kernel_without_a_word_on_features_is_warned_of(rows_file, monkeypatch):
    monkeypatch.setattr("gmmatch.backends.cluster.selecting.EXACT_MEAN_ROWS", 1000)
    with pytest.warns(ApproximationWarning, match="an engine does not compute a kernel of all pairs"):
        found = gm.select(rows_file, method="kernel-herding", k=60, random_state=0, engine=LocalEngine(2))
    assert found.provenance["groups"][0]["approximation"] == "nystroem"


def test_many_classes_share_the_memory_for_their_maps(clouds, rows_file, monkeypatch):
    monkeypatch.setattr("gmmatch.backends.cluster.selecting._MAP_ELEMENTS", 1030 * 40)
    monkeypatch.setattr("gmmatch.backends.cluster.selecting.EXACT_MEAN_ROWS", 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)
        found = gm.select(
            rows_file, y=np.arange(3000) % 2, method="kernel-herding", k=64, engine=LocalEngine(2)
        )
    assert [group["n_components"] for group in found.provenance["groups"]] == [20, 20]


@pytest.mark.parametrize("labels", [pytest.param(False, marks=slow), True], ids=["one group", "classes"])
def test_robust_picks_what_it_picks_in_memory(tmp_path, labels):
    random = np.random.default_rng(2)
    true = random.integers(0, 3, 9000)
    rows = (4.0 * np.eye(3, 8)[true] + random.normal(size=(9000, 8))).astype(np.float32)
    rows[:200] += 40.0
    given = np.where(random.random(9000) < 0.2, (true + 1) % 3, true) if labels else None
    np.save(tmp_path / "rows.npy", rows)
    asked = {"y": given, "k": 300, "method": "robust", "random_state": 0, "n_components": 64}
    expected = gm.select(rows, **asked, carry=False)
    found = gm.select(tmp_path / "rows.npy", **asked, engine=LocalEngine(3))
    assert found.order.tolist() == expected.order.tolist()
    assert found.screening.counts == expected.screening.counts
    assert not np.any(found.indices < 200)


def test_rows_that_cannot_be_read_count_in_no_step(clouds, tmp_path):
    paths = [tmp_path / f"{number}.npy" for number in range(3)]
    for path, part in zip(paths, np.split(clouds, 3), strict=True):
        np.save(path, part)
    shards = open_shards(paths)
    paths[0].unlink()
    left = gm.select(clouds[1000:], method="easy", k=50, preprocess=["scale"])
    engine = LocalEngine(2, skip_unreadable=True)
    found = gm.select(shards, method="easy", k=50, preprocess=["scale"], engine=engine)
    assert (found.order - 1000).tolist() == left.order.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "el2n"}, "trains a model, which an engine does not: pass scores="),
        ({"method": "optimization"}, "pass vectors="),
        ({"method": "easy", "center": "coordinate-median"}, 'use "geometric-median" or "mean"'),
        ({"method": "kernel-herding", "approximation": None}, "leave it out, or select without an engine"),
        ({"method": "easy", "sample_weight": np.ones(5)}, "an engine counts every row alike"),
        ({"method": "gm-matching", "carry": True}, "pass carry=False"),
    ],
)
def test_what_does_not_run_is_refused_before_any_work(options, message):
    # The source does not exist, so nothing was opened.
    with pytest.raises(InvalidInputError, match=message):
        gm.select("nowhere.npy", k=5, engine="local", **options)


@pytest.fixture
def damaged(tmp_path):
    """12,000 rows of three classes with wrong labels and copies in three files, of which the second is lost."""
    random = np.random.default_rng(2)
    true = random.integers(0, 3, 12_000)
    rows = (4.0 * np.eye(3, 100)[true] + random.normal(size=(12_000, 100))).astype(np.float32)
    rows[9000:9500] = rows[7]
    given = np.where(random.random(12_000) < 0.2, (true + 1) % 3, true)
    paths = [tmp_path / f"{number}.npy" for number in range(3)]
    for path, part in zip(paths, np.split(rows, 3), strict=True):
        np.save(path, part)
    shards = open_shards(paths)
    paths[1].unlink()
    return rows, given, shards, np.r_[0:4000, 8000:12_000]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"method": "robust", "n_components": 64}, marks=slow),
        pytest.param({"method": "robust", "n_components": 64, "relabel": 0.95}, marks=slow),
        {"method": "easy", "duplicates": "one"},
        pytest.param({"method": "easy", "relabel": 0.95, "preprocess": ["scale"]}, marks=slow),
    ],
    ids=["screening", "relabeling while screening", "duplicates", "relabeling"],
)
def test_what_looks_at_all_rows_does_without_those_that_cannot_be_read(damaged, options):
    rows, given, shards, left = damaged
    asked = {"k": 300, "random_state": 0, **options}
    more = {"carry": False} if "n_components" in options else {}
    alone = gm.select(rows[left], y=given[left], **asked, **more)
    found = gm.select(shards, y=given, **asked, engine=LocalEngine(2, skip_unreadable=True))
    assert found.order.tolist() == left[alone.order].tolist()
    assert found.labels.tolist() == alone.labels.tolist()
    if found.screening is not None:
        assert found.screening.counts == {**alone.screening.counts, "could not be read": 4000}
    if "duplicates" in options:
        repeated = found.provenance["duplicates"]
        assert repeated["left_out"] == 500 and repeated["largest"][0]["rows"] == [7, *range(9000, 9007)]
