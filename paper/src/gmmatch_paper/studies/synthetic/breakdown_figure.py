"""The figure of the study of breakdown."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch_paper.studies import style
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.synthetic.noisy_gaussian_data import noisy_gaussian
from gmmatch_paper.studies.synthetic.worst_attack import pull

_SHARES = ((0.2, style.SKY), (0.4, style.BLUE), (0.45, style.ORANGE), (0.48, style.VERMILLION))


def draw(results: Results) -> Any:
    """Draw the four panels."""
    figure = style.new_figure(7.4)
    axes = figure.subplot_mosaic([["a", "b"], ["c", "d"]])
    _draw_one_row(axes["a"], results)
    _draw_worst(axes["b"], results)
    _draw_attainable(axes["c"], results)
    _draw_hull(axes["d"], results["hull"].one(configuration="collinear"))
    return figure


def _draw_one_row(axes: Any, results: Results) -> None:
    cells = results["one-row"]
    looks: dict[str, dict[str, Any]] = {
        "mean": {"color": style.BLACK, "marker": "s"},
        # Two pairs lie on top of each other: the lower one of each is wide and pale.
        "herding": {"color": style.ORANGE, "linewidth": 7, "alpha": 0.6},
        "gm-matching": style.line("gm-matching"),
        "median": {"color": style.SKY, "linewidth": 7, "alpha": 0.7},
        "gm-matching-rbf": style.line("gm-matching-rbf"),
    }
    for field, look in looks.items():
        curve = cells.curve("distance", field)
        axes.plot(cells.curve("distance", "row_distance").y, curve.y, label=style.LABELS[field], **look)
    axes.set(xscale="log", yscale="log", xlabel="Distance of the one row", ylabel="Error")
    axes.set_title("(a)  One corrupted row")
    axes.legend(loc="upper left", fontsize=8.5)


def _draw_worst(axes: Any, results: Results) -> None:
    cells, n_clean = results["worst"], results.fixed["worst"]["n_clean"]
    lines = (
        ("bound", style.COLORS["bound"], "--", "Theorem's bound"),
        ("worst", style.BLACK, "-", "Worst attack"),
        ("limit", style.GREEN, ":", "Limit ~ (1−α)$^{-1/2}$"),
        ("paper", style.COLORS["median"], "-", "Paper's mixture"),
    )
    for field, color, dashes, label in lines:
        curve = cells.curve("lead", field)
        axes.plot(curve.x / n_clean, curve.y, color=color, linestyle=dashes, label=label)
    axes.set(xscale="log", yscale="log", xlabel="Lead 1 − α of the clean rows", ylabel="Error of the median")
    axes.invert_xaxis()
    axes.set_title("(b)  Towards one half")
    axes.legend(loc="upper left", fontsize=8.5)


def _draw_attainable(axes: Any, results: Results) -> None:
    from scipy.spatial import ConvexHull

    clean = noisy_gaussian(results.fixed["worst"]["n_clean"], 0.0, 0).rows
    steps = np.linspace(-4.5, 4.5, 121)
    grid = np.stack(np.meshgrid(steps, steps), axis=-1)
    force = pull(clean, grid.reshape(-1, 2)).reshape(grid.shape[:2]) / len(clean)
    axes.scatter(*clean.T, s=4, linewidths=0, color="#B8B8B8")
    corners = ConvexHull(clean).vertices
    axes.plot(*clean[np.append(corners, corners[0])].T, color="black", linewidth=1.2)
    for psi, color in _SHARES:
        axes.contour(steps, steps, force, levels=[psi / (1.0 - psi)], colors=[color], linewidths=2)
        axes.plot([], [], color=color, label=f"ψ = {psi:g}")
    axes.set(aspect="equal", xticks=(-4, 0, 4), yticks=(-4, 0, 4))
    axes.set_title("(c)  Medians within reach")
    axes.legend(loc="upper right", fontsize=8.5, handlelength=1.2, borderaxespad=0.1)


def _draw_hull(axes: Any, cell: Any) -> None:
    clean, corrupt = np.array(cell["clean"]), np.array(cell["corrupt"])
    axes.plot(*clean.T, color="black", linewidth=2.5, solid_capstyle="round", label="Hull of the clean rows")
    axes.scatter(*clean.T, s=90, color=style.CLEAN, edgecolors="black", zorder=3, label="Clean rows")
    axes.scatter(*corrupt[0], s=90, color=style.CORRUPT, edgecolors="black", label="Two corrupted rows")
    style.mark_point(axes, cell["median"], "median")
    axes.annotate(
        f"{cell['distance']:.3f}",
        xy=(0.0, 0.0),
        xytext=(0.12, cell["distance"] / 2),
        va="center",
    )
    axes.plot((0, 0), (0, cell["distance"]), color=style.GREY, linestyle=":")
    axes.set(aspect="equal", xlim=(-1.5, 1.5), ylim=(-1.35, 1.35), xticks=(-1, 0, 1), yticks=(-1, 0, 1))
    axes.set_title("(d)  Outside the clean hull")
    axes.legend(loc="lower center", fontsize=8.5)
