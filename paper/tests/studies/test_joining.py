"""Results of a study that ran in pieces."""

from __future__ import annotations

from typing import Any

from gmmatch_paper.studies.joining import joined_records


def record(
    values: dict[tuple[str, int], float], code: str = "1", runs: tuple[str, ...] = ("a",)
) -> dict[str, Any]:
    cells = [
        {"method": method, "seed": seed, "accuracy": value, "seconds": 2.0}
        for (method, seed), value in values.items()
    ]
    part = {"code": code, "version": "any", "fixed": {}, "parameters": ["method", "seed"], "cells": cells}
    return {
        "study": "x",
        "provenance": {"runs": [{"command": run} for run in runs]},
        "parts": {"cells": {**part, "seconds": 2.0 * len(cells)}},
    }


def values(joined: dict[str, Any]) -> dict[tuple[str, int], float]:
    return {(cell["method"], cell["seed"]): cell["accuracy"] for cell in joined["parts"]["cells"]["cells"]}


def test_cells_of_both_are_there_and_the_later_measurement_counts():
    first = record({("random", 0): 0.5, ("easy", 0): 0.6})
    second = record({("easy", 0): 0.7, ("robust", 0): 0.8}, runs=("b",))
    joined = joined_records(first, second)
    assert values(joined) == {("random", 0): 0.5, ("easy", 0): 0.7, ("robust", 0): 0.8}
    assert joined["parts"]["cells"]["seconds"] == 6.0
    assert [run["command"] for run in joined["provenance"]["runs"]] == ["a", "b"]


def test_a_run_that_went_on_from_the_earlier_one_is_listed_once():
    joined = joined_records(record({("easy", 0): 0.6}), record({("easy", 1): 0.7}, runs=("a", "b")))
    assert [run["command"] for run in joined["provenance"]["runs"]] == ["a", "b"]


def test_cells_that_other_code_measured_do_not_count():
    joined = joined_records(record({("easy", 0): 0.6}), record({("easy", 1): 0.7}, code="2"))
    assert values(joined) == {("easy", 1): 0.7}


def test_parts_that_only_the_earlier_record_has_stay():
    first = record({("easy", 0): 0.6})
    first["parts"]["maps"] = {"code": "m", "cells": []}
    assert set(joined_records(first, record({("easy", 1): 0.7}))["parts"]) == {"cells", "maps"}
