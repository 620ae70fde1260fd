"""A store opens in datasets, polars, DuckDB and pyarrow, with the same rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import gmmatch as gm
from gmmatch.store import StoreWriter

X = np.random.default_rng(0).standard_normal((50, 5)).astype(np.float32)
IDS = [f"photo {row}.png" for row in range(50)]
LABELS = [["cat", "dog", None][row % 3] for row in range(50)]


@pytest.fixture(params=["float16", "float32"])
def store(tmp_path, request):
    return write(tmp_path / "photos.emb", dtype=request.param)


def write(path, ids=IDS, labels=LABELS, *, dtype="float32", stop=50, finish=True):
    settings = {"encoder": "clip", "encoder_fingerprint": "f1", "dtype": dtype, "rows_per_shard": 16}
    with StoreWriter(path, **settings) as writer:
        begun = writer.next_row
        tags = None if labels is None else labels[begun:stop]
        writer.append(X[begun:stop], ids[begun:stop], tags)
        if finish:
            writer.finish()
    return gm.open_store(path, allow_incomplete=True)


def test_datasets_loads_it_from_disk(store):
    datasets = pytest.importorskip("datasets", reason="needs the extra gmmatch[vision] or gmmatch[text]")
    loaded = datasets.load_from_disk(store.path)
    assert loaded.column_names == ["id", "label", "source_row", "vector"]
    assert (loaded["id"][:], loaded["label"][:]) == (IDS, LABELS)
    assert loaded["source_row"][:] == list(range(50))
    vectors = loaded.data["vector"]
    assert vectors.type == pa.list_(pa.from_numpy_dtype(store.dtype), 5)
    assert np.array_equal(np.array(vectors.to_pylist()), store.to_numpy())
    assert len(loaded.cache_files) == 4  # the files are mapped, not copied


def test_datasets_sees_a_store_grow_and_never_half_of_one(tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs the extra gmmatch[vision] or gmmatch[text]")
    path = write(tmp_path / "x.emb", stop=20, finish=False).path
    with pytest.raises(FileNotFoundError):
        datasets.load_from_disk(path)
    write(path, stop=20)
    assert datasets.load_from_disk(path)["id"][:] == IDS[:20]
    write(path, stop=30, finish=False)
    with pytest.raises(FileNotFoundError):
        datasets.load_from_disk(path)
    write(path)
    assert datasets.load_from_disk(path)["id"][:] == IDS


@pytest.mark.parametrize(("ids", "labels"), [(range(50), None), (IDS, [None] * 20 + list(range(30)))])
def test_datasets_loads_other_ids_and_labels(tmp_path, ids, labels):
    """The first shard has no label at all, which is no type either."""
    datasets = pytest.importorskip("datasets", reason="needs the extra gmmatch[vision] or gmmatch[text]")
    loaded = datasets.load_from_disk(write(tmp_path / "x.emb", list(ids), labels).path)
    assert loaded["id"][:] == list(ids)
    assert "label" not in loaded.column_names if labels is None else loaded["label"][:] == labels


def test_polars_reads_a_shard(store):
    polars = pytest.importorskip("polars")
    table = polars.concat([polars.read_ipc_stream(file) for file in sorted(store.path.glob("*.arrow"))])
    assert (table["id"].to_list(), table["label"].to_list()) == (IDS, LABELS)
    assert np.array_equal(table["vector"].to_numpy(), store.to_numpy())


def test_duckdb_queries_it(tmp_path):
    """Of numbers in float32: DuckDB has no half floats."""
    duckdb = pytest.importorskip("duckdb")
    datasets = pytest.importorskip("datasets", reason="needs the extra gmmatch[vision] or gmmatch[text]")
    photos = datasets.load_from_disk(write(tmp_path / "x.emb").path).data.table
    counts = duckdb.sql(
        "select label, count(*), max(vector[2]) from photos group by label order by label"
    ).fetchall()
    assert photos.num_rows == 50
    expected = {name: [row for row in range(50) if LABELS[row] == name] for name in ("cat", "dog", None)}
    assert counts == [(name, len(rows), X[rows, 1].max()) for name, rows in expected.items()]
