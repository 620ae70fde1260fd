"""A sharded array is indexed like the plain array it stands for."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmmatch.embeddings.sharded_array as module
from gmmatch.embeddings import ShardedArray
from gmmatch.errors import InvalidInputError


def split(array, lengths):
    ends = np.cumsum([0, *lengths])
    return [array[a:b] for a, b in pairwise(ends)]


def save_shards(folder, array, lengths):
    paths = []
    for number, shard in enumerate(split(array, lengths)):
        paths.append(folder / f"{number}.npy")
        np.save(paths[-1], shard)
    return ShardedArray(paths, lengths=lengths, n_features=array.shape[1], dtype=array.dtype)


def sizes_and_keys(draw):
    lengths = draw(st.lists(st.integers(0, 7), min_size=1, max_size=6).filter(sum))
    n = sum(lengths)
    rows = st.integers(-n, n - 1)
    bound = st.none() | st.integers(-n - 3, n + 3)
    slices = st.builds(slice, bound, bound, st.none() | st.integers(-4, 4).filter(bool))
    keys = st.one_of(
        rows,
        rows.map(np.int32),
        slices,
        st.lists(rows, max_size=12),
        st.lists(rows, max_size=12).map(lambda values: np.array(values, dtype=np.int64)),
        st.lists(rows, min_size=4, max_size=4).map(lambda values: np.array(values).reshape(2, 2)),
        st.lists(st.integers(0, n - 1), min_size=1).map(lambda values: np.array(values, dtype=np.uint16)),
        st.lists(st.booleans(), min_size=n, max_size=n),
        st.lists(st.booleans(), min_size=n, max_size=n).map(np.array),
    )
    column = st.integers(-3, 2)
    edge = st.none() | st.integers(-4, 4)
    columns = st.one_of(column, st.builds(slice, edge, edge))
    pairs = st.tuples(keys, columns) | st.tuples(slices, st.lists(column))
    key = draw(st.one_of(keys, st.tuples(keys), pairs))
    return lengths, key


@pytest.mark.parametrize("row", [0, np.int32(0), np.array(1), np.uint8(1)])
def test_one_number_of_a_row_is_a_number(row):
    plain = np.arange(6.0).reshape(2, 3)
    array = ShardedArray([plain[:1], plain[1:]])
    assert array[row, 2] == plain[row, 2]
    assert np.shape(array[row, 2]) == ()
    assert np.array_equal(array[row], plain[row])


@settings(max_examples=400)
@given(case=st.composite(sizes_and_keys)())
def test_any_index_gives_what_numpy_gives(case):
    lengths, key = case
    plain = np.arange(sum(lengths) * 3, dtype=np.float32).reshape(-1, 3)
    expected = plain[key]
    result = ShardedArray(split(plain, lengths))[key]
    assert type(result) is type(expected)  # a single number is a NumPy scalar
    assert result.dtype == plain.dtype
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_files_read_as_the_array_they_were_cut_from(tmp_path, dtype):
    plain = np.random.default_rng(0).standard_normal((23, 5)).astype(dtype)
    rows = save_shards(tmp_path, plain, [8, 8, 7])
    assert (rows.shape, rows.ndim, rows.size, rows.nbytes) == (plain.shape, 2, plain.size, plain.nbytes)
    assert (rows.dtype, rows.itemsize, len(rows)) == (plain.dtype, plain.itemsize, len(plain))
    assert rows.shard_bounds == [(0, 8), (8, 16), (16, 23)]
    np.testing.assert_array_equal(np.asarray(rows), plain)
    np.testing.assert_array_equal(np.asarray(rows, dtype=np.float64), plain.astype(np.float64))
    np.testing.assert_array_equal(rows[...], plain)
    np.testing.assert_array_equal(np.stack(list(rows)), plain)
    np.testing.assert_array_equal(rows[[22, 0, 8, 8, -1]], plain[[22, 0, 8, 8, -1]])


def test_nothing_can_be_written(tmp_path):
    plain = np.ones((6, 2), dtype=np.float32)
    for rows in (save_shards(tmp_path, plain, [3, 3]), ShardedArray(split(plain, [3, 3]))):
        with pytest.raises(ValueError, match="read-only"):
            rows[0:2][0, 0] = 5
        with pytest.raises(TypeError):
            rows[0] = 5
    assert plain.flags.writeable  # the caller's own array is left alone


@pytest.mark.parametrize(
    "key",
    [6, -7, [0, 6], [-7], np.array([2**63], dtype=np.uint64), [True], np.ones(7, dtype=bool), 1.5, "a", None, True,
     [0.5], (0, 0, 0), ([0], [1]), (None, 0), (slice(None), 3), (..., 0)],
)  # fmt: skip
def test_what_is_no_index_is_refused(key):
    rows = ShardedArray(split(np.ones((6, 2)), [3, 3]))
    with pytest.raises(IndexError):
        rows[key]


@pytest.mark.parametrize("n_rows", [1, 2, 5, 6, 100])
def test_blocks_are_the_rows_in_order(tmp_path, n_rows):
    plain = np.arange(46, dtype=np.float32).reshape(23, 2)
    rows = save_shards(tmp_path, plain, [8, 8, 7])
    blocks = list(rows.row_blocks(n_rows))
    assert [start for start, _ in blocks] == list(range(0, 23, n_rows))
    assert all(len(block) == n_rows for _, block in blocks[:-1])
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), plain)
    with pytest.raises(InvalidInputError, match="n_rows=0"):
        next(rows.row_blocks(0))


def test_no_rows():
    rows = ShardedArray([], n_features=3, dtype="float16")
    assert rows.shape == np.asarray(rows).shape == (0, 3)
    assert rows[:].shape == rows[[]].shape == (0, 3)
    assert list(rows.row_blocks()) == []
    with pytest.raises(IndexError):
        rows[0]


def test_files_are_opened_when_needed_and_not_too_many_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_OPEN_SHARDS", 3)
    opened = []
    original = np.load
    monkeypatch.setattr(
        np, "load", lambda path, **options: opened.append(path.name) or original(path, **options)
    )
    plain = np.arange(40, dtype=np.float32).reshape(20, 2)
    rows = save_shards(tmp_path, plain, [2] * 10)
    assert opened == []
    rows[5:7]
    assert opened == ["2.npy", "3.npy"]
    order = np.random.default_rng(0).permutation(20)
    opened.clear()
    np.testing.assert_array_equal(rows[order], plain[order])
    # Each file once, in their order, although the rows were asked for in a mixed one.
    assert opened == [f"{i}.npy" for i in range(10)]
    assert len(rows._open) == 3
    view = rows[0:2]
    for i in range(20):
        rows[i]
    np.testing.assert_array_equal(view, plain[0:2])  # a view outlives the closing of its file


def test_copies_for_other_processes_hold_names_not_rows(tmp_path):
    plain = np.random.default_rng(0).standard_normal((4000, 50))
    rows = save_shards(tmp_path, plain, [2000, 2000])
    np.testing.assert_array_equal(rows[3999], plain[3999])
    data = pickle.dumps(rows)
    assert len(data) < 2000
    np.testing.assert_array_equal(pickle.loads(data)[[3999, 0]], plain[[3999, 0]])


def test_threads_may_share_it(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_OPEN_SHARDS", 2)
    plain = np.arange(400, dtype=np.float32).reshape(200, 2)
    rows = save_shards(tmp_path, plain, [10] * 20)

    def work(seed):
        for _ in range(30):
            wanted = np.random.default_rng(seed).integers(0, 200, 50)
            np.testing.assert_array_equal(rows[wanted], plain[wanted])

    with ThreadPoolExecutor(6) as pool:  # what a thread raises is raised here
        list(pool.map(work, range(6)))


def test_rows_are_not_loaded_at_once(tmp_path):
    import tracemalloc

    plain = np.ones((40_000, 64), dtype=np.float32)  # 10 MB
    rows = save_shards(tmp_path, plain, [10_000] * 4)
    del plain
    tracemalloc.start()
    try:
        total = sum(float(block.sum(dtype=np.float64)) for _, block in rows.row_blocks(500))
        total += float(rows[:, 3].sum()) + float(rows[np.arange(0, 40_000, 100)].sum())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == 40_000 * 64 + 40_000 + 400 * 64
    assert peak < 1_000_000


class TestDamage:
    def test_a_file_of_another_shape(self, tmp_path):
        rows = save_shards(tmp_path, np.ones((6, 2)), [3, 3])
        np.save(tmp_path / "1.npy", np.ones((4, 2)))
        with pytest.raises(InvalidInputError, match=r"1\.npy has shape \(4, 2\) .* expected \(3, 2\)"):
            rows[4]

    def test_a_file_that_is_gone_or_cut(self, tmp_path):
        rows = save_shards(tmp_path, np.ones((6, 2)), [3, 3])
        (tmp_path / "1.npy").write_bytes((tmp_path / "1.npy").read_bytes()[:-1])
        (tmp_path / "0.npy").unlink()
        for row, name in ((0, "0.npy"), (5, "1.npy")):
            with pytest.raises(InvalidInputError, match=rf"{name} cannot be read"):
                rows[row]

    def test_shards_that_do_not_fit_together(self):
        with pytest.raises(InvalidInputError, match=r"shards\[1\] has shape \(2, 4\)"):
            ShardedArray([np.ones((2, 3)), np.ones((2, 4))])
        with pytest.raises(InvalidInputError, match=r"shards\[1\] .* float32"):
            ShardedArray([np.ones((2, 3)), np.ones((2, 3), dtype=np.float32)])
        with pytest.raises(InvalidInputError, match="without shards"):
            ShardedArray([])
        with pytest.raises(InvalidInputError, match="paths need"):
            ShardedArray([Path("x.npy")])


@pytest.mark.skipif(np.__version__.startswith("1."), reason="NumPy 1 does not ask")
def test_it_cannot_be_an_array_without_a_copy():
    rows = ShardedArray(split(np.ones((6, 2)), [3, 3]))
    with pytest.raises(ValueError, match="copy"):
        np.array(rows, copy=False)
