"""Workers, machines and drivers of a Ray cluster that are killed while a selection runs.

``python -m tests.reliability.cluster --deaths 100 --json tests/reliability/results/cluster.json`` starts a cluster of
several nodes on this machine. It kills workers (``kill -9``) in the first call of each function of every method, and
in later ones; removes a node; damages a shard; interrupts and kills the driver; and removes all nodes that could run
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
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import psutil

import gmmatch as gm
from gmmatch.errors import InvalidInputError
from gmmatch.rows.ray import RayRows, WorkerLostError
from gmmatch.store import StoreWriter
from tests.ray_processes import ray_folder, retry
from tests.reliability.counts import parser_of, report

SMALL = {"num_cpus": 1, "object_store_memory": 80_000_000}
NAMES = ("random", "easy", "hard", "moderate", "herding", "gm-matching", "kernel-herding", "robust")
# A busy machine takes long to start a worker.
ENGINE = gm.RayEngine(2, max_restarts=100, timeout=120.0)
N_ROWS = 1_500


class Killer:
    """Kills a worker at some calls: at least once in each function that workers run, while they work."""

    def __init__(self, seed: int, kills: Counter[str]) -> None:
        self.random, self.kills = random.Random(seed), kills
        self.known: set[str] = set()
        self.inner = RayRows.run_blocks

    def run_blocks(self, rows: RayRows, function: Any, args: Any, per_row: Any, combine: Any) -> Any:
        """Do what the rows do, and kill a worker meanwhile."""
        name = getattr(function, "__name__", type(function).__name__)
        if name in self.known and self.random.random() > 0.01:
            return self.inner(rows, function, args, per_row, combine)
        self.known.add(name)
        process = process_of(self.random.choice(rows.workers))
        timer = threading.Timer(self.random.uniform(0.0, 0.01), kill, [process])
        timer.start()
        result = self.inner(rows, function, args, per_row, combine)
        timer.join()
        self.kills[name] += 1
        return result


def process_of(worker: Any) -> int:
    import ray

    process: int = ray.get(worker.__ray_call__.remote(lambda shard: os.getpid()))
    return process


def kill(process: int) -> None:
    if psutil.pid_exists(process):
        os.kill(process, signal.SIGKILL)


def rows_and_labels() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(7)
    labels = np.arange(N_ROWS) % 2
    rows = draw.normal(size=(N_ROWS, 6)) + 1.0
    rows[labels == 1, 0] += 4.0
    return rows, np.where(draw.random(N_ROWS) < 0.1, 1 - labels, labels)


def pick(X: Any, y: Any, method: str) -> list[int]:
    order: list[int] = gm.select(X, y, k=100, method=method, random_state=3).order.tolist()
    return order


def die_in_every_stage(file: Path, deaths: int, names: list[str]) -> dict[str, Any]:
    rows, labels = rows_and_labels()
    expected = {name: pick(rows, labels, name) for name in names}
    functions: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    runs = 0
    while functions.total() < deaths or runs < len(names):
        name = names[runs % len(names)]
        before = functions.total()
        killer = Killer(runs, functions)
        # Of the class, as rows after a map are other objects.
        replaced = mock.patch.object(
            RayRows, "run_blocks", lambda rows, *call, by=killer: by.run_blocks(rows, *call)
        )
        with gm.open_rows(file, engine=ENGINE) as there, replaced:
            if pick(there, labels, name) != expected[name]:
                raise AssertionError(f"{name}, run {runs}: other picks after deaths")
        methods[name] += functions.total() - before
        runs += 1
        print(f"{functions.total()} deaths, {runs} selections ({name})", flush=True)
    return {"deaths": functions.total(), "selections": runs, "by_method": methods, "by_function": functions}


def damaged_shards(folder: Path) -> int:
    """Damage a shard in three ways; return how often the error names its file."""
    rows, labels = rows_and_labels()
    options = {"encoder": "x", "encoder_fingerprint": "1", "rows_per_shard": 500, "dtype": "float32"}
    count = 0
    for damage in ("missing", "truncated", "flipped"):
        with StoreWriter(folder / f"{damage}.emb", **options) as writer:  # type: ignore[arg-type]
            writer.append(rows, range(len(rows)), labels)
            writer.finish()
        store = gm.open_store(folder / f"{damage}.emb")
        path = sorted(store.path.glob("*.arrow"))[2]
        data = bytearray(path.read_bytes())
        data[-5] ^= 4
        path.unlink()
        if damage != "missing":
            path.write_bytes(data if damage == "flipped" else data[:-9])
        try:
            gm.select(store, k=20, method="gm-matching", engine=ENGINE)
        except InvalidInputError as error:
            count += path.name in str(error)
        shutil.rmtree(store.path)
    return count


# A selection that goes on for long enough to be interrupted.
DRIVER = """
import os, signal, sys
# A shell starts what runs in the background with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import ray
import gmmatch as gm
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
with gm.open_rows(sys.argv[2], engine=gm.RayEngine(2)) as rows:
    calls = [worker.__ray_call__.remote(lambda shard: os.getpid()) for worker in rows.workers]
    print("processes", *ray.get(calls), flush=True)
    while True:
        gm.select(rows, k=100, method="gm-matching")
        print("picks", flush=True)
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
    began = time.monotonic()
    driver.send_signal(how)
    driver.wait(60)
    while any(psutil.pid_exists(number) for number in workers):
        if time.monotonic() - began > 60:
            raise AssertionError(f"workers {workers} are left a minute after their driver")
        time.sleep(0.1)
    if not workers or driver.returncode == 0:
        raise AssertionError("the driver was not interrupted")
    return time.monotonic() - began


def remove_during(cluster: Any, file: Path, nodes: list[Any], spare: bool) -> tuple[list[int] | str, float]:
    """Remove nodes while picks are made; return the picks, or the error, and how many seconds that took."""
    cluster.wait_for_nodes(timeout=90)  # one that was added a moment ago may not be there yet
    with gm.open_rows(file, engine=ENGINE if spare else replace(ENGINE, timeout=40.0)) as rows:
        pick(rows, None, "gm-matching")
        if spare:
            retry(lambda: cluster.add_node(**SMALL), lambda: None)
            cluster.wait_for_nodes(timeout=90)
        timer = threading.Timer(
            0.2, lambda: [cluster.remove_node(node, allow_graceful=False) for node in nodes]
        )
        began = time.monotonic()
        timer.start()
        try:
            picks: list[int] | str = pick(rows, None, "gm-matching")
            timer.join()
            picks = pick(rows, None, "gm-matching")
        except WorkerLostError as error:
            picks = str(error)
    return picks, time.monotonic() - began


def measure(folder: Path, deaths: int, names: list[str]) -> dict[str, Any]:
    import ray
    from ray.cluster_utils import Cluster

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # and with it all nodes
    (folder / "ray").mkdir()  # where a cluster of several nodes notes its address
    head = {**SMALL, "num_cpus": 0, "include_dashboard": False}
    cluster = retry(lambda: Cluster(initialize_head=True, head_node_args=head), ray.shutdown)
    try:
        nodes = [retry(lambda: cluster.add_node(**SMALL), lambda: None) for _ in range(2)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        rows, _ = rows_and_labels()
        file = folder / "rows.npy"
        np.save(file, rows)
        counts: dict[str, Any] = {"damaged_shards_named": damaged_shards(folder)}
        for name, how in (("interrupted", signal.SIGINT), ("killed", signal.SIGKILL)):
            counts[f"workers_gone_after_{name}_driver_seconds"] = gone_after(cluster.address, file, how)
            print(name, counts[f"workers_gone_after_{name}_driver_seconds"], flush=True)
        counts |= die_in_every_stage(file, deaths, names)
        picks, seconds = remove_during(cluster, file, nodes[:1], spare=True)
        if picks != pick(rows, None, "gm-matching"):
            raise AssertionError(f"other picks after a node was removed: {picks}")
        counts["node_removed_seconds"] = seconds
        print("node removed", seconds, flush=True)
        left = [node for node in cluster.worker_nodes if node is not nodes[0]]
        message, seconds = remove_during(cluster, file, left, spare=False)
        if not isinstance(message, str) or seconds > 60.0:
            raise AssertionError(f"all workers were dead for {seconds:.0f} s: {message}")
        print(message, seconds, flush=True)
        return {**counts, "all_dead_error_seconds": seconds}
    finally:
        ray.shutdown()
        cluster.shutdown()


def main() -> None:
    parser = parser_of("cluster", __doc__)
    parser.add_argument("--deaths", type=int, default=100)
    parser.add_argument("--methods", nargs="*", help="by default all of them")
    arguments = parser.parse_args()
    with ray_folder() as folder:
        counts = measure(Path(folder), arguments.deaths, arguments.methods or list(NAMES))
    report("cluster", counts, arguments.json)


if __name__ == "__main__":
    main()
