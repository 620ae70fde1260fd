"""From a source to a store: what is in it, and that interruptions leave no trace."""

from __future__ import annotations

import hashlib
import shutil

import numpy as np
import pytest

from gmmatch.data import BrokenImageError, open_source
from gmmatch.data.arrays import ArraySource
from gmmatch.encoders import CallableEncoder, load_encoder
from gmmatch.errors import InvalidInputError
from gmmatch.store import open_store
from gmmatch.store.run import embed


class Crowd:
    """Vectors that depend on the whole batch, so that a batch cut elsewhere shows."""

    kind, batch_size, fingerprint = "embedding", 16, "crowd"

    def __call__(self, rows):
        return np.hstack([rows, np.full((len(rows), 1), rows.sum())]).astype(np.float32)


def stop_at(most):
    """Interrupt a run when so many rows of its source are done."""

    def stop(done, total):
        if done >= most:
            raise KeyboardInterrupt

    return stop


def vectors(n=203, seed=0, bad=()):
    rows = np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32)
    rows[list(bad)] = np.nan
    return rows


def contents(store):
    """All bytes of a store."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(store.iterdir())}


def stacked(source, encoder, batch_size):
    batches = source.batches(batch_size)
    return np.concatenate([encoder.encode(encoder.prepare(batch.rows)) for batch in batches])


# ------------------------------------------------------------------------------------ what is in it


def test_the_store_holds_every_row_with_its_id_and_label(tmp_path):
    labels = [f"class {number % 3}" for number in range(203)]
    ids = [f"row-{number}" for number in range(203)]
    source = ArraySource(vectors(), labels=labels, ids=ids)
    report = embed(source, load_encoder("identity"), tmp_path / "x.emb", batch_size=50)
    store = open_store(tmp_path / "x.emb", verify=True)
    assert np.array_equal(store.to_numpy(), vectors())
    assert store.ids.tolist() == ids
    assert store.labels.tolist() == labels
    assert (report.n_rows, report.n_features, report.dtype) == (203, 5, "float32")
    assert (report.n_encoded, report.n_before, report.skipped, report.batch_size) == (203, 0, (), 50)
    assert report.rows_per_second > 0


def test_pictures_through_a_vision_model(tmp_path, model_folder, image_folder):
    source, encoder = open_source(image_folder), load_encoder(str(model_folder("clip")), device="cpu")
    embed(source, encoder, tmp_path / "x.emb", batch_size=16, workers=4)
    store = open_store(tmp_path / "x.emb", verify=True)
    assert np.array_equal(store.to_numpy(), stacked(source, encoder, 16))
    assert store.ids.tolist() == list(source.ids)
    assert store.encoder == "clip"
    assert store.manifest.encoder_details["pooling"] == "features"


def test_the_number_of_workers_changes_no_bit(tmp_path, model_folder, image_folder):
    encoder = load_encoder(str(model_folder("uncropped")), device="cpu")
    for workers in (1, 7):
        embed(open_source(image_folder), encoder, tmp_path / f"{workers}.emb", batch_size=7, workers=workers)
    assert contents(tmp_path / "1.emb") == contents(tmp_path / "7.emb")


@pytest.mark.parametrize(
    ("given", "dtype", "kept"),
    [
        ("f4", "auto", "float32"),
        ("f8", "auto", "float32"),
        ("f2", "auto", "float16"),
        ("f4", "float16", "float16"),
    ],
)
def test_the_type_of_the_numbers(tmp_path, given, dtype, kept):
    source = ArraySource(vectors().astype(given))
    assert embed(source, load_encoder("identity"), tmp_path / "x.emb", dtype=dtype).dtype == kept
    assert np.array_equal(open_store(tmp_path / "x.emb").to_numpy(), source.array.astype(kept))


def test_progress_counts_rows_of_the_source(tmp_path):
    seen = []
    encoder, note = load_encoder("identity"), lambda *counts: seen.append(counts)
    embed(ArraySource(vectors(50)), encoder, tmp_path / "x.emb", batch_size=20, progress=note)
    assert seen == [(0, 50), (20, 50), (40, 50), (50, 50)]


# ------------------------------------------------------------------------------------------ bad rows


def test_a_broken_picture_stops_the_work_and_what_came_before_is_kept(tmp_path, image_folder):
    photos = tmp_path / "photos"
    shutil.copytree(image_folder, photos)
    (photos / "037.png").write_bytes((photos / "037.png").read_bytes()[:60])
    source, encoder = open_source(photos), load_encoder("pixels:4x4")
    with pytest.raises(BrokenImageError, match=r"037\.png is not a readable image"):
        embed(source, encoder, tmp_path / "x.emb", batch_size=10)
    assert len(open_store(tmp_path / "x.emb", allow_incomplete=True)) == 30
    report = embed(source, encoder, tmp_path / "x.emb", batch_size=10, on_error="skip")
    assert (report.n_before, report.n_encoded, report.n_rows) == (30, 29, 59)
    assert [(row.row, row.id) for row in report.skipped] == [(37, source.ids[37])]
    assert embed(source, encoder, tmp_path / "y.emb", batch_size=1, on_error="skip").n_rows == 59
    assert "037.png is not a readable image" in report.skipped[0].reason
    store = open_store(tmp_path / "x.emb")
    assert store.source_rows.tolist() == [row for row in range(60) if row != 37]
    assert store.ids.tolist() == [name for name in source.ids if "037" not in name]


def test_rows_skipped_by_an_earlier_run_are_reported_again(tmp_path):
    source = ArraySource(vectors(60, bad=[3, 45]), ids=[f"r{number}" for number in range(60)])
    options = {"batch_size": 10, "on_error": "skip", "progress": stop_at(40)}
    with pytest.raises(KeyboardInterrupt):
        embed(source, load_encoder("identity"), tmp_path / "x.emb", **options)
    report = embed(source, load_encoder("identity"), tmp_path / "x.emb", on_error="skip")
    assert [(row.row, row.id) for row in report.skipped] == [(3, "r3"), (45, "r45")]
    assert report.skipped[0].reason == "It could not be encoded in an earlier run."
    assert report.skipped[1].reason == "row 45 (r45): its vector has NaN or infinity in it."


def test_rows_that_are_all_bad_are_an_error(tmp_path):
    source = ArraySource(vectors(4, bad=range(4)))
    with pytest.raises(InvalidInputError, match=r"None of the 4 rows could be encoded. The first: "):
        embed(source, load_encoder("identity"), tmp_path / "x.emb", on_error="skip")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0: expected a whole number of at least 1"),
        ({"workers": -1}, "workers=-1: expected a whole number"),
        ({"on_error": "ignore"}, "on_error='ignore': use raise or skip"),
        ({"dtype": "float64"}, "dtype='float64': give 'float16' or 'float32'"),
    ],
)
def test_bad_options_leave_nothing_behind(tmp_path, options, message):
    with pytest.raises(InvalidInputError, match=message):
        embed(ArraySource(vectors()), load_encoder("identity"), tmp_path / "x.emb", **options)
    assert not (tmp_path / "x.emb").exists()


def test_an_encoder_of_another_kind_is_refused(tmp_path):
    with pytest.raises(
        InvalidInputError, match="'pixels:32x32' takes images, but the source holds vectors: use"
    ):
        embed(ArraySource(vectors()), load_encoder("pixels"), tmp_path / "x.emb")


# ------------------------------------------------------------------------------------- interruptions


def test_a_finished_store_is_left_alone(tmp_path):
    def never(rows):
        raise AssertionError("nothing is left to encode")

    never.fingerprint = "same"
    source = ArraySource(vectors())
    working = CallableEncoder(lambda rows: rows, "embedding", "mine")
    working.fingerprint = CallableEncoder(never, "embedding", "mine").fingerprint
    embed(source, working, tmp_path / "x.emb")
    before = contents(tmp_path / "x.emb")
    report = embed(source, CallableEncoder(never, "embedding", "mine"), tmp_path / "x.emb")
    assert (report.n_rows, report.n_before, report.n_encoded) == (203, 203, 0)
    assert contents(tmp_path / "x.emb") == before


@pytest.mark.parametrize("stops", [[1], [16], [17, 64, 65], [100, 150, 202]])
def test_a_run_that_was_interrupted_ends_with_the_same_bytes(tmp_path, stops):
    """The encoder's output depends on who else is in a batch, and shards end in the middle of batches."""
    source, encoder = ArraySource(vectors(bad=[5, 60, 61, 202])), load_encoder(Crowd())
    options = {"batch_size": 16, "rows_per_shard": 50, "on_error": "skip"}
    embed(source, encoder, tmp_path / "whole.emb", **options)
    for most in stops:
        with pytest.raises(KeyboardInterrupt):
            embed(source, encoder, tmp_path / "parts.emb", progress=stop_at(most), **options)
    embed(source, encoder, tmp_path / "parts.emb", **options)
    assert contents(tmp_path / "parts.emb") == contents(tmp_path / "whole.emb")
    expected = stacked(source, encoder, 16)
    rows = open_store(tmp_path / "parts.emb").source_rows
    assert 0 < len(rows) < 203
    assert np.array_equal(open_store(tmp_path / "parts.emb").to_numpy(), expected[rows])


def test_the_batch_size_that_a_store_was_begun_with_is_kept(tmp_path):
    source, encoder = ArraySource(vectors()), load_encoder(Crowd())
    embed(source, encoder, tmp_path / "whole.emb", batch_size=7)
    with pytest.raises(KeyboardInterrupt):
        embed(source, encoder, tmp_path / "parts.emb", batch_size=7, progress=stop_at(14))
    assert embed(source, encoder, tmp_path / "parts.emb").batch_size == 7
    assert contents(tmp_path / "parts.emb") == contents(tmp_path / "whole.emb")
