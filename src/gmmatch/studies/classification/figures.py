"""The figure of a study: accuracy against how much was kept, one panel per corruption."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch.studies import style
from gmmatch.studies.classification.corruptions import CorruptionSpec
from gmmatch.studies.classification.picks import VARIANTS
from gmmatch.studies.classification.tables import METHOD_NAMES, Block, Setting, measured_blocks
from gmmatch.studies.results import Results
from gmmatch.studies.study import Picture

_MORE_COLORS = {
    "forgetting": style.YELLOW,
    "el2n": "#8C564B",
    "grand": "#E377C2",
    "self-supervised": "#17BECF",
    "optimization": "#BCBD22",
    "robust": style.BLACK,
}
_MORE_MARKERS = {
    "forgetting": "<",
    "el2n": ">",
    "grand": "p",
    "self-supervised": "h",
    "optimization": "d",
    "robust": "P",
}
_MOST_PANELS = 6
_MOST_POINTS = 45.0
_LEFT_OUT = ("gm-matching-unit", "gm-matching-all-rows", "herding-unit")


def draw_accuracy(results: Results) -> Any:
    """Draw the accuracies of the settings with most cells: mean and deviation against the amount.

    One panel for each corruption and training: of several data sets or encoders, that with most images picked.
    """
    blocks = [
        block for block in measured_blocks(results, ()) if any("error" not in cell for cell in block.cells)
    ]
    chosen: dict[tuple[str, str], Block] = {}
    for block in sorted(blocks, key=_weight):
        chosen[block.setting.corruption, block.setting.training] = block
    blocks = sorted(chosen.values(), key=lambda block: -len(block.cells))[:_MOST_PANELS]
    blocks.sort(key=lambda block: (block.setting.downstream, block.setting.network, _order(block.setting)))
    columns = min(3, len(blocks))
    rows = -(-len(blocks) // columns)
    figure = style.new_figure(1.1 + 2.6 * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for panel, block in zip(axes.flat, blocks, strict=False):
        _draw_block(panel, block)
    for panel in list(axes.flat)[len(blocks) :]:
        panel.set_axis_off()
    handles = {
        label: handle
        for panel in axes.flat
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, fontsize=8.5)
    return figure


def _weight(block: Block) -> tuple[int, int]:
    """Return what speaks for showing a block: the images picked at most, then the number of cells."""
    return max(int(cell.get("n_picked", 0)) for cell in block.cells), len(block.cells)


def _draw_block(panel: Any, block: Block) -> None:
    amounts = [one for one in block.amounts if len(block.cells.where(amount=one)) and one != "100%"]
    # The tables have the variants; four more lines of one colour would tell nobody anything.
    methods = [name for name in block.cells.distinct("method") if name not in _LEFT_OUT]
    for number, method in enumerate(methods):
        # Points above a single amount stand side by side.
        aside = (number + 0.5) / len(methods) - 0.5 if len(amounts) == 1 else 0.0
        points = [(place + aside, block.accuracy(method, one)) for place, one in enumerate(amounts)]
        points = [(place, found) for place, found in points if found is not None]
        if not points:
            continue
        panel.errorbar(
            [place for place, _ in points],
            [found.mean for _, found in points if found is not None],
            yerr=[found.deviation for _, found in points if found is not None],
            label=METHOD_NAMES.get(method, method),
            capsize=2,
            elinewidth=1,
            **_look(method),
        )
    panel.set_xticks(np.arange(len(amounts)), [one.replace("/class", "/cl.") for one in amounts])
    panel.set(xlabel="Kept", ylabel="Test accuracy (%)")
    panel.margins(x=0.15)
    means = [value for one in amounts for value in block.column(one).values()]
    far = max(means) - _MOST_POINTS
    if min(means) < far:
        panel.set_ylim(bottom=far)
    panel.set_title(
        f"{CorruptionSpec.parse(block.setting.corruption).words}\n{block.setting.training}", fontsize=9
    )


def _look(method: str) -> dict[str, Any]:
    base = VARIANTS.get(method, (method, {}))[0]
    return {
        "color": style.COLORS.get(base, _MORE_COLORS.get(base, style.GREY)),
        "marker": style.MARKERS.get(base, _MORE_MARKERS.get(base, "x")),
        "linestyle": "--" if base != method else "-",
        "markerfacecolor": "white" if base != method else None,
        "linewidth": 2.2 if method == "gm-matching" else 1.3,
        "markersize": 8 if base == "gm-matching" else 5,
        "zorder": 3 if base == "gm-matching" else 2,
    }


def _order(setting: Setting) -> tuple[bool, str, float]:
    spec = CorruptionSpec.parse(setting.corruption)
    return spec.kind != "none", spec.kind, spec.rate


ACCURACY = Picture(
    draw_accuracy,
    "Test accuracy against the share kept (mean and standard deviation over the seeds), one panel per corruption and "
    "downstream training; where there are several data sets or encoders, the one with most images. Hollow marks are "
    "variants. What lies more than 45 points below the best is not drawn.",
)
