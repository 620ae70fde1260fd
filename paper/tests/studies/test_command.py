"""``gmmatch reproduce``."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gmmatch.cli import build_app
from gmmatch_paper.studies import study_names


def reproduce(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), ["reproduce", *arguments])


def test_list_names_every_study_and_its_figure() -> None:
    result = reproduce("--list")
    assert result.exit_code == 0
    for name in study_names():
        assert name in result.stdout
    assert "Figure 5" in result.stdout


def test_a_study_writes_numbers_and_a_picture_and_says_what_agrees(tmp_path: Path) -> None:
    first = reproduce("robust-mean", "--seeds", "1", "--jobs", "1", "--output", str(tmp_path))
    assert first.exit_code == 0, first.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["robust-mean.json", "robust-mean.png"]
    words = first.stdout.split()
    assert words.count("agrees") == 2 and words.count("disagrees") == 1
    assert "measured:" in words
    numbers = (tmp_path / "robust-mean.json").read_bytes()
    again = reproduce("robust-mean", "--seeds", "1", "--jobs", "1", "--output", str(tmp_path))
    # The seconds of every cell are the same: nothing was measured a second time.
    assert (tmp_path / "robust-mean.json").read_bytes() == numbers
    assert again.stdout == first.stdout


@pytest.mark.parametrize(("arguments", "said"), [(["robust-men"], "'robust-mean'"), ([], "'all'")])
def test_mistakes_end_in_one_line_that_helps(arguments: list[str], said: str) -> None:
    result = reproduce(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
