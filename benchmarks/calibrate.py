"""Measure the constants of the cost model that chooses a strategy, and how well the model then chooses."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.report import Ratio, Report
from benchmarks.timing import side_by_side
from gmmatch.matching import cost
from gmmatch.matching.cost import choose_strategy, working_memory
from gmmatch.matching.match import match
from gmmatch.matching.strategies import Codes
from gmmatch.rows.parallel import available_cores
from gmmatch.rows.rows import Rows

NAME = "calibrate"
_GRID = (
    (1_000, 64, 20), (1_000, 64, 500), (1_000, 512, 20), (1_000, 512, 500),
    (2_500, 512, 100), (2_500, 512, 1_000), (2_500, 64, 1_000),
    (5_000, 512, 500), (5_000, 64, 500), (20_000, 64, 200), (20_000, 512, 100),
)  # fmt: skip
_QUICK_GRID = ((200, 16, 10), (300, 16, 100))


def run(quick: bool = False) -> Report:
    """Measure the constants on one shape, then all strategies on a grid of shapes."""
    n, s, few, many = (300, 16, 10, 60) if quick else (5_000, 512, 50, 450)
    repetitions = 2 if quick else 7
    report = Report(
        NAME,
        "constants of the cost model, in ns per element",
        {
            "rows": n,
            "columns": s,
            "picks": [few, many],
            "threads": available_cores(),
            "repetitions": repetitions,
        },
    )
    measured = constants(n, s, few, many, repetitions)
    for name, value in measured.items():
        written = getattr(cost, name)
        report.quantities[f"{name}, measured"] = value
        report.quantities[f"{name}, in the file"] = written
        report.ratios.append(Ratio(f"{name}: measured / in the file", value / written))
    for shape in _QUICK_GRID if quick else _GRID:
        _judge_choice(*shape, repetitions=2 if quick else 3, report=report)
    report.notes.append(
        "'chosen / best' is the time lost by the model's choice: 1 where it chose the fastest."
    )
    return report


def constants(n: int, s: int, few: int, many: int, repetitions: int) -> dict[str, float]:
    """Return every constant; slopes between few and many picks leave out what is paid once."""
    X = data.isotropic(n, s)
    rows, threads = Rows(X), available_cores()
    target = X.mean(axis=0, dtype=np.float64)
    sides: dict[str, Any] = {
        "encode": lambda: Codes.of(rows, target, threads),
        "product": lambda: _gram(rows),
    }
    for strategy in ("direct", "coded", "gram"):
        for k in (few, many):
            sides[f"{strategy} {k}"] = lambda strategy=strategy, k=k: match(
                rows, target, k, strategy=strategy, threads=threads
            )
    least = {name: timing.median * 1e9 for name, timing in side_by_side(sides, repetitions).items()}
    elements = float(n) * s

    def per_pick(strategy: str) -> float:
        return max(0.0, least[f"{strategy} {many}"] - least[f"{strategy} {few}"]) / (many - few)

    return {
        "_SCAN_ROWS": per_pick("direct") / elements,
        "_SCAN_CODES": per_pick("coded") / elements,
        "_ENCODE": least["encode"] / elements,
        "_GRAM_PRODUCT": least["product"] / (elements * n),
        "_GRAM_PICK": per_pick("gram") / n,
    }


def _gram(rows: Rows) -> Any:
    block = rows.gather(np.arange(len(rows)))
    return block @ block.T


def _judge_choice(n: int, s: int, k: int, *, repetitions: int, report: Report) -> None:
    X = data.isotropic(n, s)
    rows, threads = Rows(X), available_cores()
    target = X.mean(axis=0, dtype=np.float64)
    strategies = ("direct", "coded", "gram") if n <= 5_000 else ("direct", "coded")
    timings = side_by_side(
        {
            name: (lambda name=name: match(rows, target, k, strategy=name, threads=threads))
            for name in strategies
        },
        repetitions,
    )
    chosen = choose_strategy(n, s, k, memory=working_memory(None, X.nbytes))
    best = min(timings, key=lambda name: timings[name].median)
    label = f"n={n} s={s} k={k}"
    for name, timing in timings.items():
        report.timings[f"{label}: {name}"] = timing
    report.ratios.append(Ratio(f"{label}: chosen / best", timings[chosen].median / timings[best].median))
    if chosen != best:
        report.notes.append(f"{label}: the model chose {chosen!r}, {best!r} was the fastest.")


if __name__ == "__main__":
    import sys

    from benchmarks.__main__ import main

    main([NAME, *sys.argv[1:]])
