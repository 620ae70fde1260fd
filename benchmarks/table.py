"""Write the table of results in ``benchmarks/README.md``: ``python -m benchmarks.table``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.__main__ import BENCHMARKS
from benchmarks.report import bar_text, met_text

_FOLDER = Path(__file__).resolve().parent
_BEGIN, _END = "<!-- results: begin -->", "<!-- results: end -->"


def load(folder: Path) -> list[dict[str, Any]]:
    """Return the results that are there, in the order the benchmarks are listed."""
    paths = [folder / f"{name}.json" for name in BENCHMARKS]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def markdown(results: list[dict[str, Any]]) -> str:
    """Return one table of all ratios, and what they were measured on."""
    lines = ["| benchmark | ratio | measured | bar | |", "| --- | --- | ---: | --- | --- |"]
    for result in results:
        for ratio in result["ratios"]:
            bar = bar_text(ratio["bar"], ratio["wanted"])
            cells = (result["name"], ratio["name"], f"{ratio['value']:.3g}", bar, met_text(ratio["met"]))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    surroundings = {machine.as_text(one["machine"] | {"load_before": "-"}) for one in results}
    loads = ", ".join(f"{one['name']} {one['machine']['load_before']}" for one in results)
    described = [
        text.replace(", load before the start -", "").replace("\n", "; ") for text in sorted(surroundings)
    ]
    return "\n".join(
        [*lines, "", *(f"Measured on: {text}.  " for text in described), f"Load before each: {loads}."]
    )


def main() -> None:
    """Replace what stands between the two marks, or only say whether it is up to date."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail if the table is out of date"
    )
    options = parser.parse_args()
    readme = _FOLDER / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(_BEGIN)
    _, after = rest.split(_END)
    fresh = f"{before}{_BEGIN}\n\n{markdown(load(_FOLDER / 'results'))}\n\n{_END}{after}"
    if options.check:
        if fresh != text:
            sys.exit("benchmarks/README.md is out of date: run `python -m benchmarks.table`.")
        return
    readme.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    main()
