"""Measure the memory that one call takes, in this process alone, and print it as JSON.

Run by the memory benchmark and the memory tests, for instance as
``python -m benchmarks.one_memory_case gm-matching 200000 64 --k 200``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def measurable() -> bool:
    """Whether this system lets a process read and reset its own peak of memory."""
    if not (_STATUS.exists() and _RESET.exists()):
        return False
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return True


def resident(field: str) -> int:
    """Return a field of the process's status ("VmRSS", "VmHWM") in bytes."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def make_rows(n: int, s: int, dtype: str, order: str, seed: int = data.SEED) -> NDArray[Any]:
    """Return Gaussian rows without ever holding a second array of their size."""
    rows: NDArray[Any] = np.empty((n, s), dtype=dtype, order=order)  # type: ignore[call-overload]
    data.fill_gaussian(rows, np.random.default_rng(seed))
    return rows


def make_call(case: str, k: int) -> Callable[[NDArray[Any], Any], object]:
    """Return what to measure: a method's name, or one of the functions."""
    import gmmatch

    if case == "geometric-median":
        return lambda X, y: gmmatch.geometric_median(X)
    if case == "coverage":
        return lambda X, y: gmmatch.metrics.coverage(X, np.arange(0, len(X), max(1, len(X) // k)))
    if case == "mmd":
        return lambda X, y: gmmatch.metrics.mmd(X[:k], X)
    return lambda X, y: gmmatch.select(X, y=y, k=k, method=case, random_state=0)


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Return the bytes of the input, and by how much the call raised the peak above what was there before."""
    call = make_call(options.case, options.k)
    small = make_rows(max(4 * options.k, 64), options.columns, options.dtype, options.order)
    call(small, _labels(len(small), options.classes))  # compiles, and loads what is loaded on first use
    del small
    before_input = resident("VmRSS")
    X = make_rows(options.rows, options.columns, options.dtype, options.order)
    y = _labels(options.rows, options.classes)
    before_call = resident("VmRSS")
    _RESET.write_text("5")
    call(X, y)
    peak = resident("VmHWM")
    return {
        "input_bytes": X.nbytes,
        "growth_bytes": peak - before_call,
        "total_bytes": peak - before_input,
    }


def _labels(n: int, classes: int) -> NDArray[np.int64] | None:
    return None if classes == 0 else np.arange(n) % classes


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", help="a method, or geometric-median, coverage, mmd")
    parser.add_argument("rows", type=int)
    parser.add_argument("columns", type=int)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--classes", type=int, default=0, help="0: no labels")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--order", choices=("C", "F"), default="C")
    options = parser.parse_args()
    print(json.dumps(measure(options) if measurable() else {"not_measurable": True}))


if __name__ == "__main__":
    main()
