"""Near-duplicates: all of them and no others, whatever the rows look like."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.near_duplicates import cells, groups
from gmmatch.near_duplicates.search import near_pairs


def cosines(X, Y=None):
    X, Y = (np.asarray(Z, dtype=np.float64) for Z in (X, X if Y is None else Y))
    X, Y = (Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-300) for Z in (X, Y))
    return X @ Y.T


def brute_force(X, threshold):
    i, j = np.nonzero(np.triu(cosines(X) >= threshold - 1e-7, 1))
    return list(zip(i.tolist(), j.tolist(), strict=True))


def clustered(n, width, seed=0, dtype=np.float32):
    """Rows around 40 centres, a tenth of them moved a little from another row: by 0.1% to 30% of its length."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((40, width))[random.integers(0, 40, n)]
    X += 0.6 * random.standard_normal((n, width))
    some, others = random.integers(0, n, (2, n // 10))
    X[some] = X[others] + np.geomspace(1e-3, 0.3, len(some))[:, None] * random.standard_normal(
        (len(some), width)
    )
    return X.astype(dtype)


@pytest.fixture
def small_cells(monkeypatch):
    """As many cells for few rows as else for many."""
    monkeypatch.setattr(cells, "_ROWS_PER_CELL", 50)
    monkeypatch.setattr(cells, "_LINES", 16)
    monkeypatch.setattr(cells, "_COLUMNS", 32)


@pytest.mark.grid
@pytest.mark.parametrize("width", [3, 40, 300])
@pytest.mark.parametrize("threshold", [0.95, 0.8, 0.999])
def test_all_pairs_are_found_and_no_others(small_cells, width, threshold):
    X = clustered(1500, width)
    left, right, similar = near_pairs(X, threshold)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == brute_force(X, threshold)
    assert np.allclose(similar, cosines(X)[left, right], atol=1e-12)
    assert len(left) > 20


def test_rows_that_stay_are_no_duplicates_and_all_others_are_of_their_original(small_cells):
    X = clustered(1500, 100)
    found = gm.duplicates(X, 0.9)
    similar = cosines(X)
    stay = np.flatnonzero(~found.mask)
    among = similar[np.ix_(stay, stay)] - 2.0 * np.eye(len(stay))
    assert among.max() < 0.9
    assert not found.mask[found.original[found.rows]].any()
    assert np.allclose(found.similarity[found.rows], similar[found.rows, found.original[found.rows]])
    assert np.nanmin(found.similarity) >= 0.9 and len(found.rows) > 50


def test_the_most_typical_row_of_a_group_stays_and_the_lowest_of_equals():
    angles = np.radians([4.0, 0.0, 8.0, 90.0, 95.0, 90.0])
    X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    found = gm.duplicates(X, np.cos(np.radians(5.0)))
    assert found.original.tolist() == [-1, 0, 0, -1, 3, 3]
    assert [group.tolist() for group in found.groups] == [[0, 1, 2], [3, 4, 5]]
    assert found.similarity[5] == 1.0


def test_a_chain_is_not_one_group():
    angles = np.radians(np.arange(0.0, 60.0, 4.0))
    X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    found = gm.duplicates(X, np.cos(np.radians(5.0)))
    assert max(len(group) for group in found.groups) == 3
    assert np.nanmin(found.similarity) >= np.cos(np.radians(5.0)) - 1e-7


def test_long_chains_are_gone_through_in_pieces(small_cells, monkeypatch):
    X = clustered(1500, 100)
    wanted = gm.duplicates(X, 0.6)
    assert max(len(group) for group in wanted.groups) > 20
    monkeypatch.setattr(groups, "_SHORT", 10)
    monkeypatch.setattr(groups, "_LINES", 7)
    assert np.array_equal(gm.duplicates(X, 0.6).original, wanted.original)


def test_rows_in_the_other_set_with_the_most_similar_of_them(small_cells):
    X, Y = clustered(900, 100), clustered(600, 100, seed=1)
    Y[:50] = 2.0 * X[100:150]
    Y[50:60] = X[100:110] + 0.01
    found = gm.duplicates(X, 0.9, against=Y)
    similar = cosines(X, Y)
    wanted = similar.max(axis=1) >= 0.9
    assert np.array_equal(found.mask, wanted) and found.against
    assert np.allclose(found.similarity[wanted], similar.max(axis=1)[wanted])
    assert found.original[100:150].tolist() == list(range(50))


def test_order_threads_and_type_of_the_rows_change_nothing(small_cells):
    X = clustered(1000, 120, dtype=np.float16)
    found = gm.duplicates(X, 0.9)
    for other in (X.astype(np.float32), X.astype(np.float64), np.asfortranarray(X)):
        again = gm.duplicates(other, 0.9, n_jobs=1)
        assert np.array_equal(again.original, found.original)
    shuffled = np.random.default_rng(5).permutation(len(X))
    again = gm.duplicates(X[shuffled], 0.9)
    assert again.mask.sum() == pytest.approx(found.mask.sum(), abs=3)  # which of two rows stays may differ


def test_many_copies_cost_nothing():
    X = clustered(30_000, 60)
    X[5_000:] = X[17]
    found = gm.duplicates(X, 0.99)
    assert np.all(found.original[5_000:] == found.original[4_999 + 1])
    assert len(found.groups[0]) >= 25_001


def test_the_threshold_is_between_copies_and_neighbours():
    random = np.random.default_rng(0)
    X = random.standard_normal((3_000, 10)).astype(np.float32)
    X[:100] = X[1_000:1_100] + 1e-3
    found = gm.duplicates(X)
    assert found.estimated and 0.98 < found.threshold < 1.0
    assert found.mask.sum() == 100
    untouched = gm.duplicates(X[1_000:])
    assert untouched.mask.sum() <= 1


def test_no_duplicates_and_few_rows():
    found = gm.duplicates(np.eye(200))
    assert not found.mask.any() and found.groups == [] and np.isnan(found.similarity).all()
    assert repr(found).startswith("Duplicates: 0 of 200 rows, in 0 groups")
    assert gm.duplicates([[1.0, 2.0]]).mask.tolist() == [False]
    assert gm.duplicates([[1.0, 2.0], [2.0, 4.0], [2.0, 1.0]]).original.tolist() == [-1, 0, -1]


def test_rows_of_zeros_are_copies_of_each_other_only():
    X = np.zeros((4, 3))
    X[0] = 1.0
    assert gm.duplicates(X, 0.5).original.tolist() == [-1, -1, 1, 1]


@pytest.mark.parametrize("threshold", [0.0, 1.5, -1, "0.9", np.nan])
def test_thresholds_that_are_no_cosine_are_refused(threshold):
    with pytest.raises(gm.GMMatchError, match="threshold="):
        gm.duplicates(np.eye(3), threshold)


def test_sets_of_other_columns_and_nan_are_refused():
    with pytest.raises(gm.GMMatchError, match="against has 2"):
        gm.duplicates(np.eye(3), against=np.eye(2))
    with pytest.raises(gm.GMMatchError, match="against contains NaN"):
        gm.duplicates(np.eye(2), against=[[np.nan, 1.0]])
