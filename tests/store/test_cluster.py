"""Stores made on the workers of a cluster are those made without one; nothing that was finished is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.data import open_source
from gmmatch.data.arrays import ArraySource
from gmmatch.encoders import CallableEncoder
from gmmatch.errors import InvalidInputError
from tests.fake_ray import FakeRay

N = 1000


@pytest.fixture
def fake_ray(monkeypatch):
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    return fake


def vectors(bad=()):
    rows = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)
    rows[list(bad)] = np.nan
    return ArraySource(
        rows, labels=[f"class {row % 3}" for row in range(N)], ids=[f"row {row}" for row in range(N)]
    )


def shards(path):
    """The names and checksums of all shards."""
    return [shard.files for shard in gm.open_store(path).manifest.shards]


def embed(source, encoder, path, **options):
    return gm.embed(source, encoder, path, **{"rows_per_shard": 128, "batch_size": 32, **options})


@pytest.mark.parametrize("n_workers", [1, 2, 3, 8])
@pytest.mark.parametrize("batch_size", [32, 50])
def test_a_store_does_not_depend_on_the_number_of_workers(fake_ray, tmp_path, n_workers, batch_size):
    encoder = gm.load_encoder("identity")
    done = []
    for name, options in (("here", {}), ("there", {"engine": gm.RayEngine(n_workers)})):
        path = tmp_path / f"{name}.emb"
        calls = []
        report = embed(
            vectors(), encoder, path, batch_size=batch_size, progress=lambda *at: calls.append(at), **options
        )
        assert (report.n_rows, report.n_encoded, report.skipped, calls[-1]) == (N, N, (), (N, N))
        done.append({file.name: file.read_bytes() for file in path.iterdir()})
    assert done[0] == done[1]
    assert len(fake_ray.actors) == n_workers and not any(actor.alive for actor in fake_ray.actors)


def test_rows_that_are_skipped_are_left_out_of_their_shards(fake_ray, tmp_path):
    bad = [0, 127, 500, *range(640, 768)]
    for name, engine in (("here", None), ("there", "ray:3")):
        report = embed(
            vectors(bad), gm.load_encoder("identity"), tmp_path / name, on_error="skip", engine=engine
        )
        assert [row.row for row in report.skipped] == bad and "NaN" in report.skipped[0].reason
    here, there = (gm.open_store(tmp_path / name, verify=True) for name in ("here", "there"))
    assert np.array_equal(here.to_numpy(), there.to_numpy()) and here.ids.tolist() == there.ids.tolist()
    assert here.labels.tolist() == there.labels.tolist()
    assert there.source_rows.tolist() == [row for row in range(N) if row not in bad]
    again = embed(
        vectors(bad), gm.load_encoder("identity"), tmp_path / "there", on_error="skip", engine="ray:3"
    )
    assert again.n_encoded == 0 and again.n_before == N - len(bad)
    with pytest.raises(InvalidInputError, match="row 0 "):
        embed(vectors(bad), gm.load_encoder("identity"), tmp_path / "raises", engine="ray:1")
    with pytest.raises(InvalidInputError, match="could be encoded"):
        embed(
            vectors(range(N)), gm.load_encoder("identity"), tmp_path / "none", on_error="skip", engine="ray:2"
        )


class Failing:
    """An encoder that fails at one row, until it may go on."""

    def __init__(self, value):
        self.value, self.encoded = value, 0

    fingerprint = "failing"

    def __call__(self, rows):
        if self.value is not None and (rows[:, 0] == self.value).any():
            raise OSError("the model is gone")
        self.encoded += len(rows)
        return rows


def test_an_interrupted_run_encodes_only_what_is_missing(fake_ray, tmp_path):
    source, path = vectors(), tmp_path / "x.emb"
    function = Failing(source.array[700, 0])
    encoder = CallableEncoder(function, "embedding", "failing")
    with pytest.raises(OSError, match="the model is gone"):
        embed(source, encoder, path, engine="ray:1")
    kept = len(gm.open_store(path, allow_incomplete=True))
    assert 0 < kept < N and kept % 128 == 0
    function.value, function.encoded = None, 0
    report = embed(source, encoder, path, engine="ray:3")
    assert report.n_before == kept and function.encoded == N - kept
    embed(source, encoder, tmp_path / "whole.emb")
    assert shards(path) == shards(tmp_path / "whole.emb")


@pytest.mark.parametrize("first", [None, "ray:2"])
def test_runs_with_and_without_workers_continue_each_other(fake_ray, tmp_path, first):
    source, path = vectors(), tmp_path / "x.emb"
    encoder = CallableEncoder(Failing(source.array[700, 0]), "embedding", "failing")
    with pytest.raises(OSError, match="the model is gone"):
        embed(source, encoder, path, engine=first, checkpoint_seconds=0.0)
    encoder.function.value = None
    embed(source, encoder, path, engine=None if first else "ray:2")
    embed(source, encoder, tmp_path / "whole.emb")
    assert shards(path) == shards(tmp_path / "whole.emb")


def test_shards_that_were_filled_up_after_skipped_rows_are_not_continued(fake_ray, tmp_path):
    source, path = vectors(bad=[3]), tmp_path / "x.emb"
    encoder = CallableEncoder(Failing(source.array[700, 0]), "embedding", "failing")
    with pytest.raises(OSError, match="the model is gone"):
        embed(source, encoder, path, on_error="skip")
    with pytest.raises(InvalidInputError, match="begun without an engine, and rows were skipped"):
        embed(source, encoder, path, on_error="skip", engine="ray:2")
    encoder.function.value = None
    assert embed(source, encoder, path, on_error="skip").n_rows == N - 1


def test_new_rows_of_a_source_are_encoded_on_workers(fake_ray, tmp_path):
    whole, path = vectors(), tmp_path / "x.emb"
    fewer = ArraySource(whole.array[100:], labels=whole.labels[100:], ids=whole.ids[100:])
    embed(fewer, gm.load_encoder("identity"), path, engine="ray:2")
    report = embed(whole, gm.load_encoder("identity"), path, engine="ray:2")
    assert report.n_encoded == 100 and gm.open_store(path).ids.tolist() == whole.ids
