"""New rows are screened by the share of wrong labels among them."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.screening.result import REASONS, Screening
from gmmatch.updating.earlier import Earlier


def test_the_share_of_wrong_labels_is_that_of_the_new_rows():
    """Of old picks and as many new rows 20% are wrong, all of them among the new rows: these are judged by 40%."""
    random = np.random.default_rng(0)
    wrong = np.arange(2000) >= 1600
    score = random.standard_normal(2000) + 2.0 * wrong  # evidence, of which the likelihood ratio is known
    ratio = np.exp(2.0 * score - 2.0)
    probability = 0.2 * ratio / (0.2 * ratio + 0.8)
    reason = np.where(probability > 0.5, 1, 0).astype(np.int8)
    screening = Screening(reason == 0, probability, reason, REASONS, noise_rate=0.2)
    X = random.standard_normal((1000, 3))
    old = gm.Herding(k=1000, updatable=True, random_state=0).select(X)
    judged, trust = Earlier(old, old.past).judged(
        screening, np.where(reason == 0, 1.0 - probability, 0.0), 0.02
    )
    right = 0.4 * ratio / (0.4 * ratio + 0.6)
    assert judged.probability[1000:] == pytest.approx(right[1000:], abs=0.03)
    assert np.array_equal(judged.probability[:1000], probability[:1000])
    assert judged.kept[1000:].sum() < screening.kept[1000:].sum()
    assert wrong[1000:][judged.kept[1000:]].mean() < 0.5 * wrong[1000:][screening.kept[1000:]].mean()
    assert np.all(trust[~judged.kept] == 0.0) and np.all(trust[judged.kept] > 0.5)


def test_without_an_estimate_nothing_changes():
    old = gm.Herding(k=2, updatable=True).select([[0.0], [1.0], [2.0]])
    screening = Screening(np.ones(3, bool), np.zeros(3), np.zeros(3, np.int8))
    assert Earlier(old, old.past).judged(screening, np.ones(3), 0.02)[0] is screening
