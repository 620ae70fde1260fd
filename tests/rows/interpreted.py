"""The kernels by Triton's interpreter on the CPU; test_triton.py runs this file in a process of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from triton.runtime import interpreter

import gmmatch as gm
from gmmatch.rows.tensor import TensorRows
from tests.rows import kernel_checks as checks

pytestmark = pytest.mark.slow
each_dtype = pytest.mark.parametrize("dtype", checks.DTYPES)
each_way = pytest.mark.parametrize("scan", [False, True], ids=["gram", "scan"])


@pytest.fixture(autouse=True, scope="module")
def patch_language_once():
    """Keep the patched language: patching it for every sum takes nine tenths of the interpreter's time."""
    patch, patched = interpreter._patch_lang, set()

    class Kept:
        def restore(self):
            """Restore nothing."""

    def patch_once(function):
        if id(function.__globals__) not in patched:
            patched.add(id(function.__globals__))
            patch(function)
        return Kept()

    interpreter._patch_lang = patch_once


@each_dtype
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_terms(dtype, delta):
    checks.check_terms("cpu", dtype, delta=delta)


def test_terms_of_several_tiles(monkeypatch):
    monkeypatch.setattr("gmmatch.rows.triton_median._ROWS_PER_TILE", 20)
    monkeypatch.setattr("gmmatch.rows.triton_median._MERGED_TILES", 1)
    checks.check_terms("cpu", sizes=(3, 50, 0, 60), s=70)


@each_dtype
def test_medians(dtype):
    checks.check_medians("cpu", dtype)


def test_medians_with_delta():
    checks.check_medians("cpu", delta=0.1)


def test_no_median_of_rows_with_nan():
    rows = TensorRows(torch.tensor([[0.0], [float("nan")], [1.0]]))
    medians = rows.group_medians(np.zeros(3, int), np.ones(3), 1, eps=1e-8, max_iter=50, delta=0.0)
    assert np.isnan(medians.objectives[0])
    assert medians.iterations[0] < 10


@each_dtype
@each_way
@pytest.mark.parametrize("replacement", [False, True])
def test_picks(dtype, scan, replacement):
    checks.check_picks("cpu", dtype, replacement=replacement, scan=scan)


@each_way
def test_picks_far_from_the_origin(scan):
    checks.check_picks("cpu", offset=1000.0, scan=scan)


@each_way
def test_picks_from_a_start_of_zero_and_all_rows(scan):
    checks.check_picks("cpu", sizes=(30, 3), quotas=(30, 3), start=0.0, scan=scan)


def test_picks_by_several_gram_matrices_and_tiles(monkeypatch):
    monkeypatch.setattr("gmmatch.rows.tensor_picks._GRAM_BYTES", 4 * 40**2)
    monkeypatch.setattr("gmmatch.rows.tensor_picks._GRAM_TILE", 16)
    checks.check_picks("cpu")


def test_rows_too_long_for_float32_are_scanned():
    checks.check_picks("cpu", "float64", offset=1e60, quotas=(1, 3, 3, 3))


def test_picks_by_scans_of_several_tiles(monkeypatch):
    monkeypatch.setattr("gmmatch.rows.tensor_picks._SCANNED_ROWS", 1)
    monkeypatch.setattr("gmmatch.rows.tensor_picks._TILES_READ", 2)
    checks.check_picks("cpu", s=300, sizes=(60, 5), quotas=(4, 2), scan=True)


@each_way
def test_ties(scan):
    checks.check_ties("cpu", scan=scan)


@pytest.mark.parametrize("few", [0, 100])
def test_ties_decided_together_and_one_after_another(few):
    checks.check_ties("cpu", few=few)


def test_layouts():
    checks.check_layouts("cpu")


@each_dtype
def test_distances(dtype):
    checks.check_distances("cpu", dtype)


SELECTIONS = {
    "carried": ("herding", {"batches": 3}),
    "independent": ("herding", {"batches": gm.Independent(2), "k": 66}),
    "replacement": ("gm-matching", {"replacement": True}),
    "included": ("gm-matching", {"include": [3, 4, 50]}),
    "weighted": ("gm-matching", {"sample_weight": np.linspace(0.0, 2.0, 90)}),
    "delta": ("gm-matching", {"target": gm.GeometricMedian(delta=0.1, eps=1e-6)}),
    "features": ("herding", {"kernel": gm.RandomFeatures(gm.RBF(), 8)}),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_selections_are_those_of_arrays(name):
    random = np.random.default_rng(0)
    X = random.standard_normal((90, 4)).astype(np.float32)
    method, options = SELECTIONS[name]
    y = None if "batches" in options else random.integers(0, 3, 90)
    arguments = {"y": y, "k": 24, "method": method, "random_state": 0, **options}
    rows = TensorRows(torch.from_numpy(X))
    computed, expected = gm.select(rows, **arguments), gm.select(X, **arguments)
    assert computed.order.tolist() == expected.order.tolist()
    np.testing.assert_allclose(computed.residuals, expected.residuals, atol=1e-6)
