"""Grouped medians and picks: the fused kernels and the plain torch operations, against the CPU."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gmmatch import RBF, Polynomial, geometric_median  # noqa: E402
from gmmatch.backends.cuda.groups import DeviceGroups  # noqa: E402
from gmmatch.backends.cuda.kernel_space import grouped_kernel_picks  # noqa: E402
from gmmatch.backends.cuda.medians import grouped_medians  # noqa: E402
from gmmatch.backends.cuda.picks import grouped_picks  # noqa: E402
from gmmatch.matching.reference import reference_picks  # noqa: E402
from gmmatch.median.in_kernel import kernel_geometric_median  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
PATHS = [
    pytest.param(("cpu", False), id="torch-cpu"),
    pytest.param(("cuda", False), id="torch-cuda", marks=needs_gpu),
    pytest.param(("cuda", True), id="triton", marks=needs_gpu),
]


def make_groups(sizes, s, seed=0, dtype=torch.float32, offset=0.0):
    """Rows in groups of these sizes, scattered over the tensor, with a group of duplicates."""
    random = np.random.default_rng(seed)
    n = sum(sizes)
    rows = torch.from_numpy(random.standard_normal((n, s)) + offset + random.standard_normal(s)).to(dtype)
    order = random.permutation(n)
    groups = [np.sort(part) for part in np.split(order, np.cumsum(sizes)[:-1])]
    rows[groups[-1]] = rows[groups[-1][:2]].repeat(len(groups[-1]) // 2 + 1, 1)[: len(groups[-1])]
    return rows, groups


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("s", [1, 3, 33, 512])
def test_medians_are_those_of_the_cpu(path, dtype, s):
    device, triton = path
    rows, groups = make_groups([1, 2, 7, 300, 65, 12], s, dtype=dtype)
    result = grouped_medians(DeviceGroups.of(rows.to(device), groups), triton=triton)
    for g, mine in enumerate(groups):
        expected = geometric_median(rows[mine].double().numpy(), eps=1e-10)
        assert float(result.objectives[g]) <= expected.objective * (1 + 2e-8) + 1e-12
        assert (
            float(result.objectives[g])
            <= (1 + float(result.gaps[g])) * expected.objective * (1 + 1e-12) + 1e-12
        )
        assert float(result.gaps[g]) <= 1e-8
    assert bool(result.converged.all())


@pytest.mark.parametrize("path", PATHS)
def test_weights_count_like_copies(path):
    device, triton = path
    rows, groups = make_groups([40, 30, 6], 5)
    weights = torch.from_numpy(np.random.default_rng(1).integers(1, 4, 76).astype(float))
    result = grouped_medians(DeviceGroups.of(rows.to(device), groups), weights.to(device), triton=triton)
    start = 0
    for g, mine in enumerate(groups):
        w = weights[start : start + len(mine)].numpy()
        start += len(mine)
        expected = geometric_median(rows[mine].double().numpy(), sample_weight=w)
        assert float(result.objectives[g]) == pytest.approx(expected.objective, rel=3e-8)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("start", ["target", "zero"])
@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("memory", [None, 0, 300_000])
def test_picks_are_those_of_the_reference(path, dtype, start, replacement, memory):
    device, triton = path
    rows, groups = make_groups([1, 2, 150, 299, 65, 12], 48, seed=2, dtype=dtype)
    wide = rows.double().numpy()
    targets = np.stack([np.median(wide[mine], axis=0) for mine in groups])
    quotas = np.array([1, 2, 40, 299, 0, 9])
    picks = grouped_picks(
        DeviceGroups.of(rows.to(device), groups), torch.from_numpy(targets).to(device), quotas, start=start,
        replacement=replacement, memory_limit=memory, triton=triton,
    )  # fmt: skip
    for g, mine in enumerate(groups):
        expected = reference_picks(
            wide[mine], targets[g], int(quotas[g]), start=start, replacement=replacement
        )
        part = slice(picks.offsets[g], picks.offsets[g + 1])
        assert picks.order[part].tolist() == expected.tolist(), g
        if quotas[g]:
            residual = np.linalg.norm(targets[g] - wide[mine][expected].mean(axis=0))
            assert picks.residuals[part][-1] == pytest.approx(residual, abs=1e-9)


@pytest.mark.parametrize("path", PATHS)
def test_data_far_from_the_origin(path):
    device, triton = path
    rows, groups = make_groups([200, 8], 32, seed=3, offset=1000.0)
    wide = rows.double().numpy()
    targets = np.stack([wide[mine].mean(axis=0) for mine in groups])
    picks = grouped_picks(
        DeviceGroups.of(rows.to(device), groups), torch.from_numpy(targets).to(device), np.array([90, 8]),
        triton=triton,
    )  # fmt: skip
    for g, mine in enumerate(groups):
        expected = reference_picks(wide[mine], targets[g], [90, 8][g])
        assert picks.order[picks.offsets[g] : picks.offsets[g + 1]].tolist() == expected.tolist()


@pytest.mark.parametrize("path", PATHS)
def test_unavailable_rows_are_never_picked(path):
    device, triton = path
    rows, groups = make_groups([80, 40], 16)
    free = torch.from_numpy(np.random.default_rng(0).random(120) < 0.6)
    targets = torch.zeros((2, 16), dtype=torch.float64, device=device)
    picks = grouped_picks(
        DeviceGroups.of(rows.to(device), groups), targets, np.array([20, 10]), available=free.to(device),
        triton=triton,
    )  # fmt: skip
    assert free[:80][picks.order[:20]].all()
    assert free[80:][picks.order[20:]].all()


@needs_gpu
def test_one_group_too_large_for_a_program():
    rows, groups = make_groups([20_000, 4], 64, seed=5)
    wide = rows.double().numpy()
    targets = np.stack([wide[mine].mean(axis=0) for mine in groups])
    picks = grouped_picks(
        DeviceGroups.of(rows.cuda(), groups), torch.from_numpy(targets).cuda(), np.array([100, 4])
    )
    expected = reference_picks(wide[groups[0]], targets[0], 100)
    assert picks.order[:100].tolist() == expected.tolist()


@needs_gpu
@pytest.mark.parametrize("kernel", [RBF(6.0), Polynomial(3, 1.0)])
@pytest.mark.parametrize("median", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("replacement", [False, True])
def test_picks_in_a_kernels_space(kernel, median, dtype, replacement):
    """Each pick's float64 score is the best there is, but for the rounding of float32 kernel values."""
    rows, groups = make_groups([1, 150, 299, 12], 24, seed=4, dtype=dtype)
    quotas = np.array([1, 40, 120, 6])
    result = grouped_kernel_picks(
        DeviceGroups.of(rows.cuda(), groups), [kernel] * 4, quotas, median=median, replacement=replacement
    )
    for g, mine in enumerate(groups):
        wide = rows[mine].double().numpy()
        gram = kernel(wide, wide)
        coefficients = np.full(len(mine), 1.0 / len(mine))
        if median:
            coefficients = kernel_geometric_median(gram, eps=1e-9).point
            assert result.gaps[g] <= 1e-6
        target = gram @ coefficients
        scores, free = target.copy(), np.ones(len(mine), dtype=bool)
        order = result.picks.order[result.picks.offsets[g] : result.picks.offsets[g + 1]]
        tolerance = 2e-4 * np.abs(gram).max() * (1 if median else 0.1)
        for t, pick in enumerate(order):
            assert scores[pick] >= scores[free].max() - tolerance * np.sqrt(t + 1)
            scores += target - gram[pick]
            free[pick] = replacement
        chosen = np.bincount(order, minlength=len(mine)) / len(order)
        exact = np.sqrt(max(0.0, (coefficients - chosen) @ gram @ (coefficients - chosen)))
        residual = result.picks.residuals[result.picks.offsets[g + 1] - 1]
        assert residual == pytest.approx(exact, abs=3e-3 * np.sqrt(np.diagonal(gram).max()))


@pytest.mark.parametrize(
    "work", [grouped_medians, lambda groups: grouped_picks(groups, groups.data[:1].double(), [1])]
)
def test_kernels_are_launched_with_the_device_of_the_rows_as_the_current_one(work, monkeypatch):
    groups = DeviceGroups.of(torch.zeros(4, 3), [np.arange(4)])
    entered = []

    def recorded(tensor):
        entered.append(tensor)
        return contextlib.nullcontext()

    monkeypatch.setattr(torch.cuda, "device_of", recorded)
    work(groups)
    assert [tensor is groups.data for tensor in entered] == [True]
