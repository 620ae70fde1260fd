"""Rows in stores and files, on disks and behind addresses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine, UnreadableShardError, open_shards
from gmmatch.backends.cluster.sources import read_rows
from gmmatch.embeddings import StoreWriter, open_store
from gmmatch.errors import DataFileNotFoundError, InvalidInputError


@pytest.fixture
def store(clouds, tmp_path):
    path = tmp_path / "rows.emb"
    with StoreWriter(path, encoder="mine", encoder_fingerprint="1", rows_per_shard=512) as writer:
        names = [f"r{i}" for i in range(len(clouds))]
        writer.append(clouds, ids=names, labels=["a" if i % 3 else "b" for i in range(len(clouds))])
        writer.finish()
    return path


def test_a_store_is_read_where_it_lies(store):
    shards = open_shards(store)
    opened = open_store(store)
    assert (len(shards), shards.n_features, shards.dtype, len(shards.files)) == (3000, 6, "float16", 6)
    labels = shards.labels()
    assert labels.tolist() == opened.labels.tolist()
    found = gm.select(store, engine=LocalEngine(4), y=labels, k=60, random_state=0, method="gm-matching")
    here = gm.GMMatching(k=60, random_state=0).select(opened.as_array(), opened.labels)
    assert found.order.tolist() == here.order.tolist()
    assert found.provenance["embeddings"]["encoder"] == "mine"
    assert (
        gm.select(
            opened, engine=LocalEngine(2), y=labels, k=60, random_state=0, method="gm-matching"
        ).order.tolist()
        == found.order.tolist()
    )


def test_files_follow_one_another(clouds, rows_file, tmp_path):
    parts = [tmp_path / f"{number}.npy" for number in range(3)]
    for path, rows in zip(parts, np.split(clouds, [1, 1700]), strict=True):
        np.save(path, rows)
    one, many = (
        gm.select(
            source, engine=LocalEngine(3), k=80, batches=2, random_state=0, method="gm-matching"
        ).order.tolist()
        for source in (rows_file, parts)
    )
    assert one == many


@pytest.mark.parametrize("remote", [False, True])
def test_a_file_without_rows_changes_nothing(clouds, rows_file, tmp_path, remote):
    asked = {"engine": LocalEngine(3), "k": 80, "random_state": 0, "method": "gm-matching"}
    np.save(tmp_path / "none.npy", clouds[:0])
    files = [str(rows_file), str(tmp_path / "none.npy"), str(rows_file)]
    if remote:
        memory = pytest.importorskip("fsspec", reason="needs the extra gmmatch[cloud]").filesystem("memory")
        for name, path in zip("abc", files, strict=True):
            memory.put(path, f"/empty/{name}.npy")
        files = [f"memory://empty/{name}.npy" for name in "abc"]
    try:
        found = gm.select(files, **asked)
    finally:
        if remote:
            memory.rm("/empty", recursive=True)
    assert found.order.tolist() == gm.select([rows_file] * 2, **asked).order.tolist()


def test_addresses_are_read_through_fsspec(clouds, store, rows_file):
    fsspec = pytest.importorskip("fsspec", reason="needs the extra gmmatch[cloud]")
    memory = fsspec.filesystem("memory")
    try:
        memory.put(str(store), "/bucket/rows.emb", recursive=True)
        memory.put(str(rows_file), "/bucket/rows.npy")
        labels = open_shards("memory://bucket/rows.emb").labels()
        assert labels.tolist() == open_store(store).labels.tolist()
        for address, path, y in (
            ("memory://bucket/rows.emb", store, labels),
            ("memory://bucket/rows.npy", rows_file, None),
        ):
            there, here = (
                gm.select(
                    source, engine=LocalEngine(3), y=y, k=90, batches=2, random_state=0, method="gm-matching"
                )
                for source in (address, path)
            )
            assert there.order.tolist() == here.order.tolist()
        memory.rm("/bucket/rows.emb/shard-000000000512-000000001024.npy")
        with pytest.raises(
            UnreadableShardError, match=r"shard-000000000512-000000001024\.npy cannot be read"
        ):
            gm.select("memory://bucket/rows.emb", engine=LocalEngine(2), k=9, method="gm-matching")
        found = gm.select(
            "memory://bucket/rows.emb", engine=LocalEngine(2, skip_unreadable=True), k=9, method="gm-matching"
        )
        assert len(found.provenance["engine"]["unreadable"]) == 1
    finally:
        memory.rm("/bucket", recursive=True)


def test_threads_read_one_remote_file_at_a_time(clouds, rows_file):
    fsspec = pytest.importorskip("fsspec", reason="needs the extra gmmatch[cloud]")
    memory = fsspec.filesystem("memory")  # which gives everybody who opens a file the same position in it
    memory.put(str(rows_file), "/shared/rows.npy")
    (file,) = open_shards("memory://shared/rows.npy").files
    expected = np.load(rows_file)
    starts = [17 * i % 2900 for i in range(400)]
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda at: read_rows(file, at, at + 100, 6, str(expected.dtype)), starts))
    finally:
        memory.rm("/shared", recursive=True)
    for at, rows in zip(starts, found, strict=True):
        np.testing.assert_array_equal(rows, expected[at : at + 100])


def test_a_remote_file_that_ends_early_is_named(clouds, rows_file):
    fsspec = pytest.importorskip("fsspec", reason="needs the extra gmmatch[cloud]")
    memory = fsspec.filesystem("memory")
    try:
        memory.pipe("/short/rows.npy", rows_file.read_bytes()[:-100])
        with pytest.raises(UnreadableShardError, match=r"rows\.npy cannot be read: it ends too early"):
            gm.select("memory://short/rows.npy", engine=LocalEngine(2), k=9, method="gm-matching")
        memory.pipe("/short/whole.npy", rows_file.read_bytes())
        files = ["memory://short/rows.npy", "memory://short/whole.npy"]
        found = gm.select(files, engine=LocalEngine(3, skip_unreadable=True), k=9, method="gm-matching")
        assert found.k == 9 and found.indices.min() >= 3000
    finally:
        memory.rm("/short", recursive=True)


def test_labels_of_a_shard_that_cannot_be_read(store):
    next(iter(sorted(store.glob("*.parquet")))).unlink()
    shards = open_shards(store)
    with pytest.raises(InvalidInputError, match="is damaged"):
        shards.labels()
    labels = shards.labels(skip_unreadable=True)
    assert labels[:512].tolist() == [None] * 512 and labels[512] == "a"


def test_what_is_no_source_is_said(tmp_path, clouds):
    with pytest.raises(DataFileNotFoundError, match="there is no such folder"):
        open_shards(tmp_path / "nowhere.emb")
    with pytest.raises(UnreadableShardError, match=r"nowhere\.npy cannot be read: No such file"):
        open_shards(tmp_path / "nowhere.npy")
    np.save(tmp_path / "a.npy", clouds)
    np.save(tmp_path / "b.npy", clouds[:, :2])
    with pytest.raises(InvalidInputError, match="files of one source must agree"):
        open_shards([tmp_path / "a.npy", tmp_path / "b.npy"])
    np.save(tmp_path / "c.npy", np.asfortranarray(clouds))
    with pytest.raises(UnreadableShardError, match="stored column by column"):
        open_shards(tmp_path / "c.npy")
