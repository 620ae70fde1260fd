"""Shards that several processes write, and one adds to the store."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.errors import GMMatchError, InvalidInputError
from gmmatch.store import StoreLockedError, StoreWriter, open_store
from gmmatch.store.commits import Commits
from gmmatch.store.manifest import Manifest
from gmmatch.store.shard import RowTable, write_shard

X = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
REQUESTED = Manifest("clip", "f1", "float32", n_features=4, rows_per_shard=16, has_labels=True)


def shard(path, number, without=()):
    """Write the rows of one shard, some of which could not be encoded."""
    rows = [row for row in range(16 * number, min(50, 16 * number + 16)) if row not in without]
    table = RowTable(rows, [f"r{row}" for row in rows], [row % 3 for row in rows])
    return write_shard(Path(path), number, table, X[rows])


def contents(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def write_whole(path):
    with StoreWriter(
        path, encoder="clip", encoder_fingerprint="f1", dtype="float32", rows_per_shard=16
    ) as writer:
        writer.append(X, [f"r{row}" for row in range(50)], [row % 3 for row in range(50)])
        writer.finish()
    return contents(path)


def test_shards_of_other_processes_make_the_store_of_one_writer(tmp_path):
    expected = write_whole(tmp_path / "a.emb")
    commits = Commits(tmp_path / "b.emb", REQUESTED)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for written in pool.starmap(shard, [(commits.path, number) for number in (3, 1, 0, 2)]):
            commits.add([written])
    commits.add(complete=True)
    commits.close()
    assert contents(tmp_path / "b.emb") == expected


def test_what_was_added_stays_whatever_is_missing_and_the_rest_is_removed(tmp_path):
    commits = Commits(tmp_path / "x.emb", REQUESTED)
    commits.add([shard(commits.path, 2), shard(commits.path, 0)])
    shard(commits.path, 1)  # killed before it is added
    commits.close()
    store = open_store(tmp_path / "x.emb", allow_incomplete=True, verify=True)
    assert store.source_rows.tolist() == [*range(16), *range(32, 48)]
    commits = Commits(tmp_path / "x.emb", REQUESTED)
    assert [one.number for one in commits.manifest.shards] == [0, 2]
    assert sum(name.endswith(".arrow") for name in contents(commits.path)) == 2
    with pytest.raises(GMMatchError, match="shard 1 is missing"):
        commits.add(complete=True)
    commits.add([shard(commits.path, 1), shard(commits.path, 3)], complete=True)
    commits.close()
    assert contents(commits.path) == write_whole(tmp_path / "y.emb")


def test_shards_of_any_length_also_empty_ones(tmp_path):
    without = {0, 7, *range(16, 32), 49}
    commits = Commits(tmp_path / "x.emb", REQUESTED)
    commits.add([shard(commits.path, number, without) for number in range(4)], complete=True)
    commits.close()
    rows = [row for row in range(50) if row not in without]
    store = open_store(tmp_path / "x.emb", verify=True)
    assert store.source_rows.tolist() == rows and store.labels.tolist() == [row % 3 for row in rows]
    assert np.array_equal(store.to_numpy(), X[rows])
    assert store.ids_of(np.array([20, 3])).tolist() == [f"r{rows[20]}", f"r{rows[3]}"]
    expected = gm.select(X[rows], store.labels, k=9, method="gm-matching")
    assert gm.select(store, k=9, method="gm-matching").order.tolist() == expected.order.tolist()


def test_one_writer_goes_on_before_the_first_missing_shard(tmp_path):
    path = tmp_path / "x.emb"
    commits = Commits(path, REQUESTED)
    commits.add([shard(path, 0), shard(path, 2)])
    commits.close()
    with StoreWriter(path, encoder="clip", encoder_fingerprint="f1", dtype="float32") as writer:
        assert (writer.next_row, writer.n_done) == (16, 16)
        writer.append(X[16:], [f"r{row}" for row in range(16, 50)], [row % 3 for row in range(16, 50)])
        writer.finish()
    assert contents(path) == write_whole(tmp_path / "y.emb")


def test_one_process_adds_at_a_time_and_only_to_the_same_store(tmp_path):
    commits = Commits(tmp_path / "x.emb", REQUESTED)
    with pytest.raises(StoreLockedError):
        Commits(tmp_path / "x.emb", REQUESTED)
    commits.close()
    with pytest.raises(GMMatchError, match="closed"):
        commits.add()
    with pytest.raises(InvalidInputError, match="another encoder"):
        Commits(tmp_path / "x.emb", Manifest("dino", "f1", "float32"))
