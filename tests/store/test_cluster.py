"""Stores made on the workers of a cluster are those made without one; nothing that was finished is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

import gmmatch as gm
from gmmatch.data import open_source
from gmmatch.data.arrays import ArraySource
from gmmatch.encoders import CallableEncoder
from gmmatch.errors import InvalidInputError
from tests.fake_ray import FakeRay
from tests.ray_processes import ray_folder

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
    done, calls = [], []
    for name, options in (("here", {}), ("there", {"engine": gm.RayEngine(n_workers)})):
        path = tmp_path / f"{name}.emb"
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
    with pytest.raises(InvalidInputError, match="begun without an engine and skipped rows"):
        embed(source, encoder, path, on_error="skip", engine="ray:2")
    encoder.function.value = None
    assert embed(source, encoder, path, on_error="skip").n_rows == N - 1


def test_new_rows_of_a_source_are_encoded_on_workers(fake_ray, tmp_path):
    whole, path = vectors(), tmp_path / "x.emb"
    fewer = ArraySource(whole.array[100:], labels=whole.labels[100:], ids=whole.ids[100:])
    embed(fewer, gm.load_encoder("identity"), path, engine="ray:2")
    report = embed(whole, gm.load_encoder("identity"), path, engine="ray:2")
    assert report.n_encoded == 100 and gm.open_store(path).ids.tolist() == whole.ids


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """300 small JPEG files in two folders."""
    image = pytest.importorskip("PIL.Image", reason="needs the extra gmmatch[vision]")
    folder, draw = tmp_path_factory.mktemp("data") / "pictures", np.random.default_rng(0)
    for number in range(300):
        path = folder / ("cat" if number % 3 else "dog") / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(draw.integers(0, 255, (40, 50, 3), dtype=np.uint8)).save(path)
    return folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "texts.csv"
    words = ["apple", "pear", "tree", "law", "tax", "court", "river", "sea", "ship"]
    draw = np.random.default_rng(0)
    lines = [f"{' '.join(draw.choice(words, 6))},{number % 2}" for number in range(500)]
    path.write_text("\n".join(["text,label", *lines]) + "\n")
    return path


def encoding_processes():
    """The processes of workers that have started, by Ray's own names for them."""
    for process in psutil.process_iter(["pid", "cmdline"]):
        title = " ".join(process.info["cmdline"] or [])
        if title.startswith("ray::EncodingWorker") and "__init__" not in title:
            yield process.pid


@pytest.mark.slow
class TestOnRay:
    @pytest.mark.parametrize(
        ("data", "encoder"),
        [("pictures", "efficientnet-lite2"), ("pictures", "pixels:8x8"), ("texts", "words")],
    )
    def test_the_store_of_packaged_encoders_is_the_same(self, ray_cluster, request, tmp_path, data, encoder):
        source = open_source(request.getfixturevalue(data))
        options = {"rows_per_shard": 64, "batch_size": 16}
        for name, engine in (("here", None), ("there", gm.RayEngine(2))):
            model = gm.load_encoder(
                encoder, kind=source.kind, **({"device": "cpu"} if "lite" in encoder else {})
            )
            gm.embed(source, model, tmp_path / name, engine=engine, **options)
        here, there = (gm.open_store(tmp_path / name, verify=True) for name in ("here", "there"))
        assert there.ids.tolist() == here.ids.tolist() and there.labels.tolist() == here.labels.tolist()
        assert there.source_rows.tolist() == here.source_rows.tolist()
        # A worker has one thread for its model, which sums in another order than several threads do.
        np.testing.assert_allclose(there.to_numpy(), here.to_numpy(), rtol=1e-4, atol=1e-5)
        picks = [gm.select(store, k=30, method="gm-matching").order.tolist() for store in (here, there)]
        assert picks[0] == picks[1]
        if encoder != "efficientnet-lite2":
            assert shards(tmp_path / "here") == shards(tmp_path / "there")

    def test_killed_workers_lose_no_shard(self, ray_cluster, tmp_path):
        """Each row is encoded slowly, and workers are killed until it is done; the store is as without them."""
        stop, kills = threading.Event(), []

        def kill():
            while not stop.wait(1.0):
                for process in encoding_processes():
                    if len(kills) < 4:
                        os.kill(process, signal.SIGKILL)
                        kills.append(process)
                        break

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            engine = gm.RayEngine(2, num_cpus=0.5, max_restarts=20)
            embed(vectors(), CallableEncoder(slow, "embedding", "slow"), tmp_path / "x.emb", engine=engine)
        finally:
            stop.set()
            killer.join()
        embed(vectors(), CallableEncoder(slow, "embedding", "slow"), tmp_path / "whole.emb")
        assert len(kills) >= 2 and shards(tmp_path / "x.emb") == shards(tmp_path / "whole.emb")

    def test_a_killed_driver_keeps_what_is_finished(self, tmp_path):
        np.save(tmp_path / "x.npy", vectors().array)
        command = [sys.executable, "-c", DRIVER, str(tmp_path / "x.npy"), str(tmp_path / "x.emb")]
        path = tmp_path / "x.emb"
        with ray_folder():
            driver = subprocess.Popen(command)
            deadline = time.monotonic() + 120.0
            while not (path / "manifest.json").exists() or not len(
                gm.open_store(path, allow_incomplete=True)
            ):
                assert time.monotonic() < deadline and driver.poll() is None
                time.sleep(0.05)
            driver.kill()
            driver.wait()
            while any(True for _ in encoding_processes()):
                assert time.monotonic() < deadline, "workers are left"
                time.sleep(0.1)
            kept = len(gm.open_store(path, allow_incomplete=True))
            assert 0 < kept < N
            subprocess.run(command, check=True, timeout=240)
        store = gm.open_store(path, verify=True)
        assert np.array_equal(store.to_numpy(), vectors().array) and store.complete


def slow(rows):
    time.sleep(0.25)
    return rows


DRIVER = """
import sys, time
import ray
import gmmatch as gm
from gmmatch.data import open_source
from gmmatch.encoders import CallableEncoder

class Slow:
    fingerprint = "slow"
    def __call__(self, rows):
        time.sleep(0.25)
        return rows

ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
gm.embed(open_source(sys.argv[1]), CallableEncoder(Slow(), "embedding", "slow"), sys.argv[2], engine=gm.RayEngine(2),
         batch_size=16, rows_per_shard=64)
"""
