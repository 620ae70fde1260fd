"""What is written: plain numbers, whole files, and a fingerprint of the code that measured."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch_paper.studies import load_study, study_names
from gmmatch_paper.studies.records import Journal, part_code, plain, read_record
from gmmatch_paper.studies.results import Cells, log_slope


def test_numbers_become_plain_with_six_digits() -> None:
    value = plain(
        {"a": np.float64(1 / 3), "b": np.int64(7), "c": np.bool_(True), "d": (1.23456789e-9, None, "x")}
    )
    assert value == {"a": 0.333333, "b": 7, "c": True, "d": [1.23457e-09, None, "x"]}
    assert [type(value[name]) for name in "abc"] == [float, int, bool]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), object()])
def test_what_json_cannot_hold_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInputError):
        plain({"value": [bad]})


def test_the_journal_keeps_cells_across_a_cut_off_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "x.partial.jsonl")
    journal.append("first", {"value": 1})
    journal.path.write_text(journal.path.read_text() + '\n{"key": "second", "meas')
    journal.append("third", {"value": 3})
    assert journal.read() == {"first": {"value": 1}, "third": {"value": 3}}


@pytest.mark.parametrize("content", ["{", '{"schema": 0}', "[]"])
def test_a_file_that_is_not_results_says_so(tmp_path: Path, content: str) -> None:
    path = tmp_path / "robust-mean.json"
    path.write_text(content)
    with pytest.raises(InvalidInputError, match=r"robust-mean\.json"):
        read_record(path)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("kernels", "run `gmmatch reproduce kernels` first"),
        ("label-noise", "run `gmmatch reproduce label-noise` first"),
        ("generation", "run `gmmatch reproduce generation` first"),
        ("kernel", "no study is called that; `gmmatch reproduce --list` says which there are"),
    ],
)
def test_missing_results_name_a_command_that_exists(tmp_path: Path, name: str, command: str) -> None:
    path = tmp_path / f"{name}.json"
    with pytest.raises(DataFileNotFoundError) as caught:
        read_record(path)
    assert str(caught.value) == f"No results at {path}: {command}."


def test_the_code_of_a_part_is_that_of_the_modules_that_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    part = load_study("breakdown").parts[0]
    before = part_code(part)
    assert part_code(part) == before and part_code(replace(part, code="v1")) == "v1"
    sources = inspect.getsource
    changed = "synthetic.worst_attack"  # which the module of the study uses
    monkeypatch.setattr(inspect, "getsource", lambda m: sources(m) + "#" * m.__name__.endswith(changed))
    assert part_code(part) != before


def test_cells_can_be_asked() -> None:
    cells = Cells({"x": x, "seed": seed, "y": x * 10 + seed} for x in (2, 1) for seed in (0, 1, 2))
    assert cells.distinct("x") == [2, 1]
    assert cells.mean("y", x=1) == 11.0
    assert cells.one(x=2, seed=1)["y"] == 21
    curve = cells.curve("x", "y")
    assert curve.x.tolist() == [1.0, 2.0]
    assert curve.y.tolist() == [11.0, 21.0]
    assert curve.low.tolist() == [10.5, 20.5]
    with pytest.raises(InvalidInputError, match="x"):
        cells.mean("y", x=3)


def test_a_slope_needs_two_positive_points() -> None:
    assert log_slope([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2.0)
    with pytest.raises(InvalidInputError):
        log_slope([1, 2], [1, 0])


def test_studies_are_found_by_name() -> None:
    assert len(study_names()) == 11
    for name in study_names():
        assert load_study(name).name == name
    assert load_study("Noisy_Gaussian").name == "noisy-gaussian"
    with pytest.raises(InvalidInputError, match="noisy-gaussian"):
        load_study("noisy-gausian")
