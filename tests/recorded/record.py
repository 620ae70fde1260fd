"""Record the picks of every case in ``picks.json``, or check them: ``python -m tests.recorded.record --check``."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PICKS = HERE / "picks.json"


def read() -> dict[str, dict[str, Any]]:
    """Return what is recorded."""
    return json.loads(PICKS.read_text(encoding="utf-8")) if PICKS.is_file() else {}


def write(recorded: dict[str, dict[str, Any]]) -> None:
    """Write one line per case."""
    lines = [f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in recorded.items()]
    PICKS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def find(cases: list[Any], jobs: int | None, slowest: int) -> dict[str, dict[str, Any]]:
    """Run the cases that this machine can run, and say which it cannot."""
    from one_case import Place, missing, ray_cluster

    found, seconds = {}, {}
    with contextlib.ExitStack() as stack:
        if any("ray" in case.needs and missing(case) is None for case in cases):
            stack.enter_context(ray_cluster())
        for case in cases:
            lacking = missing(case)
            if lacking:
                print(f"left out, needs {lacking}: {case.name}")
                continue
            began = time.perf_counter()
            try:
                with tempfile.TemporaryDirectory() as folder:
                    found[case.name] = case.record(Place(Path(folder), jobs))
            except Exception as error:
                print(f"failed: {case.name}: {type(error).__name__}: {error}")
            seconds[case.name] = time.perf_counter() - began
    for name in sorted(seconds, key=seconds.__getitem__, reverse=True)[:slowest]:
        print(f"{seconds[name]:7.2f} s  {name}")
    return found


def differences(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Return a line for every case whose picks are not those that are recorded."""
    lines = []
    for name, now in found.items():
        then = recorded.get(name)
        if then is None:
            lines.append(f"{name}: not recorded")
        elif (then["hash"], then["k"]) != (now["hash"], now["k"]):
            note = f" ({now['note']})" if "note" in now else ""
            lines.append(
                f"{name}: {then['k']} picks {then['first']}... are now {now['k']} {now['first']}...{note}"
            )
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Record or check, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if picks differ")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="which cases (default: cpu)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name has this in it")
    parser.add_argument("--without-ray", action="store_true", help="leave the Ray cases as they are")
    parser.add_argument("--jobs", type=int, metavar="N", help="threads; the picks do not depend on them")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="show the N slowest cases")
    asked = parser.parse_args(arguments)
    sys.path.insert(0, str(HERE))
    from cases import CASES

    wanted = [
        case
        for case in CASES.values()
        if ("cuda" in case.needs) == (asked.device == "cuda")
        and asked.only in case.name
        and not (asked.without_ray and "ray" in case.needs)
    ]
    recorded = read()
    found = find(wanted, asked.jobs, asked.slowest)
    lines = differences(recorded, found)
    print("\n".join([*lines, f"{len(found)} cases ran, {len(lines)} differ from what was recorded."]))
    if asked.check:
        return 1 if lines else 0
    # In the order of the cases; what is no case any more goes.
    merged = {**recorded, **found}
    write({name: merged[name] for name in CASES if name in merged})
    return 0


if __name__ == "__main__":
    sys.exit(main())
