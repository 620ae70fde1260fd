"""The Ray engine, on a cluster of several nodes on this machine: the same picks, also when workers are killed."""

from __future__ import annotations

import os
import random
import signal
import threading
import time

import numpy as np
import psutil
import pytest

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine, RayEngine, UnreadableShardError, open_shards
from gmmatch.errors import InvalidInputError
from tests.ray_processes import ray_folder

from .test_methods import METHODS, picks

ray = pytest.importorskip("ray", reason="needs the extra gmmatch[ray]")
pytestmark = pytest.mark.slow
KILLED = [name for name in METHODS if name not in ("hard", "moment-matching", "kernel-herding, Fourier")]


@pytest.fixture(scope="module")
def nodes():
    """Four nodes of one CPU each; all of their processes are ended afterwards."""
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80_000_000}
    with ray_folder() as folder:
        cluster = Cluster(
            initialize_head=True, head_node_args={**small, "include_dashboard": False, "temp_dir": folder}
        )
        try:
            for _ in range(3):
                cluster.add_node(**small)
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


@pytest.fixture
def task(rows_file, clouds):
    return {
        "X": rows_file,
        "y": np.arange(len(clouds)) % 2,
        "k": 300,
        "batches": 4,
        "random_state": 0,
        "method": "gm-matching",
    }


@pytest.fixture
def expected(task):
    return gm.select(**task, engine=LocalEngine(1))


@pytest.mark.parametrize(
    ("address", "reason"), [("127.0.0.1:1", "refused"), ("nonsense", "Invalid address format")]
)
def test_where_no_cluster_answers_is_said_at_once(address, reason):
    if ray.is_initialized():
        pytest.skip("this process is connected to a cluster")
    with pytest.raises(InvalidInputError, match=f"{address}.*no Ray cluster can be joined there.*{reason}"):
        RayEngine(address)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_the_picks_are_those_of_the_local_engine(nodes, task, expected, workers):
    found = gm.select(**task, engine=RayEngine(workers=workers))
    assert found.order.tolist() == expected.order.tolist()
    assert found.groups == expected.groups
    assert found.provenance["engine"]["workers"] == workers
    if workers in (1, 2, 4):
        local = gm.select(**task, engine=LocalEngine(workers))
        assert found.provenance["engine"]["bytes"] == local.provenance["engine"]["bytes"]


def test_all_cpus_are_used_unless_told_otherwise(nodes, rows_file):
    engine = RayEngine()
    assert engine.workers == 4
    with pytest.raises(InvalidInputError, match="the cluster has 4 CPUs"):
        RayEngine(workers=5)
    with pytest.raises(InvalidInputError, match="connected to a cluster already"):
        RayEngine("somewhere:6379")
    engine.close()
    assert ray.is_initialized()  # it was not this engine that connected


def process_of(actor):
    return actor.__ray_call__.remote(lambda worker: os.getpid())


def gpus_of(actor):
    return actor.__ray_call__.remote(lambda worker: ray.get_runtime_context().get_accelerator_ids()["GPU"])


class WatchedEngine(RayEngine):
    """Remembers its workers' processes, so that a test can kill them."""

    def place(self, specs):
        self.placement = super().place(specs)
        self.processes = ray.get([process_of(actor) for actor in self.placement.actors])
        return self.placement


class Assassin:
    """Kills one worker while medians are searched for and another while picks are made, at random moments."""

    def __init__(self, engine, seed):
        self.engine, self.random = engine, random.Random(seed)
        self.steps = dict.fromkeys(("median", "picks"), 0)
        self.moments = {"median": self.random.randint(1, 3), "picks": self.random.randint(1, 30)}
        self.victims = dict(zip(self.steps, self.random.sample(range(engine.workers), 2), strict=True))
        self.threads = {}

    def __call__(self, phase, done, total):
        self.steps[phase] += 1
        if self.steps[phase] == self.moments[phase]:
            # A little later: in the middle of a call as well as between two.
            delay = self.random.uniform(0.0, 0.02)
            process = self.engine.processes[self.victims[phase]]
            self.threads[phase] = threading.Timer(delay, os.kill, [process, signal.SIGKILL])
            self.threads[phase].start()
        elif self.steps[phase] == self.moments[phase] + 2:
            self.threads[phase].join()  # on a slow machine, too, it must happen before the end


@pytest.mark.parametrize("seed", range(10))
def test_killed_workers_are_replaced_and_nothing_changes(nodes, task, expected, seed):
    engine = WatchedEngine(workers=2)
    assassin = Assassin(engine, seed)
    engine.progress = assassin
    found = gm.select(**task, engine=engine)
    assert not any(thread.is_alive() for thread in assassin.threads.values())
    assert found.provenance["engine"]["replaced_workers"] >= 2
    assert found.order.tolist() == expected.order.tolist()
    assert found.groups == expected.groups


class DeadlyPlacement:
    """Kills a worker at the first call of each kind, while it works or before it begins."""

    def __init__(self, placement, seed):
        self.placement, self.random, self.kinds = placement, random.Random(seed), set()
        self.plain, placement.call = placement.call, self.call

    def call(self, method, *shared, each=None):
        if method in self.kinds or method == "check":
            return self.plain(method, *shared, each=each)
        self.kinds.add(method)
        actor = self.random.choice(self.placement.actors)
        try:
            process = ray.get(process_of(actor))
        except ray.exceptions.RayActorError:  # killed after its last call, and not yet missed
            return self.plain(method, *shared, each=each)
        timer = threading.Timer(self.random.uniform(0.0, 0.01), os.kill, [process, signal.SIGKILL])
        timer.start()
        found = self.plain(method, *shared, each=each)
        timer.join()
        return found


@pytest.mark.parametrize("name", KILLED)
def test_workers_killed_in_every_stage_of_a_method_change_nothing(nodes, clouds, rows_file, name):
    asked = {"y": np.arange(len(clouds)) % 2, "preprocess": ["scale"]}
    engine = RayEngine(workers=2)
    place = engine.place
    deadly = []

    def placed(specs):
        placement = place(specs)
        deadly.append(DeadlyPlacement(placement, seed=name))
        return placement

    engine.place = placed
    found = picks(rows_file, name, **asked, engine=engine)
    assert found.order.tolist() == picks(clouds, name, **asked).order.tolist()
    assert {"assign", "total", "take"} <= deadly[0].kinds
    assert found.provenance["engine"]["replaced_workers"] >= 2


def test_workers_killed_while_robust_screens_and_picks_change_nothing(nodes, tmp_path):
    random = np.random.default_rng(2)
    true = random.integers(0, 3, 9000)
    rows = (4.0 * np.eye(3, 8)[true] + random.normal(size=(9000, 8))).astype(np.float32)
    given = np.where(random.random(9000) < 0.2, (true + 1) % 3, true)
    np.save(tmp_path / "rows.npy", rows)
    asked = {"y": given, "k": 300, "method": "robust", "random_state": 0, "n_components": 64}
    engine = RayEngine(workers=2)
    place = engine.place
    deadly = []

    def placed(specs):
        placement = place(specs)
        deadly.append(DeadlyPlacement(placement, seed=0))
        return placement

    engine.place = placed
    found = gm.select(tmp_path / "rows.npy", **asked, engine=engine)
    assert found.order.tolist() == gm.select(rows, **asked, carry=False).order.tolist()
    assert {"assign", "each", "total", "take", "scan"} <= deadly[0].kinds
    assert found.provenance["engine"]["replaced_workers"] >= 2


def test_a_shard_that_cannot_be_read_is_named_across_the_cluster(nodes, clouds, tmp_path):
    paths = [tmp_path / f"{number}.npy" for number in range(4)]
    for path, rows in zip(paths, np.split(clouds, 4), strict=True):
        np.save(path, rows)
    shards = open_shards(paths)
    paths[2].write_bytes(b"")
    with pytest.raises(UnreadableShardError, match=r"2\.npy cannot be read"):
        gm.select(shards, engine=RayEngine(workers=2), k=10, method="gm-matching")
    there, here = (
        gm.select(shards, engine=engine, k=10, random_state=0, method="gm-matching")
        for engine in (RayEngine(workers=2, skip_unreadable=True), LocalEngine(1, skip_unreadable=True))
    )
    assert there.order.tolist() == here.order.tolist()


def test_workers_leave_nothing_behind(nodes, task):
    """Their CPUs are free again, so that the next selection finds a place."""
    for _ in range(2):
        engine = WatchedEngine(workers=4, start_timeout=120.0)
        assert len(gm.select(**task, engine=engine)) == 300
        assert engine.placement.actors == []


def wait_until(happened, seconds=120):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("moment", ["median", "picks"])
def test_a_machine_that_is_gone_is_replaced_by_another(nodes, task, expected, moment):
    engine = WatchedEngine(workers=4)  # one on each of the four nodes
    spare = []

    def remove_a_machine(phase, done, total):
        if phase == moment and not spare:
            spare.append(nodes.add_node(num_cpus=1, object_store_memory=80_000_000))
            lost = next(node for node in nodes.worker_nodes if node is not spare[0])
            nodes.remove_node(lost, allow_graceful=False)
            # The worker there lives until it misses its machine, which may be longer than this job takes.
            wait_until(lambda: not all(map(psutil.pid_exists, engine.processes)))

    engine.progress = remove_a_machine
    found = gm.select(**task, engine=engine)
    assert found.provenance["engine"]["replaced_workers"] >= 1
    assert found.order.tolist() == expected.order.tolist()


def test_workers_are_given_gpus_where_the_cluster_has_some(nodes, task, expected):
    """Ray believes what it is told about GPUs; workers look for themselves, and compute on the processor here."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has GPUs, and not those that Ray is told of")
    # A machine that another test removed counts until Ray misses it.
    wait_until(lambda: ray.cluster_resources()["CPU"] == 4)
    with pytest.raises(InvalidInputError, match="Ray reports no GPU in the cluster"):
        RayEngine(device="cuda")
    node = nodes.add_node(num_cpus=2, num_gpus=2, object_store_memory=80_000_000)
    try:
        engine = WatchedEngine()
        assert (engine.workers, engine.device, engine.gpus_per_worker) == (2, "auto", 1.0)
        given = []

        def look(phase, done, total):
            if not given:
                given.extend(ray.get([gpus_of(actor) for actor in engine.placement.actors]))

        engine.progress = look
        found = gm.select(**task, engine=engine)
        assert sorted(given) == [["0"], ["1"]]
        assert found.order.tolist() == expected.order.tolist()
        assert found.provenance["engine"]["devices"] == ["cpu"]
        assert RayEngine(workers=3).gpus_per_worker == 0.5
        assert RayEngine(device="cpu").workers == 6
        with pytest.raises(InvalidInputError, match="torch finds no CUDA device here"):
            gm.select(**task, engine=RayEngine(device="cuda"))
    finally:
        nodes.remove_node(node)
