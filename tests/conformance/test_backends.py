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
    wide = X.astype(dtype).astype(np.float64)
    for method in ("gm-matching", "easy"):
        narrow = gm.select(open_backend(backend, dtype), y, k=60, method=method)
        assert narrow.order.tolist() == gm.select(wide, y, k=60, method=method).order.tolist()


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
