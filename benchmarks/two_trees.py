"""Is this tree as fast as another one, such as the last release? ``python -m benchmarks.two_trees ../other``.

Each tree has a process of its own. The calls take turns (A B A B ...), so that a disturbance meets both. Ratios are
of medians of processor time: below 1, this tree is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import machine

ROOT = Path(__file__).resolve().parents[1]
# rows, columns, classes (0: no labels), k, method
CALLS: dict[str, tuple[int, int, int, float, str]] = {
    "median, 50,000 x 128": (50_000, 128, 0, 0, "median"),
    "median, 200,000 x 512": (200_000, 512, 0, 0, "median"),
    "gm-matching, 100 x 16": (100, 16, 0, 10, "gm-matching"),
    "gm-matching, 1,797 x 64, 10 classes": (1_797, 64, 10, 0.1, "gm-matching"),
    "gm-matching, 5,000 x 512, k = 500": (5_000, 512, 0, 500, "gm-matching"),
    "gm-matching, 50,000 x 128, 10 classes": (50_000, 128, 10, 0.1, "gm-matching"),
    "gm-matching, 100,000 x 64, 1,000 classes": (100_000, 64, 1_000, 0.1, "gm-matching"),
    "herding, 5,000 x 512, k = 2,500": (5_000, 512, 0, 2_500, "herding"),
    "herding, 50,000 x 512, k = 1,000": (50_000, 512, 0, 1_000, "herding"),
    "kernel-herding, 3,000 x 64": (3_000, 64, 0, 0.1, "kernel-herding"),
    "easy, 50,000 x 128, 10 classes": (50_000, 128, 10, 0.1, "easy"),
    "moderate, 50,000 x 128, 10 classes": (50_000, 128, 10, 0.1, "moderate"),
}


def make_call(n: int, s: int, n_classes: int, k: float, method: str) -> Callable[[], object]:
    """Return the call that a user makes, on Gaussian classes."""
    import gmmatch as gm

    random = np.random.default_rng(0)
    X = random.standard_normal((n, s), dtype=np.float32)
    y = random.integers(0, n_classes, n) if n_classes else None
    if y is not None:
        X += random.standard_normal((n_classes, s), dtype=np.float32)[y]
    if method == "median":
        return lambda: gm.geometric_median(X)
    k = int(k) if k >= 1 else k
    return lambda: gm.select(X, y=y, k=k, method=method, random_state=0)


def serve() -> None:
    """Make the calls named on standard input, and print the processor time of each."""
    calls: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in calls:
            calls = {name: make_call(*CALLS[name])}
        started = time.process_time()
        calls[name]()
        print(time.process_time() - started, flush=True)


def compare(other: Path, names: Sequence[str], repetitions: int) -> dict[str, Any]:
    """Return for each call the median processor time of both trees, and their ratio."""
    servers = []
    for tree in (ROOT, other.resolve()):
        environment = dict(os.environ, PYTHONPATH=str(tree / "src"))
        command = [sys.executable, "-m", "benchmarks.two_trees", "--serve"]
        pipe = subprocess.PIPE
        servers.append(
            subprocess.Popen(command, env=environment, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        )
    table = {}
    for name in names:
        seconds: list[list[float]] = [[], []]
        for _ in range(repetitions + 1):
            for server, own in zip(servers, seconds, strict=True):
                assert server.stdin is not None and server.stdout is not None
                print(name, file=server.stdin, flush=True)
                own.append(float(server.stdout.readline()))
        this, that = (median(own[1:]) for own in seconds)  # the first call compiles
        table[name] = {"this_cpu_s": this, "other_cpu_s": that, "ratio": this / that}
        print(f"{name:44s} {this:9.4f} s {that:9.4f} s {this / that:6.2f}", flush=True)
    for server in servers:
        server.communicate()
    return table


def main() -> None:
    """Compare the trees and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, nargs="?", help="the root of the other tree")
    parser.add_argument("--only", nargs="*", default=None, help="words that a call's name must contain")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if options.other is None:
        parser.error("give the root of the other tree")
    names = [name for name in CALLS if options.only is None or any(word in name for word in options.only)]
    table = compare(options.other, names, options.repetitions)
    if options.json:
        result = {"machine": machine.describe(), "calls": table}
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
