"""Does ``auto`` choose the fastest strategy, is it ever slower than NumPy, and do the cost model's constants hold?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from benchmarks import data
from benchmarks.picks import match, vectorised
from benchmarks.report import Ratio, Report
from benchmarks.timing import Timing, side_by_side
from gmmatch.matching import scan as cost

NAME = "calibrate"
_GRID = (
    *((n, s, k) for n in (100, 1_000, 5_000, 20_000) for s in (16, 64, 512) for k in (n // 50, n // 4)),
    (50_000, 64, 100), (50_000, 64, 2_000), (50_000, 512, 100), (50_000, 512, 1_000), (2_000, 2_048, 400),
    (20_000, 2_048, 100), (100_000, 128, 500), (200_000, 64, 500), (200_000, 512, 2_000),
)  # fmt: skip
_QUICK_GRID = ((200, 16, 10), (300, 16, 100))
# Picks of NumPy and of direct scans all cost the same, so no more than this many numbers are read, and at least so
# many picks made; the time is scaled to k.
_READ_NUMBERS, _LEAST_PICKS = 1 << 28, 4


def run(quick: bool = False) -> Report:
    """Time all strategies, and NumPy, on a grid of shapes."""
    grid, repetitions = (_QUICK_GRID, 2) if quick else (_GRID, 3)
    report = Report(
        NAME,
        "time of k picks by each strategy and by NumPy (float32, X @ theta and argmax)",
        {"shapes": len(grid), "data": "isotropic, float32", "threads": 1},
    )
    lost, gained, times = {}, {}, {}
    for n, s, k in grid:
        timings = time_shape(n, s, k, repetitions)
        chosen = "codes" if cost._codes_pay(n, s, k) else "scan"
        best = min(timings["scan"].median, timings["codes"].median)
        label = f"n={n} s={s} k={k}"
        report.timings |= {f"{label}: {name}": timing for name, timing in timings.items()}
        lost[label] = timings[chosen].median / best
        gained[label] = timings["NumPy"].median / timings[chosen].median
        report.quantities[f"{label}: auto / fastest"] = lost[label]
        report.quantities[f"{label}: NumPy / auto"] = gained[label]
        times[n, s, k] = {name: timing.median * 1e9 for name, timing in timings.items()}
    worst, least = max(lost, key=lambda label: lost[label]), min(gained, key=lambda label: gained[label])
    report.ratios = [
        Ratio("auto / fastest strategy, the worst shape", lost[worst], 1.1, "at most"),
        Ratio("NumPy / auto, the worst shape", gained[least], 1.0),
        Ratio("NumPy / auto, median of all shapes", float(np.median(list(gained.values())))),
        *(Ratio(f"{name}: fitted / in the file", value) for name, value in fitted(times).items()),
    ]
    report.notes = [f"The worst shapes are {worst} (auto / fastest) and {least} (NumPy / auto)."]
    return report


def time_shape(n: int, s: int, k: int, repetitions: int) -> dict[str, Timing]:
    """Return the time of k picks by each side."""
    X = data.isotropic(n, s)
    target = X.mean(axis=0, dtype=np.float64)
    few = min(k, max(_LEAST_PICKS, _READ_NUMBERS // (n * s)))
    target32 = target.astype(np.float32)
    sides: dict[str, Any] = {
        "scan": lambda: match(X, target, few, "scan"),
        "codes": lambda: match(X, target, k, "codes"),
        "NumPy": lambda: vectorised(X, target32, few, sort=False),
    }
    timings = side_by_side(sides, repetitions)
    return {
        name: timing if name == "codes" else timing.divided_by(few / k) for name, timing in timings.items()
    }


def fitted(times: dict[tuple[int, int, int], dict[str, float]]) -> dict[str, float]:
    """Return the constants that fit the times best, by relative error, as multiples of those in the file."""
    n, s, k = (np.array(values, dtype=np.float64) for values in zip(*times, strict=True))
    one = np.ones_like(k)
    terms: dict[str, dict[str, NDArray[np.float64]]] = {
        "scan": {"_SCAN_NUMBER": k * n * s, "_SCAN_ROW": k * n, "start": one},
        "codes": {
            "_CODE_NUMBER": k * n * s, "_CODE_ROW": k * n, "_CODE_PICK": k,
            "_ENCODE_NUMBER": n * s, "_ENCODE_START": one,
        },
    }  # fmt: skip
    constants = {}
    for strategy, columns in terms.items():
        measured = np.array([time[strategy] for time in times.values()])
        design = np.stack([column * getattr(cost, name, 1.0) for name, column in columns.items()], axis=1)
        values, _ = nnls(design / measured[:, None], one)
        constants |= {name: float(value) for name, value in zip(columns, values, strict=True)}
    # What every call takes decides nothing.
    constants["_ENCODE_START"] -= constants.pop("start") / cost._ENCODE_START
    return constants


if __name__ == "__main__":
    import sys

    from benchmarks.__main__ import main

    main([NAME, *sys.argv[1:]])
