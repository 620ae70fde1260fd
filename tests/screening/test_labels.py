"""Label noise: which labels are trusted."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmmatch as gm
from examples import classes, mislabeled
from gmmatch.errors import GMMatchWarning
from gmmatch.rows.rows import Rows
from gmmatch.screening.blocks import Blocks
from gmmatch.screening.labels import label_noise


@pytest.mark.parametrize("apart", [0.0, 2.0, 5.0])
def test_correct_labels_are_kept_whether_classes_overlap_or_not(apart):
    rows, labels = classes(apart=apart)
    screening = gm.screen(rows, labels)
    assert screening.kept.mean() > 0.99
    assert screening.noise_rate is None if apart == 0.0 else screening.noise_rate < 0.02


@pytest.mark.parametrize("kind", ["symmetric", "next"])
@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
def test_wrong_labels_are_dropped_and_correct_ones_stay(share, kind):
    rows, truth = classes()
    labels, wrong = mislabeled(truth, share, kind)
    screening = gm.screen(rows, labels)
    assert wrong[screening.kept].mean() < 0.02
    assert screening.kept[~wrong].mean() > 0.95
    assert np.mean(screening.suggested_labels == truth) > 0.97
    assert screening.noise_rate == pytest.approx(share, abs=0.03)
    assert set(screening.counts) <= {"likely mislabeled", "label in doubt"}


def test_more_than_half_of_the_labels_may_be_wrong_if_they_are_wrong_at_random():
    rows, truth = classes(3000, count=8)
    labels, wrong = mislabeled(truth, 0.6)
    assert wrong[gm.screen(rows, labels).kept].mean() < 0.03


@pytest.mark.parametrize("seed", range(3))
def test_labels_that_have_nothing_to_do_with_the_rows_are_believed(seed):
    """Nothing can be learnt from them; labels must not leak from round to round and confirm themselves."""
    rows, _ = classes(1000, seed=seed)
    labels = np.random.default_rng(seed + 10).integers(0, 4, 1000)
    assert gm.screen(rows, labels).kept.mean() > 0.98


def test_heavy_tails_are_no_label_noise():
    random = np.random.default_rng(0)
    labels = np.arange(3000) % 3
    rows = random.standard_t(3.0, size=(3000, 8)) + 4.0 * np.eye(8)[labels]
    assert gm.screen(rows, labels, method="labels").kept.mean() > 0.98


def test_labels_of_any_kind_give_the_same_screening():
    rows, truth = classes(600)
    labels, _ = mislabeled(truth, 0.3)
    names = np.array(["ant", "bee", "cat", "dog"])
    numbers, words = gm.screen(rows, labels), gm.screen(rows, names[labels])
    assert np.array_equal(numbers.kept, words.kept)
    assert np.array_equal(names[numbers.suggested_labels], words.suggested_labels.astype(str))


def test_classes_too_small_to_judge_are_believed():
    rows, labels = classes(400)
    labels = labels.copy()
    labels[0], labels[1:4] = 99, 98
    assert gm.screen(rows, labels).kept[:4].all()


def test_rows_without_a_label_are_not_judged_by_their_class():
    rows, truth = classes(600)
    labels, _ = mislabeled(truth, 0.3)
    labels = labels.astype(float)
    labels[:50] = np.nan
    screening = gm.screen(rows, labels)
    assert screening.kept[:50].all()
    assert screening.suggested_labels[0] is None


@pytest.mark.slow
@settings(max_examples=12)
@given(st.integers(0, 10_000), st.floats(0.05, 0.4))
def test_trust_is_calibrated(seed, share):
    """Of the labels that are trusted with 90%, about nine in ten are right."""
    rows, truth = classes(1500, apart=3.0, seed=seed)
    labels, wrong = mislabeled(truth, share, seed=seed + 1)
    found = label_noise(Blocks(Rows(rows)), labels, 4, 0.02)
    assert found.rate == pytest.approx(share, abs=0.06)
    sure = found.trust > 0.9
    assert wrong[sure].mean() < 0.05


@pytest.mark.grid
@pytest.mark.parametrize("sizes", [(100, 100), (80, 80, 80, 80, 80), (200, 200, 12), (11, 12)])
@pytest.mark.parametrize("apart", [6.0, 30.0])
def test_clean_classes_that_lie_far_apart_are_kept_whole(sizes, apart):
    for seed in range(4):
        random = np.random.default_rng(seed)
        labels = np.repeat(np.arange(len(sizes)), sizes)
        centers = apart * random.standard_normal((len(sizes), 16))
        found = gm.screen(centers[labels] + random.standard_normal((len(labels), 16)), labels)
        assert found.kept.all(), found


def test_the_order_of_the_rows_hardly_matters():
    rows, truth = classes()
    labels, _ = mislabeled(truth, 0.3)
    order = np.random.default_rng(3).permutation(len(rows))
    one, other = gm.screen(rows, labels).kept, gm.screen(rows[order], labels[order]).kept
    assert np.mean(one[order] == other) > 0.98


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(scale):
    rows, truth = classes(800)
    labels, _ = mislabeled(truth, 0.3)
    assert np.mean(gm.screen(rows, labels).kept == gm.screen(scale * rows + 3 * scale, labels).kept) > 0.99


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_labels_made_wrong_by_any_seed_are_found(seed):
    """Folds and samples must not be drawn by the numbers that chose the wrong labels."""
    rows, truth = classes()
    labels, wrong = mislabeled(truth, 0.4, "next", seed=seed)
    assert wrong[gm.screen(rows, labels).kept].mean() < 0.02


@pytest.mark.parametrize("share", [0.0, 0.45])
def test_noise_that_cannot_be_told_is_said_to_be_unknown(share):
    """Wrong labels among two classes look like classes that overlap: a rate of 0 would claim that all are right."""
    random = np.random.default_rng(0)
    truth = random.integers(2, size=600)
    rows = 1.2 * truth[:, None] + random.standard_normal((600, 8))
    labels, _ = mislabeled(truth, share)
    with pytest.warns(GMMatchWarning, match="^Labels are hardly") if share else nullcontext():
        found = gm.screen(rows, labels, method="labels")
    assert found.kept.all()
    assert found.noise_rate == (None if share else 0.0)
