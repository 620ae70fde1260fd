"""Greedy picks from many rows against NumPy: ``python -m benchmarks.picks_large --rows features.npz``.

The rows are embeddings of your own (an ``.npy`` file, or the array ``rows`` of an ``.npz`` file), or synthetic ones
whose variances decay as those of image embeddings do.
"""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data, machine
from benchmarks.picks import match, vectorised
from benchmarks.report import Ratio, Report
from benchmarks.timing import Timing, count_cpu_time, side_by_side
from gmmatch import geometric_median
from gmmatch._threads import available_cores, one_blas_thread

NAME = "picks-large"
_COLUMNS = 512
# Every pick costs NumPy the same: from many rows these are made, and the time is scaled.
_NUMPY_PICKS, _MANY_ROWS = 40, 10_000


def main() -> None:
    """Measure, print, and write a file if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.picks_large", description=__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="embeddings to pick from")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    parser.add_argument(
        "--cpu", action="store_true", help="CPU time, one thread each: for a machine that others use as well"
    )
    options = parser.parse_args()
    surroundings = machine.describe()
    rows = None if options.rows is None else load(options.rows)
    if options.cpu:
        count_cpu_time()
    with one_blas_thread() if options.cpu else nullcontext():
        report = run(rows, cpu=options.cpu)
    print(f"{report.as_text()}\n\n{machine.as_text(surroundings)}")
    if options.json is not None:
        content = {**report.as_json(), "quick": False, "machine": surroundings}
        options.json.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load(path: Path) -> NDArray[np.float32]:
    """Return embeddings as float32; of more than 512 columns, every second, third, ..."""
    stored = np.load(path)
    rows: NDArray[Any] = stored if isinstance(stored, np.ndarray) else stored["rows"]
    return np.ascontiguousarray(rows[:, :: max(1, rows.shape[1] // _COLUMNS)], dtype=np.float32)


def run(given: NDArray[np.float32] | None, *, cpu: bool = False, n: int = 50_000, copies: int = 4) -> Report:
    """Time picks from a tenth of the rows, k = n/10 from all, and 1% of four times as many, with a little noise."""
    X = data.decaying(n, _COLUMNS) if given is None else given
    spread = 0.2 * X.std(axis=0)
    random = np.random.default_rng(data.SEED)
    more = np.concatenate(
        [X + spread * random.standard_normal(X.shape, dtype=np.float32) for _ in range(copies)]
    )
    report = Report(
        NAME,
        "time of k picks, and of NumPy's X @ theta and argmax in float32",
        {
            "rows": "synthetic, decaying variances" if given is None else "embeddings of images",
            "threads": 1 if cpu else available_cores(),
            "time": "CPU seconds" if cpu else "seconds",
            "target": "geometric median",
        },
    )
    few = X[: len(X) // 10]
    compare(few, len(few) // 10, report, 3.0, cpu)
    compare(few, len(few) // 2, report, 3.0, cpu)
    compare(X, len(X) // 10, report, 10.0, cpu)
    compare(more, len(more) // 100, report, 1.0, cpu)
    report.notes = [
        f"From more than {_MANY_ROWS:,} rows NumPy made {_NUMPY_PICKS} picks; its time is scaled.",
        "The last set is made of noisy copies of the one before (a fifth of each column's spread).",
    ]
    return report


def compare(X: NDArray[np.float32], k: int, report: Report, bar: float, cpu: bool) -> None:
    """Time both sides on one set of rows, after checking that NumPy in float64 makes the same first picks."""
    target = geometric_median(X).point
    few = min(k, _NUMPY_PICKS) if len(X) > _MANY_ROWS else k
    expected = vectorised(X[:, :], target, min(few, 20), sort=False)
    if match(X, target, k)[: len(expected)].tolist() != expected:
        raise AssertionError("the picks differ from those of the float64 loop.")
    sides = {
        "gmmatch": lambda: match(X, target, k),
        "NumPy": lambda: vectorised(X, target.astype(np.float32), few, sort=False),
    }
    timings = side_by_side(sides, 3)
    timings["NumPy"] = Timing(tuple(second * k / few for second in timings["NumPy"].seconds))
    label = f"{len(X):,} × {X.shape[1]}, k = {k:,}"
    report.timings |= {f"{label}: {name}": timing for name, timing in timings.items()}
    ratio = timings["NumPy"].median / timings["gmmatch"].median
    report.ratios.append(Ratio(f"{label}: NumPy / gmmatch", ratio, bar))


if __name__ == "__main__":
    main()
