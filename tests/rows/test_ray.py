"""Rows on Ray: the picks of rows in memory, for any number of workers, also when workers are killed."""

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
from gmmatch.errors import InvalidInputError, InvalidTypeError, MissingDependencyError, NotFiniteError
from gmmatch.rows.ray import WorkerLostError, parse_engine
from gmmatch.store import StoreWriter
from tests.fake_ray import FakeRay
from tests.ray_processes import ray_folder

METHODS = ["easy", "moderate", "herding", "gm-matching", "kernel-herding"]


@pytest.fixture(scope="module")
def data():
    """1,500 rows around two centers, the rarer ones first, as sorted shards would have them; two classes."""
    draw = np.random.default_rng(7)
    X = draw.normal(size=(1500, 6)).astype(np.float32) + 1.0
    X[:350] += 3.0
    return X, np.arange(1500) % 2


@pytest.fixture(scope="module")
def paths(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    files = [folder / f"{number}.npy" for number in range(3)]
    for path, rows in zip(files, np.split(data[0], [1, 900]), strict=True):
        np.save(path, rows)
    return files


@pytest.fixture
def fake_ray(monkeypatch):
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    return fake


def pick(X, y, method, **options):
    more = {"preprocess": ["scale", "unit"]} if method in ("easy", "gm-matching") else {}
    return gm.select(X, y, k=60, method=method, random_state=3, **more, **options)


@pytest.mark.parametrize("n_workers", [1, 2, 3, 7])
def test_picks_do_not_depend_on_the_number_of_workers(fake_ray, data, paths, n_workers):
    X, y = data
    for method in METHODS:
        expected = pick(X, y, method)
        for source in (X, paths):
            selection = pick(source, y, method, engine=gm.RayEngine(n_workers))
            assert selection.order.tolist() == expected.order.tolist(), method
            np.testing.assert_allclose(selection.residuals, expected.residuals, rtol=1e-6)
    assert len(fake_ray.actors) == 2 * len(METHODS) * n_workers
    assert not any(actor.alive for actor in fake_ray.actors)


def test_a_store_brings_its_labels_and_ids(fake_ray, data, tmp_path):
    X, y = data
    with StoreWriter(tmp_path / "x.emb", encoder="e", encoder_fingerprint="1", rows_per_shard=400) as writer:
        writer.append(X, ids=[f"r{row}" for row in range(len(X))], labels=y)
        writer.finish()
    store = gm.open_store(tmp_path / "x.emb")
    here, there = (gm.select(store, k=20, method="herding", engine=engine) for engine in (None, "ray:2"))
    assert here.order.tolist() == there.order.tolist() and here.counts == {0: 10, 1: 10}
    assert there.ids.tolist() == [f"r{row}" for row in there.indices]
    next(iter(sorted((tmp_path / "x.emb").glob("*.arrow")))).write_bytes(b"")
    with pytest.raises(InvalidInputError, match="damaged"):
        gm.select(store, k=20, method="herding", engine="ray:2")


@pytest.mark.slow
def test_a_screening_runs_on_workers(fake_ray, data):
    X, y = data[0][:400], data[1][:400]
    verdicts = [gm.screen(X, y, random_state=0, engine=on).verdict.tolist() for on in (None, "ray:3")]
    assert verdicts[0] == verdicts[1] and len(fake_ray.actors) == 3


def test_duplicates_are_found_on_workers(fake_ray, data):
    X = np.concatenate([data[0][:300], data[0][:20]])
    copies = [gm.duplicates(X, 0.9999, engine=on).rows.tolist() for on in (None, "ray:3")]
    assert copies[0] == copies[1] and len(copies[0]) >= 20 and len(fake_ray.actors) == 3


def test_a_curve_is_measured_on_workers(fake_ray, data):
    X, y = data[0][:400], data[1][:400]
    selection = gm.select(X, y, k=60, method="herding")
    here, there = (
        gm.budget_curve(selection, X, y, sizes=[20, 60], repeats=2, engine=on) for on in (None, "ray:3")
    )
    assert here.as_json() == there.as_json() and len(fake_ray.actors) == 3


def test_a_call_that_never_comes_back_is_an_error(monkeypatch, fake_ray, data):
    monkeypatch.setattr("gmmatch.rows.engine._SILENT_SECONDS", 0.2)
    monkeypatch.setattr("gmmatch.rows.engine._CHECK_SECONDS", 0.0)
    with gm.open_rows(data[0], engine="ray") as rows:
        monkeypatch.setattr(fake_ray, "get", lambda *_, **__: time.sleep(60))
        with pytest.raises(WorkerLostError, match="Ray's processes on this machine give no answer"):
            rows.take(np.arange(5))


@pytest.mark.slow
def test_rows_on_the_device_of_a_worker(fake_ray, data, paths):
    pytest.importorskip("torch", reason="needs the extra gmmatch[torch]")
    fake_ray.n_gpus = 2
    X, y = data
    for method in METHODS:
        selection = pick(paths, y, method, engine=gm.RayEngine(num_gpus=1))
        assert selection.order.tolist() == pick(X, y, method).order.tolist()
    assert len(fake_ray.actors) == 2 * len(METHODS)


def test_what_a_worker_raises_is_raised_here(fake_ray, data):
    X = data[0].copy()
    X[[5, 1222], 1] = np.nan, np.inf
    with pytest.raises(NotFiniteError, match=r"first: 5, 1222"):
        gm.select(X, k=10, engine="ray")
    assert not any(actor.alive for actor in fake_ray.actors)


def test_engines_by_name():
    assert parse_engine("ray") == gm.RayEngine() and parse_engine("ray:8") == gm.RayEngine(8)
    assert parse_engine("ray://head:10001").address == "ray://head:10001"
    for name in ("dask", "ray:0", "ray:many"):
        with pytest.raises(InvalidInputError, match='expected "ray", "ray:8"'):
            gm.select(np.eye(3), k=1, engine=name)
    with pytest.raises(InvalidTypeError, match="engine has type int"):
        parse_engine(8)
    with pytest.raises(InvalidInputError, match=r"n_workers='auto'.*whole number of workers"):
        gm.RayEngine("auto")


def test_what_does_not_fit_is_said_before_anything_runs(monkeypatch, fake_ray, data):
    with pytest.raises(InvalidInputError, match="8 CPUs and 0 GPUs, which is room for 8 workers"):
        gm.select(data[0], k=5, engine=gm.RayEngine(9))
    with pytest.raises(InvalidInputError, match="room for 0 workers"):
        gm.select(data[0], k=5, engine=gm.RayEngine(1, num_gpus=1))
    with pytest.raises(InvalidInputError, match="connected to a Ray cluster already"):
        gm.select(data[0], k=5, engine=gm.RayEngine(address="elsewhere:6379"))
    with pytest.raises(InvalidInputError, match=r"memory_limit.*no meaning"):
        gm.select(data[0], k=5, engine="ray", memory_limit=1 << 20)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"RayEngine needs Ray.*\[ray\]"):
        gm.select(data[0], k=5, engine="ray")


JOIN = """
import socket, sys
import gmmatch as gm
from gmmatch.rows import engine
engine._JOIN_SECONDS = 2.0
with socket.create_server(("127.0.0.1", 0)) as listener:
    deaf = f"127.0.0.1:{listener.getsockname()[1]}"
    for address in ("127.0.0.1:1", "nonsense", deaf):
        try:
            gm.select([[1.0], [2.0]], k=1, engine=gm.RayEngine(address=address))
        except gm.GMMatchError as error:
            print(error, flush=True)
"""


@pytest.mark.slow
def test_where_no_cluster_answers_is_said():
    """In a process of its own, as Ray goes on trying to join."""
    pytest.importorskip("ray", reason="needs the extra gmmatch[ray]")
    done = subprocess.run(
        [sys.executable, "-c", JOIN], capture_output=True, text=True, timeout=120, check=True
    )
    lines = done.stdout.splitlines()
    reasons = ("refused", "Invalid address format", "no answer of Ray within 2 seconds")
    assert len(lines) == 3 and all("no Ray cluster can be joined there" in line for line in lines)
    assert all(reason in line for reason, line in zip(reasons, lines, strict=True))


KILL_AGENT = """
import os, signal, threading
import psutil, ray
import numpy as np
import gmmatch as gm
ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
[agent] = [process for process in psutil.Process().children() if process.name() == "raylet"]
with gm.open_rows(np.random.default_rng(0).normal(size=(1500, 6)), engine=gm.RayEngine(2, num_cpus=0.5)) as rows:
    gm.select(rows, k=100, method="herding")
    threading.Timer(1.0, agent.send_signal, [signal.SIGKILL]).start()
    try:
        while True:
            gm.select(rows, k=100, method="gm-matching")
    except gm.GMMatchError as error:
        print("error:", error, flush=True)
        os._exit(3)
"""


@pytest.mark.slow
def test_without_the_agent_of_the_node_it_ends_or_raises():
    """Ray itself ends a process that has lost its node, unless the error comes first."""
    pytest.importorskip("ray", reason="needs the extra gmmatch[ray]")
    with ray_folder():
        done = subprocess.run(
            [sys.executable, "-c", KILL_AGENT], capture_output=True, text=True, timeout=90, check=False
        )
    assert (done.returncode == 3 and "error: " in done.stdout) or done.returncode == 1, done.stdout


@pytest.mark.slow
class TestOnRay:
    def test_equal_picks_on_real_workers(self, ray_cluster, data, paths):
        X, y = data
        for method in METHODS:
            expected = pick(X, y, method).order.tolist()
            assert pick(paths, y, method, engine=gm.RayEngine(2, num_cpus=0.5)).order.tolist() == expected
        assert pick(X, y, method, engine="ray").order.tolist() == expected
        deadline = time.monotonic() + 60.0
        while ray_cluster.available_resources().get("CPU") != 2.0:
            assert time.monotonic() < deadline, "workers are left"
            time.sleep(0.1)

    def test_a_worker_that_is_killed_while_it_starts_is_replaced(self, ray_cluster, data):
        killed = []

        def kill_one():
            deadline = time.monotonic() + 30.0
            while not killed and time.monotonic() < deadline:
                for process in psutil.process_iter(["pid", "cmdline"]):
                    title = " ".join(process.info["cmdline"] or [])
                    if title.startswith("ray::Shard.__init__"):
                        killed.append(process.pid)
                        os.kill(process.pid, signal.SIGKILL)
                        break

        killer = threading.Thread(target=kill_one)
        killer.start()
        found = pick(*data, "herding", engine=gm.RayEngine(2, num_cpus=0.5))
        killer.join()
        assert killed and found.order.tolist() == pick(*data, "herding").order.tolist()

    def test_a_worker_that_dies_too_often_is_an_error(self, ray_cluster, data):
        with gm.open_rows(data[0], engine=gm.RayEngine(2, num_cpus=0.5, max_restarts=0)) as rows:
            process = ray_cluster.get(rows.workers[0].__ray_call__.remote(lambda shard: os.getpid()))
            os.kill(process, signal.SIGKILL)
            with pytest.raises(WorkerLostError, match="A worker is lost"):
                rows.take(np.arange(1500))

    def test_a_busy_cluster_is_an_error_in_time(self, ray_cluster, data):
        late = pytest.raises(WorkerLostError, match="2 of 2 workers did not start within 2 seconds")
        with gm.open_rows(data[0], engine=gm.RayEngine(2)), late:
            gm.select(data[0], k=5, engine=gm.RayEngine(2, timeout=2))
