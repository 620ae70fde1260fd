"""Selecting on a Ray cluster beside the local engine: overhead, memory, bytes, and the constants of the cost model.

Run by hand, because it writes gigabytes and takes minutes::

    python -m benchmarks.cluster --rows 20000000 --features 64 --json benchmarks/results/cluster.json
    python -m benchmarks.cluster --table

The first makes float16 rows in a temporary folder, selects 1% of them without labels and per class, by threads (the
local engine) and by as many single-CPU nodes on this machine (the Ray engine), and deletes the rows. The second
writes the tables of ``docs/guides/cluster.md`` from that file. ``--quick`` sees that everything runs.
"""

from __future__ import annotations

import argparse
import json
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

_ROOT = Path(__file__).resolve().parent.parent
_RESULT = _ROOT / "benchmarks" / "results" / "cluster.json"
_GUIDE = _ROOT / "docs" / "guides" / "cluster.md"
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
    """Notes when the phases of a selection begin and end."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.seen: dict[str, list[float]] = {}

    def __call__(self, phase: str, done: int, total: int | None) -> None:
        self.seen.setdefault(phase, []).append(time.perf_counter())

    def per_step(self, phase: str, *, last: int | None = None) -> float:
        """Return the median seconds between the steps of a phase, or between its last few."""
        times = self.seen[phase] if last is None else self.seen[phase][-last - 1 :]
        return float(np.median(np.diff(times))) if len(times) > 1 else float("nan")


class MemoryWatch:
    """Samples the memory of processes: what is theirs alone, and pages of files, which belong to the cache."""

    def __init__(self, processes: Sequence[int]) -> None:
        self.processes, self.own, self.mapped = processes, 0, 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            for process in self.processes:
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


def measure(engine: Any, paths: list[Path], labels: Any, k: Any) -> tuple[Any, dict[str, Any]]:
    """Select once, and return the selection with its timings, bytes and memory."""
    from gmmatch.engines import select_on

    watch: list[MemoryWatch] = []
    place = engine.place

    def watched(specs: Any) -> Any:
        placement = place(specs)
        if engine.name == "ray":
            import ray

            watch.append(MemoryWatch(ray.get([actor.process.remote() for actor in placement.actors])))
        return placement

    engine.place = watched
    clock = Clock()
    try:
        found = select_on(engine, paths, k=k, y=labels, random_state=0, progress=clock)
    finally:
        engine.place = place
        for one in watch:
            one.end()
    seconds = time.perf_counter() - clock.began
    moved = found.provenance["engine"]["bytes"]["by_call"]
    workers = found.provenance["engine"]["workers"]
    passes = max(group["median_iterations"] for group in found.provenance["groups"])
    facts = {
        "seconds": seconds,
        "seconds_before_median": clock.seen["median"][0] - clock.began,
        "seconds_median": clock.seen["median"][-1] - clock.seen["median"][0],
        "seconds_picks": clock.seen["picks"][-1] - clock.seen["median"][-1],
        "passes": passes,
        "seconds_per_pass": clock.per_step("median", last=max(1, passes - 1)),
        "rounds": moved["scan"]["calls"] // workers,
        "seconds_per_round": clock.per_step("picks"),
        "bytes_sent": found.provenance["engine"]["bytes"]["sent"],
        "bytes_received": found.provenance["engine"]["bytes"]["received"],
        "most_bytes_per_pass_and_worker": {
            way: moved["evaluate"][f"largest_{way}"] for way in ("sent", "received")
        },
        "residual": max(found.residual.values()),
    }
    if watch:
        facts["worker_own_bytes"] = max(one.own for one in watch)
        facts["worker_mapped_bytes"] = max(one.mapped for one in watch)
    return found, facts


def run(n_rows: int, n_features: int, workers: int, n_classes: int, k: Any) -> dict[str, Any]:
    """Measure both engines on the same rows, with and without labels."""
    from gmmatch.engines import LocalEngine, RayEngine

    cases = []
    with tempfile.TemporaryDirectory() as name:
        paths = make_rows(Path(name), n_rows, n_features)
        fewer = make_rows(Path(tempfile.mkdtemp(dir=name)), n_rows // 4, n_features)
        measure(LocalEngine(workers), fewer, None, k)  # compiles the loops
        for classes in (1, n_classes):
            labels = None if classes == 1 else np.arange(n_rows) % classes
            small_labels = None if classes == 1 else np.arange(n_rows // 4) % classes
            _, quarter = measure(LocalEngine(workers), fewer, small_labels, k)
            here, local = measure(LocalEngine(workers), paths, labels, k)
            began = time.perf_counter()
            with ray_nodes(workers):
                started = time.perf_counter() - began
                engine = RayEngine(workers=workers)
                there, remote = measure(engine, paths, labels, k)
            cases.append({
                "classes": classes,
                "k": len(here),
                "same_picks": bool(np.array_equal(here.order, there.order)),
                "overhead": remote["seconds"] / local["seconds"],
                "allowed_bytes_per_pass": (n_features + 8) * 8 * classes,
                "shard_bytes": n_rows * n_features * 2 / workers,
                "seconds_to_start_nodes": started,
                "local": local,
                "ray": remote,
                "quarter": quarter,
                "constants": constants(local, remote, n_rows, n_features, workers),
                "predicted_over_measured": predicted(quarter, local, n_rows, n_features, workers),
            })  # fmt: skip
    return {
        "rows": n_rows, "features": n_features, "workers": workers, "dtype": "float16", "cases": cases,
        "machine": machine.describe(),
    }  # fmt: skip


def constants(
    local: dict[str, Any], remote: dict[str, Any], n_rows: int, n_features: int, workers: int
) -> dict[str, float]:
    """Return what the cost model is made of; seconds are those of one core."""
    numbers = n_rows * n_features / workers
    return {
        "seconds_per_number_and_pass": local["seconds_per_pass"] / numbers,
        "seconds_per_number_and_round": local["seconds_per_round"] / numbers,
        "seconds_to_open_per_number": local["seconds_before_median"] / numbers,
        "ray_seconds_per_call": max(0.0, remote["seconds_per_round"] - local["seconds_per_round"]) / 2,
        "ray_seconds_to_place": max(0.0, remote["seconds_before_median"] - local["seconds_before_median"]),
    }


def predicted(
    quarter: dict[str, Any], whole: dict[str, Any], n_rows: int, n_features: int, workers: int
) -> float:
    """Return how the model, with the constants of a quarter of the rows, does on all of them."""
    found = constants(quarter, quarter, n_rows // 4, n_features, workers)
    numbers = n_rows * n_features / workers
    seconds = numbers * (
        found["seconds_to_open_per_number"]
        + whole["passes"] * found["seconds_per_number_and_pass"]
        + whole["rounds"] * found["seconds_per_number_and_round"]
    )
    return seconds / whole["seconds"]


def extrapolated(
    result: dict[str, Any], *, rows: int, features: int, share: float, cores: int
) -> dict[str, Any]:
    """Return what the model says about a larger job, from the unlabelled case."""
    from gmmatch.engines.batching import batch_counts, stages

    case = result["cases"][0]
    found, k = case["constants"], int(rows * share)
    batches = int(batch_counts([k], [rows], features, None)[0])
    sizes = np.full(batches, rows // batches)
    plan = stages(k, sizes)
    corrections = sum(int(stage.quota.max()) for stage in plan[1:-1]) + 8
    rounds = int(plan[0].quota.max()) + corrections
    numbers = rows * features / cores
    passes = case["local"]["passes"]
    seconds = {
        "median": numbers * passes * found["seconds_per_number_and_pass"],
        "picks": numbers * rounds * found["seconds_per_number_and_round"],
        "calls": 2 * (passes + rounds) * found["ray_seconds_per_call"],
    }
    return {
        "rows": rows, "features": features, "k": k, "cores": cores, "batches": batches, "rounds": rounds,
        "seconds": seconds, "bytes_to_each_worker": rounds * batches * (8 * features + 4),
        "bytes_of_picks": 2 * features * k,
    }  # fmt: skip


def markdown(result: dict[str, Any] | None) -> str:
    """Return the tables of the guide, or that there is nothing to put in them yet."""
    if result is None:
        return "Not measured yet: the command below has not been run."
    lines = [
        f"{result['rows']:,} × {result['features']} {result['dtype']} rows from disk, "
        f"{result['cases'][0]['k']:,} picked, {result['workers']} workers:",
        "",
        "| | unlabelled | per class |",
        "| --- | ---: | ---: |",
    ]
    cases = result["cases"]

    def row(name: str, values: Sequence[str]) -> None:
        lines.append(f"| {name} | " + " | ".join(values) + " |")

    row("classes", [str(case["classes"]) for case in cases])
    row("same picks on both engines", ["yes" if case["same_picks"] else "**no**" for case in cases])
    row("local engine, seconds", [f"{case['local']['seconds']:.1f}" for case in cases])
    row("Ray engine, seconds", [f"{case['ray']['seconds']:.1f}" for case in cases])
    row("Ray over local", [f"{case['overhead']:.2f}" for case in cases])
    row("bytes to a worker per pass, at most", [f"{_pass_bytes(case, 'sent'):,.0f}" for case in cases])
    row("bytes from a worker per pass, at most", [f"{_pass_bytes(case, 'received'):,.0f}" for case in cases])
    row("(s + 8) × 8 × classes", [f"{case['allowed_bytes_per_pass']:,}" for case in cases])
    row(
        "a worker's own memory at most, MB",
        [f"{case['ray']['worker_own_bytes'] / 1e6:,.0f}" for case in cases],
    )
    row("its share of the files, MB", [f"{case['shard_bytes'] / 1e6:,.0f}" for case in cases])
    for name in cases[0]["constants"]:
        row(name.replace("_", " "), [f"{case['constants'][name]:.3g}" for case in cases])
    row("model over measurement", [f"{case['predicted_over_measured']:.2f}" for case in cases])
    far = extrapolated(result, rows=10**9, features=512, share=0.01, cores=64 * 16)
    total = sum(far["seconds"].values())
    lines += [
        "",
        f"By these constants, 10⁹ × 512 rows on 64 machines of 16 such cores, 1% picked: {far['batches']:,} batches, "
        f"{far['rounds']:,} rounds, about {total / 60:,.0f} minutes ({far['seconds']['median'] / 60:,.1f} for the "
        f"median), {far['bytes_to_each_worker'] / 1e9:,.0f} GB of θ to each worker (once per machine). This is an "
        "extrapolation: nobody has run it, and it leaves out the network and the reading of the files.",
        "",
        f"Measured on: {machine.as_text(result['machine']).replace(chr(10), '; ')}.",
    ]
    return "\n".join(lines)


def _pass_bytes(case: dict[str, Any], way: str) -> float:
    return float(case["ray"]["most_bytes_per_pass_and_worker"][way])


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
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result to FILE")
    parser.add_argument("--quick", action="store_true", help="a tiny size, to see that everything runs")
    parser.add_argument(
        "--table", action="store_true", help="only write the guide's tables, from the result file"
    )
    options = parser.parse_args(arguments)
    if options.table:
        write_table()
        return
    n_rows, features = (20_000, 8) if options.quick else (options.rows, options.features)
    result = run(n_rows, features, options.workers, options.classes, "1%" if not options.quick else "10%")
    text = json.dumps({**result, "quick": options.quick}, indent=1, ensure_ascii=False)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
