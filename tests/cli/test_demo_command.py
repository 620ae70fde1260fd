"""The demo: its data, its figures, its picture and its command."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import build_app
from gmmatch.cli import demo as command_module
from gmmatch.cli._digits import (
    CONTENDERS,
    NoisyDigits,
    classified,
    compare,
    measure,
    noisy_digits,
    pick,
    steps,
)
from gmmatch.cli._picture import DIGIT, PICTURED
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
    assert figures["contamination"] == pytest.approx(1 / 3)
    assert figures["moment_error"] == pytest.approx((abs(3.0 - 1.0) + 0.0) / 2)
    assert figures["accuracy"] == 1.0


@pytest.mark.slow
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


def test_the_picture_is_written_where_asked_and_nothing_beside_it(tmp_path, computed, digits):
    result = run("--seeds", "1", "--output", str(tmp_path / "map.svg"))
    assert result.exit_code == 0
    assert f"Drew {tmp_path / 'map.svg'}" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["map.svg"]
    picture = ElementTree.parse(tmp_path / "map.svg").getroot()
    marks = Counter(one.get("href") for one in picture.iter("{http://www.w3.org/2000/svg}use"))
    picks = np.concatenate([pick(digits, contender, seed=0) for contender in PICTURED])
    mine = picks[digits.labels[picks] == DIGIT]
    assert marks["#wrong"] == digits.wrong[mine].sum() + 1  # one more is in the legend
    assert marks["#right"] == (~digits.wrong[mine]).sum() + 1
    assert marks["#left-out"] == len(PICTURED)
    assert marks["#left-right"] + marks["#left-wrong"] == (digits.labels == DIGIT).sum() + 2
    said = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {contender.label for contender in PICTURED} <= set(said)
    for one in picture.iter("{http://www.w3.org/2000/svg}use"):
        assert 0 <= float(one.get("x", 0)) <= 1200
        assert 0 <= float(one.get("y", 0)) <= 860


@pytest.mark.parametrize(("path", "wrong"), [("map.bmp", ".svg"), ("missing/map.svg", "no folder")])
def test_a_picture_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch, path, wrong):
    monkeypatch.setattr("gmmatch.cli._digits.compare", lambda *_, **__: pytest.fail("worked first"))
    result = run("--output", str(tmp_path / path))
    assert result.exit_code == 2
    assert wrong in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_digits_are_those_that_scikit_learn_loads(digits):
    images, labels = load_digits(return_X_y=True)
    mine = np.concatenate([digits.images, digits.test_images])
    mine = np.column_stack([np.concatenate([digits.truth, digits.test_labels]), 16.0 * mine])
    assert sorted(mine.tolist()) == sorted(np.column_stack([labels, images]).tolist())


def test_the_regression_is_that_of_scikit_learn(digits):
    picks = pick(digits, CONTENDERS[1], seed=0)
    model = LogisticRegression(max_iter=2000).fit(digits.images[picks], digits.labels[picks])
    assert np.mean(model.predict(digits.test_images) == classified(digits, picks)) > 0.995


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
