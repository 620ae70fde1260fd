"""Contrast and foreign groups: what is dropped where there are labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import gmmatch as gm
from gmmatch.screening.channel import first_channel, noisy_channel
from gmmatch.screening.contrast import threshold


def classes(n, width=10, count=4, apart=5.0, seed=0):
    """Return rows of Gaussian classes, and their labels."""
    random = np.random.default_rng(seed)
    labels = np.arange(n) % count
    centers = apart * np.eye(width)[:count]
    return random.normal(size=(n, width)) + centers[labels], labels


def flipped(labels, share, seed=0):
    random = np.random.default_rng(seed)
    wrong = np.zeros(len(labels), dtype=bool)
    wrong[random.permutation(len(labels))[: round(share * len(labels))]] = True
    count = labels.max() + 1
    return np.where(wrong, (labels + random.integers(1, count, len(labels))) % count, labels), wrong


@pytest.mark.parametrize("apart", [0.0, 2.0, 5.0])
def test_almost_nothing_is_dropped_where_labels_are_right(apart):
    rows, labels = classes(1200, apart=apart)
    assert gm.screen(rows, labels).kept.mean() > 0.99


@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
def test_wrong_labels_are_dropped_and_right_ones_stay(share):
    rows, truth = classes(1200)
    given, wrong = flipped(truth, share)
    screening = gm.screen(rows, given)
    assert wrong[screening.kept].mean() < 0.03
    assert screening.kept[~wrong].mean() > 0.95
    assert np.mean(screening.looks_like == truth) > 0.97
    assert {screening.reasons[code] for code in screening.reason[~screening.kept]} == {
        "closer to another class"
    }


def test_labels_of_any_kind_give_the_same_screening():
    rows, truth = classes(600)
    given, _ = flipped(truth, 0.3)
    names = np.array(["ant", "bee", "cat", "dog"])
    numbers, words = gm.screen(rows, given), gm.screen(rows, names[given])
    assert np.array_equal(numbers.kept, words.kept)
    assert np.array_equal(names[numbers.looks_like], words.looks_like.astype(str))


def test_a_row_far_from_every_class_is_dropped_for_that():
    rows, labels = classes(600)
    rows[5] = 1e6
    screening = gm.screen(rows, labels)
    assert not screening.kept[5]
    assert screening.reasons[screening.reason[5]] == "far from the core"
    assert screening.kept.sum() >= 0.99 * 600


def test_rows_that_leave_every_class_in_one_direction_are_foreign():
    rows, labels = classes(4000, width=12, count=6)
    spoilt = np.arange(4000) % 10 == 7
    rows[spoilt, -1] += 15.0
    screening = gm.screen(rows, labels)
    assert not screening.kept[spoilt].any()
    assert screening.kept[~spoilt].mean() > 0.98
    # Labels alone say nothing against them.
    assert gm.screen(rows, labels, method="contrast").kept[spoilt].mean() > 0.9


def test_classes_too_small_to_judge_are_kept():
    rows, labels = classes(400)
    labels = labels.copy()
    labels[0], labels[1:4] = 99, 98
    screening = gm.screen(rows, labels)
    assert screening.kept[:4].all()


def test_rows_without_a_label_are_not_judged():
    rows, truth = classes(600)
    given, _ = flipped(truth, 0.3)
    given = given.astype(float)
    given[:50] = np.nan
    screening = gm.screen(rows, given)
    assert screening.kept[:50].all()
    assert screening.looks_like[0] is None


def test_one_class_is_screened_for_its_core():
    rows = np.random.default_rng(0).normal(size=(300, 3))
    rows[:90] += 20.0
    assert np.array_equal(gm.screen(rows, ["a"] * 300).kept, np.arange(300) >= 90)
    assert gm.screen(rows, ["a"] * 300, method="contrast").kept.all()


def test_the_core_of_each_class():
    rows, labels = classes(800, count=2)
    rows[:80] += 60.0
    kept = gm.screen(rows, labels, method="core").kept
    assert np.array_equal(kept, np.arange(800) >= 80)


def test_nothing_is_screened_on_request():
    rows, labels = classes(60)
    assert gm.screen(1e3 * rows, labels, method="none").kept.all()


def test_the_order_of_the_rows_hardly_matters():
    """Folds differ, so that a few rows at the threshold may change sides."""
    rows, truth = classes(1200)
    given, _ = flipped(truth, 0.3)
    order = np.random.default_rng(1).permutation(1200)
    first, second = gm.screen(rows, given).kept, gm.screen(rows[order], given[order]).kept
    assert np.mean(first[order] == second) > 0.98


def test_scale_and_origin_do_not_matter():
    rows, truth = classes(600)
    given, _ = flipped(truth, 0.3)
    first, second = gm.screen(rows, given).kept, gm.screen(1e3 * (rows + 5.0), given).kept
    assert np.mean(first == second) > 0.99


def test_the_channel_finds_who_is_taken_for_whom():
    """A third of the second class is called the first, and nothing else is wrong."""
    random = np.random.default_rng(0)
    truth = np.arange(3000) % 3
    given = np.where((truth == 1) & (random.random(3000) < 1 / 3), 0, truth)
    rows = random.normal(size=(3000, 3)) + 4.0 * np.eye(3)[truth]
    scores = (4.0 * rows).astype(np.float32)
    scores -= scores.max(axis=1, keepdims=True)
    channel = noisy_channel(scores, given, first_channel(given, 3))
    assert channel.joint[1, 0] == pytest.approx(1 / 9, abs=0.02)
    assert channel.noise == pytest.approx(1 / 9, abs=0.02)


def test_the_threshold_bounds_the_expected_share_of_wrong_labels():
    trust = np.r_[np.full(90, 0.999), np.full(5, 0.7), np.full(5, 0.2)]
    assert threshold(trust, 0.02) == pytest.approx(0.7)
    assert threshold(trust, 0.002) == pytest.approx(0.999)
    assert threshold(np.ones(4), 0.02) == 1.0
    # Where everything is doubtful, most of what may be right stays.
    assert (np.linspace(0.5, 0.8, 100) >= threshold(np.linspace(0.5, 0.8, 100), 0.01)).mean() >= 0.7


def pieces(kind, n=900, seed=0):
    """Return classes that no plane separates, and their labels."""
    from sklearn.datasets import make_circles, make_moons

    random = np.random.default_rng(seed)
    if kind == "moons":
        return make_moons(n, noise=0.15, random_state=seed)
    if kind == "circles":
        return make_circles(n, noise=0.08, factor=0.5, random_state=seed)
    if kind == "opposite corners":
        corners = random.integers(0, 2, (n, 2))
        return random.normal(size=(n, 4)) + 8.0 * np.pad(corners, ((0, 0), (0, 2))), corners.sum(axis=1) % 2
    centers = random.normal(size=(4, 3, 16)) * 7.0 / np.sqrt(32.0)
    labels = np.arange(n) % 4
    return random.normal(size=(n, 16)) + centers[labels, random.integers(0, 3, n)], labels


@pytest.mark.parametrize("kind", ["moons", "circles", "opposite corners", "three clusters each"])
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_classes_may_be_bent_or_in_pieces(kind, share):
    rows, truth = pieces(kind)
    given, wrong = flipped(truth, share)
    screening = gm.screen(rows, given)
    assert wrong[screening.kept].mean() < 0.03
    assert screening.kept[~wrong].mean() > (0.95 if share else 0.99)


def two_clusters():
    rows = np.random.default_rng(0).normal(size=(300, 4))
    rows[:150] += 16.0
    return rows, np.repeat([0, 1], 150)


@pytest.mark.parametrize("share", [0.03, 0.2])
def test_wrong_labels_among_tight_classes_are_no_weakness_of_the_discriminant(share):
    rows, truth = two_clusters()
    given, wrong = flipped(truth, share)
    kept = gm.screen(rows, given).kept
    assert kept[wrong].mean() < 0.2
    assert kept[~wrong].all()


def test_a_hundred_and_fifty_rows_with_two_fifths_wrong():
    from sklearn.datasets import load_iris

    rows, truth = load_iris(return_X_y=True)
    given, wrong = flipped(truth, 0.4)
    kept = gm.screen(rows, given).kept
    assert wrong[kept].mean() < 0.15
    assert kept[~wrong].mean() > 0.9


@pytest.mark.parametrize("name", ["load_wine", "load_breast_cancer"])
def test_columns_of_very_different_scales(name):
    from sklearn import datasets

    rows, truth = getattr(datasets, name)(return_X_y=True)
    given, wrong = flipped(truth, 0.1)
    kept = gm.screen(rows, given).kept
    assert wrong[kept].mean() < 0.04
    assert kept[~wrong].mean() > 0.95
    assert gm.screen(rows, truth).kept.mean() > 0.98


@pytest.mark.parametrize("kind", ["next class", "one class"])
def test_mistakes_that_are_not_spread_evenly(kind):
    rows, truth = classes(1200)
    random = np.random.default_rng(0)
    wrong = random.random(1200) < 0.3
    if kind == "one class":
        wrong &= truth == 0
    given = np.where(wrong, (truth + 1) % 4, truth)
    kept = gm.screen(rows, given).kept
    assert wrong[kept].mean() < 0.03
    assert kept[~wrong].mean() > 0.95


def test_rows_that_tell_little_about_their_class_judge_no_label():
    random = np.random.default_rng(0)
    truth = np.arange(1000) % 5
    rows = random.normal(size=(1000, 20)) + 0.7 * np.eye(20)[truth]
    given, _ = flipped(truth, 0.2)
    for labels in (given, random.permutation(truth)):
        screening = gm.screen(rows, labels, method="contrast")
        assert screening.kept.all()
        assert "too little about their class" in screening.note
        assert "too little about their class" in repr(screening)


def test_rows_of_equal_value_in_each_class():
    truth = np.arange(300) % 3
    given, wrong = flipped(truth, 0.1)
    kept = gm.screen(np.eye(3)[truth], given).kept
    assert np.array_equal(kept, ~wrong)


@settings(max_examples=6)
@drawn(
    names=st.permutations(["ant", "bee", "cat", "dog"]),
    shift=st.floats(-1e3, 1e3),
    scale=st.sampled_from([1e-6, 0.3, 1e6]),
    seed=st.integers(0, 99),
)
def test_names_origin_scale_and_axes_hardly_matter(names, shift, scale, seed):
    """Rounding, and the directions that a kernel is drawn along, may move a few rows at the threshold."""
    rows, truth = classes(360, width=6)
    labels, _ = flipped(truth, 0.2)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 6)))[0]
    first = gm.screen(rows, labels)
    second = gm.screen(scale * (rows @ turn + shift), np.array(names)[labels])
    assert np.mean(first.kept == second.kept) > 0.97
    assert np.mean(np.array(names)[first.looks_like] == second.looks_like.astype(str)) > 0.97
