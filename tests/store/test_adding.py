"""A store whose source has grown: new rows are added by id, and no row is encoded twice."""

from __future__ import annotations

import os

import numpy as np
import pytest

from gmmatch.data import open_source
from gmmatch.data.arrays import ArraySource
from gmmatch.encoders import CallableEncoder, load_encoder
from gmmatch.errors import InvalidInputError
from gmmatch.store import delete_store, open_store
from gmmatch.store.run import embed

ROWS = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)


class Counting:
    """An encoder that counts what it encodes, and may stop in the middle."""

    def __init__(self, stop_after=None):
        self.encoded, self.stop_after = 0, stop_after

    def __call__(self, rows):
        self.encoded += len(rows)
        if self.stop_after is not None and self.encoded > self.stop_after:
            raise KeyboardInterrupt
        return 2.0 * np.asarray(rows)


def run(path, rows, encode=None, labels=None, **options):
    source = ArraySource(ROWS[rows], ids=[f"row {row}" for row in rows], labels=labels)
    encoder = CallableEncoder(encode or Counting(), kind="embedding", name="twice")
    return embed(source, encoder, path, batch_size=4, rows_per_shard=8, **options)


def assert_holds(path, rows):
    store = open_store(path, verify=True)
    assert store.ids.tolist() == [f"row {row}" for row in rows]
    assert np.array_equal(store.to_numpy(), 2.0 * ROWS[rows])
    assert store.source_rows.tolist() == list(range(len(rows)))
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]


def test_new_rows_are_added_in_the_order_of_the_source_and_others_are_not_encoded_again(tmp_path):
    path = tmp_path / "x.emb"
    run(path, range(0, 60, 2))
    encode = Counting()
    report = run(path, range(60), encode)
    assert (encode.encoded, report.n_encoded, report.n_before, report.n_rows) == (30, 30, 30, 60)
    assert_holds(path, range(60))
    # It is what a store made at once is, byte for byte.
    run(tmp_path / "fresh.emb", range(60))
    for file in (tmp_path / "fresh.emb").iterdir():
        assert file.read_bytes() == (path / file.name).read_bytes()


def test_rows_that_are_gone_are_dropped_and_labels_are_those_of_the_source(tmp_path):
    path = tmp_path / "x.emb"
    run(path, range(20), labels=["a"] * 20)
    encode = Counting()
    report = run(path, range(5, 23), encode, labels=["b"] * 18)
    assert (encode.encoded, report.n_encoded, report.n_before) == (3, 3, 15)
    assert_holds(path, range(5, 23))
    assert open_store(path).labels.tolist() == ["b"] * 18
    encode = Counting()
    run(path, range(7, 20), encode)  # nothing is new
    assert encode.encoded == 0
    assert_holds(path, range(7, 20))


@pytest.mark.parametrize("stop_after", [1, 10, 17])
def test_an_interrupted_addition_resumes_also_if_the_source_grows_meanwhile(tmp_path, stop_after):
    path = tmp_path / "x.emb"
    run(path, range(20))
    with pytest.raises(KeyboardInterrupt):
        run(path, range(45), Counting(stop_after), checkpoint_seconds=0.0)
    assert len(open_store(path)) == 20  # the store is as it was
    encode = Counting()
    run(path, range(60), encode)
    assert encode.encoded == 40 - stop_after // 4 * 4
    assert_holds(path, range(60))


def test_an_interrupted_addition_goes_with_the_store(tmp_path):
    path = tmp_path / "x.emb"
    run(path, range(20))
    with pytest.raises(KeyboardInterrupt):
        run(path, range(45), Counting(10), checkpoint_seconds=0.0)
    assert (tmp_path / "x.emb.adding").exists()
    delete_store(path)
    assert not any(tmp_path.iterdir())


def test_a_row_that_failed_before_is_tried_again_and_reported(tmp_path):
    path = tmp_path / "x.emb"

    def half_broken(rows):
        rows = 2.0 * np.asarray(rows)
        rows[rows[:, 0] == 2.0 * ROWS[3, 0]] = np.nan
        return rows

    assert [row.id for row in run(path, range(6), half_broken, on_error="skip").skipped] == ["row 3"]
    report = run(path, range(5), half_broken, on_error="skip")
    assert [row.id for row in report.skipped] == ["row 3"] and "NaN" in report.skipped[0].reason
    report = run(path, range(8), half_broken, on_error="skip")
    assert [(row.row, row.id) for row in report.skipped] == [(3, "row 3")]
    assert open_store(path).ids.tolist() == [f"row {row}" for row in (0, 1, 2, 4, 5, 6, 7)]


def test_images_that_came_and_images_that_changed_are_encoded(tmp_path):
    image = pytest.importorskip("PIL.Image")
    photos, path = tmp_path / "photos", tmp_path / "x.emb"
    (photos / "cat").mkdir(parents=True)
    for shade in (10, 30, 50):
        image.new("RGB", (8, 8), (shade, 0, 0)).save(photos / "cat" / f"{shade}.png")
    encoder = load_encoder("pixels:4x4")
    embed(open_source(photos), encoder, path)
    image.new("RGB", (8, 8), (20, 0, 0)).save(photos / "cat" / "20.png")
    image.new("RGB", (8, 8), (200, 0, 0)).save(photos / "cat" / "30.png")
    later = (path / "manifest.json").stat().st_mtime + 5
    os.utime(photos / "cat" / "30.png", (later, later))
    report = embed(open_source(photos), encoder, path)
    assert (report.n_encoded, report.n_before) == (2, 2)
    fresh = embed(open_source(photos), encoder, tmp_path / "fresh.emb")
    assert np.array_equal(open_store(path).to_numpy(), open_store(fresh.path).to_numpy())
    assert open_store(path).ids.tolist() == ["cat/10.png", "cat/20.png", "cat/30.png", "cat/50.png"]


def test_what_cannot_be_told_apart_is_refused_with_what_helps(tmp_path):
    path = tmp_path / "x.emb"
    encoder = load_encoder("identity")
    embed(ArraySource(ROWS[:10]), encoder, path)
    with pytest.raises(InvalidInputError, match=r"no ids .*--id-column.*--force"):
        embed(ArraySource(ROWS[:20]), encoder, path)
    path = tmp_path / "y.emb"
    run(path, range(10))
    with pytest.raises(InvalidInputError, match=r"the same id.*--force"):
        run(path, [1, 2, 2])
    with pytest.raises(InvalidInputError, match=r"another encoder.*--force"):
        embed(ArraySource(ROWS[:3], ids=["a", "b", "c"]), encoder, path)


def test_another_source_does_not_take_the_place_of_a_store(tmp_path):
    for folder, names in (("one", "abc"), ("two", "cde")):
        (tmp_path / f"{folder}.csv").write_text(
            "id,text\n" + "".join(f"{name},text {name}\n" for name in names)
        )
    encoder = CallableEncoder(lambda texts: np.ones((len(texts), 2)), kind="text", name="ones")
    embed(open_source(tmp_path / "one.csv", id_column="id"), encoder, tmp_path / "x.emb")
    with pytest.raises(InvalidInputError, match=r"2 of its rows \('a', ...\) are not in .*two.csv.*--force"):
        embed(open_source(tmp_path / "two.csv", id_column="id"), encoder, tmp_path / "x.emb")
    assert open_store(tmp_path / "x.emb").ids.tolist() == ["a", "b", "c"]
