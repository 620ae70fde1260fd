"""Kernel herding against coreax: speed, warm and cold, and quality."""

from __future__ import annotations

import logging
import tempfile

import numpy as np

from benchmarks import data, herding_sides
from benchmarks.machine import installed_version
from benchmarks.processes import run_module
from benchmarks.report import Ratio, Report
from benchmarks.timing import Timing, ratio_of_medians, side_by_side
from gmmatch import RBF
from gmmatch.metrics import mmd

NAME = "kernel-herding"
_OURS, _PEER = "warm: gmmatch", "warm: coreax"


def run(quick: bool = False) -> Report:
    """Time both sides on the same data with the same kernel."""
    n, s, k = (300, 8, 20) if quick else (5_000, 64, 1_000)
    repetitions = 2 if quick else 7
    report = Report(
        NAME,
        "kernel herding with the Gaussian kernel",
        {"rows": n, "columns": s, "k": k, "type": "float32", "bandwidth": round(data.typical_distance(s), 4)},
    )
    X = data.isotropic(n, s)
    peer = installed_version("coreax") != "not installed"
    _warm(X, k, repetitions, peer, report)
    _cold(n, s, k, 1 if quick else 3, peer, report)
    report.notes.append(
        "Cold is the first call in a fresh process, imports not counted ('with imports': counted). 'First "
        "run ever' has an empty Numba cache; 'cache warm' is any later process."
    )
    if peer:
        report.notes.append(
            "coreax's solver is compiled as a whole (equinox.filter_jit) and reads blocks of "
            f"{herding_sides.COREAX_BLOCK:,} rows, the fastest of the settings tried (None, 1,000, 2,000); "
            "'default' is block_size=None. It works in float32, gmmatch sums in float64."
        )
    else:
        report.notes.append('coreax is not installed (pip install -e ".[bench]").')
    return report


def _warm(X: np.ndarray, k: int, repetitions: int, peer: bool, report: Report) -> None:
    bandwidth = data.typical_distance(X.shape[1])
    sides = {_OURS: herding_sides.gmmatch_side(X, k, bandwidth)}
    if peer:
        logging.getLogger("jax").setLevel(logging.ERROR)  # it reports that it looked for a TPU
        sides[_PEER] = herding_sides.coreax_side(X, k, bandwidth)
        sides[f"{_PEER}, default"] = herding_sides.coreax_side(X, k, bandwidth, block=None)
    timings = side_by_side(sides, repetitions)
    report.timings |= timings
    random = np.random.default_rng(data.SEED).choice(len(X), k, replace=False)
    subsets = {name: pick() for name, pick in sides.items() if not name.endswith("default")}
    kernel = RBF(bandwidth)
    quality = {
        name: mmd(X[rows], X, kernel=kernel) for name, rows in {**subsets, "random rows": random}.items()
    }
    report.quantities |= {f"MMD, {name.removeprefix('warm: ')}": value for name, value in quality.items()}
    if peer:
        report.quantities["rows both picked"] = float(len(np.intersect1d(subsets[_OURS], subsets[_PEER])))
        report.ratios += [
            Ratio("warm: coreax / gmmatch", ratio_of_medians(timings[_PEER], timings[_OURS]), 6.0),
            Ratio(
                "warm: coreax, default / gmmatch",
                ratio_of_medians(timings[f"{_PEER}, default"], timings[_OURS]),
            ),
            Ratio("MMD of gmmatch's picks / coreax's", quality[_OURS] / quality[_PEER]),
        ]
    report.ratios.append(
        Ratio("MMD of random rows / gmmatch's picks", quality["random rows"] / quality[_OURS])
    )


def _cold(n: int, s: int, k: int, repetitions: int, peer: bool, report: Report) -> None:
    cases = {
        "cold: gmmatch, first run ever": ("gmmatch-herding", True),
        "cold: gmmatch, cache warm": ("gmmatch-herding", False),
    }
    if peer:
        cases["cold: coreax"] = ("coreax-herding", False)
    first: dict[str, list[float]] = {name: [] for name in cases}
    whole: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repetitions):
        for name, (side, empty_cache) in cases.items():
            with tempfile.TemporaryDirectory() as folder:
                environment = {"NUMBA_CACHE_DIR": folder} if empty_cache else None
                found = run_module("benchmarks.first_call", side, n, s, k, environment=environment)
            first[name].append(found["first_s"])
            whole[name].append(found["imports_s"] + found["first_s"])
    for name in cases:
        report.timings[name] = Timing(tuple(first[name]))
        report.timings[f"{name}, with imports"] = Timing(tuple(whole[name]))
    for name in cases if peer else ():
        if name.startswith("cold: gmmatch"):
            for suffix, bar in (("", 3.0), (", with imports", None)):
                slower, faster = report.timings[f"cold: coreax{suffix}"], report.timings[name + suffix]
                label = f"cold: coreax / {name.removeprefix('cold: ')}{suffix}"
                report.ratios.append(Ratio(label, ratio_of_medians(slower, faster), bar))
