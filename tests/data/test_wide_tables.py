"""Tables of numbers, one column each: their rows are vectors."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from gmmatch.data import open_source

NUMBERS = np.random.default_rng(0).normal(size=(250, 3)).round(3)
FRAME = pd.DataFrame(NUMBERS, columns=["width", "height", "depth"])


def write(frame, path, **options):
    if path.suffix == ".csv":
        frame.to_csv(path, **options)
    elif path.suffix == ".parquet":
        frame.to_parquet(path, **options)
    else:
        path.write_text("\n".join(json.dumps(record) for record in frame.to_dict("records")))
    return path


def rows_of(source, size=100):
    return np.concatenate([batch.rows for batch in source.batches(size)])


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_the_numbers_of_a_row_are_its_vector(tmp_path, suffix):
    labels = np.array(["cat", "dog"])[np.arange(250) % 2]
    names = [f"row {i}" for i in range(250)]
    frame = FRAME.assign(label=labels, id=names)
    source = open_source(
        write(frame, tmp_path / f"x.{suffix}", **({} if suffix == "jsonl" else {"index": False}))
    )
    assert source.kind == "embedding" and source.n_rows == 250
    assert source.how.startswith(
        "embeddings in 3 columns of numbers ('width' to 'depth'), labels in column 'label'"
    )
    assert np.array_equal(rows_of(source), NUMBERS)
    assert list(source.labels) == labels.tolist()
    named = open_source(tmp_path / f"x.{suffix}", id_column="id")
    assert list(named.ids) == names and np.array_equal(rows_of(named, 7), NUMBERS)
    assert np.array_equal(next(source.batches(10, start=240)).rows, NUMBERS[240:])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_index_that_pandas_writes_is_no_feature(tmp_path, suffix):
    frame = FRAME.set_index(np.arange(1000, 1250))
    source = open_source(write(frame, tmp_path / f"x.{suffix}", index=True))
    assert np.array_equal(rows_of(source), NUMBERS)


def test_small_whole_numbers_are_float32_and_large_ones_float64(tmp_path):
    pixels = pd.DataFrame({"p0": [0, 255], "p1": [7, 8], "class": [1, 2]})
    small = rows_of(open_source(write(pixels.astype("uint8"), tmp_path / "small.parquet")))
    assert small.dtype == np.float32 and small.tolist() == [[0.0, 7.0], [255.0, 8.0]]
    large = rows_of(open_source(write(pixels * (2**40 + 1), tmp_path / "large.parquet")))
    assert large.dtype == np.float64 and large[1, 1] == 8.0 * (2**40 + 1)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_of_another_name_is_taken_as_labels_if_asked(tmp_path, suffix):
    frame = FRAME.assign(species=np.array(["a", "b"])[np.arange(250) % 2])
    path = write(frame, tmp_path / f"x.{suffix}", index=False)
    source = open_source(path, label_column="species")
    assert source.kind == "embedding" and list(source.labels)[:2] == ["a", "b"]


def test_numbers_beside_texts_are_no_vectors(tmp_path):
    frame = FRAME.assign(text="some words")
    for suffix in ("csv", "parquet", "jsonl"):
        path = write(frame, tmp_path / f"x.{suffix}", **({} if suffix == "jsonl" else {"index": False}))
        assert open_source(path).kind == "text"
    measured = FRAME.assign(target=NUMBERS[:, 0])  # a measurement is neither a label nor a feature
    source = open_source(write(measured, tmp_path / "y.parquet", index=False))
    assert rows_of(source).shape == (250, 3) and not source.has_labels
