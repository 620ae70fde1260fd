"""Matching in a kernel's space, against a plain NumPy loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmmatch import RBF, Laplacian, Linear, Polynomial
from gmmatch.errors import InvalidInputError
from gmmatch.matching.in_kernel import ComputedRows, KernelTarget, StoredGram, match_in_kernel
from gmmatch.matching.match import match
from gmmatch.rows.rows import as_rows

KERNELS = [Linear(), Polynomial(3), RBF(1.3), Laplacian(2.0)]


def plain_loop(gram, coefficients, k, start="target", replacement=False):
    """Kernel herding as it is written down, one argmax per pick."""
    target = gram @ coefficients
    scores = target.copy() if start == "target" else np.zeros(len(gram))
    free, order = np.ones(len(gram), dtype=bool), []
    for _ in range(k):
        order.append(int(np.argmax(np.where(free, scores, -np.inf))))
        scores = scores + target - gram[order[-1]]
        if not replacement:
            free[order[-1]] = False
    return order


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 50),
    s=st.integers(1, 6),
    kernel=st.sampled_from(KERNELS),
    start=st.sampled_from(["target", "zero"]),
    replacement=st.booleans(),
    data=st.data(),
)
@settings(max_examples=80, deadline=None)
def test_picks_of_the_plain_loop(seed, n, s, kernel, start, replacement, data):
    random = np.random.default_rng(seed)
    rows = random.standard_normal((n, s))
    k = data.draw(st.integers(1, n))
    gram = kernel(rows, rows)
    coefficients = random.dirichlet(np.ones(n))
    scores = gram @ coefficients
    expected = plain_loop(gram, coefficients, k, start, replacement)
    for source in (StoredGram(gram), ComputedRows(kernel, as_rows(rows), 1)):
        picks = match_in_kernel(
            KernelTarget(source, scores, float(coefficients @ scores), np.diagonal(gram).copy()), k,
            start=start, replacement=replacement,
        )  # fmt: skip
        if start == "target":  # from zero, all first scores tie, and then rounding may decide
            assert picks.order.tolist() == expected
        chosen = np.bincount(picks.order, minlength=n) / k
        exact = np.sqrt(max(0.0, (coefficients - chosen) @ gram @ (coefficients - chosen)))
        assert picks.residuals[-1] == pytest.approx(exact, abs=1e-6 * np.sqrt(np.diagonal(gram).max()))


@pytest.mark.parametrize("kernel", KERNELS)
def test_computed_rows_are_the_kernels(kernel):
    rows = np.random.default_rng(0).standard_normal((70, 5)).astype(np.float32)
    source = ComputedRows(kernel, as_rows(rows), 2)
    gram = kernel(rows, rows)
    for position in (0, 33, 69):
        assert source.row(position) == pytest.approx(gram[position], rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("scale", [1e-200, 1e-157, 1.0, 1e140, 1e200])
def test_computed_rows_of_several_chunks_at_any_bandwidth(scale):
    """Squares of these bandwidths are 0 or too large for a float; of the rows themselves, they are not."""
    rows = min(scale, 1e140) * np.random.default_rng(0).standard_normal((40, 1 << 17))
    source, kernel = as_rows(rows), RBF(300.0 * scale)
    assert source.n_chunks > 1
    assert ComputedRows(kernel, source, 1).row(7) == pytest.approx(kernel(rows, rows)[7], rel=1e-9)


def test_linear_kernel_is_the_linear_engine():
    random = np.random.default_rng(3)
    rows = random.standard_normal((120, 5))
    target = rows.mean(axis=0)
    gram = rows @ rows.T
    inside = match_in_kernel(
        KernelTarget(StoredGram(gram), rows @ target, float(target @ target), np.diagonal(gram).copy()), 60
    )
    outside = match(as_rows(rows), target, 60)
    assert inside.order.tolist() == outside.order.tolist()
    assert inside.residuals == pytest.approx(outside.residuals, abs=1e-7)


def test_equal_rows_go_lowest_first():
    base = np.random.default_rng(0).standard_normal((30, 4))
    rows = np.vstack([base, base, base])
    gram = RBF(1.0)(rows, rows)
    noisy = gram + 1e-16 * np.random.default_rng(1).standard_normal(gram.shape)  # rounding of a product
    scores = noisy.mean(axis=1)
    order = match_in_kernel(
        KernelTarget(StoredGram(noisy), scores, float(scores.mean()), np.ones(90)), 60
    ).order.tolist()
    for row in range(30):
        copies = [position for position in order if position % 30 == row]
        assert copies == sorted(copies)


def test_batches_carry_and_include():
    random = np.random.default_rng(0)
    rows = random.standard_normal((90, 3))
    gram = RBF(1.0)(rows, rows)
    scores, norm = gram.mean(axis=1), float(gram.mean())
    target = KernelTarget(StoredGram(gram), scores, norm, np.ones(90))
    picks = match_in_kernel(target, 30, batches=5, random_state=0)
    assert len(set(picks.order.tolist())) == 30
    full = match_in_kernel(target, 10)
    free = np.ones(90, dtype=bool)
    free[full.order[:4]] = False
    resumed = match_in_kernel(target, 6, already=full.order[:4], available=free)
    assert resumed.order.tolist() == full.order[4:].tolist()
    with pytest.raises(InvalidInputError, match="k=91"):
        match_in_kernel(target, 91)


@pytest.mark.parametrize("degree", [1, 3, 5, 10])
def test_large_kernel_values_elsewhere_do_not_blur_small_scores(degree):
    """A far cluster has kernel values of 1e20; scores of the other rows must still be told apart."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((300, 2))
    rows[240:] += [10.0, 6.0]
    gram = Polynomial(degree)(rows, rows)
    coefficients = np.zeros(300)
    coefficients[:240] = 1.0 / 240
    scores = gram @ coefficients
    picks = match_in_kernel(
        KernelTarget(StoredGram(gram), scores, float(coefficients @ scores), np.diagonal(gram).copy()), 40
    )
    assert picks.order.tolist() == plain_loop(gram, coefficients, 40)
