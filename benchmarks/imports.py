"""What starting costs: the import, the command line's help, and the first call of a new process."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from benchmarks.processes import ProcessFailed, run_module, wall_time
from benchmarks.report import Ratio, Report
from benchmarks.timing import Timing

NAME = "imports"


def run(quick: bool = False) -> Report:
    """Time whole processes in turn; the least time of many counts, as the start of a process is noisy."""
    repetitions = 2 if quick else 20
    commands = {
        "import nothing": [sys.executable, "-c", "pass"],
        "import numpy": [sys.executable, "-c", "import numpy"],
        "import gmmatch": [sys.executable, "-c", "import gmmatch"],
        "import gmmatch, geometric_median": [sys.executable, "-c", "from gmmatch import geometric_median"],
        "import gmmatch, GMMatching": [sys.executable, "-c", "from gmmatch import GMMatching"],
    }
    report = Report(NAME, "wall time of a whole process", {"repetitions": repetitions})
    program = _program()
    if program is not None:
        commands["gmmatch --help"] = [program, "--help"]
    times = _wall_times(commands, repetitions)
    report.timings |= times
    for name in (
        "import gmmatch",
        "import gmmatch, geometric_median",
        "import gmmatch, GMMatching",
        "gmmatch --help",
    ):
        if name in times:
            report.ratios.append(
                Ratio(f"{name} / import numpy", times[name].least / times["import numpy"].least)
            )
    if "gmmatch --help" not in times:
        report.notes.append("`gmmatch --help` could not be run here, so it was not measured.")
    _first_calls(quick, report)
    report.notes.append(
        "Ratios are of the least times; every process is started afresh, in turn with the others."
    )
    return report


def _program() -> str | None:
    beside = Path(sys.executable).parent / "gmmatch"
    return str(beside) if beside.exists() else shutil.which("gmmatch")


def _wall_times(commands: dict[str, list[str]], repetitions: int) -> dict[str, Timing]:
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    failed: set[str] = set()
    for turn in range(repetitions + 1):
        for name, command in commands.items():
            if name in failed:
                continue
            try:
                elapsed = wall_time(command)
            except ProcessFailed:
                failed.add(name)
                continue
            if turn:  # the first turn fills the disk cache
                seconds[name].append(elapsed)
    return {name: Timing(tuple(values)) for name, values in seconds.items() if name not in failed}


def _first_calls(quick: bool, report: Report) -> None:
    n, s = (500, 8) if quick else (10_000, 64)
    found = [run_module("benchmarks.first_call", "median", n, s, 1) for _ in range(2 if quick else 6)][1:]
    times = {
        part: Timing(tuple(one[f"{key}_s"] for one in found))
        for part, key in (("imports", "imports"), ("first call", "first"), ("second call", "second"))
    }
    report.settings["calls on"] = f"{n} x {s}"
    report.timings |= {f"geometric_median in a new process: {part}": time for part, time in times.items()}
    report.ratios.append(
        Ratio(
            "first call / second call, compiled code cached",
            times["first call"].least / times["second call"].least,
        )
    )
