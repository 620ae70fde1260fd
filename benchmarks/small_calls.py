"""What small inputs cost beside the computation: ``python -m benchmarks.small_calls``.

Methods on scikit-learn's 1,797 digits, with BLAS as it is and kept to one thread: threads that spin over small
matrices show as CPU time. And the command line on 2,000 rows in a new process, beside the imports that it cannot do
without.
"""

from __future__ import annotations

import argparse
import json
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
from gmmatch.rows.parallel import one_blas_thread

NAME = "small-calls"
_METHODS = (
    "robust",
    "gm-matching",
    "herding",
    "kernel-herding",
    "easy",
    "moderate",
    "self-supervised",
    "el2n",
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
    """Time commands in new processes; the first run of each compiles and is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", np.random.default_rng(0).standard_normal((2000, 64)).astype(np.float32))
        command = "import sys; from gmmatch.cli import main; sys.argv[0] = 'gmmatch'; main()"
        calls = {
            "import numba, sklearn.base, pyarrow": ["import numba, sklearn.base, pyarrow.parquet"],
            "gmmatch select, 2,000 rows": [command, "select", "rows.npy", "-k200", "-o", "picks.parquet", "--force"],
            "gmmatch demo": [command, "demo"],
        }  # fmt: skip
        for name, arguments in calls.items():
            seconds = [_process_seconds(arguments, folder) for _ in range(3)]
            report.timings[name] = Timing(tuple(seconds[1:]))


def _process_seconds(arguments: list[str], folder: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", *arguments], cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
