"""The figure of the study of batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmmatch_paper.studies import style
from gmmatch_paper.studies.results import Results
from gmmatch_paper.theory import batch_error_rate

MODES = ("carry", "no-carry", "independent")
_MODE_NAMES = {
    "carry": "batches=B",
    "no-carry": "Independent(B)",
    "independent": "independent (paper's analysis)",
}
_MODE_LOOKS: Mapping[str, Mapping[str, Any]] = {
    "carry": {"color": style.BLUE, "marker": "*", "markersize": 9},
    "no-carry": {"color": style.GREEN, "marker": "D"},
    "independent": {"color": style.VERMILLION, "marker": "^"},
}


def largest_k(results: Results) -> int:
    """Return the largest number of picks that was measured."""
    return int(max(results["errors"].distinct("k")))


def draw(results: Results) -> Any:
    """Draw the error against k and against B, and the time against k."""
    figure = style.new_figure(7.3)
    axes = figure.subplot_mosaic([["a", "b"], ["c", "d"]])
    counts = results["errors"].distinct("batches")
    for name, mode in (("a", "carry"), ("b", "independent")):
        for number, (color, marker) in zip(counts, _shades(counts), strict=True):
            actual = "carry" if number == 1 else mode
            curve = results["errors"].curve("k", "delta_squared", batches=number, mode=actual)
            axes[name].plot(curve.x, curve.y, color=color, marker=marker, markersize=5, label=f"{number:,}")
        # Carried on, the errors differ so little that a logarithmic axis would have no ticks.
        axes[name].set(xscale="log", yscale="linear" if name == "a" else "log", xlabel="Picks k", ylabel="Δ²")
    axes["a"].set_title("(a)  θ carried on")
    axes["b"].set_title("(b)  Independent batches")
    _draw_prediction(axes["c"], results)
    _draw_time(axes["d"], results)
    options = {"title": "Batches B (a, b, d)", "columnspacing": 1.0, "handlelength": 1.4}
    style.legend(figure, axes["b"], ncols=len(counts), **options)
    return figure


def _shades(counts: list[int]) -> list[tuple[Any, str]]:
    from matplotlib import colormaps

    colors = colormaps["cividis"](np.linspace(0.0, 0.92, len(counts)))
    return list(zip(colors, "os^Dv<>Ph", strict=False))


def _draw_prediction(axes: Any, results: Results) -> None:
    cells, k = results["errors"], largest_k(results)
    for mode in MODES:
        curve = cells.where(k=k, mode=mode).curve("batches", "residual")
        axes.plot(curve.x, curve.y, label=_MODE_NAMES[mode], **_MODE_LOOKS[mode])
    batches = np.array([number for number in cells.distinct("batches") if number > 1], float)
    rates = [batch_error_rate(k, int(number)) for number in batches]
    axes.plot(batches, [rate.matching for rate in rates], "k--", linewidth=1.2, label="B/k")
    axes.plot(batches, [rate.averaging for rate in rates], "k:", linewidth=1.2, label="1/√B")
    axes.set(xscale="log", yscale="log", xlabel="Batches B", ylabel="Distance to the median")
    top = axes.get_ylim()[1]
    axes.set_ylim(top=top * 300)
    axes.set_title(f"(c)  Against B, k = {k:,}")
    axes.legend(loc="upper left", fontsize=8.5, labelspacing=0.3)


def _draw_time(axes: Any, results: Results) -> None:
    counts = results["errors"].distinct("batches")
    timed_counts = results["times"].distinct("batches")
    for number, (color, marker) in zip(counts, _shades(counts), strict=True):
        if number in timed_counts:
            curve = results["times"].curve("k", "time", batches=number)
            style.band(axes, curve, color, marker=marker, markersize=5)
    axes.set(xscale="log", yscale="log", xlabel="Picks k", ylabel="Time (s)")
    axes.set_title("(d)  Time on one core")
