"""Parquet: images, text and embeddings from one file or many, without loading them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gmmatch.data import ImageBytes, load_image, open_source

from .helpers import check_protocol, png

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write(path, columns, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_images_as_hugging_face_lays_them_out(tmp_path):
    values = [{"bytes": png((i, 0, 0)), "path": f"{i}.png" if i else None} for i in range(7)]
    path = write(
        tmp_path / "x.parquet", {"image": pa.array(values, IMAGE), "label": list(range(7))}, row_group_size=2
    )
    rows, ids, labels = check_protocol(open_source(path))
    assert [load_image(row).getpixel((0, 0))[0] for row in rows] == list(range(7))
    assert ids == labels == list(range(7))
    assert rows[0].name == f"row 0 of {path}"
    assert rows[3].name == f"row 3 of {path} (3.png)"


def test_images_in_a_binary_column_and_missing_ones(tmp_path):
    path = write(tmp_path / "x.parquet", {"jpg": [png(), None]})
    rows, _, labels = check_protocol(open_source(path))
    assert labels is None
    assert rows[1] == ImageBytes(b"", f"row 1 of {path}")
    values = [None, {"bytes": None, "path": None}, {"bytes": png(), "path": None}]
    path = write(tmp_path / "y.parquet", {"image": pa.array(values, IMAGE)})
    assert [len(row.data) > 0 for row in check_protocol(open_source(path))[0]] == [False, False, True]


def test_images_by_path_lie_beside_the_file(tmp_path):
    (tmp_path / "a.png").write_bytes(png((9, 0, 0)))
    values = [{"bytes": None, "path": "a.png"}, {"bytes": None, "path": str(tmp_path / "a.png")}]
    path = write(tmp_path / "x.parquet", {"image": pa.array(values, IMAGE)})
    rows, _, _ = check_protocol(open_source(path))
    assert [load_image(row).getpixel((0, 0))[0] for row in rows] == [9, 9]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_and_labels_of_any_string_type(tmp_path, kind):
    texts = ["a\nb", 'quo"te', None, "", "ünï", "x" * 1000]
    path = write(
        tmp_path / "x.parquet",
        {"text": pa.array(texts, kind), "label": pa.array(["u", None, "v", "v", "", "w"], kind)},
    )
    rows, _, labels = check_protocol(open_source(path))
    assert rows[:2] + rows[3:] == ["a\nb", 'quo"te', "", "ünï", "x" * 1000]
    assert str(rows[2]) == f"row 2 of {path} has no text in column 'text'."
    assert labels == ["u", None, "v", "v", "", "w"]


@pytest.mark.parametrize("number", [pa.int8(), pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize("fixed", [True, False])
def test_embeddings_keep_their_type(tmp_path, number, fixed):
    values = np.arange(21).reshape(7, 3).astype(number.to_pandas_dtype())
    kind = pa.list_(number, 3) if fixed else pa.list_(number)
    column = pa.array([list(row) for row in values], kind)
    path = write(
        tmp_path / "x.parquet", {"embedding": column, "label": [True, False] * 3 + [True]}, row_group_size=2
    )
    rows, _, labels = check_protocol(open_source(path))
    np.testing.assert_array_equal(np.stack(rows), values)
    assert rows[0].dtype == values.dtype
    assert labels == [True, False] * 3 + [True]


def test_a_column_name_with_a_dot(tmp_path):
    path = write(tmp_path / "x.parquet", {"a.text": ["a", "b"], "a": [1, 2]})
    assert check_protocol(open_source(path, text_column="a.text", label_column="a"))[::2] == (
        ["a", "b"],
        [1, 2],
    )


class TestErrors:
    def test_no_rows(self, tmp_path):
        path = write(tmp_path / "x.parquet", {"text": pa.array([], pa.string())})
        assert check_protocol(open_source(path)) == ([], [], None)


@pytest.mark.parametrize("row_groups", [1, 8])
def test_rows_are_streamed_not_loaded(tmp_path, row_groups):
    noise = np.random.default_rng(0)
    schema = pa.schema({"image": pa.binary()})
    with pq.ParquetWriter(tmp_path / "x.parquet", schema, compression="none", use_dictionary=False) as writer:
        for _ in range(row_groups):
            values = [noise.bytes(4096) for _ in range(8000 // row_groups)]
            writer.write_table(pa.table({"image": values}, schema), row_group_size=len(values))
    source = open_source(tmp_path / "x.parquet")
    before = pa.total_allocated_bytes()
    peak = rows = 0
    for batch in source.batches(1):
        peak = max(peak, pa.total_allocated_bytes() - before)
        rows += len(batch)
    assert rows == 8000
    assert peak < (tmp_path / "x.parquet").stat().st_size / 3
