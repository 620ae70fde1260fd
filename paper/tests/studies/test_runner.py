"""The runner: every cell once, resumed where it stopped, timed cells last and alone."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from gmmatch.errors import InvalidInputError
from gmmatch_paper.studies import load_study
from gmmatch_paper.studies.records import read_record
from gmmatch_paper.studies.runner import run_study
from gmmatch_paper.studies.study import Grid, Part, Study


class InterruptedRunError(Exception):
    """Stands for a kill in the middle of a run."""


class Recorder:
    """A measurement that remembers its calls and can break off at one of them."""

    def __init__(self, break_at: int | None = None) -> None:
        self.calls: list[tuple[int, int]] = []
        self.break_at = break_at

    def __call__(self, *, scale: float, x: int, seed: int) -> dict[str, float]:
        if len(self.calls) == self.break_at:
            raise InterruptedRunError
        self.calls.append((x, seed))
        return {"value": scale * x + seed}


def small_study(measure: Recorder, *, scale: float = 10.0, quick: tuple[int, ...] = (1, 2, 3)) -> Study:
    part = Part(
        "values",
        measure,
        quick=Grid({"x": quick}, {"scale": scale}, seeds=2),
        full=Grid({"x": (*quick, 4)}, {"scale": scale}, seeds=2),
    )
    return Study(name="small", title="Small", paper=("fig:none",), parts=(part,))


def test_every_cell_is_measured_once_and_written_with_its_parameters(tmp_path: Path) -> None:
    measure = Recorder()
    results = run_study(small_study(measure), output=tmp_path)
    assert measure.calls == [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]
    assert results["values"].values("value", x=2).tolist() == [20.0, 21.0]
    assert results.fixed["values"] == {"scale": 10.0}
    cells = read_record(tmp_path / "small.json")["parts"]["values"]["cells"]
    assert [(cell["x"], cell["seed"], cell["value"]) for cell in cells][:2] == [(1, 0, 10.0), (1, 1, 11.0)]


def test_an_interrupted_run_goes_on_without_repeating_finished_cells(tmp_path: Path) -> None:
    first = Recorder(break_at=4)
    with pytest.raises(InterruptedRunError):
        run_study(small_study(first), output=tmp_path)
    assert not (tmp_path / "small.json").exists()
    second = Recorder()
    results = run_study(small_study(second), output=tmp_path)
    assert len(first.calls) == 4
    assert second.calls == [(3, 0), (3, 1)]
    assert results["values"].values("value").tolist() == [10, 11, 20, 21, 30, 31]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.json"]


def test_a_finished_study_is_not_measured_again_and_a_larger_one_adds_cells(tmp_path: Path) -> None:
    run_study(small_study(Recorder()), output=tmp_path)
    again, larger, afresh = Recorder(), Recorder(), Recorder()
    run_study(small_study(again), output=tmp_path)
    assert again.calls == []
    run_study(small_study(larger), output=tmp_path, size="full")
    assert larger.calls == [(4, 0), (4, 1)]
    run_study(small_study(afresh), output=tmp_path, fresh=True)
    assert len(afresh.calls) == 6


def test_cells_with_other_fixed_parameters_do_not_count(tmp_path: Path) -> None:
    run_study(small_study(Recorder()), output=tmp_path)
    other = Recorder()
    results = run_study(small_study(other, scale=100.0), output=tmp_path)
    assert len(other.calls) == 6
    assert results["values"].values("value", x=1).tolist() == [100.0, 101.0]


def test_parts_that_measure_time_run_last_and_in_this_process(tmp_path: Path) -> None:
    order: list[str] = []

    def untimed(*, seed: int) -> dict[str, int]:
        order.append("untimed")
        return {"pid": os.getpid()}

    def timed(*, seed: int) -> dict[str, int]:
        order.append("timed")
        return {"pid": os.getpid()}

    study = replace(
        small_study(Recorder()),
        parts=(
            Part("clock", timed, Grid({}, seeds=2), Grid({}), timed=True),
            Part("plain", untimed, Grid({}, seeds=2), Grid({})),
        ),
    )
    results = run_study(study, output=tmp_path)
    assert order == ["untimed", "untimed", "timed", "timed"]
    assert set(results["clock"].values("pid")) == {os.getpid()}


def test_processes_measure_the_same_numbers_as_one(tmp_path: Path) -> None:
    study = load_study("robust-mean")
    alone = run_study(study, output=tmp_path / "alone", seeds=1)
    together = run_study(study, output=tmp_path / "together", seeds=1, jobs=2)
    for field in ("mean_error", "median_error"):
        assert alone["centers"].values(field).tolist() == together["centers"].values(field).tolist()


def test_results_say_where_they_came_from_but_not_on_whose_machine(tmp_path: Path) -> None:
    run_study(small_study(Recorder()), output=tmp_path, seeds=2)
    text = (tmp_path / "small.json").read_text(encoding="utf-8")
    record = json.loads(text)
    assert list(record) == ["schema", "study", "paper", "size", "provenance", "parts"]
    made = record["provenance"]
    assert made["command"] == "gmmatch reproduce small --quick --seeds 2"
    assert {"gmmatch", "cpu", "cores", "python", "libraries", "seeds", "jobs"} <= set(made)
    assert made["libraries"]["numpy"]
    assert socket.gethostname() not in text
    assert str(tmp_path) not in text and str(Path.cwd()) not in text


@pytest.mark.parametrize(("options", "named"), [({"size": "huge"}, "size"), ({"seeds": 0}, "seeds")])
def test_bad_arguments_are_named(tmp_path: Path, options: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        run_study(small_study(Recorder()), output=tmp_path, **options)  # type: ignore[arg-type]
