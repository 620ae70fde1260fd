"""What small inputs cost beside the computation: ``python -m benchmarks.small_calls``.

Methods on scikit-learn's 1,797 digits, with BLAS as it is and kept to one thread: threads that spin over small
matrices show as CPU time. And the command line on 2,000 rows in a new process: what it takes beside the computation,
which is what the same command takes when it is given again in the same process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import gmmatch as gm
from benchmarks import machine
from benchmarks.report import Ratio, Report
from benchmarks.timing import Timing
from gmmatch._threads import one_blas_thread

NAME = "small-calls"
_METHODS = (
    "robust",
    "gm-matching",
    "herding",
    "kernel-herding",
    "easy",
    "moderate",
)


def main() -> None:
    """Measure, print, and write a file if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small_calls", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    options = parser.parse_args()
    surroundings = machine.describe()
    report = run()
    print(f"{report.as_text()}\n\n{machine.as_text(surroundings)}")
    if options.json is not None:
        content = {**report.as_json(), "quick": False, "machine": surroundings}
        options.json.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def run(repetitions: int = 5) -> Report:
    """Measure both in CPU seconds of all threads."""
    settings = {"data": "1,797 digits, k = 180", "time": "CPU seconds of all threads"}
    report = Report(NAME, "small inputs: threads of BLAS, and a new process", settings)
    X, y = load_digits(return_X_y=True)
    for method in _METHODS:

        def call(method: str = method) -> Any:
            return gm.select(X.astype(np.float32), y=y, k=180, method=method, random_state=0)

        sides: dict[str, Callable[[], AbstractContextManager[Any]]] = {
            "as it is": nullcontext,
            "one thread": one_blas_thread,
        }
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(repetitions + 1):
            for name, limit in sides.items():
                with limit():
                    start = time.process_time()
                    call()
                    seconds[name].append(time.process_time() - start)
        timings = {name: Timing(tuple(values[1:])) for name, values in seconds.items()}
        report.timings |= {f"{method}: BLAS {name}": timing for name, timing in timings.items()}
        share = timings["as it is"].least / timings["one thread"].least
        report.ratios.append(Ratio(f"{method}: BLAS as it is / one thread", share, 1.2, "at most"))
    _command_line(report)
    return report


def _command_line(report: Report) -> None:
    """Time commands in new processes, and again in the same process; what a first run compiles is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        random = np.random.default_rng(0)
        labels = np.arange(2000) % 10
        rows = random.standard_normal((10, 64))[labels] * 0.5 + random.standard_normal((2000, 64))
        np.savez(f"{folder}/rows.npz", embeddings=rows.astype(np.float32), labels=labels)
        commands = {
            "gmmatch select, 2,000 rows": ["select", "rows.npz", "-k200", "-o", "picks.parquet", "--force"],
            "gmmatch screen, 2,000 rows": ["screen", "rows.npz"],
        }
        imports = "import numba, pyarrow.parquet, scipy.special, typer"
        report.timings[imports] = Timing(tuple(_seconds([imports], folder)[0] for _ in range(4)))
        for name, arguments in commands.items():
            found = [_seconds([_TWICE, *arguments], folder) for _ in range(8)][1:]
            whole, again = (Timing(tuple(times)) for times in zip(*found, strict=True))
            report.timings |= {f"{name}: process": whole, f"{name}: again in the same process": again}
            beside = whole.least - again.least
            report.ratios.append(Ratio(f"{name}: seconds beside the computation", beside, 1.0, "at most"))


# Prints the CPU seconds of the process with one run of the command, and of a second run in it.
_TWICE = """
import sys, time
from gmmatch.cli import build_app
sys.argv[0], times = "gmmatch", []
for _ in range(2):
    start = time.process_time() if times else 0.0
    build_app()(prog_name="gmmatch", standalone_mode=False)
    times.append(time.process_time() - start)
print(*times, file=sys.stderr)
"""


def _seconds(arguments: list[str], folder: str) -> list[float]:
    """Return the CPU seconds that a script has printed last, or else those of its process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", *arguments]
    surroundings = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # a second run finds Python's own cache
    done = subprocess.run(command, cwd=folder, env=surroundings, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [float(word) for word in done.stderr.split()[-2:]] if len(arguments) > 1 else [spent]


if __name__ == "__main__":
    main()
