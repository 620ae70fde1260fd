"""Every backend: the same numbers and the same picks, wherever the rows are."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch._array import array_namespace
from gmmatch.median.terms import distances, weighted_sums
from gmmatch.rows import GreedyTask
from tests.textbook import textbook_picks


def add_one(block):
    return block + 1


def count_rows(block, codes, n_groups):
    return weighted_sums(block[:, :0], codes, codes * 0.0 + 1.0, n_groups)


def round_rows(block):
    return array_namespace(block).round(block)


def test_take_map_and_reduce(backend, data, open_backend):
    X, y, w = data
    rows = open_backend(backend)
    assert (len(rows), rows.n_features) == X.shape
    index = np.array([400, 3, 3, 99])
    np.testing.assert_array_equal(rows.take(index), X[index])
    np.testing.assert_array_equal(rows.map(add_one).take(index), X[index] + 1)
    points = np.arange(15.0).reshape(3, 5)
    expected = np.linalg.norm(X - points[y], axis=1)
    for codes in (y, rows.scatter(y)):
        np.testing.assert_allclose(rows.map_blocks(distances, points, per_row=(codes,)), expected)
    np.testing.assert_array_equal(rows.reduce_blocks(count_rows, 3, per_row=(y,))[:, 0], np.bincount(y))
    expected = [np.average(X[y == g], axis=0, weights=w[y == g]) for g in range(3)]
    np.testing.assert_allclose(rows.group_means(y, w, 4), [*expected, np.zeros(5)], rtol=1e-12)
    assert rows.provenance()["n_rows"] == len(X)


def test_rows_of_no_group_take_no_part(backend, data, open_backend):
    X, y, w = data
    codes = np.where(np.arange(len(X)) < 60, -1, y)
    medians = open_backend(backend).group_medians(codes, w, 3, eps=1e-9, max_iter=100, delta=0.0)
    for group in range(3):
        alone = gm.geometric_median(X[codes == group], sample_weight=w[codes == group], eps=1e-9)
        np.testing.assert_allclose(medians.points[group], alone.point, atol=1e-7)
    assert medians.converged.all()


@pytest.mark.parametrize("replacement", [False, True])
def test_picks_are_those_of_the_textbook(backend, data, open_backend, replacement):
    X, y, _ = data
    X = np.round(X)  # many ties
    rows = open_backend(backend).map(round_rows)
    available = np.arange(len(X)) % 7 > 0
    targets, quotas = rows.group_means(y, np.ones(len(X)), 3), np.array([20, 0, 33])
    order, thetas = rows.greedy_picks(GreedyTask(y, quotas, targets, targets, available, replacement))
    expected = [
        textbook_picks(X, targets[g], quotas[g], available=available & (y == g), replacement=replacement)
        for g in range(3)
    ]
    assert order.tolist() == np.concatenate(expected).tolist()
    np.testing.assert_allclose(thetas[2], targets[2] * 34 - X[expected[2]].sum(axis=0), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_types_are_exact(backend, data, open_backend, dtype):
    X, y, _ = data
    narrow = X.astype(dtype)
    rows = open_backend(backend, narrow)
    for method in ("gm-matching", "easy"):
        expected = gm.select(narrow.astype(np.float64), y, k=60, method=method)
        assert gm.select(rows, y, k=60, method=method).order.tolist() == expected.order.tolist()


SMALL = {
    "one row": ([[1.0, 2.0]], [0], 1),
    "fewer picks than classes": (np.arange(24.0).reshape(12, 2), [0, 1, 2, 3, 4, 5] * 2, 4),
    "all rows, a class of one": (np.arange(14.0).reshape(7, 2) % 5, [0, 0, 0, 0, 0, 0, 1], 7),
    "equal rows": (np.ones((6, 2)), [0, 1, 0, 1, 0, 0], 4),
    "zeros": (np.zeros((5, 1)), None, 3),
    "copies": (np.tile([[3.0, 1.0], [-2.0, 5.0], [0.5, 0.5]], (3, 1)), None, 5),
}


@pytest.mark.parametrize("method", ["gm-matching", "herding", "moderate", "hard"])
@pytest.mark.parametrize("case", SMALL)
def test_small_inputs(backend, open_backend, case, method):
    X, y, k = SMALL[case]
    selection = gm.select(open_backend(backend, np.array(X)), y, k=k, method=method)
    assert selection.order.tolist() == gm.select(X, y, k=k, method=method).order.tolist()
    assert selection.k == k == len(set(selection.order.tolist()))


@pytest.mark.parametrize("layout", ["columns", "strided", "read-only"])
def test_rows_may_lie_in_memory_in_any_way(backend, data, open_backend, layout):
    X, y, _ = data
    wide = np.zeros((len(X), 10))
    wide[:, ::2] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    rows = open_backend(
        backend, {"columns": np.asfortranarray(X), "strided": wide[:, ::2], "read-only": frozen}[layout]
    )
    expected = gm.select(X, y, k=60, method="gm-matching").order.tolist()
    assert gm.select(rows, y, k=60, method="gm-matching").order.tolist() == expected


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_row_that_cannot_be_used_is_named(backend, data, open_backend, value):
    X = data[0].copy()
    X[[17, 401], 2] = value
    with pytest.raises(gm.errors.NotFiniteError, match=r"2 of 420 rows \(first: 17, 401\)"):
        gm.geometric_median(open_backend(backend, X))


def test_a_memory_limit_makes_batches(data, tmp_path):
    X, y, _ = data
    paths = [tmp_path / f"{number}.npy" for number in range(2)]
    for path, shard in zip(paths, np.array_split(X, 2), strict=True):
        np.save(path, shard)
    limited = gm.Herding(k=60, random_state=0).select(list(paths), y, memory_limit=X.nbytes // 3)
    batched = gm.Herding(k=60, random_state=0, batches=3).select(X, y)
    assert limited.order.tolist() == batched.order.tolist()


def test_an_option_that_a_backend_has_no_use_for_is_an_error(data):
    with pytest.raises(ValueError, match="memory_limit has no meaning for array rows"):
        gm.Easy(k=3).select(data[0], memory_limit=1000)
