"""The score behind easy, hard and moderate."""

from __future__ import annotations

import numpy as np
import pytest

from gmmatch.errors import InvalidInputError
from gmmatch.rows.rows import as_rows
from gmmatch.scores.center_distance import center_distances


def scores(X, weights, center):
    return center_distances(as_rows(X), np.asarray(weights, dtype=float), center, np.random.default_rng(0), 1)


@pytest.mark.parametrize(
    ("center", "weights", "expected"),
    [
        ("mean", [1, 1, 1, 1], 3.0),
        ("mean", [1, 1, 1, 0], 1.0),
        ("coordinate-median", [1, 1, 1, 1], 1.5),
        ("coordinate-median", [1, 1, 5, 1], 2.0),
        ("geometric-median", [1, 1, 5, 1], 2.0),
    ],
)
def test_worked_examples(center, weights, expected):
    X = np.array([[0.0], [1.0], [2.0], [9.0]])
    distances, middle = scores(X, weights, center)
    assert np.allclose(middle, expected)
    assert np.allclose(distances, np.abs(X[:, 0] - expected))


def test_an_unknown_centre():
    with pytest.raises(InvalidInputError, match="center='mode'"):
        scores([[0.0]], [1], "mode")
