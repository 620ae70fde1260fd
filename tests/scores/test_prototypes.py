"""Distances to the prototypes of clusters."""

from __future__ import annotations

import numpy as np
import pytest

from gmmatch.rows.rows import Rows
from gmmatch.scores import prototypes
from gmmatch.scores.prototypes import find_prototypes, prototype_distances

RNG = np.random.default_rng(0)
CENTERS = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
X = (CENTERS[:, None] + RNG.normal(size=(3, 50, 2))).reshape(150, 2)


def found(X=X, clusters=3, weights=None, seed=0):
    weights = np.ones(len(X)) if weights is None else weights
    return find_prototypes(Rows(X), clusters, weights, np.random.default_rng(seed))


def test_prototypes_are_the_means_of_well_separated_clusters():
    means = X.reshape(3, 50, 2).mean(axis=1)
    ours = found()
    assert ours[np.lexsort(ours.T.round())] == pytest.approx(means[np.lexsort(means.T.round())], abs=1e-6)


def test_the_distance_is_to_the_nearest_prototype():
    ours = found()
    plain = np.linalg.norm(X[:, None] - ours, axis=2).min(axis=1)
    assert prototype_distances(Rows(X), ours) == pytest.approx(plain, rel=1e-12)
    assert np.array_equal(prototype_distances(Rows(X), ours, threads=3), prototype_distances(Rows(X), ours))


def test_rows_without_weight_make_no_prototype():
    polluted = np.vstack([X, np.full((40, 2), 500.0)])
    weights = np.r_[np.ones(150), np.zeros(40)]
    assert found(polluted, 3, weights).max() < 30.0
    assert found(polluted, 3).max() > 400.0


@pytest.mark.parametrize("X", [np.zeros((5, 2)), np.array([[1.0, 2.0]])])
def test_fewer_different_rows_than_clusters(X, recwarn):
    assert prototype_distances(Rows(X), found(X, 4)) == pytest.approx(np.zeros(len(X)))
    assert not recwarn.list


def test_many_rows_are_sampled(monkeypatch):
    monkeypatch.setattr(prototypes, "SAMPLED_ROWS", 60)
    sampled = found()
    monkeypatch.undo()
    assert sampled[np.lexsort(sampled.T.round())] == pytest.approx(CENTERS[np.lexsort(CENTERS.T)], abs=1.0)
    assert not np.allclose(np.sort(sampled, axis=0), np.sort(found(), axis=0), atol=1e-6)
