"""Distances to the prototypes of clusters."""

from __future__ import annotations

import numpy as np
import pytest

from gmmatch.rows.array import ArrayRows
from gmmatch_paper.baselines.prototypes import find_prototypes, prototype_distances

RNG = np.random.default_rng(0)
CENTERS = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
X = (CENTERS[:, None] + RNG.normal(size=(3, 50, 2))).reshape(150, 2)


def find(X=X, n_clusters=3, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    points = find_prototypes(ArrayRows(X), n_clusters, weights, np.random.default_rng(0))
    return points[np.lexsort(points.T.round())]


def test_prototypes_are_the_means_of_well_separated_clusters():
    means = X.reshape(3, 50, 2).mean(axis=1)
    assert find() == pytest.approx(means[np.lexsort(means.T.round())], abs=1e-6)


def test_the_distance_of_a_row_far_from_the_origin_keeps_its_digits():
    assert prototype_distances(ArrayRows(np.array([[1e9 + 0.25]])), np.array([[1e9], [0.0]])).tolist() == [
        0.25
    ]


def test_rows_without_weight_make_no_prototype():
    polluted = np.vstack([X, np.full((40, 2), 500.0)])
    assert find(polluted, 3, np.r_[np.ones(150), np.zeros(40)]).max() < 30.0
    assert find(polluted, 3).max() > 400.0


@pytest.mark.parametrize("X", [np.zeros((5, 2)), np.array([[1.0, 2.0]])])
def test_fewer_different_rows_than_clusters(X, recwarn):
    assert prototype_distances(ArrayRows(X), find(X, 4)) == pytest.approx(np.zeros(len(X)))
    assert not recwarn.list
