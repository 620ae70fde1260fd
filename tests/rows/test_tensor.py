"""Rows of torch tensors on the CPU, by the functions of blocks that every backend has."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gmmatch.errors import InvalidTypeError  # noqa: E402
from gmmatch.median.search import MedianSearch  # noqa: E402
from gmmatch.rows import GreedyTask, open_rows  # noqa: E402
from gmmatch.rows.array import ArrayRows  # noqa: E402
from gmmatch.rows.tensor import TensorRows, _full_precision  # noqa: E402
from tests.rows.kernel_checks import DTYPES, check_residuals, make_rows  # noqa: E402


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("replacement", [False, True])
def test_medians_and_picks_are_those_of_arrays(dtype, replacement):
    rows, plain, codes = make_rows((1, 60, 25, 9), 6, dtype)
    weights = np.random.default_rng(1).integers(0, 3, len(codes)) + (codes == 0.0)
    options = {"eps": 1e-8, "max_iter": 100, "delta": 0.0}
    computed, expected = (each.group_medians(codes, weights, 4, **options) for each in (rows, plain))
    np.testing.assert_allclose(computed.points, expected.points, atol=1e-6)
    assert computed.converged.all()
    points = expected.points
    task = GreedyTask(
        codes, np.array([1, 20, 25, 4]), points, 0.0 * points, np.ones(len(codes), bool), replacement
    )
    (order, thetas), (plain_order, plain_thetas) = rows.greedy_picks(task), plain.greedy_picks(task)
    assert order.tolist() == plain_order.tolist()
    np.testing.assert_array_equal(thetas, plain_thetas)


@pytest.mark.parametrize("span", [3, 4, 5, 1 << 16])
def test_residuals_are_those_of_arrays_however_many_picks_are_read_at_a_time(monkeypatch, span):
    monkeypatch.setattr("gmmatch.rows.tensor._READ_PICKS", span)
    check_residuals("cpu")


def test_integers_are_computed_in_a_type_that_holds_them():
    large = torch.tensor([[2**24 + 1], [3]])
    assert TensorRows(large).take(np.array([0]))[0, 0] == 2**24 + 1
    assert TensorRows(large.to(torch.uint8)).block(0, 2).dtype == torch.float32


@pytest.mark.parametrize("tensor", [torch.eye(2).to_sparse(), torch.zeros(2, 2, dtype=torch.complex64)])
def test_sparse_and_complex_tensors_are_refused(tensor):
    with pytest.raises(InvalidTypeError, match="real numbers"):
        TensorRows(tensor)


def test_products_are_not_rounded_by_what_the_program_allows():
    torch.set_float32_matmul_precision("high")
    try:
        with _full_precision():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("kind", ["copies", "line", "far"])
def test_medians_of_hard_shapes_are_those_of_arrays(kind):
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 4))
    X = {"copies": X[random.integers(0, 9, 60)], "line": np.outer(X[:, 0], np.ones(4)), "far": X}[kind]
    X[::7] *= 1e6 if kind == "far" else 1.0
    codes, weights = random.integers(0, 3, 60), random.random(60)
    computed, expected = (
        rows.group_medians(codes, weights, 3, eps=1e-8, max_iter=300, delta=0.0)
        for rows in (TensorRows(torch.from_numpy(X)), ArrayRows(X, 1))
    )
    assert computed.converged.all() and expected.converged.all()
    np.testing.assert_allclose(computed.points, expected.points, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(computed.objectives, expected.objectives, rtol=2e-8)


def test_a_long_history_is_cut_to_one_step(monkeypatch):
    monkeypatch.setattr("gmmatch.median.search._HISTORY_BYTES", 1000)
    options = {"eps": 1e-8, "max_iter": 100, "delta": 0.0}
    assert MedianSearch(np.zeros((2, 5)), **options).depth == 5
    assert MedianSearch(np.zeros((2, 6)), **options).depth == 1
    X = np.random.default_rng(0).standard_normal((200, 40))
    medians = ArrayRows(X, 1).group_medians(np.zeros(200, int), np.ones(200), 1, **options)
    assert medians.converged.all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_in_main_memory_is_opened_as_an_array(dtype):
    tensor = torch.arange(12.0).reshape(3, 4).to(DTYPES[dtype]).requires_grad_()
    with open_rows(tensor.T) as rows:
        assert isinstance(rows, ArrayRows)
        assert rows.take(np.array([1])).tolist() == [[1.0, 5.0, 9.0]]
