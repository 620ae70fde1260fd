"""What each method keeps of the same small data, clean and corrupted: a figure and its numbers for each page.

``python -m docs.scripts.method_figures`` writes ``docs/images/methods/*.png`` and ``docs/results/methods.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from gmmatch_paper.corruption import SymmetricNoise
from gmmatch_paper.studies import style

DOCS = Path(__file__).parents[1]
IMAGES, RESULTS = DOCS / "images" / "methods", DOCS / "results" / "methods.json"
COMMAND = "python -m docs.scripts.method_figures"

ROWS, SHARE = 1000, 0.05
WRONG_LABELS, NO_CLASS = 0.2, 0.2
CLASS_COLORS = (style.SKY, style.GREEN)
# The page of the authors' variant has no name in the registry.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gm-matching-authors": (
        "gm-matching",
        {"target": gm.GeometricMedian(unit=True), "preprocess": "unit"},
    ),
    # With its defaults it would be herding.
    "matching": ("matching", {"target": gm.CoordinateMedian()}),
}
# What it keeps depends on the scores that a user gives.
WITHOUT_FIGURE = ("by-score",)


@dataclass(frozen=True)
class Toy:
    """Rows in the plane with labels, and which of them are not what they seem."""

    X: np.ndarray
    y: np.ndarray
    bad: np.ndarray


def toy(corrupted: bool, seed: int = 0) -> Toy:
    """Return two classes of two shapes; corrupted, a fifth has the other's label and a fifth is in no class.

    Examples
    --------
    >>> toy(corrupted=False).bad.any(), round(float(toy(corrupted=True).bad.mean()), 2)
    (np.False_, 0.35)
    """
    random = np.random.default_rng(seed)
    half = ROWS // 2
    round_class = random.normal((2.0, 2.0), 0.8, (half, 2))
    angles = random.uniform(0.0, np.pi, half)
    arc = np.stack([7.0 - 2.2 * np.cos(angles), 1.0 + 2.2 * np.sin(angles)], axis=1)
    arc += random.normal(0.0, 0.3, arc.shape)
    X, y = np.concatenate([round_class, arc]), np.repeat([0, 1], half)
    bad = np.zeros(ROWS, dtype=bool)
    if corrupted:
        noisy = SymmetricNoise(rate=WRONG_LABELS, seed=seed).apply(y)
        y, bad = noisy.data, noisy.mask.copy()
        outside = random.choice(ROWS, int(NO_CLASS * ROWS), replace=False)
        X[outside] = random.normal((5.0, 7.5), 0.5, (len(outside), 2))
        bad[outside] = True
    return Toy(X, y, bad)


def pick(name: str, data: Toy) -> gm.Selection:
    """Return what a method, with its defaults, keeps of the data."""
    method, options = VARIANTS.get(name, (name, {}))
    return gm.select(data.X, y=data.y, k=SHARE, method=method, random_state=0, **options)


def measure(data: Toy, selection: gm.Selection) -> dict[str, float]:
    """Return the share of bad picks and, as the mean over the classes, the MMD to their clean rows."""
    distances = []
    for label in np.unique(data.y):
        of_class = data.y == label
        picked = data.X[selection.mask & of_class]
        distances.append(gm.metrics.mmd(picked, data.X[of_class & ~data.bad]))
    return {
        "bad_picks": round(gm.metrics.contamination(selection, data.bad), 4),
        "mmd": round(float(np.mean(distances)), 4),
    }


def names() -> list[str]:
    """Return the methods that have a figure, and the variants that have a page."""
    methods = [name for name in gm.methods() if name not in WITHOUT_FIGURE]
    return [*methods, *(name for name in VARIANTS if name not in methods)]


def draw(panels: Sequence[tuple[str, Toy, gm.Selection, dict[str, float]]]) -> Any:
    """Return a figure with one panel for each state of the data."""
    figure = style.new_figure(height=4.4)
    for axes, (title, data, selection, numbers) in zip(
        figure.subplots(1, len(panels), sharex=True, sharey=True), panels, strict=True
    ):
        for label, color in enumerate(CLASS_COLORS):
            rows = data.X[(data.y == label) & ~data.bad]
            axes.scatter(*rows.T, s=7, linewidths=0, color=color, alpha=0.55)
            axes.scatter([], [], s=45, linewidths=0, color=color, label=f"Class {'AB'[label]}")
        axes.scatter(*data.X[data.bad].T, s=7, linewidths=0, color=style.CORRUPT, alpha=0.55)
        axes.scatter([], [], s=45, linewidths=0, color=style.CORRUPT, label="Wrong label or in no class")
        picked = data.X[selection.indices]
        axes.scatter(*picked.T, s=26, facecolors="none", edgecolors="black", linewidths=1.2, label="Picks")
        axes.set_title(f"{title}\n{numbers['bad_picks']:.0%} of the picks bad, MMD {numbers['mmd']:.2f}")
        axes.set_aspect("equal")
        axes.set_xticks([])
        axes.set_yticks([])
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def run(chosen: Sequence[str], images: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Draw the chosen methods and return their numbers."""
    states = [
        ("Clean data", toy(corrupted=False)),
        (f"{toy(True).bad.mean():.0%} of the rows bad", toy(corrupted=True)),
    ]
    found = {}
    for name in chosen:
        panels = []
        for title, data in states:
            selection = pick(name, data)
            panels.append((title, data, selection, measure(data, selection)))
        style.save(lambda panels=panels: draw(panels), images / f"{name}.png")
        found[name] = {"clean": panels[0][3], "spoilt": panels[1][3]}
    return found


def main() -> None:
    """Write the pictures and the numbers."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--only", action="append", choices=names(), help="a method; can be repeated")
    chosen = parser.parse_args().only or names()
    settings = {
        "rows": ROWS, "kept": SHARE, "wrong_labels": WRONG_LABELS, "no_class": NO_CLASS,
        "bad": float(toy(True).bad.mean()), "version": gm.__version__,
    }  # fmt: skip
    known = json.loads(RESULTS.read_text(encoding="utf-8"))["methods"] if RESULTS.exists() else {}
    known |= run(chosen, IMAGES)
    document = {"command": COMMAND, "settings": settings, "methods": {name: known[name] for name in names()}}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
