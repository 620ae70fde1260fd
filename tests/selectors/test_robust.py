"""The method robust: what it picks, where its rows come from, and what it does when there are too few."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.errors import GMMatchWarning, InvalidInputError
from gmmatch.metrics import mmd


def noisy(n=600, share=0.25, width=2, seed=0):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, width))
    bad = np.arange(n) < round(share * n)
    rows[bad] += 15.0
    return rows, bad


def labelled(n=1200, share=0.3, seed=0):
    random = np.random.default_rng(seed)
    truth = np.arange(n) % 4
    rows = random.normal(size=(n, 8)) + 5.0 * np.eye(8)[truth]
    wrong = random.random(n) < share
    return rows, np.where(wrong, (truth + random.integers(1, 4, n)) % 4, truth), wrong


@pytest.mark.filterwarnings("ignore:The screening dropped")
@pytest.mark.parametrize("share", [0.0, 0.2, 0.45])
def test_picks_follow_the_clean_rows_as_closely_as_if_only_those_were_there(share):
    rows, bad = noisy(share=share)
    picks = gm.Robust(k=60).select(rows).indices
    oracle = gm.KernelHerding(k=60).select(rows[~bad]).indices
    assert not bad[picks].any()
    assert mmd(rows[picks], rows[~bad], bandwidth=1.0) <= 1.5 * mmd(
        rows[~bad][oracle], rows[~bad], bandwidth=1.0
    )


def test_wrong_labels_are_rarely_picked():
    rows, given, wrong = labelled()
    selection = gm.Robust(k=0.2, random_state=0).select(rows, given)
    assert wrong[selection.indices].mean() < 0.03
    assert selection.counts == gm.Random(k=0.2, random_state=0).select(rows, given).counts
    assert selection.provenance["screening"]["noise_rate"] == pytest.approx(0.3, abs=0.05)


def overlapping(seed=0):
    random = np.random.default_rng(seed)
    truth = np.arange(3000) % 5
    rows = random.standard_normal((3000, 20)) + 1.4 * np.eye(5, 20)[truth]
    wrong = random.random(3000) < 0.3
    return rows, np.where(wrong, (truth + random.integers(1, 5, 3000)) % 5, truth), wrong


def test_where_classes_overlap_picks_have_no_more_wrong_labels_than_the_rows_that_passed():
    rows, given, wrong = overlapping()
    selection = gm.Robust(k=0.2, random_state=0).select(rows, given)
    assert wrong[selection.indices].mean() <= 1.2 * wrong[selection.screening.kept].mean()


def test_the_same_seed_gives_the_same_picks_for_any_number_of_threads():
    rows, given, _ = labelled()
    runs = [gm.Robust(k=50, random_state=3, n_jobs=jobs).select(rows, given) for jobs in (1, 2, -1)]
    assert np.array_equal(runs[0].order, runs[1].order)
    assert np.array_equal(runs[0].order, runs[2].order)


def test_many_rows_use_features_and_follow_the_clean_rows_too():
    rows, bad = noisy(n=11_000)
    selection = gm.Robust(k=100, random_state=0).select(rows)
    assert selection.provenance["groups"][0]["approximation"] == "fourier"
    assert not bad[selection.indices].any()
    random = np.random.default_rng(0).choice(np.flatnonzero(~bad), 100, replace=False)
    assert mmd(rows[selection.indices], rows[~bad]) < 0.6 * mmd(rows[random], rows[~bad])


def test_too_few_clean_rows_are_filled_up_with_the_least_suspicious_and_a_warning():
    rows, bad = noisy(n=100)
    with pytest.warns(GMMatchWarning, match="75 of its rows passed the screening: 5 of the others"):
        selection = gm.Robust(k=80).select(rows)
    assert selection.k == 80
    picked = selection.mask & bad
    suspicion = selection.screening.probability
    assert picked.sum() == 5
    assert suspicion[picked].max() <= suspicion[bad & ~picked].min()
    with pytest.warns(GMMatchWarning, match="25 of the others"):
        assert gm.Robust(k="100%").select(rows).mask.all()


def test_included_and_excluded_rows_are_as_asked_whatever_the_screening_says():
    rows, bad = noisy(n=200)
    selection = gm.Robust(k=20).select(rows, include=[0, 1], exclude=np.arange(100, 200))
    assert bad[0] and selection.order[:2].tolist() == [0, 1]
    assert selection.indices.max() < 100
    assert not bad[selection.order[2:]].any()


def test_the_caller_s_exclusions_alone_are_fingerprinted():
    rows, _ = noisy(n=200)
    assert "exclude" not in gm.Robust(k=20).select(rows).provenance["input"]


def test_a_large_part_of_unlabeled_rows_is_not_dropped_without_a_word():
    rows, bad = noisy(share=0.4)
    with pytest.warns(GMMatchWarning, match=r'dropped 240 of 600 rows \(240 far out\).*screen="none"'):
        gm.Robust(k=20).select(rows)
    # Copies are not a kind of row, and labels say what kinds there are.
    copies = np.concatenate([rows[~bad][:300], np.repeat(rows[~bad][:1], 150, axis=0)])
    assert gm.Robust(k=20).select(copies).screening.counts == {"duplicate": 150}
    rows, given, _ = labelled(share=0.4)
    assert gm.Robust(k=20).select(rows, given).screening.kept.mean() < 0.7


def test_weights_move_the_target():
    rows, _ = noisy(n=400, share=0.0)
    weights = np.where(rows[:, 0] > 0, 1.0, 0.01)
    assert rows[gm.Robust(k=40).select(rows, sample_weight=weights).indices, 0].mean() > 0.5
    assert abs(rows[gm.Robust(k=40).select(rows).indices, 0].mean()) < 0.1


def test_without_a_screen_it_is_kernel_herding():
    rows, _ = noisy(n=300)
    ours = gm.Robust(k=30, screen="none").select(rows)
    assert np.array_equal(ours.order, gm.KernelHerding(k=30).select(rows).order)
    assert ours.screening is not None and ours.screening.kept.all()


def test_one_row_and_a_class_of_one_row():
    assert gm.Robust(k=1).select([[1.0, 2.0]]).order.tolist() == [0]
    rows, given, _ = labelled(400, share=0.0)
    given = given.copy()
    given[0] = 9
    assert gm.Robust(per_class={0: 10, 9: 1}).select(rows, given).counts[9] == 1


def test_thousands_of_classes_of_one_row():
    rows = np.random.default_rng(0).normal(size=(5100, 3))
    assert gm.Robust(k=20).select(rows, np.arange(5100)).k == 20


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"screen": "best"}, "screen="),
        ({"tolerance": 2.0}, "tolerance="),
        ({"n_components": 0}, "n_components="),
    ],
)
def test_bad_parameters_are_named(options, words):
    with pytest.raises(InvalidInputError, match=words):
        gm.Robust(k=1, **options).select([[1.0]])
