"""Means that rows count for with a probability."""

from __future__ import annotations

import numpy as np
import pytest

from gmmatch.kernels.feature_maps import FourierFeatures
from gmmatch.kernels.kernels import RBF
from gmmatch.rows.rows import Rows
from gmmatch.targets.class_means import narrow_features, shared_means

ROWS = np.random.default_rng(0).normal(size=(500, 3)) + 100.0


@pytest.fixture
def features():
    return FourierFeatures(RBF(2.0), 64).fit(ROWS)


def test_each_column_is_a_weighted_mean_of_the_features(features):
    shares = np.random.default_rng(1).random((500, 2)).astype(np.float32)
    exact = features.transform(ROWS).astype(np.float64)
    expected = (shares.T @ exact) / shares.sum(axis=0)[:, None]
    assert np.allclose(shared_means(features, Rows(ROWS), shares), expected, atol=1e-5)


def test_features_are_kept_where_asked(features):
    out = np.empty((500, 64), dtype=np.float32)
    shared_means(features, Rows(ROWS), np.ones((500, 1)), out)
    assert np.allclose(out, features.transform(ROWS), atol=1e-4)
    assert np.array_equal(out, narrow_features(features, Rows(ROWS)))


def test_a_group_nothing_counts_for_has_the_zero_mean(features):
    assert not shared_means(features, Rows(ROWS), np.zeros((500, 1))).any()


def test_rows_with_the_wrong_label_count_for_the_right_class(features):
    """The mean of a class by probabilities is that of its true members, whatever their labels."""
    truth = np.arange(500) % 2
    shares = np.eye(2)[truth]
    mean = shared_means(features, Rows(ROWS), shares)[1]
    assert np.allclose(mean, features.transform(ROWS[truth == 1]).mean(axis=0), atol=1e-5)
