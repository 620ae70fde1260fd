"""What the Triton kernels must do, on any device: the interpreter runs these checks on the CPU, a GPU for real."""

from __future__ import annotations

import numpy as np
import torch

from gmmatch.median.terms import distances, weiszfeld_terms
from gmmatch.rows import GreedyTask, tensor_picks
from gmmatch.rows.array import ArrayRows
from gmmatch.rows.tensor import TensorRows
from gmmatch.rows.tensor_groups import TensorGroups

DTYPES = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64")}


def make_rows(sizes, s, dtype="float32", *, seed=0, offset=0.0, device="cpu"):
    """Return rows on a device, the same rows in memory, and the group of each; the last group holds copies."""
    random = np.random.default_rng(seed)
    codes = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = random.standard_normal((len(codes), s)) + random.standard_normal(s) + offset
    copies = np.flatnonzero(codes == len(sizes) - 1)
    X[copies] = X[copies[np.arange(len(copies)) % 2]]
    tensor = torch.from_numpy(X).to(DTYPES[dtype])
    wide = tensor.to(torch.float64 if dtype == "float64" else torch.float32)
    return TensorRows(tensor.to(device)), ArrayRows(wide.numpy(), 1), codes


def check_terms(device, dtype="float32", sizes=(3, 20, 0, 6), s=5, *, delta=0.0):
    """The sums of a pass are those of the CPU, at a point that is a row of its group as well."""
    from gmmatch.rows.triton_median import GroupTerms

    rows, plain, codes = make_rows(sizes, s, dtype, device=device)
    weights = np.random.default_rng(1).integers(0, 3, len(codes)).astype(float)
    active = np.array([1, 2, 3])
    points = np.random.default_rng(2).standard_normal((3, s))
    points[2] = plain.take(np.flatnonzero((codes == 3) & (weights > 0))[:1])[0]
    slots = np.array([-1, 0, 1, 2])
    expected = weiszfeld_terms(
        plain.block(0, len(codes)), np.arange(len(codes)), codes, weights, points, slots, delta
    )
    groups = TensorGroups.of(rows.tensor, rows.scatter(codes), rows.scatter(weights > 0), len(sizes))
    terms = GroupTerms(groups, rows.scatter(weights)[groups.rows], delta)
    computed = terms.evaluate(rows.scatter(points), rows.scatter(active)).cpu().numpy()
    np.testing.assert_allclose(computed, expected, rtol=1e-13, atol=1e-13)
    means = plain.group_means(codes, weights, len(sizes))
    np.testing.assert_allclose(rows.group_means(codes, weights, len(sizes)), means, rtol=1e-13, atol=1e-13)


def check_medians(device, dtype="float32", sizes=(1, 2, 30, 7), s=4, *, delta=0.0):
    """Medians are certified, and as good as those of the CPU."""
    rows, plain, codes = make_rows(sizes, s, dtype, device=device)
    weights = np.random.default_rng(1).random(len(codes))
    options = {"eps": 1e-8, "max_iter": 200, "delta": delta}
    computed = rows.group_medians(codes, weights, len(sizes), **options)
    expected = plain.group_medians(codes, weights, len(sizes), **options)
    assert computed.converged.all()
    np.testing.assert_allclose(computed.objectives, expected.objectives, rtol=3e-8, atol=1e-12)
    np.testing.assert_allclose(computed.gaps, expected.gaps, rtol=0.01, atol=1e-8)


def check_picks(
    device,
    dtype="float32",
    sizes=(1, 40, 25, 9),
    s=6,
    quotas=(1, 12, 25, 4),
    *,
    replacement=False,
    offset=0.0,
    start=1.0,
    scan=False,
):
    """Picks and θ are those of the CPU to the last bit, by Gram matrices or by scans."""
    rows, plain, codes = make_rows(sizes, s, dtype, offset=offset, device=device)
    available = np.ones(len(codes), dtype=bool) if max(quotas) == max(sizes) else codes != 1
    available[np.flatnonzero(codes == 1)[::2]] = True
    targets = plain.group_means(codes, np.ones(len(codes)), len(sizes))
    quotas = np.minimum(quotas, np.bincount(codes[available], minlength=len(sizes)))
    task = GreedyTask(codes, quotas, targets, start * targets, available, replacement)
    assert_same_picks(rows, plain, task, scan=scan)


def check_ties(device, *, scan=False, few=None):
    """Rows of equal score: copies, and rows of the same numbers, which only the order of a sum tells apart."""
    random = np.random.default_rng(3)
    X = np.concatenate([random.permuted(np.tile(random.random(19), (20, 1)), axis=1) for _ in range(6)])
    X[14] = X[3]
    X = np.concatenate([X, np.ones((4, 19))])
    codes = np.repeat(np.arange(7), [20] * 6 + [4])
    targets = np.full((7, 19), 1.0 / 3.0)
    quotas = np.array([5, 2, 2, 2, 2, 2, 4])
    task = GreedyTask(codes, quotas, targets, targets.copy(), np.ones(len(X), dtype=bool))
    with replaced(tensor_picks, _FEW_RIVALS=tensor_picks._FEW_RIVALS if few is None else few):
        assert_same_picks(TensorRows(torch.from_numpy(X).to(device)), ArrayRows(X, 1), task, scan=scan)


def check_layouts(device):
    """Views of a tensor, its strides and its offset do not matter; nor does a gradient."""
    _, plain, codes = make_rows((8, 9), 6, "float64")
    targets = plain.group_means(codes, np.ones(17), 2)
    task = GreedyTask(codes, np.array([3, 4]), targets, targets.copy(), np.ones(17, dtype=bool))
    wide = torch.zeros((34, 13), dtype=torch.float64, device=device)
    wide[1::2, 4:10] = torch.from_numpy(plain.X).to(device)
    across = torch.from_numpy(np.ascontiguousarray(plain.X.T)).to(device).requires_grad_().T
    for tensor in (wide[1::2, 4:10], across):
        assert_same_picks(TensorRows(tensor), plain, task)


def check_distances(device, dtype="float32"):
    """Distances are those of the CPU; rows of no group have none."""
    rows, plain, codes = make_rows((40, 5, 4), 7, dtype, device=device)
    codes[3] = -1
    points = plain.group_means(codes, np.ones(49), 3)
    lengths = [each.map_blocks(distances, points, per_row=(codes,)) for each in (rows, plain)]
    np.testing.assert_allclose(*lengths, rtol=1e-13)


def check_residuals(device):
    """The path of residuals is that of the CPU."""
    rows, plain, codes = make_rows((10, 5, 4), 6, device=device)
    points = plain.group_means(codes, np.ones(19), 3)
    picks = np.concatenate([np.flatnonzero(codes == group)[:4] for group in (0, 2)])
    paths = [each.measure_residuals(points, picks, codes[picks]) for each in (rows, plain)]
    # Where the picks meet the point exactly, a GPU leaves a rounding error.
    np.testing.assert_allclose(*paths, rtol=1e-13, atol=1e-15)


def assert_same_picks(rows, plain, task, *, scan=False):
    expected, thetas = plain.greedy_picks(task)
    with replaced(tensor_picks, _GRAM_ROWS=0 if scan else tensor_picks._GRAM_ROWS):
        order, after = rows.greedy_picks(task)
    assert order.tolist() == expected.tolist()
    np.testing.assert_array_equal(after, thetas)


class replaced:  # noqa: N801 (reads as a statement)
    """Replace constants of a module for a while."""

    def __init__(self, module, **values):
        self.module, self.values = module, values

    def __enter__(self):
        self.before = {name: getattr(self.module, name) for name in self.values}
        vars(self.module).update(self.values)

    def __exit__(self, *_):
        vars(self.module).update(self.before)
