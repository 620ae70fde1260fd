"""How every figure looks: colors that color-blind readers can tell apart, one per method throughout."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.files import replacing

if TYPE_CHECKING:
    from gmmatch_paper.studies.results import Results
    from gmmatch_paper.studies.study import Draw

# Okabe and Ito's palette (Color Universal Design, 2008).
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY = "#7F7F7F"

CLEAN, CORRUPT = SKY, VERMILLION

# What matches the median is blue, what matches the mean orange, in all figures; tables have methods in this order.
_METHODS = {
    "random": (GREY, "s", "Random"),
    "easy": (GREEN, "v", "Easy"),
    "easy-unit": (GREEN, "v", "Easy, unit-length rows"),
    "hard": (VERMILLION, "^", "Hard"),
    "herding": (ORANGE, "o", "Herding"),
    "herding-unit": (ORANGE, "o", "Herding, unit-length rows"),
    "herding-authors": (ORANGE, "o", "Herding as in the authors' code"),
    "herding-exact": (ORANGE, "o", "Herding, the authors' code line by line"),
    "kernel-herding": (ORANGE, "P", "Kernel herding (RBF)"),
    "forgetting": (YELLOW, "<", "Forgetting"),
    "forgetting-zero": (YELLOW, "<", "Forgetting, never learned counts 0"),
    "grand": ("#E377C2", "p", "GraNd"),
    "el2n": ("#8C564B", ">", "EL2N"),
    "optimization": ("#BCBD22", "d", "Optimization-based"),
    "self-supervised": ("#17BECF", "h", "Self-supervised"),
    "moderate": (PURPLE, "D", "Moderate"),
    "gm-matching": (BLUE, "*", "GM Matching"),
    "gm-matching-rbf": (BLUE, "X", "GM Matching (RBF)"),
    "gm-matching-unit": (BLUE, "*", "GM Matching, unit-length rows"),
    "gm-matching-authors": (BLUE, "*", "GM Matching as in the authors' code"),
    "gm-matching-exact": (BLUE, "*", "GM Matching, the authors' code line by line"),
    "gm-matching-all-rows": (BLUE, "*", "GM Matching, median of all rows"),
    "robust": (BLACK, "P", "Robust"),
}
_OTHERS = {
    "clean-random": (BLACK, ".", "Random clean rows"),
    "mean": (ORANGE, "o", "Mean"),
    "median": (BLUE, "*", "Geometric median"),
    "oracle": (BLACK, "+", "Mean of the clean rows"),
    "bound": (PURPLE, "", "Bound"),
}
_LOOKS = {**_METHODS, **_OTHERS}
COLORS: Mapping[str, str] = {name: color for name, (color, _, _) in _LOOKS.items()}
MARKERS: Mapping[str, str] = {name: marker for name, (_, marker, _) in _LOOKS.items()}
LABELS: Mapping[str, str] = {name: label for name, (_, _, label) in _LOOKS.items()}
METHOD_NAMES: Mapping[str, str] = {name: LABELS[name] for name in _METHODS}

# Seven inches wide with 11-point text: still 5.5 points when printed at half the width.
WIDTH = 7.0
_RC = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "legend.fontsize": 10,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "legend.frameon": False,
    "figure.dpi": 100,
    "savefig.dpi": 150,
}


def new_figure(height: float, width: float = WIDTH) -> Any:
    """Return an empty figure, laid out so that nothing overlaps."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(draw: Callable[[], Any], path: str | os.PathLike[str]) -> None:
    """Draw in the shared style and write a PNG; whole or not at all."""
    import matplotlib
    from PIL import Image

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as [temporary], matplotlib.rc_context(_RC):
        draw().savefig(temporary, format="png", metadata={"Software": None})
        # With 256 colors, a third of the size; line art looks the same.
        with Image.open(temporary) as image:
            small = image.convert("RGB").quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        small.save(temporary, format="PNG", optimize=True)


def draw_pictures(pictures: Mapping[str, Draw], results: Results, folder: Path) -> None:
    """Draw the figures of a study, named by their files, into a folder."""
    for name, draw in pictures.items():
        save(partial(draw, results), folder / name)


def line(method: str) -> dict[str, Any]:
    """Return how a method's curve is drawn: its color, its marker, dashed in the RBF kernel."""
    dashed = method in ("kernel-herding", "gm-matching-rbf")
    return {
        "color": COLORS[method],
        "marker": MARKERS[method],
        "linestyle": "--" if dashed else "-",
        "markersize": 9 if MARKERS[method] == "*" else 6,
    }


def legend(figure: Any, panel: Any, **options: Any) -> None:
    """Put the legend of a panel above all of them."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, **{"loc": "outside upper center", "ncols": 3, **options})


def band(axes: Any, curve: Any, color: str, **options: Any) -> Any:
    """Draw a curve with the range that holds the middle half of the seeds behind it."""
    axes.fill_between(curve.x, curve.low, curve.high, color=color, alpha=0.18, linewidth=0)
    return axes.plot(curve.x, curve.y, color=color, **options)[0]


def scatter_rows(axes: Any, clean: Any, corrupt: Any, size: float = 5.0) -> None:
    """Draw clean and corrupted rows as dots."""
    for rows, color, label in ((clean, CLEAN, "Clean rows"), (corrupt, CORRUPT, "Corrupted rows")):
        axes.scatter(*rows.T, s=size, linewidths=0, color=color)
        # Dots of this size vanish in a legend; an empty, larger set stands there for them.
        axes.scatter([], [], s=45, linewidths=0, color=color, label=label)


def scatter_picks(axes: Any, data: Any, picks: Any, size: float = 5.0) -> None:
    """Draw the paper's mixture as dots, and the picked rows in black on top of them."""
    scatter_rows(axes, data.clean, data.rows[data.corrupt], size)
    look = {"linewidths": 0.5, "facecolors": "black", "edgecolors": "white"}
    axes.scatter(*data.rows[picks].T, s=3 * size, **look)
    axes.scatter([], [], s=45, label="Picked", **look)
    axes.set(xlim=(-5, 14), ylim=(-4, 9), xticks=(0, 10), yticks=(0, 5))


def mark_point(axes: Any, point: Any, estimate: str, **options: Any) -> None:
    """Mark a mean or a median by its shape and color."""
    marker = MARKERS[estimate]
    edge: dict[str, Any] = (
        {"linewidths": 2.2} if marker == "+" else {"edgecolors": "black", "linewidths": 0.9}
    )
    size = {"*": 200, "+": 130}.get(marker, 80)
    settings = {"color": COLORS[estimate], "zorder": 4, "label": LABELS[estimate], **edge, **options}
    axes.scatter(*point, marker=marker, s=size, **settings)


def percent(psi: float) -> str:
    """Return a share as text."""
    return f"{100 * psi:.0f}%"
