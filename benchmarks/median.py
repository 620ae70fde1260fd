"""How long until the geometric median's objective is within one part in a million of the best?"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gmmatch
from benchmarks import data, numpy_weiszfeld
from benchmarks.machine import installed_version
from benchmarks.report import Ratio, Report
from benchmarks.timing import Timing, ratio_of_medians, side_by_side, timed
from gmmatch.errors import ConvergenceWarning

NAME = "median"
_ACCURACY = 1e-6
_MOST_PASSES = 4096
# A peer that took this many seconds is not run a second time.
_LONG_ENOUGH = 30.0

Solver = Callable[[int], object]


def run(quick: bool = False) -> Report:
    """Time every solver's first point that is good enough, on three kinds of data."""
    n, s = (3_000, 32) if quick else (200_000, 512)
    repetitions = 2 if quick else 7
    report = Report(
        NAME,
        f"time to the first point whose objective is within {_ACCURACY:g} of the best known",
        {"rows": n, "columns": s, "type": "float32", "repetitions": repetitions},
    )
    kinds = {
        "isotropic": lambda: data.isotropic(n, s),
        "30% in a far cluster": lambda: data.with_cluster(n, s, 0.3),
        "45% in a far cluster": lambda: data.with_cluster(n, s, 0.45),
    }
    for kind, make in kinds.items():
        _compare(kind, make(), repetitions, report)
    report.notes += [
        "Every solver runs as many passes as it needs to reach the same objective, judged in float64; at "
        "least one, since none returns the mean unexamined.",
        "'certified' is gmmatch.geometric_median(X, eps=1e-6) as a user calls it: it goes on until the "
        "accuracy is proven, which no other side does.",
        "'NumPy' works on differences in cache-sized blocks; 'NumPy, identity' on ‖x‖² − 2⟨x, z⟩ + ‖z‖², "
        "which is faster and loses its digits on data far from the origin. Both use one thread outside BLAS.",
    ]
    if installed_version("geom-median") == "not installed":
        report.notes.append('geom-median is not installed (pip install -e ".[bench]").')
    else:
        report.notes.append(
            "geom-median is timed twice per kind of data, or once where that takes over half a minute."
        )
    return report


def _compare(kind: str, X: NDArray[np.float32], repetitions: int, report: Report) -> None:
    best = gmmatch.geometric_median(X, eps=1e-12)
    target = (1.0 + _ACCURACY) * min(best.objective, numpy_weiszfeld.objective(X, best.point))
    ours, certified = f"{kind}: gmmatch", f"{kind}: gmmatch, certified"
    plain, identity = f"{kind}: NumPy", f"{kind}: NumPy, identity"
    solvers = {
        ours: lambda passes: _our_point(X, passes),
        plain: lambda passes: numpy_weiszfeld.weiszfeld(X, passes),
        identity: lambda passes: numpy_weiszfeld.weiszfeld_by_identity(X, passes),
    }
    passes = {name: _passes_needed(solver, X, target) for name, solver in solvers.items()}
    sides = {
        name: (lambda solver=solver, count=passes[name]: solver(count)) for name, solver in solvers.items()
    }
    sides[certified] = lambda: gmmatch.geometric_median(X, eps=_ACCURACY)
    timings = side_by_side(sides, repetitions)
    report.timings |= timings
    report.quantities[f"{kind}: objective of the mean above the best"] = (
        numpy_weiszfeld.objective(X, numpy_weiszfeld.mean(X)) / best.objective - 1.0
    )
    report.quantities |= {f"{name}, passes": float(count) for name, count in passes.items()}
    if installed_version("geom-median") != "not installed":
        peer = f"{kind}: geom-median"
        report.timings[peer], count = _geom_median(X, target, passes[plain])
        report.quantities[f"{peer}, passes"] = float(count)
        report.ratios.append(
            Ratio(f"{peer} / gmmatch", report.timings[peer].median / timings[ours].median, 10.0)
        )
    report.ratios += [
        Ratio(f"{plain} / gmmatch", ratio_of_medians(timings[plain], timings[ours]), 5.0),
        Ratio(f"{plain} / gmmatch, certified", ratio_of_medians(timings[plain], timings[certified])),
        Ratio(f"{identity} / gmmatch", ratio_of_medians(timings[identity], timings[ours])),
    ]


def _our_point(X: NDArray[np.float32], passes: int) -> NDArray[np.float64]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return gmmatch.geometric_median(X, eps=0.0, max_iter=passes).point


def _passes_needed(solver: Callable[[int], Any], X: NDArray[np.float32], target: float) -> int:
    for passes in range(1, _MOST_PASSES):
        if numpy_weiszfeld.objective(X, solver(passes)) <= target:
            return passes
    raise RuntimeError(f"{_MOST_PASSES} passes did not reach the target objective.")


def _geom_median(X: NDArray[np.float32], target: float, passes: int) -> tuple[Timing, int]:
    """Return the time geom-median takes to its first good point, and after how many passes that is.

    ``passes`` is a first guess: those of another plain iteration from the mean.
    """
    from geom_median.numpy import compute_geometric_median

    points = list(X)
    seconds: list[float] = []
    while len(seconds) < 2 and sum(seconds) < _LONG_ENOUGH:
        logs: list[float] = []
        elapsed = timed(lambda: logs.extend(compute_geometric_median(points, maxiter=passes).logs))  # noqa: B023
        # Its log holds the mean distance after every pass, from that of the starting point on.
        reached = np.flatnonzero(np.array(logs[1:]) * len(X) <= target)
        needed = int(reached[0]) + 1 if len(reached) else passes + 1
        if needed == passes:
            seconds.append(elapsed)
        else:
            passes, seconds = needed, []
    return Timing(tuple(seconds)), passes
