"""How much memory a selection takes beside its input."""

from __future__ import annotations

from benchmarks.processes import run_module
from benchmarks.report import Ratio, Report

NAME = "memory"


def run(quick: bool = False) -> Report:
    """Measure the peak of a fresh process for each kind of input."""
    n, s, k = (6_000, 32, 20) if quick else (200_000, 512, 100)
    small = n if quick else 100_000
    cases = {
        "float32": ("gm-matching", n, s),
        "float32, 2 classes": ("gm-matching", n, s, "--classes", 2),
        "float64": ("gm-matching", small, s, "--dtype", "float64"),
        "float16": ("gm-matching", small, s, "--dtype", "float16"),
        "float32, Fortran order": ("gm-matching", small, s, "--order", "F"),
    }
    report = Report(
        NAME,
        "peak memory of gm-matching, in per cent of the input",
        {"rows": n, "rows of float64, float16 and Fortran order": small, "columns": s, "k": k},
    )
    for name, arguments in cases.items():
        found = run_module("benchmarks.one_memory_case", *arguments, "--k", k)
        if "not_measurable" in found:
            report.notes.append(
                "This system does not let a process reset its peak of memory: nothing measured."
            )
            break
        size = found["input_bytes"]
        report.quantities[f"{name}: input, MiB"] = size / 2**20
        report.quantities[f"{name}: peak beside the input, MiB"] = found["growth_bytes"] / 2**20
        report.ratios.append(
            Ratio(
                f"{name}: input and peak, % of input",
                100.0 + 100.0 * found["growth_bytes"] / size,
                150.0,
                "at most",
            )
        )
    report.notes += [
        "Peak resident memory of a fresh process during the call (VmHWM, reset before it) less the resident "
        "memory before it; imports and a warm-up call on little data come first, and are not counted.",
    ]
    if quick:
        report.notes.append(
            "On little data the fixed buffers dwarf the input: only a full run says something."
        )
    return report
