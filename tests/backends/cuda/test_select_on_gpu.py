"""A CUDA tensor goes into ``select`` like any array, with the picks of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device on this machine", allow_module_level=True)

import gmmatch as gm  # noqa: E402
from gmmatch.errors import InvalidInputError  # noqa: E402


def make(dtype=torch.float32, n=3000, s=64):
    random = np.random.default_rng(0)
    rows = torch.from_numpy(random.standard_normal((n, s)) + 1.0).to(dtype)
    return rows, random.integers(0, 7, n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("method", ["gm-matching", "herding"])
@pytest.mark.parametrize("labelled", [True, False])
def test_picks_of_the_cpu(dtype, method, labelled):
    rows, labels = make(dtype)
    y = labels if labelled else None
    # A median accurate to rounding on both sides, so that both match the same target.
    options = {"y": y, "k": 200, "method": method, "eps": 1e-13} if method == "gm-matching" else {
        "y": y, "k": 200, "method": method
    }  # fmt: skip
    here = gm.select(rows, **options)
    there = gm.select(rows.cuda(), **options)
    same = np.mean(here.order == there.order)
    assert same > 0.99
    assert there.residual == pytest.approx(here.residual, abs=1e-6)


def test_labels_on_the_device_and_options():
    rows, labels = make()
    exclude = np.arange(0, 3000, 7)
    weights = np.random.default_rng(1).integers(1, 4, 3000).astype(float)
    options = {"k": 0.1, "exclude": exclude, "sample_weight": weights, "normalize": True, "unit_target": True}
    here = gm.select(rows, y=labels, eps=1e-12, **options)
    there = gm.select(rows.cuda(), y=torch.from_numpy(labels).cuda(), eps=1e-12, **options)
    assert not np.isin(there.indices, exclude).any()
    assert len(np.intersect1d(here.indices, there.indices)) > 0.97 * len(here)


def test_what_has_no_kernel_of_its_own_still_works():
    rows, labels = make()
    for method, options in (
        ("moderate", {}),
        ("moderate", {"center": "coordinate-median"}),
        ("gm-matching", {"batches": 4, "random_state": 0}),
        ("gm-matching", {"include": [5, 6, 7]}),
        ("gm-matching", {"median_fraction": 0.5, "random_state": 1}),
    ):
        here = gm.select(rows, y=labels, k=100, method=method, **options)
        there = gm.select(rows.cuda(), y=labels, k=100, method=method, **options)
        assert np.array_equal(here.order, there.order)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("s", [8, 64, 200])
@pytest.mark.parametrize("method", ["kernel-herding", "gm-matching"])
def test_kernels(method, s, dtype):
    rows, labels = make(dtype, s=s)
    options = {"y": labels, "k": 140, "method": method, "kernel": "rbf"}
    here, there = gm.select(rows, **options), gm.select(rows.cuda(), **options)
    for label, value in here.residual.items():
        assert there.residual[label] == pytest.approx(value, rel=0.1, abs=2e-3)
    if method == "kernel-herding":  # a median of float32 kernel values may differ in its last digits
        assert np.mean(here.order == there.order) > 0.97


def test_bad_values_are_named():
    rows, _ = make()
    rows[17, 3] = torch.nan
    with pytest.raises(InvalidInputError, match="first: 17"):
        gm.select(rows.cuda(), k=10, method="gm-matching")
