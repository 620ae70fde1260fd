"""A device answers as the CPU does: the same warnings, refusals and medians, for numbers of any size."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gmmatch as gm  # noqa: E402
from gmmatch.backends.cuda.blocks import TensorSource  # noqa: E402
from gmmatch.backends.cuda.groups import DeviceGroups  # noqa: E402
from gmmatch.backends.cuda.medians import grouped_medians  # noqa: E402
from gmmatch.backends.cuda.picks import grouped_picks  # noqa: E402
from gmmatch.errors import ConvergenceWarning, FarRowWarning, NotFiniteError  # noqa: E402
from gmmatch.kernels.kernels import resolve_kernel  # noqa: E402
from gmmatch.matching.reference import reference_picks  # noqa: E402
from gmmatch.matching.walk import Picks  # noqa: E402
from gmmatch.selectors.kernel_groups import kernel_result  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])


def on(device: str, rows: np.ndarray) -> TensorSource:
    return TensorSource(torch.from_numpy(rows).to(device))


@devices
@pytest.mark.parametrize("target", ["mean", "geometric-median"])
def test_a_far_row_is_warned_about_whatever_the_target(device, target):
    X = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    X[17, 2] = 3.4e38
    for rows in (X, on(device, X)):
        with pytest.warns(FarRowWarning, match="Row 17 lies"):
            assert len(gm.MomentMatching(k=5, target=target).select(rows)) == 5


@devices
def test_values_too_large_to_square_are_refused(device):
    X = np.ones((10, 3))
    X[4, 1] = 1e200
    for rows in (X, on(device, X)):
        with pytest.raises(NotFiniteError, match=r"in 1 of 10 rows \(first: 4\)"):
            gm.GMMatching(k=2).select(rows)


@devices
@pytest.mark.parametrize("seed", range(8))
def test_equidistant_rows_are_no_copies(device, seed):
    """Rows of a lattice lie at equal distances from its points, where only copies of one row add their weights."""
    random = np.random.default_rng(seed)
    groups = [random.integers(-2, 3, size=(size, 2 + seed % 3)).astype(np.float64) for size in (9, 40, 700)]
    tensor = torch.from_numpy(np.concatenate(groups)).to(device)
    members = np.split(np.arange(len(tensor)), np.cumsum([len(group) for group in groups])[:-1])
    found = grouped_medians(DeviceGroups.of(tensor, members), eps=1e-9)
    assert found.converged.all()
    for number, group in enumerate(groups):
        expected = gm.geometric_median(group, eps=1e-9).objective
        assert float(found.objectives[number]) <= expected * (1.0 + 2e-9)


@devices
@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-200, 1e-155, 1e-100, 1e-30, 1.0, 1e30, 1e100, 1e149])
def test_picks_are_those_of_the_reference_at_any_magnitude(device, scale):
    X = np.random.default_rng(0).normal(size=(60, 7)).clip(-3, 3) / 3 * scale
    target = X.mean(axis=0)
    groups = DeviceGroups.of(torch.from_numpy(X).to(device), [np.arange(60)])
    with np.errstate(all="ignore"):
        expected = reference_picks(X, target, 30)
        for memory in (None, 0):  # by a Gram matrix where that can be, and by a scan per pick
            found = grouped_picks(groups, groups.to_device(target[None]), np.array([30]), memory_limit=memory)
            assert sorted(found.order.tolist()) == sorted(set(found.order.tolist()))
            assert found.order.tolist() == expected.tolist()


@devices
def test_scores_that_overflow_still_give_rows(device):
    X = np.random.default_rng(1).choice([-1e149, 1e149, 1e-200], size=(40, 5))
    target = np.full(5, 1e149) * np.array([1, -1, 1, -1, 1])
    groups = DeviceGroups.of(torch.from_numpy(X).to(device), [np.arange(40)])
    start = groups.to_device(np.full((1, 5), 1e305))
    found = grouped_picks(groups, groups.to_device(target[None]), np.array([40]), start=start, memory_limit=0)
    assert sorted(found.order.tolist()) == list(range(40))


@devices
def test_batches_and_included_rows_are_as_on_the_cpu(device):
    X = np.random.default_rng(2).normal(size=(700, 5)) + 1.0
    labels = np.arange(700) % 2
    for options in (
        {"batches": 3, "carry": False, "k": 250},
        {"batches": 4, "k": 60},
        {"k": 40, "include": [3, 10], "exclude": np.arange(100, 300)},
    ):
        asked = {"y": labels, "random_state": 1, "method": "gm-matching", **options}
        here, there = gm.select(X, **asked), gm.select(on(device, X), **asked)
        assert there.order.tolist() == here.order.tolist()
        for one, other in zip(there.groups, here.groups, strict=True):
            np.testing.assert_allclose(one.residuals, other.residuals, rtol=1e-5)


def test_a_kernel_median_that_stopped_early_is_warned_about():
    """With the accuracy that was used, where float32 kernel values do not allow the one that was asked for."""
    nothing = Picks(np.array([0]), np.array([0.0]))
    details = {"median_gap": 1e-3, "median_converged": False, "median_eps": 1e-6}
    result = kernel_result(gm.GMMatching(kernel="rbf"), resolve_kernel("rbf"), nothing, details)
    (warning,) = result.warnings
    assert isinstance(warning, ConvergenceWarning) and "not eps=1.0e-06" in str(warning)
    assert result.details["median_eps"] == 1e-6


@needs_gpu
def test_on_a_gpu_kernel_medians_say_what_they_reached():
    X = torch.randn(300, 4, generator=torch.Generator().manual_seed(0)).cuda()
    found = gm.GMMatching(k=10, kernel="rbf").select(X)
    (facts,) = found.provenance["groups"]
    assert facts["median_converged"] and facts["median_gap"] <= facts["median_eps"] == 1e-6
    with pytest.warns(ConvergenceWarning, match="not eps=1.0e-06"):
        gm.GMMatching(k=10, kernel="rbf", max_iter=1).select(X)


def test_groups_that_triton_leaves_open_are_searched_as_on_the_cpu(monkeypatch):
    rows = np.random.default_rng(3).normal(size=(90, 3))
    groups = DeviceGroups.of(torch.from_numpy(rows), [np.arange(40), np.arange(40, 90)])
    whole = grouped_medians(groups)

    def half(groups, weights, eps, max_iter):
        zeros = torch.zeros(2, dtype=torch.float64)
        done = torch.tensor([True, False])
        return type(whole)(
            whole.points.clone() * 0.0, zeros, zeros.clone(), zeros.long(), done, whole.distances * 0.0
        )

    monkeypatch.setattr("gmmatch.backends.cuda.medians._by_triton", half)
    found = grouped_medians(groups, triton=True)
    assert found.converged.tolist() == [True, True]
    assert torch.equal(found.points[1], whole.points[1]) and not found.points[0].any()
    assert torch.equal(found.distances[40:], whole.distances[40:]) and not found.distances[:40].any()
