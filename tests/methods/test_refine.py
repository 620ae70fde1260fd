"""Selections that are improved afterwards: swaps and weights."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((200, 5))
Y = np.arange(200) % 2


@pytest.mark.parametrize(
    "kernel", [None, gm.RandomFeatures(gm.RBF(), 64), gm.RBF()], ids=["rows", "features", "kernel"]
)
@pytest.mark.parametrize("labels", [None, Y])
def test_swaps_bring_the_mean_nearer(kernel, labels):
    selection = gm.GMMatching(k=20, kernel=kernel, random_state=0).select(X, labels)
    refined = gm.refine(selection, X, labels)
    assert refined.k == 20 == len(set(refined.order.tolist())) and refined.counts == selection.counts
    for label, residual in selection.residual.items():
        assert refined.residual[label] <= residual + 1e-12
    assert refined.provenance["refined"]["swaps"] > 0
    if labels is not None:
        assert (labels[refined.order] == labels[selection.order]).all()


def test_included_picks_stay():
    selection = gm.Herding(k=10).select(X, include=[3, 4])
    refined = gm.refine(selection, X, include=[3, 4])
    assert refined.order[:2].tolist() == [3, 4]


@pytest.mark.parametrize("kernel", [None, gm.RBF()])
def test_weights_bring_the_weighted_mean_nearer(kernel):
    selection = gm.Herding(k=30, kernel=kernel).select(X, Y)
    weighed = gm.weigh(selection, X, Y)
    for label in (0, 1):
        own = weighed.labels == label
        assert (weighed.weights[own] >= 0).all() and weighed.weights[own].sum() == pytest.approx(100)
        if kernel is None:
            rows = X[weighed.indices[own]]
            mean = np.average(rows, axis=0, weights=weighed.weights[own])
            target = X[label == Y].mean(axis=0)
            assert np.linalg.norm(mean - target) < np.linalg.norm(rows.mean(axis=0) - target)


@pytest.mark.slow
def test_many_picks_have_weights_too():
    big = RANDOM.standard_normal((3000, 4))
    weighed = gm.weigh(gm.Herding(k=1200).select(big), big)
    mean = np.average(big[weighed.indices], axis=0, weights=weighed.weights)
    assert np.linalg.norm(mean - big.mean(axis=0)) < 1e-3
    assert weighed.weights.sum() == pytest.approx(3000)


def test_what_matches_no_target_is_refused():
    selection = gm.Easy(k=10).select(X)
    for improve in (gm.refine, gm.weigh):
        with pytest.raises(gm.GMMatchError, match="'easy', which matches no target"):
            improve(selection, X)
