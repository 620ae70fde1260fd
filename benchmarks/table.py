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
_GPU_BEGIN, _GPU_END = "<!-- gpu: begin -->", "<!-- gpu: end -->"


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


def gpu_markdown(result: dict[str, Any]) -> str:
    """Return the table of ``benchmarks.gpu``: time, share of the device's limits, exactness, memory."""
    lines = [
        "| workload | type | time | median: passes, share of copy bandwidth | picks: share of a float32 product | "
        "picks that differ from float64 | working memory |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in result["workloads"]:
        if one["workload"] == "one group":
            times = one["times_one_read_at_copy_bandwidth"]
            lines.append(
                f"| one group, {one['rows']:,} × {one['columns']}, k = {one['picks']:,} | {one['dtype']} "
                f"| {1e3 * one['seconds_per_pick']:.2f} ms a pick | | {times:.2f} times one read | "
                f"{one['picks_that_differ']} of {one['picks_checked_against_float64']} | |"
            )
            continue
        checked = one["groups_checked_against_float64"] * one["picks_per_group"]
        lines.append(
            f"| {one['workload']}, {one['groups']:,} of {one['rows']:,} × {one['columns']}, "
            f"k = {one['picks_per_group']} each | {one['dtype']} | {1e3 * one['seconds']:.1f} ms "
            f"| {one['median_passes_mean']:.1f}, {one['median_share_of_copy_bandwidth']:.2f} "
            f"| {one['pick_share_of_float32_product']:.2f} | {one['picks_that_differ']} of {checked:,} "
            f"| {one['extra_memory_bytes'] / 2**30:.2f} GiB |"
        )
    measured = (
        f"Measured on: {result['device']}, torch {result['torch']}; a copy moves "
        f"{result['copy_bandwidth_bytes_per_second'] / 1e12:.2f} TB/s (read and written), a float32 product "
        f"without TF32 runs at {result['float32_product_flops_per_second'] / 1e12:.0f} TFLOP/s."
    )
    calls = [*gpu_calls(result), ""] if "calls" in result else []
    return "\n".join([*calls, *lines, "", measured])


def gpu_calls(result: dict[str, Any]) -> list[str]:
    """Return the table of the calls that users make on a CUDA tensor."""
    lines = [
        f"| `gm.select` of 10% of {result['rows']:,} × {result['columns']} float32, {result['classes']:,} classes | "
        "rows sorted by class | shuffled |",
        "| --- | ---: | ---: |",
    ]
    for one in result["calls"]:
        options = "".join(f", {name}={value!r}" for name, value in one["options"].items())
        times = [f"{1e3 * one[name]:,.0f} ms" for name in ("seconds", "seconds_shuffled")]
        lines.append(f"| `{one['method']}`{options} | {times[0]} | {times[1]} |")
    first = result["first_call"]
    lines.append(
        "\nThe first call of `gm-matching` in a new process takes "
        f"{first['seconds_in_a_new_process']:.2f} s; the first ever, which compiles, "
        f"{first['seconds_compiling']:.1f} s."
    )
    return lines


def main() -> None:
    """Replace what stands between the two marks, or only say whether it is up to date."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail if the table is out of date"
    )
    options = parser.parse_args()
    readme = _FOLDER / "README.md"
    text = readme.read_text(encoding="utf-8")
    gpu = json.loads((_FOLDER / "results" / "gpu.json").read_text(encoding="utf-8"))
    fresh = _between(text, _BEGIN, _END, markdown(load(_FOLDER / "results")))
    fresh = _between(fresh, _GPU_BEGIN, _GPU_END, gpu_markdown(gpu))
    if options.check:
        if fresh != text:
            sys.exit("benchmarks/README.md is out of date: run `python -m benchmarks.table`.")
        return
    readme.write_text(fresh, encoding="utf-8")


def _between(text: str, begin: str, end: str, content: str) -> str:
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


if __name__ == "__main__":
    main()
