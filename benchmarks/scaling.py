"""How the time of a selection grows with rows, picks and classes: ``python -m benchmarks.scaling --json FILE``.

Gaussian rows of 64 float32 numbers. Peers: NumPy's ``X @ theta`` and ``argmax`` for herding, and coreax's kernel
herding where it is installed. Nothing is run that would take more than 100 seconds. Seconds are of the processor, all
threads together, and on the clock.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from benchmarks import data, herding_sides, machine
from benchmarks.picks import vectorised

COLUMNS = 64
AXES = ["rows", "picks", "classes"]
METHODS = ("gm-matching", "herding", "kernel-herding", "easy", "random")
NUMPY, COREAX = "NumPy: X @ theta and argmax", "coreax: kernel herding"
# Nothing is started that would take longer, by the last case, in seconds of the processor.
_LONGEST = 100.0
# Kernel herding evaluates the kernel of every pick with every row of its class.
_MOST_PAIRS = 10**8


def cases(most_rows: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield what grows, and the rows, picks and classes of each case."""
    for n in (1_000, 10_000, 100_000, 1_000_000, 10_000_000):
        if n <= most_rows:
            yield "rows", n, min(1_000, n // 10), 1
    for k in (100, 1_000, 10_000):
        if most_rows >= 100_000:
            yield "picks", 100_000, k, 1
    for classes in (10, 100, 1_000, 10_000, 100_000):
        if most_rows >= 1_000_000:
            yield "classes", 1_000_000, 100_000, classes


def sides(X: Any, y: Any, k: int) -> dict[str, Callable[[], Any]]:
    """Return a call for every method and peer that can do the case."""
    found: dict[str, Callable[[], Any]] = {
        method: lambda method=method: gm.select(X, y=y, k=k, method=method, random_state=0) for method in METHODS
    }  # fmt: skip
    if len(X) * k > _MOST_PAIRS * (1 if y is None else len(np.unique(y))):
        del found["kernel-herding"]
    if y is None:
        found[NUMPY] = lambda: vectorised(X, X.mean(axis=0), k, sort=False)
        if machine.installed_version("coreax") != "not installed" and len(X) <= 10_000:
            found[COREAX] = herding_sides.coreax_side(X, k, data.typical_distance(COLUMNS))
    return found


def run(most_rows: int, axes: list[str]) -> list[dict[str, Any]]:
    """Measure every case of what is to grow; small ones are run once before, to compile."""
    runs: list[dict[str, Any]] = []
    for call in sides(data.isotropic(1_000, COLUMNS), None, 100).values():
        call()
    for axis, n, k, classes in cases(most_rows):
        if axis not in axes:
            continue
        X = data.isotropic(n, COLUMNS)
        y = None if classes == 1 else np.arange(n) % classes
        for name, call in sides(X, y, k).items():
            before = [one for one in runs if (one["axis"], one["method"]) == (axis, name)]
            growth = n * k / (before[-1]["rows"] * before[-1]["picks"]) if before else 1.0
            if before and growth * before[-1]["cpu_seconds"] > _LONGEST:
                continue
            if n <= 10_000:
                call()
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            runs.append(
                {
                    "axis": axis,
                    "rows": n,
                    "picks": k,
                    "classes": classes,
                    "method": name,
                    "seconds": time.perf_counter() - wall,
                    "cpu_seconds": time.process_time() - cpu,
                }
            )
            print(f"{axis} {n:,} {k:,} {classes:,} {name}: {runs[-1]['cpu_seconds']:.3f} s", flush=True)
    return runs


def _others(path: Path | None, axes: list[str]) -> list[dict[str, Any]]:
    """Return the runs of a file that are not measured again."""
    found = json.loads(path.read_text(encoding="utf-8"))["runs"] if path is not None and path.exists() else []
    return [one for one in found if one["axis"] not in axes]


def main() -> None:
    """Measure, and write a file if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument("--most-rows", type=int, default=10_000_000)
    parser.add_argument(
        "--axes", nargs="+", choices=AXES, default=AXES, help="others stay as they are in the file"
    )
    options = parser.parse_args()
    surroundings = machine.describe()
    warnings.simplefilter("ignore")  # features take the place of a kernel above some thousand rows
    content = {
        "command": "python -m benchmarks.scaling --json benchmarks/results/scaling.json",
        "columns": COLUMNS,
        "runs": _others(options.json, options.axes) + run(options.most_rows, options.axes),
        "machine": surroundings,
    }
    if options.json is not None:
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
