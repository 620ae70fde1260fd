"""Selecting on a Ray cluster beside the local engine: overhead, memory, bytes, and the constants of the cost model.

Run by hand, because it writes gigabytes and takes minutes::

    python -m benchmarks.cluster --rows 20000000 --features 64 --json benchmarks/results/cluster.json
    python -m benchmarks.cluster --table

The first makes float16 rows in a temporary folder, selects 1% of them without labels and per class, by threads (the
local engine) and by as many single-CPU nodes on this machine (the Ray engine) in turn, checks the cost model on other
sizes, and deletes the rows. The second writes the tables of ``docs/results-cluster.md`` from that file.
``--quick`` sees that everything runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.cluster_model import markdown

_ROOT = Path(__file__).resolve().parent.parent
_RESULT = _ROOT / "benchmarks" / "results" / "cluster.json"
_GUIDE = _ROOT / "docs" / "results-cluster.md"
_BEGIN, _END = "<!-- cluster: begin -->", "<!-- cluster: end -->"
_FILES = 8


def make_rows(folder: Path, n_rows: int, n_features: int, seed: int = 0) -> list[Path]:
    """Write float16 Gaussian rows in several files, the corrupt 30% first, as sorted shards would have them."""
    random = np.random.default_rng(seed)
    paths, edges = [], np.linspace(0, n_rows, _FILES + 1).astype(int)
    for number, (start, stop) in enumerate(pairwise(edges)):
        path = folder / f"part-{number}.npy"
        out = np.lib.format.open_memmap(path, "w+", np.float16, (int(stop - start), n_features))
        for first in range(0, len(out), 1 << 16):
            rows = random.standard_normal((min(1 << 16, len(out) - first), n_features), dtype=np.float32)
            rows[np.arange(start + first, start + first + len(rows)) < 0.3 * n_rows] += 2.0
            out[first : first + len(rows)] = rows
        out.flush()
        paths.append(path)
    return paths


class Clock:
    """Notes when the phases of a selection begin and end, and what this process has had of the processor by then."""

    def __init__(self) -> None:
        self.began, self.core_began = time.perf_counter(), time.process_time()
        self.seen: dict[str, list[tuple[float, float]]] = {}

    def __call__(self, phase: str, done: int, total: int | None) -> None:
        self.seen.setdefault(phase, []).append((time.perf_counter(), time.process_time()))

    def per_step(self, phase: str, *, last: int | None = None) -> tuple[float, float]:
        """Return the median seconds and core-seconds between the steps of a phase, or between its last few."""
        times = self.seen[phase] if last is None else self.seen[phase][-last - 1 :]
        if len(times) < 2:
            return float("nan"), float("nan")
        seconds, core = np.median(np.diff(np.array(times), axis=0), axis=0).tolist()
        return seconds, core


class Watch:
    """Samples the memory of workers: what is theirs alone, and pages of files, which belong to the cache."""

    def __init__(self, workers: Sequence[int]) -> None:
        self.workers, self.own, self.mapped = workers, 0, 0
        self.before = max(_memory_of(process).get("RssAnon", 0) for process in workers)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            for process in self.workers:
                found = _memory_of(process)
                self.own = max(self.own, found.get("RssAnon", 0))
                self.mapped = max(self.mapped, found.get("RssFile", 0))

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def _memory_of(process: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    return {
        line.partition(":")[0]: int(line.split()[1]) * 1024
        for line in lines
        if line.startswith(("RssAnon", "RssFile"))
    }


def core_seconds_of_children() -> dict[int, float]:
    """Return what each process below this one has had of the processor."""
    import psutil

    found = {}
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        found[child.pid] = times.user + times.system
    return found


@contextmanager
def ray_nodes(count: int) -> Iterator[None]:
    """Run a cluster of single-CPU nodes on this machine, and end it."""
    import ray
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 200_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    try:
        for _ in range(count - 1):
            cluster.add_node(**small)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


def measure(
    engine: Any, paths: list[Path], labels: Any, k: Any, method: str = "gm-matching"
) -> tuple[Any, dict[str, Any]]:
    """Select once, and return the selection with its timings, bytes and memory."""
    import gmmatch as gm

    watch: list[Watch] = []
    ends: dict[int, float] = {}
    facts: dict[str, Any] = {}
    place = engine.place

    def watched(specs: Any) -> Any:
        began = time.perf_counter()
        placement = place(specs)
        facts["seconds_to_place"] = time.perf_counter() - began
        if engine.name == "ray":
            import ray

            asked = [actor.__ray_call__.remote(lambda worker: os.getpid()) for actor in placement.actors]
            watch.append(Watch(ray.get(asked)))
            close = placement.close

            def counted() -> None:
                ends.update(core_seconds_of_children())
                close()

            placement.close = counted
        return placement

    engine.place = watched
    starts = core_seconds_of_children() if engine.name == "ray" else {}
    clock = Clock()
    try:
        engine.progress = clock
        found = gm.select(paths, engine=engine, k=k, y=labels, method=method, random_state=0)
    finally:
        engine.place = place
        for one in watch:
            one.end()
    facts["seconds"] = time.perf_counter() - clock.began
    facts["core_seconds"] = time.process_time() - clock.core_began
    facts["core_seconds"] += sum(value - starts.get(process, 0.0) for process, value in ends.items())
    facts |= _counted(found, clock) if method == "gm-matching" else _in_rounds(found, clock)
    if watch:
        facts["worker_own_bytes"] = max(one.own for one in watch)
        facts["worker_own_before"] = max(one.before for one in watch)
        facts["worker_mapped_bytes"] = max(one.mapped for one in watch)
    print(
        f"{engine.name}: {facts['seconds']:.1f} s, {facts['core_seconds']:.1f} core-seconds", file=sys.stderr
    )
    return found, facts


def _in_rounds(found: Any, clock: Clock) -> dict[str, Any]:
    moved = found.provenance["engine"]["bytes"]["by_call"]
    seconds, core_seconds = clock.per_step("picks")
    facts = {
        "rounds": moved["scan"]["calls"] // found.provenance["engine"]["workers"],
        "seconds_per_round": seconds,
        "core_seconds_per_round": core_seconds,
    }
    if found.screening is not None:
        facts |= {"kept": int(found.screening.kept.sum())}
        facts |= {"components": found.provenance["groups"][0]["n_components"]}
    return facts


def _counted(found: Any, clock: Clock) -> dict[str, Any]:
    moved = found.provenance["engine"]["bytes"]["by_call"]
    passes = max(group["median_iterations"] for group in found.provenance["groups"])
    per_pass = clock.per_step("median", last=max(1, passes - 1))
    return {
        **_in_rounds(found, clock),
        "passes": passes,
        "seconds_per_pass": per_pass[0],
        "core_seconds_per_pass": per_pass[1],
        "bytes_sent": found.provenance["engine"]["bytes"]["sent"],
        "bytes_received": found.provenance["engine"]["bytes"]["received"],
        "most_bytes_per_pass_and_worker": {
            way: moved["evaluate"][f"largest_{way}"] for way in ("sent", "received")
        },
        "residual": max(found.residual.values()),
    }


def in_turn(paths: list[Path], labels: Any, k: Any, workers: int, repeats: int) -> tuple[Any, ...]:
    """Measure both engines in turn; return their picks, all of their runs, and the seconds to start Ray's nodes."""
    from gmmatch.backends.cluster import LocalEngine, RayEngine

    runs: dict[str, list[dict[str, Any]]] = {"local": [], "ray": []}
    picks, starts = {}, []
    for repeat in range(repeats):
        for name in ("local", "ray") if repeat % 2 == 0 else ("ray", "local"):
            if name == "local":
                found, facts = measure(LocalEngine(workers), paths, labels, k)
            else:
                began = time.perf_counter()
                with ray_nodes(workers):
                    starts.append(time.perf_counter() - began)
                    found, facts = measure(RayEngine(workers=workers, device="cpu"), paths, labels, k)
            picks[name] = found.order
            runs[name].append(facts)
    return picks["local"], picks["ray"], runs, starts


def seconds_per_call(paths: list[Path], workers: int) -> float:
    """Return the median time that it takes to ask all workers for next to nothing, through Ray."""
    import gmmatch as gm
    from gmmatch.backends.cluster import RayEngine

    times: list[float] = []
    with ray_nodes(workers):
        engine = RayEngine(workers=workers, device="cpu")
        place = engine.place

        def placed(specs: Any) -> Any:
            placement = place(specs)
            for _ in range(300):
                began = time.perf_counter()
                placement.call("device")
                times.append(time.perf_counter() - began)
            return placement

        engine.place = placed
        gm.select(paths, engine=engine, k=64, random_state=0, method="gm-matching")
    return float(np.median(times[20:]))


def screened(n_rows: int, n_features: int, workers: int, n_classes: int, k: Any) -> dict[str, Any]:
    """Measure ``robust`` on rows of several sizes: three that the constants come from, and others to check them."""
    from gmmatch.backends.cluster import LocalEngine

    runs = []
    with tempfile.TemporaryDirectory() as name:
        for times, wider in ((1, 1), (2, 1), (1, 4), (4, 1), (2, 2), (0.5, 8), (2, 4)):
            rows, features = int(times * n_rows), wider * n_features
            paths, labels = make_rows(_folder(name), rows, features), np.arange(rows) % n_classes
            if not runs:
                measure(LocalEngine(workers), paths, labels, k, "robust")  # compiles the loops
            _, facts = measure(LocalEngine(workers), paths, labels, k, "robust")
            runs.append({"rows": rows, "features": features, "classes": n_classes, "run": facts})
    return {"runs": runs, "machine": machine.describe()}


def run(n_rows: int, n_features: int, workers: int, n_classes: int, k: Any, repeats: int) -> dict[str, Any]:
    """Measure both engines on the same rows, with and without labels, and the local one on other sizes."""
    from gmmatch.backends.cluster import LocalEngine

    cases, checks, starts, places = [], [], [], []
    with tempfile.TemporaryDirectory() as name:
        few = make_rows(_folder(name), 20_000, n_features)
        measure(LocalEngine(workers), few, None, k)  # compiles the loops
        per_call = seconds_per_call(few, workers)
        paths = make_rows(_folder(name), n_rows, n_features)
        for classes in (1, n_classes):
            labels = None if classes == 1 else np.arange(n_rows) % classes
            here, there, runs, started = in_turn(paths, labels, k, workers, repeats)
            starts += started
            places += [one["seconds_to_place"] for one in runs["ray"]]
            local, remote = (min(runs[engine], key=lambda one: one["seconds"]) for engine in ("local", "ray"))
            cores = {engine: min(one["core_seconds"] for one in runs[engine]) for engine in runs}
            cases.append({
                "classes": classes,
                "k": len(here),
                "same_picks": bool(np.array_equal(here, there)),
                "overhead": remote["seconds"] / local["seconds"],
                "core_overhead": cores["ray"] / cores["local"],
                "allowed_bytes_per_pass": (n_features + 8) * 8 * classes,
                "shard_bytes": n_rows * n_features * 2 / workers,
                "local": local,
                "ray": remote,
                "all_runs": {
                    engine: [{kind: one[kind] for kind in ("seconds", "core_seconds")} for one in runs[engine]]
                    for engine in runs
                },
            })  # fmt: skip
        for rows, features, threads in (
            (2, 1, workers),
            (4, 1, workers),
            (4, 1, 1),
            (8, 4, workers),
            (32, 8, workers),
        ):
            other = make_rows(_folder(name), n_rows // rows, n_features * features)
            _, facts = measure(LocalEngine(threads), other, None, k)
            checks.append({
                "rows": n_rows // rows, "features": n_features * features, "workers": threads, "run": facts,
            })  # fmt: skip
    return {
        "rows": n_rows, "features": n_features, "workers": workers, "repeats": repeats, "dtype": "float16",
        "cases": cases, "checks": checks, "machine": machine.describe(),
        "start": {
            "seconds_to_start_nodes": float(np.median(starts)),
            "seconds_to_place": float(np.median(places)),
            "seconds_per_call": per_call,
        },
    }  # fmt: skip


def _folder(parent: str) -> Path:
    return Path(tempfile.mkdtemp(dir=parent))


def write_table(guide: Path = _GUIDE, source: Path = _RESULT) -> None:
    """Put the tables between the marks of the guide."""
    result = json.loads(source.read_text(encoding="utf-8")) if source.exists() else None
    text = guide.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    guide.write_text(f"{before}{_BEGIN}\n{markdown(result)}\n{_END}{after}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=2, help="times that each engine has its turn")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result to FILE")
    parser.add_argument("--robust", action="store_true", help="measure robust alone; the rest of FILE stays")
    parser.add_argument("--quick", action="store_true", help="a tiny size, to see that everything runs")
    parser.add_argument(
        "--table", action="store_true", help="only write the guide's tables, from the result file"
    )
    options = parser.parse_args(arguments)
    if options.table:
        write_table()
        return
    n_rows, features = (20_000, 8) if options.quick else (options.rows, options.features)
    k, repeats = ("10%", 1) if options.quick else ("1%", options.repeats)
    before = json.loads(options.json.read_text(encoding="utf-8")) if options.robust else {}
    result = before or run(n_rows, features, options.workers, options.classes, k, repeats)
    small = max(n_rows // 40, 20_000)
    result["robust"] = screened(small, features, options.workers, options.classes, k)
    text = json.dumps({"quick": options.quick, **result}, indent=1, ensure_ascii=False)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
