"""Runs whose cells are dear: failures are recorded, dead processes replaced, earlier cells kept."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from pathlib import Path

import pytest
from joblib.externals.loky import get_reusable_executor

from gmmatch.errors import GMMatchError
from gmmatch_paper.studies.records import read_record
from gmmatch_paper.studies.runner import LongRun, run_study
from gmmatch_paper.studies.study import Grid, Part, Study

LONG = LongRun("gmmatch reproduce small")


def measure(*, x: int, seed: int) -> dict[str, int]:
    """Fail for 2."""
    if x == 2:
        raise ValueError("two is not measured\nsecond line")
    return {"value": 10 * x}


class Counting:
    """A measurement that knows how often it was called."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, *, x: int, seed: int) -> dict[str, int]:
        self.calls.append(x)
        return {"value": 10 * x}


def study_of(function: object, *values: int) -> Study:
    grid = Grid({"x": values})
    part = Part("values", function, grid, grid, code="v1")  # type: ignore[arg-type]
    return Study(name="small", title="Small", paper=(), parts=(part,))


def test_a_failed_cell_is_recorded_and_does_not_stop_the_rest(tmp_path: Path) -> None:
    results = run_study(study_of(measure, 1, 2, 3), output=tmp_path, long_run=LONG)
    assert [cell.get("value") for cell in results["values"]] == [10, None, 30]
    assert results["values"].one(x=2)["error"] == "ValueError: two is not measured"
    run = read_record(tmp_path / "small.json")["provenance"]["runs"][0]
    assert (run["command"], run["cells"], run["failed"]) == ("gmmatch reproduce small", 2, 1)


def test_a_failed_cell_is_measured_by_the_next_run_and_nothing_else(tmp_path: Path) -> None:
    run_study(study_of(measure, 1, 2, 3), output=tmp_path, long_run=LONG)
    again = Counting()
    results = run_study(study_of(again, 1, 2, 3), output=tmp_path, long_run=LONG)
    assert again.calls == [2]
    assert results["values"].values("value").tolist() == [10, 20, 30]


def test_cells_of_other_runs_stay_in_the_results(tmp_path: Path) -> None:
    run_study(study_of(Counting(), 1, 5), output=tmp_path, long_run=LONG)
    other = Counting()
    results = run_study(study_of(other, 7), output=tmp_path, long_run=LONG)
    assert other.calls == [7]
    assert sorted(results["values"].values("value").tolist()) == [10, 50, 70]
    runs = read_record(tmp_path / "small.json")["provenance"]["runs"]
    assert [run["cells"] for run in runs] == [2, 1]


def test_cells_of_other_code_do_not_stay(tmp_path: Path) -> None:
    run_study(study_of(Counting(), 1), output=tmp_path, long_run=LONG)
    study = study_of(Counting(), 7)
    newer = replace(study, parts=(replace(study.parts[0], code="v2"),))
    assert len(run_study(newer, output=tmp_path, long_run=LONG)["values"]) == 1


def test_a_run_that_was_killed_is_listed_by_the_one_that_goes_on(tmp_path: Path) -> None:
    def stops(*, x: int, seed: int) -> dict[str, object]:
        if x == 3:
            raise KeyboardInterrupt
        return {"value": 10 * x, "device": "a GPU"}

    with pytest.raises(KeyboardInterrupt):
        run_study(study_of(stops, 1, 2, 3), output=tmp_path, long_run=LONG)
    results = run_study(study_of(Counting(), 1, 2, 3), output=tmp_path, long_run=LONG)
    assert results["values"].values("value").tolist() == [10, 20, 30]
    [run] = read_record(tmp_path / "small.json")["provenance"]["runs"]
    assert (run["cells"], run["resumed"]) == (1, 2)


def test_no_cell_begins_after_the_time_is_up_and_the_results_hold_what_is_done(tmp_path: Path) -> None:
    run_study(study_of(Counting(), 1), output=tmp_path, long_run=LONG)
    late = Counting()
    results = run_study(study_of(late, 1, 2, 3), output=tmp_path, long_run=LongRun("again", seconds=0.0))
    assert late.calls == []
    assert [cell["x"] for cell in results["values"]] == [1]
    assert not (tmp_path / "small.partial.jsonl").exists()


DEADLY = """
import os
import time

def measure(*, x, seed):
    if x == 13:
        time.sleep(3)  # by then the other process is done with its cells
        os._exit(3)
    return {"value": 10 * x}
"""


@pytest.mark.slow
def test_a_process_that_dies_ends_the_run_and_the_next_one_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deadly_cells.py").write_text(DEADLY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")  # for the processes
    get_reusable_executor().shutdown()  # those of other tests cannot import the module
    function = importlib.import_module("deadly_cells").measure
    with pytest.raises(GMMatchError, match="A process died"):
        run_study(study_of(function, 1, 2, 3, 4, 13), output=tmp_path, jobs=2, long_run=LONG)
    rest = Counting()
    run_study(study_of(rest, 1, 2, 3, 4, 13), output=tmp_path, long_run=LONG)
    assert 1 not in rest.calls and 13 in rest.calls
