"""Selecting from a store in bounded memory gives what selecting from an array gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.cli.io.selecting import within_memory
from gmmatch.embeddings import StoreWriter, open_store
from gmmatch.errors import InvalidInputError

REPOSITORY = Path(__file__).resolve().parents[2]


class InMemory:
    """An array that claims to lie on disk, so that it is read in the batches that a store is read in."""

    bfloat16, on_disk = False, True

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: Any) -> np.ndarray:
        return self.array[rows]

    def row_source(self) -> InMemory:
        return self


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """9,000 rows of 40 numbers in nine shards, in two classes, a third of them elsewhere."""
    random = np.random.default_rng(0)
    X = random.normal(size=(9_000, 40)).astype(np.float16)
    X[random.random(9_000) < 0.33] += 3
    path = tmp_path_factory.mktemp("stores") / "x.emb"
    with StoreWriter(path, encoder="made", encoder_fingerprint="1", rows_per_shard=1_000) as writer:
        writer.append(X, ids=[f"row-{i}" for i in range(9_000)], labels=[i % 2 for i in range(9_000)])
        writer.finish()
    return open_store(path)


def test_the_median_of_a_store_is_that_of_its_array(store):
    on_disk = gm.geometric_median(store.as_array())
    in_memory = gm.geometric_median(np.asarray(store.as_array()))
    assert np.array_equal(on_disk.point, in_memory.point) and on_disk.gap == in_memory.gap


@pytest.mark.parametrize("labels", [False, True], ids=["one group", "classes"])
@pytest.mark.parametrize("batches", [1, 4])
def test_picks_agree_with_those_from_memory(store, batches, labels):
    X, y = np.asarray(store.as_array()), store.labels if labels else None
    options = {"k": 90, "batches": batches, "random_state": 3, "method": "gm-matching"}
    assert np.array_equal(
        gm.select(store.as_array(), y=y, **options).order, gm.select(X, y=y, **options).order
    )
    # With so little memory that neither a class nor a batch could be held twice.
    tight = {**options, "memory_limit": 100_000}
    on_disk = gm.select(store.as_array(), y=y, **tight)
    assert np.array_equal(on_disk.order, gm.select(InMemory(X), y=y, **tight).order)


def test_the_command_picks_in_batches_and_names_the_rows(store, tmp_path, succeeds):
    typed = ("select", store.path, "-k", "1%", "-m", "gm-matching", "-o", tmp_path / "p.json")
    succeeds(*typed, "--labels", "none", "--memory", "240MB")
    found = gm.Selection.load(tmp_path / "p.json")
    options = within_memory(240_000_000, store.shape, "gm-matching", {})
    expected = gm.select(
        InMemory(np.asarray(store.as_array())), k="1%", method="gm-matching", random_state=0, **options
    )
    assert np.array_equal(found.order, expected.order)
    assert found.order_ids.tolist() == [f"row-{row}" for row in found.order]


METHODS = {
    "random": {},
    "easy": {},
    "moderate": {"preprocess": ["center", "scale"]},
    "self-supervised": {"preprocess": ["unit"]},
    "gm-matching": {"normalize": True, "batches": 1},
    "kernel-herding": {"approximation": "nystroem", "n_components": 32, "batches": 1},
    "kernel-herding, exact": {},
    "gm-matching, kernel": {"kernel": "rbf", "preprocess": ["pca:8"], "memory_limit": 10**9},
    "optimization": {},
}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_picks_from_a_store_what_it_picks_from_memory(store, name):
    options = {
        "k": 45,
        "random_state": 3,
        "y": store.labels,
        "method": name.partition(",")[0],
        **METHODS[name],
    }
    on_disk = gm.select(store.as_array(), **options)
    assert np.array_equal(on_disk.order, gm.select(np.asarray(store.as_array()), **options).order)


@pytest.mark.parametrize("method", gm.methods())
def test_too_little_memory_is_refused_with_what_would_be_enough(method):
    with pytest.raises(InvalidInputError, match=r"is too little for method .* on 1,000,000 rows") as error:
        within_memory(10**8, (10**6, 512), method, {})
    enough = int(str(error.value).rpartition(" ")[2].rstrip(".").replace(",", ""))
    assert within_memory(enough, (10**6, 512), method, {})["n_jobs"] == 1
    assert within_memory(64 * enough, (10**6, 512), method, {"n_jobs": 8})["n_jobs"] == 8


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells anonymous memory apart")
def test_a_gigabyte_is_selected_from_in_less_than_400_megabytes(tmp_path):
    from benchmarks.store_selection import make_store

    n_rows = make_store(tmp_path / "x.emb", 1.0, 512)
    arguments = [
        tmp_path / "x.emb",
        "-k",
        "1%",
        "-o",
        tmp_path / "p.npy",
        "--memory",
        "380MB",
        "-m",
        "gm-matching",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.store_selection", "--observe", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["peak_anonymous_bytes"] < 400e6
    assert found["bytes_read"] > 1e9  # otherwise the observer did not observe
    selection = gm.Selection.load(tmp_path / "p.npy")
    assert selection.k == len(np.unique(selection.order)) == round(n_rows / 100)
    # A tenth of the residual that as many random rows would have: sqrt(features / picks).
    assert selection.residual[None] < 0.1 * np.sqrt(512 / selection.k)
