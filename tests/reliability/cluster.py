"""Workers, machines and drivers of a Ray cluster that are killed while a selection runs.

``python -m tests.reliability.cluster --deaths 100 --json tests/reliability/results/cluster.json`` starts a cluster of
several nodes on this machine. It kills workers (``kill -9``) in the first call of each kind of every method, and in
later ones; removes a node; takes away a shard; interrupts and kills the driver; and removes all nodes that could run
workers. Picks must be those of a selection in memory, and no worker may be left running.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine, RayEngine, UnreadableShardError, WorkerLostError
from gmmatch.embeddings import StoreWriter
from tests.backends.cluster.test_methods import FEATURES, METHODS, picks
from tests.ray_processes import ray_folder
from tests.reliability.counts import parser_of, report

SMALL = {"num_cpus": 1, "object_store_memory": 80_000_000}
NAMES = [*METHODS, "robust"]


class Killer:
    """Kills a worker in some of the calls to all of them: at least once in each kind of call, while it works."""

    def __init__(self, placement: Any, seed: int, deaths: Counter[str]) -> None:
        self.placement, self.random, self.deaths = placement, random.Random(seed), deaths
        self.met: set[str] = set()
        self.plain, placement.call = placement.call, self.call

    def call(self, method: str, *shared: Any, each: Any = None) -> list[Any]:
        import ray

        if method in self.met and self.random.random() > 0.01:
            return self.plain(method, *shared, each=each)
        actor = self.random.choice(self.placement.actors)
        try:
            process = ray.get(actor.__ray_call__.remote(lambda worker: os.getpid()))
        except ray.exceptions.RayActorError:  # killed after its last call, and not yet missed
            return self.plain(method, *shared, each=each)
        self.met.add(method)
        timer = threading.Timer(self.random.uniform(0.0, 0.01), os.kill, [process, signal.SIGKILL])
        timer.start()
        found = self.plain(method, *shared, each=each)
        timer.join()
        self.deaths[method] += 1
        return found


def rows_and_labels() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(7)
    labels = np.arange(3000) % 2
    rows = draw.normal(size=(3000, 6)) + 1.0
    rows[labels == 1, 0] += 4.0
    return rows, np.where(draw.random(3000) < 0.1, 1 - labels, labels)


def chosen(X: Any, name: str, **more: Any) -> Any:
    if name == "robust":
        return gm.select(X, method="robust", **{"k": 150, "random_state": 3, **FEATURES, **more})
    return picks(X, name, **more)


def die_in_every_stage(file: Path, deaths: int, workers: int, names: list[str]) -> dict[str, Any]:
    rows, labels = rows_and_labels()
    asked = {"y": labels, "preprocess": ["scale"]}
    expected = {name: chosen(rows, name, **asked).order.tolist() for name in names}
    calls: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    replaced = seed = 0
    while replaced < deaths or seed < len(names):
        name = names[seed % len(names)]
        engine = RayEngine(workers=workers)
        plain = engine.place

        def placed(specs: Any, plain: Any = plain, seed: int = seed) -> Any:
            placement = plain(specs)
            Killer(placement, seed, calls)
            return placement

        engine.place = placed  # type: ignore[method-assign]
        found = chosen(file, name, **asked, engine=engine)
        if found.order.tolist() != expected[name]:
            raise AssertionError(f"{name}, seed {seed}: other picks after deaths")
        methods[name] += found.provenance["engine"]["replaced_workers"]
        replaced, seed = sum(methods.values()), seed + 1
        print(f"{replaced} deaths, {seed} selections ({name})", flush=True)
    return {"deaths": replaced, "selections": seed, "by_method": methods, "kills_by_call": calls}


def unreadable_shard(folder: Path, workers: int) -> int:
    rows, labels = rows_and_labels()
    with StoreWriter(
        folder / "x.emb", encoder="x", encoder_fingerprint="1", rows_per_shard=500, dtype="float32"
    ) as writer:
        writer.append(rows, range(len(rows)), labels)
        writer.finish()
    count = 0
    for damage in ("missing", "truncated", "flipped"):
        shutil.copytree(folder / "x.emb", folder / f"{damage}.emb")
        path = sorted((folder / f"{damage}.emb").glob("*.npy"))[2]
        data = bytearray(path.read_bytes())
        data[-5] ^= 4
        path.unlink()
        if damage != "missing":
            path.write_bytes(data if damage == "flipped" else data[:-9])
        try:
            gm.select(folder / f"{damage}.emb", k=20, method="gm-matching", engine=RayEngine(workers=workers))
        except UnreadableShardError as error:
            if path.name not in str(error):
                raise
            count += 1
        asked: dict[str, Any] = {"k": 20, "method": "gm-matching", "random_state": 0}
        there, here = (
            gm.select(folder / f"{damage}.emb", engine=engine, **asked)
            for engine in (
                RayEngine(workers=workers, skip_unreadable=True),
                LocalEngine(1, skip_unreadable=True),
            )
        )
        if there.order.tolist() != here.order.tolist():
            raise AssertionError(f"other picks without the shard that is {damage}")
    return count


# A selection that goes on for long enough to be interrupted.
DRIVER = """
import os, signal, sys, time
# A shell starts what runs in the background with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np, ray
import gmmatch as gm
from gmmatch.backends.cluster import RayEngine
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
def slowly(phase, done, total):
    print(phase, flush=True)
    time.sleep(0.2)
engine = RayEngine(workers=2, progress=slowly)
place = engine.place
def placed(specs):
    placement = place(specs)
    asked = [actor.__ray_call__.remote(lambda worker: os.getpid()) for actor in placement.actors]
    print("processes", *ray.get(asked), flush=True)
    return placement
engine.place = placed
gm.select(sys.argv[2], k=2000, method="gm-matching", batches=1, engine=engine)
"""


def gone_after(address: str, file: Path, how: int) -> float:
    """Send a signal to a driver; return how many seconds later its workers are gone."""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, address, str(file)], stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    workers: list[int] = []
    for line in driver.stdout:
        if line.startswith("processes"):
            workers = [int(number) for number in line.split()[1:]]
        elif line.strip() == "picks":
            break
    begun = time.monotonic()
    driver.send_signal(how)
    driver.wait(60)
    while any(psutil.pid_exists(number) for number in workers):
        if time.monotonic() - begun > 60:
            raise AssertionError(f"workers {workers} are left a minute after their driver")
        time.sleep(0.1)
    if not workers or driver.returncode == 0:
        raise AssertionError("the driver was not interrupted")
    return time.monotonic() - begun


def remove_during(cluster: Any, file: Path, nodes: list[Any], spare: bool) -> tuple[Any, float]:
    """Remove nodes while picks are made; return the selection, or what was said, and how many seconds that took."""
    moments: list[float] = []
    cluster.wait_for_nodes(timeout=90)  # one that was added a moment ago may not be there yet

    def remove(phase: str, done: int, total: int | None) -> None:
        if phase == "picks" and not moments:
            moments.append(time.monotonic())
            if spare:
                cluster.add_node(**SMALL)
            for node in nodes:
                cluster.remove_node(node, allow_graceful=False)

    engine = RayEngine(workers=2, progress=remove)
    try:
        found: Any = gm.select(file, k=150, method="gm-matching", batches=1, random_state=3, engine=engine)
    except WorkerLostError as error:
        found = str(error)
    return found, time.monotonic() - moments[0]


def measure(folder: Path, deaths: int, names: list[str]) -> dict[str, Any]:
    import ray
    from ray.cluster_utils import Cluster

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # and with it all nodes
    head = {
        "num_cpus": 0,
        "object_store_memory": 80_000_000,
        "include_dashboard": False,
        "temp_dir": str(folder),
    }
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes = [cluster.add_node(**SMALL) for _ in range(2)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        rows, _ = rows_and_labels()
        file = folder / "rows.npy"
        np.save(file, rows)
        found: dict[str, Any] = {}
        found["unreadable_shards_named"] = unreadable_shard(folder, 2)
        for name, how in (("interrupted", signal.SIGINT), ("killed", signal.SIGKILL)):
            found[f"workers_gone_after_{name}_driver_seconds"] = gone_after(cluster.address, file, how)
            print(name, found[f"workers_gone_after_{name}_driver_seconds"], flush=True)
        found |= die_in_every_stage(file, deaths, 2, names)
        there, seconds = remove_during(cluster, file, nodes[:1], spare=True)
        expected = gm.select(rows, k=150, method="gm-matching", batches=1, random_state=3, carry=False)
        if isinstance(there, str) or there.order.tolist() != expected.order.tolist():
            raise AssertionError(f"other picks after a node was removed: {there}")
        found["node_removed_seconds"] = seconds
        print("node removed", seconds, flush=True)
        left = [node for node in cluster.worker_nodes if node is not nodes[0]]
        said, seconds = remove_during(cluster, file, left, spare=False)
        if not isinstance(said, str) or seconds > 60.0:
            raise AssertionError(f"all workers were dead for {seconds:.0f} s: {said}")
        print(said, seconds, flush=True)
        return {**found, "all_dead_error_seconds": seconds}
    finally:
        ray.shutdown()
        cluster.shutdown()


def main() -> None:
    parser = parser_of("cluster", __doc__)
    parser.add_argument("--deaths", type=int, default=100)
    parser.add_argument("--methods", nargs="*", help="by default all of them")
    asked = parser.parse_args()
    with ray_folder() as folder:
        found = measure(Path(folder), asked.deaths, asked.methods or NAMES)
    report(found, asked.json)


if __name__ == "__main__":
    main()
