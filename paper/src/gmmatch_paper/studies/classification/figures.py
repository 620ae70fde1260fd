"""The figure of a study: accuracies against how much was kept, or by method, one panel per corruption."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch_paper.studies import style
from gmmatch_paper.studies.classification.tables import (
    Block,
    Setting,
    measured_blocks,
    shown_dataset,
)
from gmmatch_paper.studies.image_cells.corruptions import CorruptionSpec
from gmmatch_paper.studies.image_cells.picks import VARIANTS
from gmmatch_paper.studies.results import Results

_MOST_PANELS = 6
_MOST_POINTS = 45.0
_LEFT_OUT = ("gm-matching-unit", "gm-matching-all-rows", "herding-unit", "gm-matching-exact", "herding-exact")
SHORT_NAMES = {
    **style.METHOD_NAMES,
    "easy-unit": "Easy, unit rows",
    "herding-authors": "Herding, authors' code",
    "gm-matching-authors": "GM, authors' code",
}
"""What fits beside a point."""


def draw_accuracy(results: Results) -> Any:
    """Draw mean and deviation of the accuracies: against the amount where there are several, else by method.

    One panel for each data set, corruption, training and kind of proxy: of several encoders, that with most images
    picked. Curves share a legend; where one amount was measured, each method's name stands beside its point.
    """
    curves, points = _chosen(results)
    rows: list[list[Block | None]] = [[*curves, *points]]
    if len(curves) + len(points) > 2:
        rows = [*_split(curves, 2 if len(curves) == 4 else 3), *_split(points, 2)]
    heights = [max(_height(block) for block in row if block is not None) for row in rows]
    figure = style.new_figure(sum(heights) + (0.8 if curves else 0.0))
    parts = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    on_images = [block.setting for block in (*curves, *points) if block.setting.downstream != "head"]
    both = len({setting.in_domain for setting in on_images}) > 1
    handles: dict[str, Any] = {}
    for part, row in zip(parts, rows, strict=True):
        for panel, block in zip(part.subplots(1, len(row), squeeze=False)[0], row, strict=True):
            if block is None:
                panel.set_axis_off()
                continue
            if block in curves:
                handles |= _draw_curves(panel, block)
            else:
                _draw_points(panel, block)
            panel.set_title(_title(block.setting, with_proxy=both and block.setting.in_domain), fontsize=9)
    if curves:
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, fontsize=8.5)
    return figure


def _chosen(results: Results) -> tuple[list[Block], list[Block]]:
    """Return the blocks to show: those with several amounts, and those with one."""
    best: dict[tuple[str, str, str, bool], Block] = {}
    for block in sorted((block for block in measured_blocks(results, ()) if _amounts(block)), key=_weight):
        data = block.setting.dataset.partition(" (")[0]
        best[data, block.setting.corruption, block.setting.training, block.setting.in_domain] = block
    found = []
    for several in (True, False):
        blocks = [block for block in best.values() if (len(_amounts(block)) > 1) == several]
        blocks = sorted(blocks, key=lambda block: -len(block.cells))[:_MOST_PANELS]
        found.append(sorted(blocks, key=lambda block: _order(block.setting)))
    return found[0], found[1]


def _amounts(block: Block) -> list[str]:
    """Return the amounts to show: not 100%, which all methods keep alike, if there is another."""
    found = [one for one in block.amounts if block.column(one)]
    return [one for one in found if one != "100%"] or found


def _methods(block: Block) -> list[str]:
    """Return the methods to show: the tables have the variants, which would tell nobody anything here."""
    return [name for name in block.cells.distinct("method") if name not in _LEFT_OUT]


def _weight(block: Block) -> tuple[int, int]:
    """Return what speaks for showing a block: the images picked at most, then the number of cells."""
    return max(int(cell.get("n_picked", 0)) for cell in block.cells), len(block.cells)


def _split(blocks: list[Block], columns: int) -> list[list[Block | None]]:
    """Return the blocks in rows; gaps fill the last of several, so that no panel takes a whole row there."""
    gaps = [None] * (-len(blocks) % columns if len(blocks) > columns else 0)
    filled = [*blocks, *gaps]
    return [filled[start : start + columns] for start in range(0, len(filled), columns)]


def _height(block: Block) -> float:
    return 2.7 if len(_amounts(block)) > 1 else 1.0 + 0.19 * len(_methods(block))


def _title(setting: Setting, with_proxy: bool) -> str:
    lines = [
        CorruptionSpec.parse(setting.corruption).words,
        *([setting.encoder] if with_proxy else []),
        shown_dataset(setting.dataset.partition(" (")[0]),
        "small network on features"
        if setting.downstream == "head"
        else setting.training.replace(" from scratch", ""),
    ]
    return "\n".join(lines)  # a panel is narrow


def _draw_curves(panel: Any, block: Block) -> dict[str, Any]:
    """Draw accuracies against the amount, and return what stands for each method in a legend."""
    amounts, handles = _amounts(block), {}
    for method in _methods(block):
        # What was not measured is a gap: a line across it would look like a measurement.
        points = [block.accuracy(method, one) or (np.nan, np.nan) for one in amounts]
        if not np.isnan(points).all():
            handles[SHORT_NAMES.get(method, method)] = panel.errorbar(
                np.arange(len(amounts)),
                [mean for mean, _ in points],
                yerr=[deviation for _, deviation in points],
                capsize=2,
                elinewidth=1,
                **look(method),
            )
    panel.set_xticks(np.arange(len(amounts)), [one.replace("/class", "/cl.") for one in amounts])
    panel.set(xlabel="Kept", ylabel="Test accuracy (%)")
    panel.margins(x=0.15)
    columns = [block.column(one).values() for one in amounts]
    far = min(map(max, columns)) - _MOST_POINTS
    if min(map(min, columns)) < far:
        panel.set_ylim(bottom=far)
    return handles


def _draw_points(panel: Any, block: Block) -> None:
    """Draw the accuracies at the one amount, the best at the top, with their numbers on the right."""
    [amount] = _amounts(block)
    means = {name: mean for name, mean in block.column(amount).items() if name in _methods(block)}
    order = sorted(means, key=lambda name: means[name])
    far = max(means.values()) - _MOST_POINTS
    for place, method in enumerate(order):
        found = block.accuracy(method, amount)
        assert found is not None  # it has a mean
        if found.mean >= far:
            panel.errorbar(found.mean, place, xerr=found.deviation, capsize=2, elinewidth=1, **look(method))
        else:
            panel.text(
                0.015,
                place,
                "←",
                transform=panel.get_yaxis_transform(),
                va="center",
                color=look(method)["color"],
            )
        panel.annotate(
            f"{found.mean:.1f}",
            (1.0, place),
            xytext=(4, 0),
            xycoords=panel.get_yaxis_transform(),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    panel.set_yticks(np.arange(len(order)), [SHORT_NAMES.get(name, name) for name in order], fontsize=8.5)
    panel.tick_params(axis="y", length=0)
    panel.set_ylim(-0.6, len(order) - 0.4)
    panel.margins(x=0.08)
    panel.set_xlabel(f"Test accuracy (%), {amount.replace('/class', ' per class')} kept", fontsize=9.5)


def look(method: str) -> dict[str, Any]:
    """Return how a method is drawn: variants of another with hollow marks and dashed lines."""
    base = VARIANTS.get(method, (method, {}))[0]
    return {
        "color": style.COLORS.get(base, style.GREY),
        "marker": style.MARKERS.get(base, "x"),
        "linestyle": "--" if base != method else "-",
        "markerfacecolor": "white" if base != method else None,
        "linewidth": 2.2 if method == "gm-matching" else 1.3,
        "markersize": 8 if base == "gm-matching" else 5,
        "zorder": 3 if base == "gm-matching" else 2,
    }


def _order(setting: Setting) -> tuple[object, ...]:
    spec = CorruptionSpec.parse(setting.corruption)
    training = setting.downstream != "scratch", setting.downstream, setting.network, setting.dataset
    return *training, spec.kind != "none", spec.kind, spec.rate, setting.in_domain
