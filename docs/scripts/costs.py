"""The tables of what methods, GPUs and stores cost, from committed results."""

from __future__ import annotations

from typing import Any

import gmmatch as gm
from docs.scripts.results import cite, load, of_method, percent, table

COSTS, FIGURES = "docs/results/method-costs.json", "docs/results/methods.json"
GPU, STORE = "benchmarks/results/gpu.json", "benchmarks/results/store-selection.json"


def methods() -> str:
    """Return all methods, the nearest to the clean rows first: what they do, their processor time, what they keep."""
    costs, figures = load(COSTS), load(FIGURES)

    def distance(name: str) -> float:
        shown = of_method(figures["methods"], name)
        return float("inf") if shown is None else float(shown["spoilt"]["mmd"])

    rows = []
    for name in sorted(gm.methods(), key=distance):
        doc = (gm.method_class(name).__doc__ or "").split("\n\n")[0]
        seconds, shown = of_method(costs["processor_seconds"], name), of_method(figures["methods"], name)
        numbers = ["–", "–"]
        if shown is not None:
            numbers = [percent(shown["spoilt"]["bad_picks"], 0), f"{shown['spoilt']['mmd']:.2f}"]
        rows.append([
            f"[`{name}`]({name}.md)", " ".join(doc.replace("``", "`").split()),
            "–" if seconds is None else f"{seconds:.2f} s", *numbers,
        ])  # fmt: skip
    size = costs["settings"]
    return (
        f"{table(['method', 'what it does', 'cost', 'bad picks', 'MMD'], rows, numbers_from=2)}\n\n"
        f"*Cost*: processor time on one thread, {size['rows']:,} × {size['columns']} numbers in "
        f"{size['classes']} "
        f"classes, {percent(size['kept'], 0)} kept (`{costs['command']}`, {cite(COSTS, up=1)}). *Bad "
        "picks* and *MMD* to the "
        f"clean rows: on the corrupted half of the figures' data, of which "
        f"{percent(figures['settings']['bad'], 0)} is bad "
        f"(`{figures['command']}`, {cite(FIGURES, up=1)}); one draw and few picks, so a picture "
        "rather than a ranking. There `matching` has the coordinate-wise median as its target. Of `by-score` nothing "
        "can be said without scores."
    )


def gpu() -> str:
    """Return times, exactness and memory of ``benchmarks.gpu``."""
    found, rows = load(GPU), []
    for one in found["workloads"]:
        if one["workload"] == "one group":
            what = f"one group of {one['rows']:,}, k = {one['picks']:,}"
            time, memory = f"{1e3 * one['seconds_per_pick']:.2f} ms a pick", ""
            checked = one["picks_checked_against_float64"]
        else:
            what = f"{one['groups']:,} {one['workload']}, {one['rows']:,} in all, k = {one['picks_per_group']} each"
            time, memory = f"{1e3 * one['seconds']:.0f} ms", f"{one['extra_memory_bytes'] / 2**30:.1f} GiB"
            checked = one["groups_checked_against_float64"] * one["picks_per_group"]
        differ = f"{one['picks_that_differ']} of {checked:,}"
        rows.append([what, one["dtype"], time, memory, differ])
    (columns,) = {one["columns"] for one in found["workloads"]}
    heads = [f"rows of {columns} numbers", "type", "time", "memory", "not as in float64"]
    return (
        f"{_gpu_calls(found) if 'calls' in found else ''}"
        f"{table(heads, rows, numbers_from=2)}\n\n{found['device']}, torch {found['torch']}, "
        f"{cite(GPU)}. What these times are of the device's limits is in `benchmarks/README.md`."
    )


def _gpu_calls(found: dict[str, Any]) -> str:
    made = [
        [
            f"`{one['method']}`" + "".join(f", `{name}={value!r}`" for name, value in one["options"].items()),
            *(f"{1e3 * one[name]:,.0f} ms" for name in ("seconds", "seconds_shuffled")),
        ]
        for one in found["calls"]
    ]
    size = f"10% of {found['rows']:,} × {found['columns']} float32 numbers in {found['classes']:,} classes"
    first = found["first_call"]
    return (
        f"{table([size, 'sorted by class', 'shuffled'], made, numbers_from=1)}\n\n"
        f"The first call in a new process takes {first['seconds_in_a_new_process']:.1f} s, and the first ever, which "
        f"compiles, {first['seconds_compiling']:.1f} s (`gm-matching`). Medians and picks alone:\n\n"
    )


def store() -> str:
    """Return what a selection from a store of 6 GB took."""
    found = load(STORE)
    return (
        f"{found['picked']:,} of {found['rows']:,} rows of {found['features']} float16 numbers "
        f"({found['store_bytes'] / 1e9:.0f} GB), with `--memory {found['memory']}`: "
        f"{found['seconds']:.0f} seconds, at most "
        f"{found['peak_anonymous_bytes'] / 1e9:.2f} GB of memory besides the page cache, residual "
        f"{found['residual']:.4f}. The "
        f"store was read {found['times_the_store_was_read']:.1f} times over, at "
        f"{found['read_GB_per_s']:.1f} GB/s; reading the "
        f"disk from end to end without a cache gives {found['sequential_GB_per_s_without_cache']:.1f} GB/s. "
        f"{cite(STORE)}"
    )
