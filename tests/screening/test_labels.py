"""Wrong labels: planted noise is recognized, clean data are left alone, and what was not judged is said."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import gmmatch as gm


def make_classes(n: int = 400, n_classes: int = 4, n_features: int = 6, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return random.standard_normal((n, n_features)) + 5.0 * random.standard_normal((n_classes, n_features))[
        y
    ], y


def flip(y: Any, kind: str, rate: float, seed: int = 1) -> Any:
    random, n_classes, given = np.random.default_rng(seed), int(y.max()) + 1, y.copy()
    chosen = random.random(len(y)) < rate
    step = random.integers(1, n_classes, len(y)) if kind == "any other class" else 1
    if kind == "one class only":
        chosen &= y == 0
    given[chosen] = ((y + step) % n_classes)[chosen]
    return given


@pytest.mark.parametrize("kind", ["any other class", "the next class", "one class only"])
def test_planted_noise_is_recognized(kind: str) -> None:
    X, y = make_classes()
    given = flip(y, kind, 0.25)
    result = gm.screen(X, given, random_state=0)
    suspect = np.isin(result.verdict, ("wrong", "doubtful"))
    assert suspect[given != y].mean() > 0.95
    assert suspect[given == y].mean() < 0.05
    low, high = result.noise_interval
    assert low <= (given != y).mean() <= high


def test_clean_labels_are_left_alone() -> None:
    X, y = make_classes()
    result = gm.screen(X, y, random_state=0)
    assert not (result.verdict == "wrong").any()
    assert result.trusted.mean() > 0.98
    assert result.noise_interval[0] == 0.0


def test_noise_rate_is_the_mean_of_the_probabilities() -> None:
    X, y = make_classes()
    result = gm.screen(X, flip(y, "any other class", 0.25), random_state=0)
    assert result.noise_rate == pytest.approx(float(result.probability.mean()), abs=1e-6)


def test_two_classes_with_40_percent_noise_are_not_called_clean() -> None:
    X, y = make_classes(300, 2, 3)
    given = flip(y, "any other class", 0.4)
    result = gm.screen(X, given, random_state=0)
    low, high = result.noise_interval
    assert low <= (given != y).mean() <= high
    assert "No label looks wrong" not in result.summary


@pytest.mark.parametrize("n", [1, 2, 9])
def test_a_few_rows_are_not_judged(n: int) -> None:
    result = gm.screen(np.arange(n, dtype=float)[:, None], np.arange(n) % 2, random_state=0)
    assert set(result.verdict) == {"not judged"}
    assert result.noise_rate is None
    assert result.notes


def test_one_class_is_not_judged() -> None:
    X, y = make_classes()
    result = gm.screen(X, np.zeros(len(y)), random_state=0)
    assert set(result.verdict[result.reason != "group"]) == {"not judged"}


def test_a_class_of_one_row_is_not_judged() -> None:
    X, y = make_classes()
    y[0] = 9
    result = gm.screen(X, y, random_state=0)
    assert result.verdict[0] == "not judged"
    assert any("9" in note for note in result.notes)


def test_rows_without_a_label_are_not_judged() -> None:
    X, y = make_classes()
    labels = y.astype(float)
    labels[:10] = np.nan
    result = gm.screen(X, labels, random_state=0)
    assert set(result.verdict[:10]) == {"not judged"}
    assert result.suggested[:10].tolist() == [None] * 10


def test_nothing_is_certain_of_labels_that_rows_do_not_predict() -> None:
    X, _ = make_classes()
    y = np.random.default_rng(5).integers(0, 3, len(X))
    assert not (gm.screen(X, y, random_state=0).verdict == "wrong").any()


@pytest.mark.parametrize("change", ["float16", "constant column", "more columns than rows"])
def test_unusual_rows(change: str) -> None:
    X, y = make_classes()
    if change == "float16":
        X = X.astype(np.float16)
    elif change == "constant column":
        X = np.column_stack([X, np.ones(len(X))])
    else:
        X = X @ np.random.default_rng(2).standard_normal((X.shape[1], 500))
    given = flip(y, "any other class", 0.2)
    suspect = ~gm.screen(X, given, random_state=0).trusted
    assert suspect[given != y].mean() > 0.9
    assert suspect[given == y].mean() < 0.1


def test_given_probabilities_take_the_place_of_learners() -> None:
    X, y = make_classes()
    given = flip(y, "any other class", 0.2)
    probabilities = np.full((len(y), 4), 0.02)
    probabilities[np.arange(len(y)), y] = 0.94
    result = gm.screen(np.random.default_rng(3).standard_normal(X.shape), given, pred_probs=probabilities)
    assert np.array_equal(~result.trusted, given != y)
    alone = gm.screen(None, given, pred_probs=probabilities)
    assert np.array_equal(~alone.trusted, given != y) and alone.counts == {"mislabeled": (given != y).sum()}
    with pytest.raises(gm.errors.InvalidInputError, match="pred_probs has 3 columns for 4 classes"):
        gm.screen(X, given, pred_probs=probabilities[:, :3])


@pytest.mark.slow
def test_the_same_seed_gives_the_same_result_on_any_backend(tmp_path: Any) -> None:
    X, y = make_classes()
    given = flip(y, "any other class", 0.2)
    np.save(tmp_path / "rows.npy", X)
    expected = gm.screen(X, given, random_state=3, n_jobs=1)
    assert gm.screen(X, given, random_state=3, n_jobs=2) == expected
    assert np.array_equal(gm.screen(tmp_path / "rows.npy", given, random_state=3).verdict, expected.verdict)


def test_result_survives_json() -> None:
    X, y = make_classes()
    result = gm.screen(X, flip(y, "any other class", 0.2), random_state=0)
    assert gm.ScreeningResult.from_json(result.to_json()) == result


@pytest.mark.slow
def test_noise_is_certain_where_classes_lie_apart() -> None:
    """Overlap would explain the labels as well as noise does, but there is none."""
    random = np.random.default_rng(0)
    centers = random.standard_normal((10, 32)) * 8.0 / np.sqrt(32)
    truth = random.integers(0, 10, 10_000)
    X, is_wrong = centers[truth] + random.standard_normal((10_000, 32)), random.random(10_000) < 0.1
    given = np.where(is_wrong, (truth + random.integers(1, 10, 10_000)) % 10, truth)
    result = gm.screen(X, given, random_state=0)
    assert ((result.verdict == "wrong") == is_wrong).mean() > 0.99
    assert result.noise_interval is not None and result.noise_interval[0] > 0.08


def test_corrected_labels_are_nearer_to_the_truth() -> None:
    X, y = make_classes()
    given = flip(y, "any other class", 0.2)
    corrected = gm.corrected_labels(gm.screen(X, given, random_state=0), given)
    assert (corrected != y).mean() < 0.5 * (given != y).mean()


def test_robust_picks_hardly_any_wrong_label() -> None:
    X, y = make_classes()
    given = flip(y, "any other class", 0.3)
    selection = gm.Robust(k=0.1, random_state=0).select(X, given)
    assert (given != y)[selection.indices].mean() < 0.03


def test_wrong_rows_come_last_and_with_a_warning() -> None:
    X, y = make_classes()
    given = flip(y, "any other class", 0.3)
    with pytest.warns(gm.errors.GMMatchWarning, match="can be trusted"):
        selection = gm.Robust(k=0.9, random_state=0).select(X, given)
    assert len(selection.order) == 360
    with warnings.catch_warnings():
        warnings.simplefilter("error", gm.errors.GMMatchWarning)
        gm.Robust(k=0.5, random_state=0).select(X, given)


def test_relabeled_rows_are_recorded() -> None:
    X, y = make_classes()
    given = flip(y, "any other class", 0.2)
    selection = gm.Robust(k=0.2, screening=gm.Screening(relabel=0.95), random_state=0).select(X, given)
    record = selection.provenance["relabeled"]
    assert len(record["rows"]) == len(record["given"]) == len(record["confidence"]) > 0
    assert (given != y)[record["rows"]].mean() > 0.95


@pytest.mark.parametrize("option", [{"doubtful": "maybe"}, {"tolerance": 2.0}, {"relabel": 0.0}])
def test_unusable_options_are_named(option: dict[str, Any]) -> None:
    with pytest.raises(gm.errors.InvalidInputError, match=next(iter(option))):
        gm.Screening(**option)
