"""Near-duplicates: all of them and no others, whatever the rows look like and wherever they are."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.duplicates import cells, representatives


def cosines(X, Y=None):
    X, Y = (np.asarray(Z, dtype=np.float64) for Z in (X, X if Y is None else Y))
    X, Y = (Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-300) for Z in (X, Y))
    return X @ Y.T


def clustered(n, width, seed=0, dtype=np.float32):
    """Rows around 40 centers, a tenth of them near another row: at 0.1% to 30% of its length."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((40, width))[random.integers(0, 40, n)]
    X += 0.6 * random.standard_normal((n, width))
    some, others = random.integers(0, n, (2, n // 10))
    noise = random.standard_normal((len(some), width))
    X[some] = X[others] + np.geomspace(1e-3, 0.3, len(some))[:, None] * noise
    return X.astype(dtype)


@pytest.fixture
def small_cells(monkeypatch):
    """As many cells for few rows as there are for many."""
    monkeypatch.setattr(cells, "ROWS_PER_CELL", 50)
    monkeypatch.setattr(cells, "TILE_ROWS", 16)
    monkeypatch.setattr(cells, "TILE_COLUMNS", 32)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("width", [3, 40, 300])
@pytest.mark.parametrize("threshold", [0.95, 0.8, 0.999])
def test_rows_that_stay_are_no_duplicates_and_all_others_are_near_their_original(
    small_cells, width, threshold
):
    X = clustered(1200, width)
    copies, similar = gm.duplicates(X, threshold), cosines(X)
    stay = np.flatnonzero(~copies.mask)
    assert (similar[np.ix_(stay, stay)] - 2.0 * np.eye(len(stay))).max() < threshold
    assert not copies.mask[copies.original[copies.rows]].any()
    assert np.allclose(copies.similarity[copies.rows], similar[copies.rows, copies.original[copies.rows]])
    assert np.nanmin(copies.similarity) >= threshold - 1e-7 and len(copies.rows) > 20


def test_the_most_typical_row_of_a_group_stays_and_the_lowest_of_equals():
    angles = np.radians([4.0, 0.0, 8.0, 90.0, 95.0, 90.0])
    X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    copies = gm.duplicates(X, np.cos(np.radians(5.0)))
    assert copies.original.tolist() == [-1, 0, 0, -1, 3, 3]
    assert [group.tolist() for group in copies.groups] == [[0, 1, 2], [3, 4, 5]]
    assert copies.similarity[5] == 1.0


def test_a_chain_is_not_one_group():
    angles = np.radians(np.arange(0.0, 60.0, 4.0))
    X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    copies = gm.duplicates(X, np.cos(np.radians(5.0)))
    assert max(len(group) for group in copies.groups) == 3
    assert np.nanmin(copies.similarity) >= np.cos(np.radians(5.0)) - 1e-7


def test_large_components_are_visited_in_pieces(monkeypatch):
    X = clustered(1000, 100)
    whole = gm.duplicates(X, 0.6)
    assert max(len(group) for group in whole.groups) > 20
    monkeypatch.setattr(representatives, "SMALL", 10)
    monkeypatch.setattr(representatives, "LEADERS", 7)
    pieces = gm.duplicates(X, 0.6)
    assert np.array_equal(pieces.original, whole.original)
    assert np.allclose(pieces.similarity, whole.similarity, equal_nan=True)


def test_rows_in_the_other_set_with_the_most_similar_of_them(small_cells):
    X, Y = clustered(900, 100), clustered(600, 100, seed=1)
    Y[:50] = 2.0 * X[100:150]
    Y[50:60] = X[100:110] + 0.01
    leaks, similar = gm.duplicates(X, 0.9, against=Y), cosines(X, Y)
    near = similar.max(axis=1) >= 0.9
    assert np.array_equal(leaks.mask, near) and leaks.against
    assert np.allclose(leaks.similarity[near], similar.max(axis=1)[near])
    assert leaks.original[100:150].tolist() == list(range(50))
    assert "near-duplicates of" in repr(leaks)


def test_threads_types_files_and_tensors_change_nothing(small_cells, torch, tmp_path):
    X = clustered(1000, 120, dtype=np.float16)
    copies = gm.duplicates(X, 0.9)
    np.save(tmp_path / "a.npy", X[:300])
    np.save(tmp_path / "b.npy", X[300:])
    files = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for form in (
        X.astype(np.float32),
        X.astype(np.float64),
        np.asfortranarray(X),
        files,
        torch.from_numpy(X),
    ):
        assert np.array_equal(gm.duplicates(form, 0.9).original, copies.original)
    assert np.array_equal(gm.duplicates(X, 0.9, n_jobs=1).original, copies.original)
    assert np.array_equal(gm.duplicates(files, 0.9, memory_limit=1 << 16).original, copies.original)
    between = gm.duplicates(X[:300], 0.9, against=X[300:])
    assert np.array_equal(gm.duplicates(files[0], 0.9, against=files[1]).original, between.original)


def test_many_copies_cost_nothing():
    X = clustered(20_000, 60)
    X[5_000:] = X[17]
    copies = gm.duplicates(X, 0.99)
    assert np.all(copies.original[5_001:] == copies.original[5_000])
    assert len(copies.groups[0]) >= 15_001


def test_the_threshold_is_between_copies_and_neighbors():
    X = np.random.default_rng(0).standard_normal((3_000, 10)).astype(np.float32)
    X[:100] = X[1_000:1_100] + 1e-3
    copies = gm.duplicates(X)
    assert copies.estimated and 0.98 < copies.threshold < 1.0
    assert copies.mask.sum() == 100
    assert gm.duplicates(X[1_000:]).mask.sum() <= 1


def test_no_duplicates_and_few_rows():
    none = gm.duplicates(np.eye(200))
    assert not none.mask.any() and none.groups == [] and np.isnan(none.similarity).all()
    assert repr(none).startswith("Duplicates: 0 of 200 rows, in 0 groups")
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


def test_sets_of_other_columns_are_refused():
    with pytest.raises(gm.GMMatchError, match="against has 2 columns and X has 3"):
        gm.duplicates(np.eye(3), against=np.eye(2))
