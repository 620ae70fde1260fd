"""Calibration: a hundred answers correct a noise rate that was off, and a person's word is final."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.review.server import order_questions
from gmmatch.screening.result import ScreeningResult

N, K = 4000, 10


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def case(name, seed=0):
    """A screening that is off by ten points or more, and which labels are wrong in truth."""
    random = np.random.default_rng(seed)
    draw, given = random.random(N), random.integers(0, K, N)
    suspicion = np.where(draw < 0.15, random.normal(3, 2, N), random.normal(-5, 2.5, N))
    if name == "too high":
        suspicion = np.where(draw < 0.4, random.normal(1.5, 1.5, N), random.normal(-5, 2, N))
    elif name == "too low":
        suspicion = np.where(draw < 0.3, random.normal(-1, 1.5, N), random.normal(-5, 2, N))
    p = sigmoid(suspicion)
    truth = {
        "too high": sigmoid(suspicion - 2.5),
        "too low": sigmoid(suspicion + 2.2),
        "noise that no evidence shows": p + 0.2 * (1 - p),
        "two classes are full of noise": np.where(given < 2, p + 0.7 * (1 - p), p),
        "sure of nothing": 0.9 * p + 0.03,
    }[name]
    p = np.zeros(N) if name == "sure of nothing" else p
    verdict = np.where(p > 0.5, 2, np.where(p > 0.1, 1, 0))
    result = ScreeningResult(
        verdict, np.where(verdict > 0, 1, 0), p, suspicion, given, np.where(verdict > 0, (given + 1) % K, given),
        np.full(N, 0.9), np.full(N, -1), list(range(K)), float(p.mean()), (0.0, 1.0),
    )  # fmt: skip
    return result, random.random(N) < truth


def ask(result, is_wrong, n):
    """Answer the first n questions, which are asked in the order that the answers so far give."""
    answers, order = np.full(len(result), None, dtype=object), []
    for number in range(n):
        if number % 10 == 0:
            current = gm.calibrate(result, answers)
            order = order_questions(current, answers != None)  # noqa: E711
        row = order[number % 10]
        answers[row] = (result.given[row] + 1) % K if is_wrong[row] else result.given[row]
    return gm.calibrate(result, answers), answers


CASES = [
    "too high",
    "too low",
    "noise that no evidence shows",
    "two classes are full of noise",
    "sure of nothing",
]


@pytest.mark.parametrize("name", CASES)
def test_a_hundred_answers_correct_a_noise_rate_that_was_off_by_ten_points(name):
    before, errors, covered = [], [], []
    for seed in range(3):
        result, is_wrong = case(name, seed)
        after, _ = ask(result, is_wrong, 100)
        before.append(abs(result.noise_rate - is_wrong.mean()))
        errors.append(abs(after.noise_rate - is_wrong.mean()))
        covered.append(after.noise_interval[0] <= is_wrong.mean() <= after.noise_interval[1])
    assert min(before) > 0.08 and np.mean(before) > 0.1
    assert np.median(errors) < 0.05 and sum(covered) >= 2, errors


def test_the_rate_of_each_class_follows_its_answers():
    result, is_wrong = case("two classes are full of noise")
    after, answers = ask(result, is_wrong, 200)
    rates = [line["noise_rate"] for line in after.per_class()]
    assert min(rates[:2]) > 0.4 > max(rates[2:])
    # So does the order of what is left, after the rows that are wrong in any class.
    left, before = [[r for r in s.ranking if answers[r] is None][500:1000] for s in (after, result)]
    assert np.mean(result.given[left] < 2) > 1.5 * np.mean(result.given[before] < 2)


def test_a_persons_word_is_final_and_without_one_nothing_changes():
    result, _ = case("too low")
    answers = np.full(N, None, dtype=object)
    assert gm.calibrate(result, answers) == result
    worst, best = result.ranking[0], result.ranking[-1]
    answers[worst], answers[best] = result.given[worst], np.nan
    after = gm.calibrate(result, answers)
    assert after.verdict[[worst, best]].tolist() == ["trusted", "wrong"]
    assert after.probability[[worst, best]].tolist() == [0.0, 1.0]
    assert after.ranking[0] == best and after.ranking[-1] == worst


def test_answers_that_agree_with_the_screening_change_little():
    result, _ = case("too low")
    is_wrong = np.random.default_rng(1).random(N) < result.probability
    after, _ = ask(result, is_wrong, 100)
    assert abs(after.noise_rate - is_wrong.mean()) < 0.05
    assert (after.verdict == result.verdict).mean() > 0.85


def test_select_and_screen_take_answers():
    random = np.random.default_rng(0)
    X = np.repeat(4 * np.eye(3), 60, axis=0) + random.standard_normal((180, 3))
    y = np.repeat(["ant", "bee", "cat"], 60)
    y[:9] = "bee"
    answers = np.full(180, None, dtype=object)
    answers[:9], answers[9] = "ant", np.nan
    result = gm.screen(X, y, answers=answers, random_state=0)
    assert set(result.verdict[:10]) == {"wrong"} and set(result.suggested[:9]) == {"ant"}
    picks = gm.select(X, y, k="trusted", answers=answers, exclude=[9], random_state=0)
    assert picks.mask[:9].all() and not picks.mask[9]
    assert set(picks.labels[np.isin(picks.indices, np.arange(9))]) == {"ant"}
    plain = gm.GMMatching(k=0.5).select(X, y, answers=answers)
    assert plain.provenance["input"]["answers"] and plain.classes == ["ant", "bee", "cat"]
    with pytest.raises(gm.GMMatchError, match="no row of y has this label"):
        gm.screen(X, y, answers=np.full(180, "fly", dtype=object))
    with pytest.raises(gm.GMMatchError, match="one for each of 180"):
        gm.screen(X, y, answers=["ant"])
