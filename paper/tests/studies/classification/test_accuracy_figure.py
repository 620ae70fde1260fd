"""The figure of an image study: curves where several amounts were measured, else a list of methods."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("matplotlib")

from gmmatch_paper.studies.classification.figures import draw_accuracy
from gmmatch_paper.studies.results import Cells, Results

VALUES = {"random": 0.5, "easy": 0.7, "gm-matching": 0.6, "gm-matching-authors": 0.65, "hard": 0.1}


def study(*changes: dict[str, Any], values: dict[str, float] = VALUES) -> Results:
    """Return a study with the same accuracies in each of some settings."""
    cells = [
        {
            "dataset": "cifar10",
            "encoder": "frozen",
            "downstream": "scratch",
            "network": "resnet18",
            "recipe": "fast",
            "corruption": "label:40%",
            "amount": "20%",
            "method": method,
            "seed": seed,
            "accuracy": accuracy + 0.01 * seed,
            "contamination": 0.1,
            "n_picked": 100,
            **change,
        }
        for change in changes
        for method, accuracy in values.items()
        for seed in range(2)
    ]
    return Results("label-noise", "full", {"cells": Cells(cells)}, {"cells": {}}, {})


def panels(figure: Any) -> list[Any]:
    return [axes for axes in figure.get_axes() if axes.axison]


def test_one_amount_is_a_list_of_methods_with_the_best_at_the_top() -> None:
    figure = draw_accuracy(study({}))
    [panel] = panels(figure)
    names = [label.get_text() for label in panel.get_yticklabels()]
    assert names == ["Hard", "Random", "GM Matching", "GM, authors' code", "Easy"]
    # A method that is far off is an arrow, and all have their numbers.
    assert [text.get_text() for text in panel.texts] == ["←", "10.5", "50.5", "60.5", "65.5", "70.5"]
    assert panel.get_xlabel() == "Test accuracy (%), 20% kept"
    assert panel.get_xlim()[0] > 40 and not figure.legends


def test_several_amounts_are_curves_under_one_legend() -> None:
    figure = draw_accuracy(study({"amount": "10%"}, {"amount": "20%"}))
    [panel] = panels(figure)
    assert [label.get_text() for label in panel.get_xticklabels()] == ["10%", "20%"]
    [legend] = figure.legends
    assert {text.get_text() for text in legend.get_texts()} >= {"Random", "Easy", "GM, authors' code"}


def test_a_proxy_trained_on_the_data_has_a_panel_of_its_own() -> None:
    figure = draw_accuracy(study({}, {"encoder": "in-domain:resnet18"}))
    titles = [panel.get_title() for panel in panels(figure)]
    assert titles == [
        "40% label noise\nCIFAR-10\nResNet-18 (fast)",
        "40% label noise\nin-domain:resnet18\nCIFAR-10\nResNet-18 (fast)",
    ]
    alone = draw_accuracy(study({"encoder": "in-domain:resnet18"}))
    assert "in-domain" not in panels(alone)[0].get_title()


def test_a_panel_that_is_left_over_does_not_take_a_whole_row() -> None:
    figure = draw_accuracy(study(*({"corruption": f"label:{rate}%"} for rate in (10, 20, 30))))
    figure.draw_without_rendering()
    widths = [panel.get_position().width for panel in panels(figure)]
    assert len(widths) == 3 and max(widths) < 0.5
