"""The tables about weights, references, budget curves and updates, from committed results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docs.scripts.results import ROOT, cite, load, percent, table


def picks() -> str:
    """Return all tables; nothing of what was not measured."""
    parts: dict[str, Callable[[dict[str, Any]], str]] = {
        "weights": weights,
        "reference": reference,
        "curve": curve,
        "update": update,
    }
    written = []
    for name, write in parts.items():
        path = f"benchmarks/results/picks-{name}.json"
        if (ROOT / path).exists():
            found = load(path)
            written.append(f"{write(found)}\n\n`{found['command']}`, kept in {cite(path)}.")
    return "\n\n".join(written)


def weights(found: dict[str, Any]) -> str:
    """Return what weights and swaps gain."""
    lines = [
        [
            str(run["dimensions"]),
            f"{run['weights']:.2f} ({min(run['weights_each']):.2f} to {max(run['weights_each']):.2f})",
            f"{run['swaps']:.2f}",
            f"{run['both']:.2f}",
        ]
        for run in found["runs"]
    ]
    columns = ["dimensions", "with weights (all seeds)", "after swaps", "swaps and weights"]
    return (
        "## Weights and swaps\n\n100 of 1,000 Gaussian rows by kernel herding: the distance to all rows (MMD) as a "
        f"share of what it is without, on average over {found['runs'][0]['seeds']} seeds.\n\n{table(columns, lines)}"
    )


def reference(found: dict[str, Any]) -> str:
    """Return whose rows are picked, and how near they come to the reference."""
    lines = []
    for data, method in dict.fromkeys((run["data"], run["method"]) for run in found["runs"]):
        own = [run for run in found["runs"] if (run["data"], run["method"]) == (data, method)]
        mean = {
            key: sum(run[key] for run in own) / len(own) for key in ("from_domain", "ratio", "coverage_mean")
        }
        lines.append(
            [
                data,
                method,
                percent(mean["from_domain"]),
                f"{mean['ratio']:.2f} ({min(run['ratio'] for run in own):.2f} to "
                f"{max(run['ratio'] for run in own):.2f})",
                f"{mean['coverage_mean']:.2f}",
            ]
        )
    columns = [
        "data", "picked by", "from the domain", "MMD to the reference, best = 1", "coverage of the domain",
    ]  # fmt: skip
    return (
        "## A reference\n\n500 of 10,000 rows of four domains; the reference is 300 rows of one of them, in turn. "
        "The best are refined picks from that domain alone. Coverage is the mean distance from its rows to their "
        f"nearest pick.\n\n{table(columns, lines, numbers_from=2)}\n\nCIFAR-10's classes are no separate domains to "
        "an encoder: picks from others match as well there."
    )


def curve(found: dict[str, Any]) -> str:
    """Return how well held-out rows predict the accuracy on test rows, and what a curve costs."""
    lines, costs = [], []
    for run in found["runs"]:
        cells = [
            f"{percent(one)} / {percent(other)}"
            for one, other in zip(run["predicted"], run["measured"], strict=True)
        ]
        worst = max(abs(a - b) for a, b in zip(run["predicted"], run["measured"], strict=True))
        lines.append([run["data"], run["method"], *cells, f"{100 * worst:.1f}"])
        ratio = run["without_probes_cpu_s"] / run["selection_cpu_s"]
        if run["method"] != "random":  # which takes no time at all
            costs.append(f"{run['data']}, {run['method']}: {ratio:.2f}")
    sizes = [f"{size:,}" for size in found["runs"][0]["sizes"]]
    columns = ["data", "method", *sizes, "largest difference, points"]
    return (
        "## The budget curve\n\nAccuracy of a linear probe, predicted from the data / measured on test rows:\n\n"
        f"{table(columns, lines, numbers_from=2)}\n\nCPU time of a curve without its probes, in times of its largest "
        f"selection: {'; '.join(costs)}."
    )


def update(found: dict[str, Any]) -> str:
    """Return what ten updates lose, and how long one of many rows takes."""
    runs = [run for run in found["runs"] if "updated" in run]
    lines = [
        [
            run["data"],
            run["noise"],
            run["method"],
            f"{run['updated']['mmd']:.4f} / {run['scratch']['mmd']:.4f}",
            f"{run['updated']['mmd'] / run['scratch']['mmd']:.2f}",
            f"{percent(run['updated']['wrong'])} / {percent(run['scratch']['wrong'])}",
        ]
        for run in runs
    ]
    columns = ["data", "label noise", "method", "MMD, updated / from scratch", "ratio", "mislabeled picks"]
    times = [
        f"{run['method']} {run['seconds']:.0f} s ({run['cpu_s']:.0f} s of CPU time)"
        for run in found["runs"]
        if "new_rows" in run
    ]
    timed = next((run for run in found["runs"] if "new_rows" in run), None)
    size = f"{runs[0]['k']:,} picks of {runs[0]['start']:,} rows, then ten updates of {runs[0]['step']:,} rows each"
    lines_of_table = table(columns, lines, numbers_from=3)
    said = f"## Updates\n\n{size}, compared with picks from all rows at once:\n\n{lines_of_table}"
    if timed is not None:
        said += f"\n\nAn update with {timed['new_rows']:,} rows of {timed['columns']} numbers: {', '.join(times)}."
    return said
