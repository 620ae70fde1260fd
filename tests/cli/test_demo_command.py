"""The demo: its data, its figures, its picture and its command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import build_app
from gmmatch.cli import demo as command_module
from gmmatch.cli._digits import (
    CONTENDERS,
    NoisyDigits,
    compare,
    measure,
    noisy_digits,
    pick,
    steps,
)
from gmmatch.errors import InvalidInputError

COMMITTED = Path(__file__).parents[2] / "docs" / "results" / "demo.json"
FIGURES = ("contamination", "moment_error", "mmd", "accuracy")


def run(*arguments: str):
    return CliRunner().invoke(build_app(), ["demo", *arguments])


@pytest.fixture(scope="module")
def digits() -> NoisyDigits:
    return noisy_digits(seed=0)


@pytest.fixture(scope="module")
def progress_calls() -> list[int]:
    return []


@pytest.fixture(scope="module")
def one_seed(progress_calls) -> dict:
    return compare(seeds=[0], advance=lambda: progress_calls.append(1))


@pytest.fixture
def computed(monkeypatch, one_seed) -> dict:
    """The figures of seed 0, computed once for all tests of what the command does with them."""

    def stand_in(seeds, advance):
        assert list(seeds) == [0]
        return one_seed

    monkeypatch.setattr("gmmatch.cli._digits.compare", stand_in)
    return one_seed


def test_35_percent_of_the_labels_are_flipped_and_each_to_another_class(digits):
    assert digits.wrong.sum() == round(0.35 * len(digits.truth))
    assert set(digits.labels) == set(range(10))


def test_the_seed_changes_which_labels_are_flipped_but_not_the_split(digits):
    other = noisy_digits(seed=1)
    assert np.array_equal(other.images, digits.images)
    assert np.array_equal(other.test_labels, digits.test_labels)
    assert not np.array_equal(other.wrong, digits.wrong)


def test_test_rows_are_not_training_rows(digits):
    training = {row.tobytes() for row in digits.images}
    assert not any(row.tobytes() in training for row in digits.test_images)


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.label)
def test_every_method_keeps_a_tenth_in_proportion_to_the_noisy_classes(digits, contender):
    picks = pick(digits, contender, seed=0)
    assert len(picks) == round(0.1 * len(digits.labels))
    kept = np.bincount(digits.labels[picks], minlength=10)
    wanted = 0.1 * np.bincount(digits.labels, minlength=10)
    assert np.all(np.abs(kept - wanted) < 1.0)


def test_methods_do_not_see_the_true_labels(digits):
    blind = NoisyDigits(digits.images, digits.labels, digits.labels, digits.test_images, digits.test_labels)
    for contender in CONTENDERS:
        assert np.array_equal(pick(blind, contender, seed=0), pick(digits, contender, seed=0))


def test_figures_of_a_hand_made_case():
    # Two classes on a line. The row at 4 is a "1" labelled "0"; the clean mean of class 0 is 1.
    digits = NoisyDigits(
        images=np.array([[0.0], [2.0], [4.0], [5.0]]),
        labels=np.array([0, 0, 0, 1]),
        truth=np.array([0, 0, 1, 1]),
        test_images=np.array([[-10.0], [10.0]]),
        test_labels=np.array([0, 1]),
    )
    figures = measure(digits, np.array([1, 2, 3]))
    assert figures.contamination == pytest.approx(1 / 3)
    assert figures.moment_error == pytest.approx((abs(3.0 - 1.0) + 0.0) / 2)
    assert figures.accuracy == 1.0


def test_means_and_deviations_are_those_of_the_single_seeds(one_seed):
    other, both = compare(seeds=[1]), compare(seeds=[0, 1])
    for first, second, together in zip(one_seed["rows"], other["rows"], both["rows"], strict=True):
        for name in FIGURES:
            values = [first[name]["mean"], second[name]["mean"]]
            assert together[name]["mean"] == pytest.approx(np.mean(values), abs=2e-6)
            assert together[name]["deviation"] == pytest.approx(np.std(values, ddof=1), abs=2e-6)
            assert first[name]["deviation"] is None


def test_hard_keeps_wrong_labels_and_easy_does_not(one_seed):
    found = {row["label"]: row["contamination"]["mean"] for row in one_seed["rows"]}
    assert found["hard"] > 0.8
    assert found["easy"] < 0.05
    assert found["all noisy rows"] == pytest.approx(0.35, abs=0.001)
    assert found["as many clean rows, at random"] == 0.0


def test_the_geometric_median_brings_matching_nearer_to_the_clean_centre_than_the_mean(one_seed):
    found = {row["label"]: row["moment_error"]["mean"] for row in one_seed["rows"]}
    assert found["robust"] < found["gm-matching (paper)"] < found["herding"]


def test_progress_is_reported_as_often_as_announced(one_seed, progress_calls):
    assert len(progress_calls) == steps([0])


def test_no_seed_is_an_error():
    with pytest.raises(InvalidInputError, match="seeds"):
        compare(seeds=[])


def test_table_shows_every_figure(computed):
    table = " ".join(run("--seeds", "1", "--no-picture").stdout.split())
    for row in computed["rows"]:
        for text in command_module.format_figures(row):
            assert text in table


def test_json_is_the_comparison_and_nothing_is_said_beside_it(one_seed):
    result = run("--seeds", "1", "--no-picture", "--json")
    assert json.loads(result.stdout) == one_seed
    assert result.stderr == ""


def test_the_picture_is_written_where_asked_and_nothing_beside_it(tmp_path, computed):
    from matplotlib import image

    result = run("--seeds", "1", "--output", str(tmp_path / "map.png"))
    assert result.exit_code == 0
    assert f"Drew {tmp_path / 'map.png'}" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]
    picture = image.imread(tmp_path / "map.png")
    height, width = picture.shape[:2]
    assert width >= 1500
    assert width > height
    # The colour of wrong labels is there, and the margin is white: nothing runs over the edge.
    orange = np.all(np.abs(picture[..., :3] - np.array([0xD5, 0x5E, 0x00]) / 255) < 0.01, axis=2)
    assert orange.mean() > 0.001
    assert picture[:, -3:, :3].min() == 1.0
    assert picture[-3:, :, :3].min() == 1.0


@pytest.mark.parametrize(("path", "wrong"), [("map.bmp", ".png"), ("missing/map.png", "no folder")])
def test_a_picture_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch, path, wrong):
    monkeypatch.setattr("gmmatch.cli._digits.compare", lambda *_, **__: pytest.fail("worked first"))
    result = run("--output", str(tmp_path / path))
    assert result.exit_code == 2
    assert wrong in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_matplotlib_the_table_comes_with_the_name_of_the_extra(monkeypatch, tmp_path, computed):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.chdir(tmp_path)
    plain = run("--seeds", "1")
    assert plain.exit_code == 0
    assert "[report]" in plain.stderr
    assert "gm-matching" in plain.stdout
    asked = run("--seeds", "1", "--output", "map.png")
    assert asked.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_seeds_must_be_positive():
    result = run("--seeds", "0")
    assert result.exit_code == 2
    assert "--seeds" in result.stderr


@pytest.mark.slow
def test_the_committed_results_are_what_the_demo_gives():
    committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
    again = compare(committed["data"]["seeds"])
    assert again["data"] == committed["data"]
    for now, then in zip(again["rows"], committed["rows"], strict=True):
        assert (now["label"], now["rows_kept"]) == (then["label"], then["rows_kept"])
        for name in FIGURES:
            # Two test rows of 540, for solvers that round differently.
            assert now[name]["mean"] == pytest.approx(then[name]["mean"], abs=0.004), (now["label"], name)


def test_the_demo_runs_the_methods_that_need_nothing_but_rows():
    assert {contender.method for contender in CONTENDERS} <= set(gmmatch.methods())
