"""Rows in files: the picks of rows in memory, whatever the files and however little memory there is."""

from __future__ import annotations

import errno
import tempfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.rows import shards
from gmmatch.rows.shards import RowFile, ShardReader

METHODS = ["easy", "moderate", "herding", "gm-matching", "kernel-herding"]


@pytest.fixture(scope="module")
def data():
    draw = np.random.default_rng(3)
    X = draw.normal(size=(900, 7)).astype(np.float32)
    X[:200] += 3.0
    return X, draw.integers(0, 3, 900)


@pytest.fixture
def paths(data, tmp_path):
    files = [tmp_path / f"{number}.npy" for number in range(4)]
    for path, rows in zip(files, np.split(data[0], [1, 1, 600]), strict=True):
        np.save(path, rows)
    return files


def pick(X, y, method, **options):
    # One batch: by default there are as many as the memory limit asks for.
    options |= {"batches": 1} if method in ("herding", "gm-matching") else {}
    return gm.select(X, y, k=45, method=method, preprocess="scale", random_state=1, **options).order.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_picks_do_not_depend_on_files_or_memory(data, paths, method):
    X, y = data
    expected = pick(X, y, method)
    # All rows, one class at a time, and less than a class, which then goes to a temporary file.
    for memory_limit in (None, 10_000, 100):
        assert pick(paths, y, method, memory_limit=memory_limit) == expected
    assert pick(paths, y, method, n_jobs=3) == expected


def test_without_room_for_a_temporary_file_picks_are_the_same(data, paths, monkeypatch):
    X, y = data
    expected = pick(X, y, "gm-matching")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    assert pick(paths, y, "gm-matching", memory_limit=100) == expected


def first_columns(block):
    return block.astype(np.float64)[:, :4]


@pytest.mark.parametrize("read", ["take", "block"])
def test_rows_are_mapped_a_few_at_a_time(tmp_path, read):
    X = np.zeros((8000, 256), dtype=np.float32)
    np.save(tmp_path / "x.npy", X)
    with gm.open_rows(tmp_path / "x.npy", n_jobs=1) as rows:
        mapped = rows.map(first_columns)
        tracemalloc.start()
        # Wide rows make few blocks of narrow ones.
        values = mapped.take(np.arange(len(X))) if read == "take" else mapped.block(0, len(X))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert values.shape == (8000, 4)
    assert peak < X.nbytes / 2


def test_an_array_of_mapped_rows_is_not_in_memory(tmp_path):
    X = np.arange(400_000, dtype=np.float32).reshape(50_000, 8)
    np.save(tmp_path / "x.npy", X)
    with gm.open_rows(tmp_path / "x.npy", n_jobs=1) as rows:
        tracemalloc.start()
        values = rows.map_array(first_columns)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert np.array_equal(values, X[:, :4])
    assert peak < values.nbytes


def test_temporary_files_are_deleted(data, paths, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    pick(paths, data[1], "kernel-herding", memory_limit=100)
    assert set(tmp_path.iterdir()) == before


def test_few_files_are_open_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "_OPEN_FILES", 2)
    X = np.arange(60.0).reshape(30, 2)
    files = []
    for number in range(10):
        np.save(tmp_path / f"{number}.npy", X[3 * number : 3 * number + 3])
        files.append(RowFile.of(tmp_path / f"{number}.npy"))
    reader = ShardReader(files)
    draws = np.random.default_rng(0).integers(0, 30, (40, 50))
    with ThreadPoolExecutor(4) as pool:
        for index, rows in zip(draws, pool.map(reader.take, draws), strict=True):
            np.testing.assert_array_equal(rows, X[index])
    np.testing.assert_array_equal(reader.slice(4, 29), X[4:29])
    assert len(reader._open) <= 2


def test_what_cannot_be_read_is_named(tmp_path, data):
    np.save(tmp_path / "a.npy", data[0])
    np.save(tmp_path / "flat.npy", data[0][:, 0])
    np.save(tmp_path / "narrow.npy", data[0][:, :2])
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    (tmp_path / "note.npy").write_bytes(b"no array")
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-100])
    for names, message, error in (
        (["missing.npy"], r"there is no file .*missing\.npy", DataFileNotFoundError),
        (["flat.npy"], r"flat\.npy has shape \(900,\).*rows by features", InvalidInputError),
        (["text.npy"], r"text\.npy has shape .*expected numbers", InvalidInputError),
        (["note.npy"], r"note\.npy is not a \.npy file of numbers", InvalidInputError),
        (
            ["cut.npy"],
            r"cut\.npy is .* damaged: its header claims 25,200 bytes, and 25,100 are",
            InvalidInputError,
        ),
        (["a.npy", "narrow.npy"], r"narrow\.npy has 2 features, but .*a\.npy has 7", InvalidInputError),
    ):
        with pytest.raises(error, match=message):
            gm.select([tmp_path / name for name in names], k=3, method="easy")
