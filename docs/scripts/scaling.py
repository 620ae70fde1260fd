"""How time grows with rows, picks and classes: a plot and a table, from committed results.

``python -m docs.scripts.scaling`` draws the plot.
"""

from __future__ import annotations

from typing import Any

from docs.scripts.results import DOCS, ROOT, cite, load, table

RESULTS, PLOT = "benchmarks/results/scaling.json", "images/scaling.svg"
AXES = {"rows": "rows", "picks": "picks of 100,000 rows", "classes": "classes of 1,000,000 rows, 10% picked"}


def scaling() -> str:
    """Return the plot and the table; nothing as long as nothing was measured."""
    if not (ROOT / RESULTS).exists():
        return ""
    found = load(RESULTS)
    methods = list(dict.fromkeys(run["method"] for run in found["runs"]))
    parts = [f"![Time against rows, picks and classes]({PLOT})"]
    for axis, title in AXES.items():
        runs = [run for run in found["runs"] if run["axis"] == axis]
        lines = []
        for value in dict.fromkeys(run[axis] for run in runs):
            own = {run["method"]: run["cpu_seconds"] for run in runs if run[axis] == value}
            lines.append([f"{value:,}", *(f"{own[one]:.3g}" if one in own else "" for one in methods)])
        parts.append(table([title, *methods], lines))
    machine = found["machine"]
    parts.append(
        f"Seconds of the processor, all threads together, for Gaussian rows of {found['columns']} float32 numbers; "
        "1,000 picks (of 1,000 rows: 100) where rows grow. Empty: would take more than 100 seconds, or cannot be "
        f"done. {machine['cpu']}, {machine['cores']} cores. `{found['command']}`, {cite(RESULTS)}."
    )
    return "\n\n".join(parts)


def draw() -> None:
    """Draw one panel for each of what grows."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "gmmatch"
    from matplotlib import pyplot as plt

    runs: list[dict[str, Any]] = load(RESULTS)["runs"]
    figure, panels = plt.subplots(1, len(AXES), figsize=(12, 4.6), sharey=True, layout="constrained")
    for panel, (axis, title) in zip(panels, AXES.items(), strict=True):
        for number, name in enumerate(dict.fromkeys(run["method"] for run in runs)):
            own = [run for run in runs if (run["axis"], run["method"]) == (axis, name)]
            panel.plot(
                [run[axis] for run in own], [run["cpu_seconds"] for run in own],
                f"C{number}" + ("o--" if ":" in name else "o-"), label=name, markersize=4,
            )  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel=title)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("seconds of the processor")
    figure.legend(*panels[0].get_legend_handles_labels(), fontsize=9, loc="outside lower center", ncols=4)
    figure.savefig(DOCS / PLOT, metadata={"Date": None})


if __name__ == "__main__":
    draw()
