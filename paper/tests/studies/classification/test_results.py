"""What is shown: tables in the paper's form, and what the paper's text says held against them."""

from __future__ import annotations

from typing import Any

import pytest

from gmmatch_paper.studies.classification.claims import Margin, margin_columns, statements_table
from gmmatch_paper.studies.classification.tables import study_tables
from gmmatch_paper.studies.results import Cells, Results

NOISE = ("tab:exp-classification-label_noise",)


def cell(method: str, accuracy: float | None, seed: int = 0, **changes: Any) -> dict[str, Any]:
    measured = (
        {"error": "ValueError: no"} if accuracy is None else {"accuracy": accuracy, "contamination": 0.1}
    )
    return {
        "dataset": "CIFAR-100",
        "encoder": "in-domain:resnet50",
        "downstream": "scratch",
        "network": "resnet50",
        "recipe": "paper-cifar",
        "corruption": "label:20%",
        "amount": "20%",
        "method": method,
        "seed": seed,
        **measured,
        **changes,
    }


def results(*cells: dict[str, Any]) -> Results:
    return Results("label-noise", "full", {"cells": Cells(cells)}, {"cells": {}}, {})


def row_of(table: Any, method: str) -> dict[str, str]:
    [row] = [row for row in table.rows if row[0] == method]
    return dict(zip(table.columns, row, strict=True))


def test_means_deviations_the_best_in_bold_and_the_papers_number_beside() -> None:
    measured = results(
        cell("random", 0.30, 0), cell("random", 0.34, 1), cell("gm-matching", 0.50), cell("easy", None)
    )
    [table] = study_tables(measured, NOISE)
    assert list(table.columns) == ["method", "20% kept", "paper, 20% kept"]
    assert row_of(table, "Random") == {
        "method": "Random",
        "20% kept": "32.0 ± 2.8 (10)",
        "paper, 20% kept": "34.5 ± 0.6",
    }
    assert row_of(table, "GM Matching")["20% kept"] == "**50.0** (10)"  # one seed has no deviation
    assert row_of(table, "GM Matching")["paper, 20% kept"] == "**52.6 ± 0.7**"
    assert row_of(table, "Easy")["20% kept"] == "failed"
    assert row_of(table, "Herding")["20% kept"] == "–"  # the paper's row, which was not run
    assert "20% label noise" in table.caption and "ResNet-50" in table.caption


def test_the_best_epoch_stands_beside_the_last_one_where_it_was_recorded() -> None:
    cells = [cell("random", 0.30, seed, best_accuracy=0.34 + seed / 100) for seed in (0, 2)]
    [table] = study_tables(results(*cells), NOISE)
    assert row_of(table, "Random")["20% kept"] == "**30.0 ± 0.0** [35.0] (10)"
    assert "that of the best epoch" in table.caption


def test_corruptions_stand_side_by_side_unless_the_table_grows_too_wide() -> None:
    two = [cell("random", 0.3, corruption=f"label:{rate}%") for rate in (20, 35)]
    [table] = study_tables(results(*two), NOISE)
    assert list(table.columns)[1:4:2] == ["20% label noise, 20% kept", "35% label noise, 20% kept"]
    wide = [
        cell("random", 0.3, corruption=f"label:{rate}%", amount=amount)
        for rate in (20, 35)
        for amount in ("20%", "30%")
    ]
    assert len(study_tables(results(*wide), NOISE)) == 2


@pytest.mark.parametrize(("accuracy", "mark"), [(0.95, " ▲"), (0.48, ""), (0.31, " ▼")])
def test_a_margin_over_random_that_is_not_the_papers_is_marked(accuracy: float, mark: str) -> None:
    # The paper has GM Matching 18.2 points above Random.
    seeds = [cell("random", 0.30 + 0.01 * seed, seed) for seed in range(2)]
    seeds += [cell("gm-matching", accuracy + 0.01 * seed, seed) for seed in range(2)]
    [table] = study_tables(results(*seeds), NOISE)
    assert row_of(table, "GM Matching")["20% kept"].endswith(f"(10){mark}")


@pytest.mark.parametrize(
    ("corruption", "told"), [("pgd:20%", True), ("pgd:100%", False), ("human:worse", True), ("none", False)]
)
def test_where_all_rows_are_bad_nothing_is_said_of_bad_picks(corruption: str, told: bool) -> None:
    [table] = study_tables(results(cell("random", 0.5, corruption=corruption)), ())
    assert ("in brackets" in table.caption) == told
    assert ("(10)" in row_of(table, "Random")["20% kept"]) == told


def noisy(own: float, rate: int) -> list[dict[str, Any]]:
    values = {"random": 0.3, "moderate": 0.4, "robust": 0.9, "gm-matching": own}
    return [
        cell(method, value + 0.002 * seed, seed, corruption=f"label:{rate}%")
        for method, value in values.items()
        for seed in range(3)
    ]


def margin(measured: Results | None, own: str = "gm-matching") -> Margin | None:
    return Margin.of(margin_columns(measured, own))


def test_the_margin_is_over_the_best_of_the_papers_other_methods() -> None:
    found = margin(results(*noisy(0.5, 20)))
    assert found is not None
    assert found.points == pytest.approx(10.0)
    assert set(found.columns[0].others) == {"random", "moderate"}  # Robust is none of the paper's
    assert margin(results(*noisy(0.5, 20)), "gm-matching-authors") is None
    assert margin(None) is None


def test_the_margin_is_that_of_the_recipe_with_most_trainings() -> None:
    """Few methods after a long training would have a larger margin, or a smaller one."""
    longer = [
        cell(method, value, recipe="longer") for method, value in (("random", 0.1), ("gm-matching", 0.9))
    ]
    found = margin(results(*longer, *noisy(0.5, 20)))
    assert found is not None
    assert (found.points, len(found.columns)) == (pytest.approx(10.0), 1)


def test_one_seed_has_no_interval_and_no_verdict() -> None:
    alone = [cell("gm-matching", 0.5), cell("moderate", 0.4), cell("random", 0.3)]
    for cells in (alone, [*alone, cell("random", 0.306, 1), cell("gm-matching", 0.51, 1)]):
        found = margin(results(*cells))
        assert found is not None and found.verdict(3.0, NOISE[0]) == "one seed" and "±" not in str(found)
    # A column of several seeds decides alone.
    both = margin(results(*noisy(0.5, 20), *(dict(one, corruption="label:35%") for one in alone)))
    assert both is not None and [column.setting.corruption for column in both.columns] == ["label:20%"]


def test_above_all_others_is_said_only_where_all_were_run() -> None:
    names = ("herding", "forgetting", "grand", "el2n", "optimization", "self-supervised")
    others = [cell(name, 0.2 + 0.002 * seed, seed) for name in names for seed in range(3)]
    for cells, word in ((noisy(0.5, 20), "above those run"), ([*noisy(0.5, 20), *others], "yes")):
        found = margin(results(*cells))
        assert found is not None and found.verdict(3.0, NOISE[0]) == word


@pytest.mark.parametrize(
    ("own", "later", "words"),
    [
        (0.55, 0.60, ["above those run", "above those run"]),
        (0.45, 0.44, ["less", "no"]),
        (0.35, 0.36, ["no", "no"]),
        (0.40, 0.40, ["unclear", "no"]),
    ],
)
def test_statements_about_label_noise(own: float, later: float, words: list[str]) -> None:
    measured = {"label-noise": results(*noisy(own, 20), *noisy(later, 35))}
    table = statements_table(measured, "label-noise")
    assert table is not None
    found = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["as in the text"].split("**")[1] for row in found] == words
    assert [row["as in the authors' code"] for row in found] == ["–", "–"]
    assert found[0]["measured on"] == "CIFAR-100: 2 columns, 2 of 8 others"


def test_statements_of_a_study_without_results_are_not_run() -> None:
    table = statements_table({}, "vit")
    assert table is not None and [row[-1] for row in table.rows] == ["not run"]
    assert statements_table({}, "human-noise") is None
