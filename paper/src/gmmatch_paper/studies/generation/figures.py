"""The figures of the study: distances against what was kept, and digits that were drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.studies import style
from gmmatch_paper.studies.classification.figures import SHORT_NAMES, look
from gmmatch_paper.studies.classification.maps import unpacked
from gmmatch_paper.studies.classification.tables import NOT_RUN
from gmmatch_paper.studies.generation.blocks import Block, blocks_of
from gmmatch_paper.studies.image_cells.corruptions import CorruptionSpec
from gmmatch_paper.studies.results import Results


def draw_distances(results: Results) -> Any:
    """Draw the Fréchet distance against the share kept, one panel per corruption."""
    block = blocks_of(results)[0]
    corruptions = block.corruptions[:3]
    figure = style.new_figure(3.6)
    panels = figure.subplots(1, len(corruptions), squeeze=False, sharey=True)[0]
    for panel, corruption in zip(panels, corruptions, strict=True):
        _draw_panel(panel, block, corruption)
    panels[0].set_ylabel("Fréchet distance")
    handles = dict(
        pair[::-1] for panel in panels for pair in zip(*panel.get_legend_handles_labels(), strict=True)
    )
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, fontsize=9)
    return figure


def _draw_panel(panel: Any, block: Block, corruption: str) -> None:
    amounts = [
        amount for amount in block.amounts if len(block.cells.where(corruption=corruption, amount=amount))
    ]
    real = block.cells.where(corruption=corruption).mean("frechet_real")
    panel.axhline(real, color=style.GREY, linestyle=":", linewidth=1.2, label="Real training images")
    for number, method in enumerate(block.methods):
        # Points of one amount stand side by side.
        aside = 0.3 * ((number + 0.5) / len(block.methods) - 0.5)
        points = [
            (place + aside, found)
            for place, amount in enumerate(amounts)
            if (found := block.spread(corruption, amount, method)) is not None
        ]
        if points:
            panel.errorbar(
                [place for place, _ in points],
                [found.mean for _, found in points],
                yerr=[found.deviation for _, found in points],
                label=SHORT_NAMES.get(method, method),
                capsize=2,
                elinewidth=1,
                **look(method),
            )
    panel.set_xticks(np.arange(len(amounts)), amounts)
    panel.set(xlabel="Kept", yscale="log")
    panel.margins(x=0.15)
    panel.set_title(CorruptionSpec.parse(corruption).words, fontsize=10)


def draw_digits(results: Results) -> Any:
    """Draw the first digits of every method: clean on the left, the highest corruption on the right."""
    block = blocks_of(results)[0]
    shown = _shown(block)
    methods = [method for method in block.methods if any(method in column for column in shown.values())]
    figure = style.new_figure(0.55 + 0.42 * len(methods))
    panels = figure.subplots(len(methods), len(shown), squeeze=False)
    for column, ((corruption, amount), pictures) in zip(panels.T, shown.items(), strict=True):
        for panel, method in zip(column, methods, strict=True):
            panel.set(xticks=(), yticks=())
            for side in panel.spines.values():
                side.set_visible(False)
            if method in pictures:
                strip = pictures[method]
                panel.imshow(strip[..., 0] if strip.shape[2] == 1 else strip, cmap="gray", vmin=0, vmax=255)
            else:
                panel.text(0.5, 0.5, NOT_RUN, ha="center", va="center", fontsize=9, transform=panel.transAxes)
        column[0].set_title(f"{CorruptionSpec.parse(corruption).words}, {amount} kept", fontsize=9)
    for panel, method in zip(panels[:, 0], methods, strict=True):
        panel.set_ylabel(SHORT_NAMES.get(method, method), rotation=0, ha="right", va="center", fontsize=9)
    return figure


def _shown(block: Block) -> dict[tuple[str, str], dict[str, NDArray[np.uint8]]]:
    """Return strips of images by method, for two corruptions at the amounts at which most methods were measured."""
    found: dict[tuple[str, str], dict[str, NDArray[np.uint8]]] = {}
    for corruption in dict.fromkeys((block.corruptions[0], block.corruptions[-1])):
        cells = block.cells.where(corruption=corruption, seed=0)
        sizes = {amount: len(cells.where(amount=amount)) for amount in block.amounts}
        chosen = max(sizes, key=lambda amount: (sizes[amount], amount == "40%"))
        found[corruption, chosen] = {
            cell["method"]: np.concatenate(list(unpacked(cell["shown"], tuple(cell["shown_shape"]))), axis=1)
            for cell in cells.where(amount=chosen)
        }
    return found


PICTURES = {"": draw_distances, "-digits": draw_digits}
