"""What encoding on a cluster costs, and what binds it on 10 to 1,000 GPUs.

``python -m benchmarks.embed_cluster --json benchmarks/results/embed-cluster.json`` measures on one core, in processor
time, what a photograph costs to read, decode and encode (the default encoder), and a shard to write; then what a
shard and a long manifest cost the process that asks, on a local Ray of two workers. A model of larger clusters
follows from that and from the rate of a GPU in ``benchmarks/results/encoding.json``: nobody has run it.
``--page docs/results-cluster.md`` puts the tables of a result into the page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from benchmarks import machine
from benchmarks.default_encoders import write_photographs
from gmmatch.data.arrays import ArraySource
from gmmatch.store.commits import Commits
from gmmatch.store.manifest import Manifest
from gmmatch.store.shard import ArrowShard, RowTable, default_rows_per_shard, write_shard

N_PHOTOGRAPHS, N_PIECES, SMALL_SHARD = 192, 400, 256
# Of the cluster on paper.
GPUS, CORES_PER_GPU, N_ROWS = (10, 100, 1000), 16, 10**9
GPU_RATE = "JPEG files of 500 × 375: bare model, rows per second"
BEGIN, END = "<!-- embed: begin -->", "<!-- embed: end -->"
ROOT = Path(__file__).resolve().parent


def measure_rows(folder: Path) -> dict[str, float]:
    """Return seconds of a core per photograph for reading, decoding and encoding, and its bytes."""
    import torch

    torch.set_num_threads(1)
    write_photographs(folder / "photographs", N_PHOTOGRAPHS)
    paths = sorted((folder / "photographs").rglob("*.jpg"))
    encoder: Any = gm.load_encoder("efficientnet-lite2", device="cpu")
    encoder.encode(encoder.prepare(paths[:32]))
    start = time.process_time()
    n_bytes = sum(len(path.read_bytes()) for path in paths)
    read = time.process_time()
    ready = encoder.prepare(paths)
    decoded = time.process_time()
    for first in range(0, len(ready), encoder.batch_size):
        encoder.encode(ready[first : first + encoder.batch_size])
    encoded = time.process_time()
    n = len(paths)
    return {
        "bytes_per_row": n_bytes / n,
        "read_seconds_per_row": (read - start) / n,
        "decode_seconds_per_row": (decoded - read) / n,
        "cpu_encode_seconds_per_row": (encoded - decoded) / n,
        "n_features": float(encoder.n_features),
    }


def measure_shard(folder: Path, n_features: int) -> dict[str, float]:
    """Return what writing a shard costs."""
    n = default_rows_per_shard(n_features, "float16")
    vectors = np.random.default_rng(0).normal(size=(n, n_features)).astype(np.float16)
    table = RowTable(list(range(n)), [f"folder/{row:012d}.jpg" for row in range(n)], ["class"] * n)
    wall, start = time.perf_counter(), time.process_time()
    shard = write_shard(folder, 0, table, vectors)
    return {
        "rows_per_shard": n,
        "bytes_per_shard": shard.size,
        "write_core_seconds_per_shard": time.process_time() - start,
        "write_seconds_per_shard": time.perf_counter() - wall,
    }


def measure_commit(folder: Path, n_shards: int) -> float:
    """Return the seconds that a manifest of so many shards takes to be replaced."""
    shards = tuple(ArrowShard(number, 16, 4096, "0" * 64, 128, "0" * 64) for number in range(n_shards))
    commits = Commits(folder / "long.emb", Manifest("e", "1", "float16", n_features=8, rows_per_shard=16))
    start = time.process_time()
    commits.add(shards)
    seconds = time.process_time() - start
    commits.close()
    return seconds


def measure_pieces(folder: Path) -> dict[str, float]:
    """Return what starting two workers takes, and the processor time that a piece costs the process that asks."""
    import ray

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_memory_monitor_refresh_ms": "0"}
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    source = ArraySource(np.ones((N_PIECES * SMALL_SHARD, 8), dtype=np.float32))
    times = {}
    for name, n_pieces in (("few", 2), ("many", N_PIECES)):
        rows = ArraySource(source.array[: n_pieces * SMALL_SHARD])
        start, used = time.perf_counter(), time.process_time()
        gm.embed(
            rows, gm.load_encoder("identity"), folder / f"{name}.emb", engine=gm.RayEngine(2),
            rows_per_shard=SMALL_SHARD, batch_size=SMALL_SHARD,
        )  # fmt: skip
        times[name] = time.perf_counter() - start, time.process_time() - used
    ray.shutdown()
    return {
        "start_seconds": times["few"][0],
        "core_seconds_per_shard_of_the_asker": (times["many"][1] - times["few"][1]) / (N_PIECES - 2),
    }


def predict(measured: dict[str, float], gpu_rate: float, gpus: int) -> dict[str, Any]:
    """Return rows per second that each step allows on a cluster, and what the disks have to do."""
    shards = N_ROWS / measured["rows_per_shard"]
    per_core = measured["read_seconds_per_row"] + measured["decode_seconds_per_row"]
    writing = measured["write_core_seconds_per_shard"] / measured["rows_per_shard"]
    model = gpus * gpu_rate
    cores = gpus * CORES_PER_GPU / (per_core + writing)
    asker = measured["rows_per_shard"] / measured["core_seconds_per_shard_of_the_asker"] * 0.95
    rate = min(model, cores, asker)
    return {
        "gpus": gpus,
        "model_rows_per_second": model,
        "cores_rows_per_second": cores,
        "asker_rows_per_second": asker,
        "rows_per_second": rate,
        "binds": {model: "models", cores: "cores", asker: "the asker"}[rate],
        "hours": N_ROWS / rate / 3600,
        "read_bytes_per_second": rate * measured["bytes_per_row"],
        "written_bytes_per_second": rate * measured["bytes_per_shard"] / measured["rows_per_shard"],
        "shards_per_gpu": shards / gpus,
        "cores_per_gpu_to_keep_up": gpu_rate * (per_core + writing),
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the tables of the page."""
    known = result["measured"]
    milli = {name: f"{1e3 * value:,.2f} ms" for name, value in known.items()}
    lines = [
        "| measured on one core | |",
        "| --- | ---: |",
        f"| a photograph: a JPEG file of 640 × 448 pixels | {known['bytes_per_row'] / 1e3:,.0f} kB |",
        f"| reading it, from the cache of the system | {milli['read_seconds_per_row']} |",
        f"| decoding and resizing it | {milli['decode_seconds_per_row']} |",
        f"| encoding it (efficientnet-lite2) | {milli['cpu_encode_seconds_per_row']} |",
        f"| writing a shard of {known['rows_per_shard']:,.0f} rows, {known['bytes_per_shard'] / 1e6:,.0f} MB "
        f"| {milli['write_core_seconds_per_shard']} |",
        f"| a shard, for the process that asks | {milli['core_seconds_per_shard_of_the_asker']} |",
        f"| replacing a manifest of {known['commit_shards']:,.0f} shards | {milli['commit_seconds']} |",
        f"| starting two workers, in seconds | {known['start_seconds']:,.1f} |",
        "",
        f"On paper, {N_ROWS:,} such photographs; a GPU encodes {result['gpu_rate']:,.0f} a second (CLIP ViT-B/32 on "
        f"an H200, `benchmarks/results/encoding.json`) and has {CORES_PER_GPU} cores beside it:",
        "",
        "| GPUs | rows/s: models | cores | the asker | binds | hours | to read | to write | shards a GPU |",
        "| ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for one in result["predicted"]:
        rates = (f"{one[f'{step}_rows_per_second']:,.0f}" for step in ("model", "cores", "asker"))
        disks = f"{one['read_bytes_per_second'] / 1e9:,.1f} GB/s | {one['written_bytes_per_second'] / 1e6:,.0f} MB/s"
        cells = (
            f"{one['gpus']:,}",
            *rates,
            one["binds"],
            f"{one['hours']:,.1f}",
            disks,
            f"{one['shards_per_gpu']:,.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    cores = result["predicted"][0]["cores_per_gpu_to_keep_up"]
    lines += [
        "",
        f"To keep up with such a GPU, {cores:,.0f} cores would have to read, decode and write.",
        "",
        f"Measured on: {machine.as_text(result['machine'])}".replace("\n", "; "),
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, predict, and put both into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=ROOT / "results/embed-cluster.json")
    parser.add_argument("--page", type=Path, help="only write the tables of a result into this page")
    options = parser.parse_args()
    if options.page is None:
        surroundings = machine.describe()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            measured = measure_rows(folder)
            measured |= measure_shard(folder, int(measured["n_features"]))
            n_shards = round(N_ROWS / measured["rows_per_shard"])
            measured |= {"commit_shards": n_shards, "commit_seconds": measure_commit(folder, n_shards)}
            measured |= measure_pieces(folder)
        rate = json.loads((ROOT / "results/encoding.json").read_text())["quantities"][GPU_RATE]
        predicted = [predict(measured, rate, gpus) for gpus in GPUS]
        result = {"measured": measured, "gpu_rate": rate, "predicted": predicted, "machine": surroundings}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(markdown(result))
        return
    page = options.page.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    tables = markdown(json.loads(options.json.read_text()))
    after = rest.partition(END)[2]
    options.page.write_text(f"{before}{BEGIN}\n{tables}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
