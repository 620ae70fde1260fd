"""Which method runs where, with what it took, from committed results."""

from __future__ import annotations

from typing import Any

from docs.scripts.results import cite, load, percent, table

CELLS, WITHIN = "benchmarks/results/support.json", "benchmarks/results/within-memory.json"
GPU = "benchmarks/results/gpu.json"


def cells() -> str:
    """Return a table of all methods in all places: seconds of processor time and memory."""
    found, gpu = load(CELLS), load(GPU)
    calls = {_kind(one): one for one in gpu.get("calls", [])}
    rows = [
        [
            # What this case was when it was measured.
            f"`{name.replace(', kernel', ', kernel=rbf')}`",
            *(_cell(one.get(place)) for place in ("memory", "store", "ray")),
            f"{calls[_kind(one)]['seconds']:.2f} s" if _kind(one) in calls else "",
        ]
        for name, one in found["cases"].items()
    ]
    heads = ["method", "in memory", "store, `--memory`", "Ray", "CUDA tensor"]
    text = (
        f"1% of {found['rows']:,} × {found['features']} float16 numbers ({found['store_bytes'] / 1e6:,.0f} MB) in "
        f"{found['classes']} classes: processor time of all processes, and memory: besides the input, of the whole "
        f"command (`--memory {found['memory'] / 1e6:,.0f}MB`; Python and its libraries take about 160 MB, with torch "
        "360 MB), and of the larger of two workers. Methods that train a model do it twice for one epoch here. "
        f"{found['machine']['cpu']}, {found['machine']['cores']} cores, which others used as well (load "
        f"{found['machine']['load_before']:.0f}), so times are rough. "
        f"`python -m benchmarks.support cells`, {cite(CELLS)}."
    )
    if not calls:
        return f"{table(heads[:-1], [row[:-1] for row in rows])}\n\n{text}"
    return (
        f"{table(heads, rows)}\n\n{text} The last column is another workload: 10% of {gpu['rows']:,} × "
        f"{gpu['columns']} float32 numbers in {gpu['classes']:,} classes, {gpu['device']}, {cite(GPU)}."
    )


def within() -> str:
    """Return what ``--memory`` allowed and what was taken, for each method."""
    found = load(WITHIN)
    rows = []
    for name, one in found["cases"].items():
        cell, limit = one["store"], found["memory"]
        rows.append([
            f"`{name}`", f"{cell['core_seconds']:,.0f} s", f"{cell['bytes'] / 1e6:,.0f} MB",
            percent(cell["bytes"] / limit, 0),
        ])  # fmt: skip
    return (
        f"{table(['method', 'processor time', 'peak', 'of the limit'], rows)}\n\n"
        f"1% of {found['rows']:,} × {found['features']} float16 numbers, {found['store_bytes'] / 1e9:.2f} GB, with "
        f"`--memory {found['memory'] / 1e6:,.0f}MB`. The peak is that of anonymous memory, Python and its libraries "
        "included: the page cache behind mapped files is the system's. "
        f"`python -m benchmarks.support limit`, {cite(WITHIN)}."
    )


def _kind(case: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells a case from others of the same method."""
    options = case["options"]
    return case["method"], *(str(options.get(name)) for name in ("normalize", "kernel", "preprocess"))


def _cell(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return ""
    if "refused" in cell:
        return "refused"
    return f"{cell['core_seconds']:.1f} s, {cell['bytes'] / 1e6:,.0f} MB"
