"""Parquet: images, text and embeddings from one file or many, without loading them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gmmatch.data import ImageBytes, load_image, open_source
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError

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


def test_ids_from_a_column(tmp_path):
    path = write(tmp_path / "x.parquet", {"text": ["a", "b"], "key": ["k1", "k 2"]})
    assert check_protocol(open_source(path, text_column="text", id_column="key"))[1] == ["k1", "k 2"]
    path = write(tmp_path / "y.parquet", {"text": ["a", "b"], "key": ["k1", None]})
    with pytest.raises(InvalidTypeError, match=r"row 1 of .*y\.parquet has nothing in column 'key'"):
        list(open_source(path, text_column="text", id_column="key").batches(8))


def test_a_column_name_with_a_dot(tmp_path):
    path = write(tmp_path / "x.parquet", {"a.text": ["a", "b"], "a": [1, 2]})
    assert check_protocol(open_source(path, text_column="a.text", label_column="a"))[::2] == (
        ["a", "b"],
        [1, 2],
    )


class TestSeveralFiles:
    def test_rows_count_through_all_of_them_in_natural_order(self, tmp_path):
        for number in (10, 9, 1):
            texts = [f"{number}-{i}" for i in range(number % 4)]
            write(
                tmp_path / f"part{number}.parquet", {"text": pa.array(texts, pa.string())}, row_group_size=1
            )
        write(tmp_path / "part2.parquet", {"text": pa.array([], pa.string())})
        source = open_source(tmp_path)
        rows, ids, _ = check_protocol(source)
        assert rows == ["1-0", "9-0", "10-0", "10-1"]
        assert ids == [0, 1, 2, 3]
        assert "a folder with 4 Parquet files" in source.describe()["how"]

    def test_a_pattern(self, tmp_path):
        for i in range(3):
            write(tmp_path / f"part-{i}.parquet", {"text": [str(i)]})
        assert check_protocol(open_source(f"{tmp_path}/part-[01].parquet"))[0] == ["0", "1"]
        with pytest.raises(DataFileNotFoundError, match="no file matches"):
            open_source(f"{tmp_path}/nothing-*.parquet")

    def test_splits_are_told_by_their_names(self, tmp_path):
        write(tmp_path / "data" / "train-00000-of-00002.parquet", {"text": ["a"]})
        write(tmp_path / "data" / "train-00001-of-00002.parquet", {"text": ["b"]})
        write(tmp_path / "data" / "test-00000-of-00001.parquet", {"text": ["c"]})
        with pytest.raises(InvalidInputError, match="several splits"):
            open_source(tmp_path)
        source = open_source(tmp_path, split="train")
        assert check_protocol(source)[0] == ["a", "b"]
        assert "split 'train'" in source.how
        with pytest.raises(InvalidInputError, match="single file"):
            open_source(tmp_path / "data" / "test-00000-of-00001.parquet", split="test")

    def test_all_must_have_the_columns(self, tmp_path):
        write(tmp_path / "1.parquet", {"text": ["a"]})
        write(tmp_path / "2.parquet", {"body": ["a"]})
        with pytest.raises(InvalidInputError, match=r"2\.parquet has no column 'text', unlike 1\.parquet"):
            open_source(tmp_path)


class TestErrors:
    def test_no_rows(self, tmp_path):
        path = write(tmp_path / "x.parquet", {"text": pa.array([], pa.string())})
        assert check_protocol(open_source(path)) == ([], [], None)

    def test_truncated(self, tmp_path):
        path = write(tmp_path / "x.parquet", {"text": ["a" * 100] * 100})
        data = path.read_bytes()
        for content in (data[: len(data) // 2], b"", b"PAR1", b"hello"):
            path.write_bytes(content)
            with pytest.raises(
                InvalidInputError, match=r"x\.parquet is not a Parquet file, or is truncated"
            ) as caught:
                open_source(path)
            assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([[1.0, 2.0], [3.0]], "row 1 of .* has an embedding of 1 numbers .* where 2 are expected"),
            ([[1.0, 2.0], None], "row 1 of .* has no embedding"),
            ([None, [1.0, 2.0]], "row 0 of .* has no embedding in column 'e': drop the row"),
            ([[1.0, 2.0], [None, 1.0]], "row 1 of .* has a missing number"),
        ],
    )
    def test_uneven_embeddings(self, tmp_path, rows, message):
        path = write(tmp_path / "x.parquet", {"e": pa.array(rows, pa.list_(pa.float32()))})
        for size in (1, 8):
            with pytest.raises(InvalidInputError, match=message):
                list(open_source(path).batches(size))

    def test_labels_that_are_no_labels(self, tmp_path):
        path = write(tmp_path / "x.parquet", {"text": ["a"], "boxes": pa.array([[1]], pa.list_(pa.int64()))})
        with pytest.raises(InvalidInputError, match="label_column='boxes'"):
            open_source(path, text_column="text", label_column="boxes")


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


def test_fingerprint_knows_content_columns_and_order_but_not_the_place(tmp_path):
    columns = {"text": ["a", "b"], "label": [1, 2], "other": [1, 2]}
    reference = open_source(write(tmp_path / "x.parquet", columns)).fingerprint()
    assert open_source(write(tmp_path / "elsewhere" / "y.parquet", columns)).fingerprint() == reference
    others = {
        open_source(tmp_path / "x.parquet", label_column="other").fingerprint(),
        open_source(tmp_path / "x.parquet", label_column="").fingerprint(),
        open_source(write(tmp_path / "z.parquet", {**columns, "text": ["a", "c"]})).fingerprint(),
    }
    assert len(others | {reference}) == 4
