"""Every method in memory, from a store within ``--memory``, and on Ray: time, memory, and whether the limit is kept.

Run by hand, because it writes gigabytes and takes its time::

    python -m benchmarks.support cells --json benchmarks/results/support.json
    python -m benchmarks.support limit --json benchmarks/results/within-memory.json

``cells`` runs one workload in every place. ``limit`` selects by ``gmmatch select --memory`` from a store that is five
times the limit. Each case has a process of its own. Memory is anonymous memory (RssAnon), sampled: what a process
cannot do without, unlike the pages of files that are mapped. In memory it is what the call adds to the input, on Ray
that of the largest worker.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.processes import ProcessFailed, run_module
from benchmarks.store_selection import anonymous_bytes

CELLS = {"rows": 200_000, "features": 256, "classes": 10, "memory": 700_000_000}
LIMIT = {"features": 1024, "classes": 10, "memory": 750_000_000, "times": 5}
QUICK = {"rows": 4_000, "features": 32, "classes": 2, "memory": 700_000_000}
PLACES = ("memory", "store", "ray")

# Name: method, and options as the command takes them.
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "random": ("random", {}),
    "easy": ("easy", {}),
    "hard": ("hard", {}),
    "moderate": ("moderate", {}),
    "herding": ("herding", {}),
    "gm-matching": ("gm-matching", {}),
    "gm-matching, preprocess": ("gm-matching", {"preprocess": "center,scale,pca:32"}),
    "gm-matching, kernel": ("gm-matching", {"kernel": "random-features"}),
    "kernel-herding": ("kernel-herding", {"kernel": "nystroem"}),
    "robust": ("robust", {}),
}


def make_store(folder: Path, n_rows: int, n_features: int, n_classes: int) -> None:
    """Write a store of float16 rows around the centres of classes, with labels; a fifth of them lies elsewhere."""
    from gmmatch.store import StoreWriter

    random = np.random.default_rng(0)
    centers = 0.3 * random.standard_normal((n_classes, n_features), dtype=np.float32)
    with StoreWriter(folder, encoder="made", encoder_fingerprint="1", dtype="float16") as writer:
        for start in range(0, n_rows, 1 << 14):
            count = min(1 << 14, n_rows - start)
            labels = random.integers(0, n_classes, count)
            rows = random.standard_normal((count, n_features), dtype=np.float32) + centers[labels]
            rows[random.random(count) < 0.2] += 1.0
            writer.append(
                rows.astype(np.float16), ids=np.arange(start, start + count), labels=labels.tolist()
            )
        writer.finish()


class Peak:
    """Samples anonymous memory, by default this process's, while it lasts."""

    def __init__(self, read: Callable[[], int] = anonymous_bytes) -> None:
        self.bytes, self._read, self._ended = 0, read, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._ended.wait(0.01):
            self.bytes = max(self.bytes, self._read())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()


class Clock:
    """Measures seconds, and what this process has had of the processor, of which other work takes nothing away."""

    def __enter__(self) -> Clock:
        self._began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended = time.perf_counter(), time.process_time()

    def facts(self) -> dict[str, float]:
        """Return both."""
        (began, core_began), (ended, core_ended) = self._began, self._ended
        return {"seconds": ended - began, "core_seconds": core_ended - core_began}


def make_call(name: str) -> Callable[..., Any]:
    """Return a function of rows and labels that selects 1% of them."""
    import gmmatch as gm
    from gmmatch.methods.settings import parse_settings

    method, options = CASES[name]
    steps = options.get("preprocess")
    texts = (f"{option}={value}" for option, value in options.items() if option != "preprocess")
    arguments: dict[str, Any] = parse_settings(gm.method_class(method), texts)
    arguments["preprocess"] = None if steps is None else steps.split(",")
    return partial(gm.select, k="1%", method=method, random_state=0, **arguments)


def in_memory(name: str, store: str) -> dict[str, Any]:
    """Select from rows in memory, after a selection from a few that compiles the loops."""
    from gmmatch.store import open_store

    select, opened = make_call(name), open_store(store)
    X, y = opened.to_numpy(), opened.labels
    select(X[:2000], y[:2000])
    before = anonymous_bytes()
    with Peak() as peak, Clock() as clock:
        found = select(X, y)
    return {**clock.facts(), "bytes": max(0, peak.bytes - before), "picked": found.k}


def from_store(name: str, store: str, memory: int) -> dict[str, Any]:
    """Run ``gmmatch select --memory``; importing and what it takes before a row is read count."""
    import gmmatch as gm
    from gmmatch.cli import build_app

    method, options = CASES[name]
    with tempfile.TemporaryDirectory() as folder, Peak() as peak, Clock() as clock:
        picks = f"{folder}/picks.parquet"
        amount = f"{memory / 1e6:g}MB"
        command = ["select", store, "-k", "1%", "-o", picks, "--method", method, "--memory", amount]
        for option, value in options.items():
            command += [f"--{option}", value] if option == "preprocess" else ["--set", f"{option}={value}"]
        build_app()(command, standalone_mode=False)
        picked = gm.Selection.load(picks).k
    return {**clock.facts(), "bytes": peak.bytes, "picked": picked}


def on_ray(name: str, store: str) -> dict[str, Any]:
    """Select on two workers of Ray on this machine; the memory is that of the driver."""
    import gmmatch as gm

    select, opened = make_call(name), gm.open_store(store)
    with Peak() as peak, Clock() as clock:
        found = select(opened, engine=gm.RayEngine(2))
    return {**clock.facts(), "bytes": peak.bytes, "picked": found.k}


def one_case(place: str, name: str, store: str, memory: int) -> dict[str, Any]:
    """Return what a case took; what is refused says so."""
    from gmmatch.errors import InvalidInputError

    try:
        if place == "memory":
            return in_memory(name, store)
        return from_store(name, store, memory) if place == "store" else on_ray(name, store)
    except InvalidInputError as error:
        return {"refused": str(error)}


def measured(place: str, name: str, store: Path, memory: int) -> dict[str, Any]:
    """Run a case in a process of its own."""
    print(f"{name}, {place} ...", file=sys.stderr, flush=True)
    try:
        found: dict[str, Any] = run_module("benchmarks.support", "case", place, name, store, memory)
    except ProcessFailed as error:
        found = {"failed": str(error)}
    print(f"{name}, {place}: {found}", file=sys.stderr, flush=True)
    return found


def run(what: str, names: list[str], quick: bool, folder: str | None) -> Iterator[dict[str, Any]]:
    """Measure the cells, or the limit; yield what is known after each case."""
    size = QUICK if quick else CELLS if what == "cells" else LIMIT
    memory = int(size["memory"])
    n_rows = int(size.get("rows") or size["times"] * memory // (2 * size["features"]))
    with tempfile.TemporaryDirectory(dir=folder) as made:
        store = Path(made) / "rows.emb"
        make_store(store, n_rows, size["features"], size["classes"])
        places = PLACES if what == "cells" else ("store",)
        cases: dict[str, Any] = {}
        for name in names:
            found = {place: measured(place, name, store, memory) for place in places}
            cases[name] = {"method": CASES[name][0], "options": CASES[name][1], **found}
            yield {
                "rows": n_rows, "features": size["features"], "classes": size["classes"], "memory": memory,
                "store_bytes": 2 * n_rows * size["features"], "quick": quick, "cases": cases,
                "machine": machine.describe(),
            }  # fmt: skip


def main() -> None:
    """Measure, and print or write the result; cases that were named replace those of a file that exists."""
    if sys.argv[1:2] == ["case"]:
        place, name, store, memory = sys.argv[2:]
        print(json.dumps(one_case(place, name, store, int(memory))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("cells", "limit"))
    parser.add_argument("names", nargs="*", metavar="case", help="all by default")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="a tiny size, to see that everything runs")
    parser.add_argument("--folder", help="where the temporary store goes")
    options = parser.parse_intermixed_args()
    kept: dict[str, Any] = {}
    if options.json is not None and options.json.exists() and options.names:
        kept = json.loads(options.json.read_text(encoding="utf-8"))["cases"]
    for result in run(options.what, options.names or list(CASES), options.quick, options.folder):
        known = kept | result["cases"]
        result["cases"] = {name: known[name] for name in CASES if name in known}
        text = json.dumps(result, indent=1, ensure_ascii=False)
        if options.json is not None:
            options.json.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
