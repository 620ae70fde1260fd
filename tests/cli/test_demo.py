"""The demo: its table, its picture and its page."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from gmmatch.cli import demo as command


@pytest.fixture
def quick(monkeypatch):
    """Leave out the methods that take long."""
    methods = {name: command.METHODS[name] for name in ("easy", "random", "hard")}
    monkeypatch.setattr(command, "METHODS", {"robust": "moderate", **methods})


def test_labels_are_flipped_to_other_classes_and_test_rows_stay():
    digits, other = command.NoisyDigits(0), command.NoisyDigits(1)
    assert digits.wrong.sum() == round(0.35 * len(digits.y)) and set(digits.y) == set(range(10))
    assert (digits.test[1] == other.test[1]).all() and (digits.y != other.y).any()
    assert len(digits.y) + len(digits.test[1]) == 1797


def test_the_picture_shows_how_many_picks_are_wrong():
    digits = command.NoisyDigits(0)
    picture = command.draw(digits, {"easy": digits.select("easy"), "hard": digits.select("hard")})
    words = [mark.text for mark in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
    picks = digits.select("hard").indices
    own = picks[digits.y[picks] == command.DIGIT]
    assert words[3:] == ["hard", f"{digits.wrong[own].sum()} of {len(own)} wrong"]


@pytest.mark.slow
def test_the_table_the_picture_and_the_page(quick, tmp_path, succeeds):
    table = succeeds("demo", "--seeds", 1, "-o", tmp_path / "demo.svg")
    assert "10% of 1,257 digits, 35% mislabeled" in table and "One seed." in table
    assert "<svg" in (tmp_path / "demo.svg").read_text(encoding="utf-8")
    assert "1,257 rows" in (tmp_path / "demo.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_figures_are_averaged_over_the_seeds(quick, tmp_path, succeeds, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = succeeds("demo", "--seeds", 2, "--no-files", "--json")
    lines = {line["label"]: line for line in result["rows"]}
    assert lines["all noisy rows"]["contamination"] == pytest.approx({"mean": 0.35, "deviation": 0}, abs=1e-3)
    assert lines["as many clean rows, at random"]["contamination"]["mean"] == 0
    assert lines["hard"]["contamination"]["mean"] > 0.8 > 0.05 > lines["easy"]["contamination"]["mean"]
    assert lines["random"]["accuracy"]["deviation"] > 0 and not list(tmp_path.iterdir())


def test_a_picture_that_cannot_be_written_is_refused_before_the_work(tmp_path, refused, monkeypatch):
    monkeypatch.setattr(command, "NoisyDigits", lambda *_: pytest.fail("worked first"))
    assert ".svg" in refused("demo", "-o", tmp_path / "demo.bmp")
    assert "no folder" in refused("demo", "-o", tmp_path / "nowhere" / "demo.svg")


@pytest.mark.slow
def test_robust_keeps_no_wrong_labels_and_trains_best(tmp_path, succeeds):
    lines = {line["label"]: line for line in succeeds("demo", "--seeds", 2, "--no-files", "--json")["rows"]}
    assert lines["robust"]["contamination"]["mean"] < 0.01
    others = [line["accuracy"]["mean"] for name, line in lines.items() if name in command.METHODS]
    assert lines["robust"]["accuracy"]["mean"] == max(others)
    errors = [lines[name]["moment_error"]["mean"] for name in ("robust", "gm-matching (paper)", "herding")]
    assert errors == sorted(errors)
