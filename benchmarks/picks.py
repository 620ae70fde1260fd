"""Greedy picks against a loop that scores all rows and sorts them for each pick."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.report import Ratio, Report
from benchmarks.timing import Timing, side_by_side
from gmmatch import Herding
from gmmatch._array import read_only
from gmmatch.matching import scan as scan_module

NAME = "picks"
_STRATEGIES = ("auto", "scan", "codes")
_LOOP = "(a) Python loop, sorted()"
_FLOAT64 = "(b) NumPy float64, argsort"
_FLOAT32 = "(b) NumPy float32, argsort"
_ARGMAX = "NumPy float32, argmax"
_CALL = "gmmatch, Herding(k).select(X)"


def match(X: NDArray[Any], target: NDArray[Any], k: int, strategy: str = "auto") -> NDArray[np.int64]:
    """Make picks as rows in memory do, by the cheaper way or by the named one."""
    order, theta = np.empty(k, dtype=np.int64), target.copy()
    forced = mock.patch.object(scan_module, "_codes_pay", lambda *_: strategy == "codes")
    with nullcontext() if strategy == "auto" else forced:
        scan_module.pick_group(read_only(X), np.arange(len(X)), target, theta, False, order)
    return order


def listing(X: NDArray[Any], target: NDArray[Any], k: int) -> list[int]:
    """Make picks as the published listing reads: score the rows one by one, sort them, take the first."""
    theta, order, taken = target.copy(), [], set()
    for _ in range(k):
        scores = [float(np.dot(theta, row)) for row in X]
        ranked = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
        pick = next(row for row in ranked if row not in taken)
        taken.add(pick)
        order.append(pick)
        theta = theta + target - X[pick]
    return order


def vectorised(X: NDArray[Any], target: NDArray[Any], k: int, *, sort: bool = True) -> list[int]:
    """Make picks with one matrix product and one sort each (or no sort, only the maximum)."""
    theta, order, free = target.copy(), [], np.ones(len(X), dtype=bool)
    for _ in range(k):
        scores = X @ theta
        if sort:
            ranked = np.argsort(-scores, kind="stable")
            pick = int(ranked[np.argmax(free[ranked])])
        else:
            scores[~free] = -np.inf
            pick = int(np.argmax(scores))
        free[pick] = False
        order.append(pick)
        theta = theta + target - X[pick]
    return order


def run(quick: bool = False) -> Report:
    """Time every strategy and every rival for two numbers of picks; report the time of one pick."""
    n, s = (400, 32) if quick else (5_000, 512)
    counts = (10, 40) if quick else (500, 2_500)
    repetitions = 2 if quick else 5
    X = data.with_cluster(n, s, 0.1)
    report = Report(
        NAME,
        "time of one pick of k from n rows",
        {"rows": n, "columns": s, "type": "float32", "k": list(counts), "repetitions": repetitions},
    )
    for k in counts:
        _compare(X, k, repetitions, report, loop_picks=4 if quick else 20)
    report.quantities |= limits(X, repetitions=3 if quick else 20)
    report.notes += [
        "(a) scores the rows one by one with np.dot and sorts them with sorted() for each pick: the loop the "
        "bar of 50 speaks of. It was run for fewer picks and scaled to one; every pick costs it the same.",
        "(b) is X @ theta and np.argsort for each pick. The last rival finds the maximum without sorting.",
        "The picks of all float64 sides are the same (checked in this run).",
        "Herding(k).select(X) is the whole call: checks, mean, codes, picks, provenance. NumPy's side only picks.",
        "The limit is that of a pick that reads every row's one-byte codes from cache, on one thread.",
    ]
    return report


def _compare(X: NDArray[Any], k: int, repetitions: int, report: Report, loop_picks: int) -> None:
    target = X.mean(axis=0, dtype=np.float64)
    X64, target32 = X.astype(np.float64), target.astype(np.float32)
    ours = {f"k={k}: gmmatch, {name}": (lambda name=name: match(X, target, k, name)) for name in _STRATEGIES}
    rivals: dict[str, tuple[Callable[[], object], int]] = {
        _LOOP: (lambda: listing(X64, target, loop_picks), loop_picks),
        _FLOAT64: (lambda: vectorised(X64, target, k), k),
        _FLOAT32: (lambda: vectorised(X, target32, k), k),
        _ARGMAX: (lambda: vectorised(X, target32, k, sort=False), k),
    }
    ours[f"k={k}: {_CALL}"] = lambda: Herding(k=k).select(X)
    _check_equal(X64, target, k, X, loop_picks)
    sides = ours | {f"k={k}: {name}": work for name, (work, _) in rivals.items()}
    timings = side_by_side(sides, repetitions)
    per_pick = {name: timing.divided_by(k) for name, timing in timings.items() if name in ours}
    for name, (_, count) in rivals.items():
        per_pick[f"k={k}: {name}"] = timings[f"k={k}: {name}"].divided_by(count)
    report.timings |= per_pick
    report.ratios += _ratios(per_pick, k)
    chosen = "codes" if scan_module._codes_pay(len(X), X.shape[1], k) else "scan"
    report.notes.append(f"k={k}: 'auto' chose {chosen!r}.")


def _ratios(per_pick: dict[str, Timing], k: int) -> list[Ratio]:
    auto = per_pick[f"k={k}: gmmatch, auto"]
    fastest = min(_STRATEGIES[1:], key=lambda name: per_pick[f"k={k}: gmmatch, {name}"].median)
    return [
        Ratio(
            f"k={k}: {rival} / gmmatch",
            per_pick[f"k={k}: {rival}"].median / auto.median,
            {_LOOP: 50.0, _ARGMAX: 3.0}.get(rival),
        )
        for rival in (_LOOP, _FLOAT64, _FLOAT32, _ARGMAX)
    ] + [
        Ratio(
            f"k={k}: {_ARGMAX} / Herding(k).select(X)",
            per_pick[f"k={k}: {_ARGMAX}"].median / per_pick[f"k={k}: {_CALL}"].median,
            3.0,
        ),
        Ratio(f"k={k}: auto / fastest strategy", auto.median / per_pick[f"k={k}: gmmatch, {fastest}"].median),
    ]


def _check_equal(X: NDArray[Any], target: NDArray[Any], k: int, rows: NDArray[Any], loop_picks: int) -> None:
    """Raise unless all sides that work in float64 pick the same rows."""
    expected = vectorised(X, target, k)
    for name in _STRATEGIES:
        if match(rows, target, k, name).tolist() != expected:
            raise AssertionError(f"strategy {name!r} picked other rows than the float64 loop, k={k}.")
    if listing(X, target, loop_picks) != expected[:loop_picks]:
        raise AssertionError("the listing picked other rows than the vectorised loop.")


def limits(X: NDArray[np.float32], repetitions: int) -> dict[str, float]:
    """Return what this machine could do at best, in microseconds a pick."""
    codes = np.ones(X.size, dtype=np.int8)
    timings = side_by_side({"read": lambda: _read_often(codes.view(np.int64), 100)}, repetitions)
    read = timings["read"].median / 100
    return {
        "one-byte codes, MB": codes.nbytes / 1e6,
        "reading them from cache, one thread, GB/s": codes.nbytes / read / 1e9,
        "limit of a pick that reads all codes, µs": read * 1e6,
    }


@njit(fastmath=True)
def _read_often(words: NDArray[np.int64], times: int) -> int:
    total = np.int64(0)
    for turn in range(times):
        for i in range(words.shape[0]):
            total += words[i] ^ turn
    return total
