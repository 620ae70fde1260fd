"""Object storage: embedding to an address, selecting from one, exporting from one to another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch as gm
from gmmatch.cli import build_app
from gmmatch.data import open_source
from gmmatch.errors import DataFileNotFoundError, MissingDependencyError
from gmmatch.files import as_path
from gmmatch.store import StoreWriter, delete_store, open_store

fsspec = pytest.importorskip("fsspec", reason="needs the extra gmmatch[cloud]")
pytest.importorskip("upath", reason="needs the extra gmmatch[cloud]")


@pytest.fixture
def bucket():
    memory = fsspec.filesystem("memory")
    yield "memory://bucket"
    if memory.exists("/bucket"):
        memory.rm("/bucket", recursive=True)


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(600, 8)).astype(np.float32)


def write(path, rows, stop=None):
    names = [f"r{i}" for i in range(len(rows))]
    labels = [i % 3 for i in range(len(rows))]
    with StoreWriter(
        path, encoder="mine", encoder_fingerprint="1", dtype="float32", rows_per_shard=128
    ) as writer:
        begun = writer.next_row
        stop = stop or len(rows)
        writer.append(
            rows[begun:stop], ids=names[begun:stop], labels=labels[begun:stop], source_rows=range(begun, stop)
        )
        if stop == len(rows):
            writer.finish()


def test_a_store_at_an_address_is_that_on_disk(bucket, rows, tmp_path):
    write(f"{bucket}/x.emb", rows)
    write(tmp_path / "x.emb", rows)
    there, here = open_store(f"{bucket}/x.emb", verify=True), open_store(tmp_path / "x.emb")
    assert there.manifest == here.manifest
    assert np.array_equal(there.to_numpy([599, 3]), rows[[599, 3]])
    assert there.ids.tolist() == here.ids.tolist() and there.labels.tolist() == here.labels.tolist()
    names = sorted(path.name for path in as_path(f"{bucket}/x.emb").iterdir())
    assert names == sorted(path.name for path in here.path.iterdir())


def test_the_commands_read_and_write_addresses(bucket, rows):
    app = build_app()
    table = pa.table({"key": [f"k{i}" for i in range(600)], "vector": rows.tolist(), "more": range(600)})
    with fsspec.open(f"{bucket}/rows.parquet", "wb") as file:
        pq.write_table(table, file)
    asked = ["--encoder", "identity", "--embedding-column", "vector", "--id-column", "key"]
    app(["embed", f"{bucket}/rows.parquet", "-o", f"{bucket}/x.emb", *asked], standalone_mode=False)
    picks, asked = f"{bucket}/picks.parquet", ["-m", "gm-matching"]
    app(["select", f"{bucket}/x.emb", "-k", "30", "-o", picks, *asked], standalone_mode=False)
    selection = gm.Selection.load(picks)
    expected = gm.select(rows, k=30, random_state=0, method="gm-matching")
    assert selection.order.tolist() == expected.order.tolist()
    app(["export", picks, f"{bucket}/rows.parquet", "-o", f"{bucket}/picked.parquet"], standalone_mode=False)
    with fsspec.open(f"{bucket}/picked.parquet", "rb") as file:
        assert pq.read_table(file)["more"].to_pylist() == selection.indices.tolist()


def test_selecting_from_addresses(bucket, rows):
    write(f"{bucket}/x.emb", rows)
    with fsspec.open(f"{bucket}/rows.npy", "wb") as file:
        np.save(file, rows)
    expected = gm.select(rows, k=20, method="herding").order.tolist()
    assert gm.select(f"{bucket}/rows.npy", k=20, method="herding").order.tolist() == expected
    store = open_store(f"{bucket}/x.emb")
    assert gm.select(store, k=20, method="herding", per_class=None).order.tolist() == expected


def test_a_file_that_was_replaced_is_fetched_again(bucket, rows):
    write(f"{bucket}/x.emb", rows)
    assert np.array_equal(open_store(f"{bucket}/x.emb").to_numpy(), rows)
    delete_store(f"{bucket}/x.emb")
    write(f"{bucket}/x.emb", -rows)
    assert np.array_equal(open_store(f"{bucket}/x.emb").to_numpy(), -rows)


def test_what_is_not_there_is_said(bucket):
    with pytest.raises(DataFileNotFoundError, match="there is no such folder"):
        open_store(f"{bucket}/nowhere.emb")
    with pytest.raises(DataFileNotFoundError, match="no file matches this pattern"):
        open_source(f"{bucket}/nowhere-*.parquet")
    with pytest.raises(DataFileNotFoundError, match="there is no such file"):
        open_source(f"{bucket}/nowhere.parquet")


def test_a_protocol_without_its_package_names_it():
    with pytest.raises(MissingDependencyError, match="s3fs"):
        try:
            import s3fs  # noqa: F401
        except ImportError:
            open_store("s3://bucket/x.emb")
        else:
            raise MissingDependencyError("s3fs is installed")
