"""``python -m benchmarks``: measure gmmatch next to its peers and print ratios."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

from benchmarks import machine
from benchmarks.timing import count_cpu_time
from gmmatch._threads import one_blas_thread

BENCHMARKS = ("weiszfeld-pass", "median", "picks", "kernel-herding", "memory", "imports", "calibrate")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named benchmarks, all by default."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"{name!r} is not a benchmark; there are {', '.join(BENCHMARKS)}")
    if options.cpu:
        count_cpu_time()
    folder: Path | None = options.json
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or BENCHMARKS:
        # Described before each one: the load then says how quiet the machine was.
        surroundings = machine.describe()
        with one_blas_thread() if options.cpu else nullcontext():
            report = import_module(f"benchmarks.{name.replace('-', '_')}").run(quick=options.quick)
        if options.cpu:
            report.notes.append("Times are CPU seconds of all threads; BLAS had one thread.")
        print(f"\n{report.as_text()}\n\n{machine.as_text(surroundings)}\n", flush=True)
        if folder is not None:
            content = {**report.as_json(), "quick": options.quick, "machine": surroundings}
            text = json.dumps(content, indent=2, ensure_ascii=False)
            (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"which to run: {', '.join(BENCHMARKS)}; all by default"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FOLDER", help="also write FOLDER/<name>.json for each benchmark"
    )
    parser.add_argument(
        "--cpu",
        action="store_true",
        help="CPU time, BLAS on one thread: for a machine that others use as well",
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that everything runs")
    return parser


if __name__ == "__main__":
    main()
