"""Does one pass of the geometric median read memory as fast as a plain sum does?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import config, njit, prange
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.report import Ratio, Report
from benchmarks.timing import side_by_side
from gmmatch import geometric_median
from gmmatch._threads import available_cores
from gmmatch.median.terms import combine_terms, weiszfeld_terms
from gmmatch.rows.array import ArrayRows

NAME = "weiszfeld-pass"

# Numba's own threads: OpenMP's wait by spinning, which took 24 ms a call on two cores shared with others.
config.THREADING_LAYER = "workqueue"


@njit(nogil=True, fastmath=True)
def _sum(values: NDArray[np.float32]) -> float:
    total = np.float32(0.0)
    for i in range(values.shape[0]):
        total += values[i]
    return total


@njit(parallel=True, fastmath=True)
def _parallel_sum(values: NDArray[np.float32], parts: int) -> float:
    totals = np.zeros(parts)
    for part in prange(parts):
        start = part * values.shape[0] // parts
        stop = (part + 1) * values.shape[0] // parts
        totals[part] = _sum(values[start:stop])
    return totals.sum()


def make_pass(X: NDArray[np.float32], threads: int) -> Any:
    """Return a call that makes one pass over all rows."""
    rows, n = ArrayRows(X, threads), len(X)
    per_row = tuple(rows.scatter(v) for v in (np.arange(n), np.zeros(n, dtype=np.int64), np.ones(n)))
    point, slots = np.full((1, X.shape[1]), 0.01), np.zeros(1, dtype=np.int64)
    return lambda: rows.reduce_blocks(
        weiszfeld_terms, point, slots, 0.0, per_row=per_row, combine=combine_terms
    )


def run(quick: bool = False) -> Report:
    """Time a pass against sums that do nothing but read."""
    n, s = (4_000, 64) if quick else (200_000, 512)
    repetitions = 3 if quick else 15
    X = data.isotropic(n, s)
    flat, threads = X.reshape(-1), available_cores()
    slices = np.array_split(flat, threads)
    with ThreadPoolExecutor(threads) as pool:
        sides: dict[str, Any] = {
            "gmmatch: one Weiszfeld pass": make_pass(X, threads),
            "gmmatch: geometric_median(X)": lambda: geometric_median(X),
            "sum: Numba prange": lambda: _parallel_sum(flat, threads),
            "sum: NumPy in threads": lambda: list(pool.map(np.sum, slices)),
            "sum: Numba loop in threads": lambda: list(pool.map(_sum, slices)),
            "gmmatch: one pass, one thread": make_pass(X, 1),
        }
        timings = side_by_side(sides, repetitions)
    ours, alone = timings["gmmatch: one Weiszfeld pass"], timings["gmmatch: one pass, one thread"]
    sums = {name: timing for name, timing in timings.items() if name.startswith("sum")}
    passes = geometric_median(X).iterations
    whole = timings["gmmatch: geometric_median(X)"].median / passes
    fastest = min(sums, key=lambda name: sums[name].median)
    return Report(
        NAME,
        "reading speed of one pass of the geometric median, as a share of a parallel sum's",
        {"rows": n, "columns": s, "type": "float32", "threads": threads, "repetitions": repetitions},
        timings,
        {
            "pass, GB/s": X.nbytes / ours.median / 1e9,
            "fastest sum, GB/s": X.nbytes / sums[fastest].median / 1e9,
        },
        [
            Ratio("share of the fastest sum's speed", sums[fastest].median / ours.median, 0.85),
            Ratio("a whole geometric_median call, per pass", sums[fastest].median / whole, 0.8),
            Ratio("threads against one thread, same pass", alone.median / ours.median),
        ],
        [f"The fastest sum was {fastest.removeprefix('sum: ')!r}."],
    )
