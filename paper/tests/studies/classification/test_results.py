"""What is shown: tables in the paper's form, and how our order compares with the paper's."""

from __future__ import annotations

from typing import Any

import pytest

from gmmatch_paper.studies.classification.agreement import (
    AUTHORS,
    agreement_lines,
    contamination_lines,
    correlation_lines,
    first_places,
    proxy_lines,
    proxy_share_lines,
    rank_correlation,
    variant_lines,
)
from gmmatch_paper.studies.classification.disagreements import papers_order
from gmmatch_paper.studies.classification.tables import proxy_tables, study_tables
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
    table = study_tables(measured, NOISE)[0]
    assert list(table.columns) == ["method", "20%", "paper, 20%", "30%", "paper, 30%"]
    assert row_of(table, "Random") == {
        "method": "Random",
        "20%": "32.0 ± 2.0",
        "paper, 20%": "34.47 ± 0.64",
        "30%": "not run",
        "paper, 30%": "43.26 ± 1.21",
    }
    assert row_of(table, "GM Matching")["20%"] == "**50.0 ± 0.0**"
    assert row_of(table, "GM Matching")["paper, 20%"] == "**52.64 ± 0.72**"
    assert row_of(table, "Easy")["20%"] == "failed"
    assert row_of(table, "Easy")["paper, 20%"] == "–"
    assert row_of(table, "Herding")["20%"] == "not run"
    assert "`tab:exp-classification-label_noise`, CIFAR-100" in table.caption


def test_every_block_of_the_paper_is_shown_run_or_not() -> None:
    nothing = study_tables(None, NOISE)
    assert len(nothing) == 4
    assert all("not run by us" in table.caption for table in nothing)
    some = study_tables(results(cell("random", 0.3)), NOISE)
    # One of the four was run; its corrupt picks have a table of their own.
    assert len(some) == 5
    assert sum("not run by us" in table.caption for table in some) == 3
    assert any(table.caption.startswith("Corrupt picks") for table in some)


def test_another_dataset_stands_beside_the_papers_but_does_not_count_as_it() -> None:
    tables = study_tables(results(cell("random", 0.8, dataset="cifar10")), NOISE)
    assert "cifar10" in tables[0].caption and "CIFAR-100" in tables[0].caption
    assert sum("not run by us" in table.caption for table in tables) == 4


def test_who_is_first_and_whether_the_order_agrees() -> None:
    values = {"random": 0.30, "herding": 0.4, "moderate": 0.39, "easy": 0.6, "gm-matching": 0.5, "el2n": 0.2}
    [line] = agreement_lines(results(*(cell(name, value) for name, value in values.items())), NOISE)
    assert "of the paper's methods, GM Matching is first in 0 of 1 columns" in line
    assert "Easy (60.0; GM Matching 50.0, Random 30.0)" in line
    # The paper has no Easy; the five others are in its order.
    assert "+1.00 at 20%" in line


def test_variants_are_compared_with_the_method_they_change() -> None:
    lines = variant_lines(results(cell("gm-matching", 0.5), cell("gm-matching-unit", 0.52)))
    assert len(lines) == 1
    assert "under corruption +2.0 points on average (from +2.0 to +2.0, 1 columns)" in lines[0]
    assert "without corruption" not in lines[0]


@pytest.mark.parametrize(("theirs", "value"), [([1, 2, 3, 4], 1.0), ([4, 3, 2, 1], -1.0)])
def test_rank_correlation(theirs: list[float], value: float) -> None:
    names = ["a", "b", "c", "d"]
    ours = dict(zip(names, [0.1, 0.2, 0.3, 0.4], strict=True))
    assert rank_correlation(ours, dict(zip(names, theirs, strict=True))) == value
    assert rank_correlation({"a": 1.0}, {"a": 2.0}) is None


def test_a_method_that_the_paper_does_not_have_takes_no_first_place() -> None:
    values = {"random": 0.3, "robust": 0.7, "gm-matching": 0.5, "gm-matching-unit": 0.6}
    measured = results(*(cell(name, value) for name, value in values.items()))
    assert first_places(measured, NOISE) == (1, 1)
    assert "Best of all: at 20% robust" in agreement_lines(measured, NOISE)[0].replace("Robust", "robust")


def test_the_authors_version_is_held_against_the_other_methods_of_the_paper() -> None:
    values = {"random": 0.3, "robust": 0.7, "gm-matching": 0.5, "gm-matching-authors": 0.45, "easy": 0.4}
    measured = results(*(cell(name, value) for name, value in values.items()))
    assert first_places(measured, NOISE, AUTHORS) == (1, 1)
    assert first_places(results(cell("random", 0.3), cell("gm-matching", 0.5)), NOISE, AUTHORS) == (0, 0)
    better = results(
        cell("easy", 0.5), *(cell(name, value) for name, value in values.items() if name != "easy")
    )
    assert first_places(better, NOISE, AUTHORS) == (0, 1)


def test_a_variant_that_is_above_all_methods_is_named() -> None:
    values = {"random": 0.3, "robust": 0.7, "gm-matching": 0.5}
    [line] = agreement_lines(results(*(cell(name, value) for name, value in values.items())), ())
    assert line.endswith("at 20% Robust (70.0; GM Matching 50.0, Random 30.0).")
    values["gm-matching-authors"] = 0.75
    [line] = agreement_lines(results(*(cell(name, value) for name, value in values.items())), ())
    assert line.endswith("Better still, as a variant: at 20% GM Matching as in the authors' code (75.0).")


def test_lines_tell_settings_apart_that_differ_in_the_encoder_alone() -> None:
    cells = [
        cell(name, 0.5, encoder=encoder)
        for name in ("random", "gm-matching")
        for encoder in ("frozen", "in-domain:resnet18")
    ]
    first, second = agreement_lines(results(*cells), ())
    assert "picked in `frozen`" in first and "picked in `in-domain:resnet18`" in second


def beside(**trained: Any) -> Results:
    """Return a study with a frozen proxy, two seeds, and the same with one trained on the data, but for changes."""
    frozen = {"random": (0.3, 0.4), "robust": (0.7, 0.1), "gm-matching": (0.5, 0.35), "hard": (0.2, 0.6)}
    in_domain = {"random": (0.3, 0.4), "robust": (0.6, 0.2), "gm-matching": (0.605, 0.22)}
    return results(
        *(
            cell(method, accuracy, seed, contamination=bad, **changes)
            for values, changes in ((frozen, {"encoder": "frozen"}), (in_domain, trained))
            for method, (accuracy, bad) in values.items()
            for seed in range(2)
        )
    )


def test_a_frozen_proxy_stands_beside_one_trained_on_the_data() -> None:
    [table] = proxy_tables(beside())
    assert list(table.columns) == ["method", "picked in `frozen`", "picked in `in-domain:resnet50`"]
    # Hard was measured with one of the two alone.
    assert [list(row) for row in table.rows] == [
        ["Random", "30.0 (40)", "30.0 (40)"],
        ["GM Matching", "50.0 (35)", "60.5 (22)"],
        ["Robust", "70.0 (10)", "60.0 (20)"],
    ]
    first, second = proxy_lines(beside())
    [paper] = [p for p in papers_order("label") if (p.above, p.below) == ("gm-matching", "random")]
    assert (
        "picked in `frozen`" in first
        and "Robust is first (70.0), by +20.0 ± 0.0 points above GM Matching." in first
    )
    assert "GM Matching is first (60.5), by +0.5 ± 0.0 points above Robust, which is not clear. " in second
    assert second.endswith(
        "GM Matching is above Random, in points: as the paper's text has it by +30.5 ± 0.0; "
        f"in the paper by {paper.least:.1f} to {paper.most:.1f}."
    )
    [line] = proxy_share_lines(beside())
    assert line.endswith("Random 40%, GM Matching 22%.")


@pytest.mark.parametrize(
    "changes", [{"amount": "30%"}, {"corruption": "label:35%"}, {"network": "resnet18"}, {"encoder": "other"}]
)
def test_proxies_of_different_settings_are_not_put_side_by_side(changes: dict[str, str]) -> None:
    assert proxy_tables(beside(**changes)) == [] == proxy_lines(beside(**changes))
    assert proxy_share_lines(beside(**changes)) == []


def test_where_all_rows_are_bad_nothing_is_said_of_bad_picks() -> None:
    for corruption, told in (("pgd:20%", True), ("pgd:100%", False), ("human:worse", True), ("none", False)):
        measured = results(
            *(
                cell(name, 0.5, corruption=corruption)
                for name in ("random", "easy", "moderate", "gm-matching")
            )
        )
        tables = [table for table in study_tables(measured, ()) if table.caption.startswith("Corrupt picks")]
        assert bool(tables) == bool(contamination_lines(measured)) == told, corruption
        assert bool(correlation_lines(measured)) == told, corruption


def test_accuracy_is_held_against_the_share_of_bad_rows_over_picks_that_are_mostly_good() -> None:
    shares = {"random": 0.4, "easy": 0.1, "moderate": 0.3, "gm-matching": 0.2}
    falling = [cell(name, 0.9 - share, contamination=share) for name, share in shares.items()]
    # Picks that are mostly bad would decide the correlation alone.
    [line] = correlation_lines(results(*falling, cell("hard", 0.95, contamination=0.9)))
    assert line.endswith("resnet50 from scratch (paper-cifar)): -1.00 at 20% (4).")
    rising = [cell(name, 0.5 + share, contamination=share) for name, share in shares.items()]
    assert "+1.00 at 20% (4)" in correlation_lines(results(*rising))[0]
    assert correlation_lines(results(*falling[:3])) == []
