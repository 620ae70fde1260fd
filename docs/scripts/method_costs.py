"""What each method costs on the same rows: seconds of processor time on one thread.

``python -m docs.scripts.method_costs`` writes ``docs/results/method-costs.json``. Processor time, unlike time on the
clock, hardly depends on what else the machine is doing.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import gmmatch as gm
from benchmarks.machine import describe

RESULTS = Path(__file__).parents[1] / "results" / "method-costs.json"
COMMAND = "python -m docs.scripts.method_costs"
ROWS, COLUMNS, CLASSES, SHARE, REPETITIONS = 20_000, 128, 10, 0.1, 3


def measure(method: str, X: np.ndarray, y: np.ndarray, repetitions: int = REPETITIONS) -> float:
    """Return the least of the repetitions, after one that is not counted and compiles what it needs."""
    seconds = []
    scores = X[:, 0] if method == "by-score" else None
    for number in range(repetitions + 1):
        begin = time.process_time()
        gm.select(X, y, k=SHARE, method=method, scores=scores, n_jobs=1, random_state=0)
        if number:
            seconds.append(time.process_time() - begin)
    return min(seconds)


def blobs(rows: int, columns: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian classes that overlap a little."""
    random = np.random.default_rng(0)
    y = np.arange(rows) % classes
    centers = random.normal(0.0, 1.0, (classes, columns))
    return (centers[y] + random.normal(0.0, 2.0, (rows, columns))).astype(np.float32), y


def main() -> None:
    """Measure the methods and write the results."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--only", action="append", choices=gm.methods(), help="a method; can be repeated")
    chosen = parser.parse_args().only or gm.methods()
    X, y = blobs(ROWS, COLUMNS, CLASSES)
    found = json.loads(RESULTS.read_text(encoding="utf-8"))["processor_seconds"] if RESULTS.exists() else {}
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for method in chosen:
            found[method] = round(measure(method, X, y), 3)
            print(f"{method:16} {found[method]:8.3f} s", flush=True)
    settings = {
        "rows": ROWS,
        "columns": COLUMNS,
        "classes": CLASSES,
        "kept": SHARE,
        "repetitions": REPETITIONS,
    }
    seconds = {name: found[name] for name in gm.methods()}
    document = {"command": COMMAND, "settings": settings, "machine": describe(), "processor_seconds": seconds}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
