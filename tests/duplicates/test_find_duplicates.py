"""Copies as a screening wants them: of tables and of embeddings, and none where rows are equal by nature."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from gmmatch.duplicates.search import find_duplicates
from gmmatch.rows import open_rows

RANDOM = np.random.default_rng(0)


def find(X, **options):
    with open_rows(X) as rows:
        return find_duplicates(rows, **options)


@pytest.mark.parametrize("width", [1, 2, 5, 64, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_natural_rows_have_no_copies(width, dtype):
    assert np.all(find(RANDOM.standard_normal((2000, width)).astype(dtype)) == -1)


@pytest.mark.parametrize("width, noise", [(2, 1e-6), (5, 1e-3), (16, 0.1), (64, 0.2), (256, 0.3)])
def test_200_near_copies_among_2000_rows(width, noise):
    X = RANDOM.standard_normal((2000, width)) * np.geomspace(1e-3, 1e3, width) + 50.0
    X[1800:] = X[:200] + noise * X.std(axis=0) * RANDOM.standard_normal((200, width))
    original = find(X)
    copies = np.flatnonzero(original >= 0)
    assert len(copies) == 200 and np.all(np.abs(copies - original[copies]) == 1800)


def test_of_copies_that_are_hardly_near_enough_few_are_missed_among_many_cells():
    X = RANDOM.standard_normal((5_000, 128)).astype(np.float32)
    noise = np.repeat([0.1, 0.4], 250)[:, None]  # cosines of 0.998 and 0.96
    X[4_500:] = X[:500] + noise * RANDOM.standard_normal((500, 128))
    original = find(X)
    pairs = (original[:500] == np.arange(4_500, 5_000)) | (original[4_500:] == np.arange(500))
    assert pairs[:250].all() and pairs[250:].sum() > 240
    assert (original >= 0).sum() == pairs.sum()


def grades(n):
    level = RANDOM.integers(1, 11, n)
    return np.clip(level[:, None] * (RANDOM.random((n, 9)) < 0.3) + 1, 1, 10).astype(float)


NATURAL = {
    "grades": lambda: grades(683),
    "few grades": lambda: RANDOM.integers(0, 4, (400, 5)).astype(float),
    "ages and grades": lambda: np.column_stack(
        [RANDOM.integers(20, 80, 1500), RANDOM.integers(0, 3, (1500, 4))]
    ),
    "counts": lambda: RANDOM.poisson(0.4, (2000, 6)).astype(float),
    "one row": lambda: np.ones((50, 4)),
}


@pytest.mark.parametrize("kind", NATURAL)
def test_equal_rows_are_natural_where_values_come_in_wide_steps(kind):
    X = NATURAL[kind]()
    assert len(np.unique(X, axis=0)) < 0.95 * len(X)
    assert np.all(find(X) == -1)


def test_copies_of_pixels_and_of_bits_are_copies():
    pixels = load_digits().data
    assert np.all(find(pixels) == -1)
    assert (find(np.concatenate([pixels, pixels[:300]])) >= 0).sum() == 300
    bits = (RANDOM.random((1500, 256)) < 0.3).astype(float)
    bits[1300:] = bits[:200]
    assert (find(bits) >= 0).sum() == 200


def test_categories_beside_measurements_do_not_hide_copies():
    X = np.column_stack([RANDOM.standard_normal((1000, 4)), np.eye(5)[RANDOM.integers(0, 5, 1000)]])
    X[900:] = X[:100]
    assert (find(X) >= 0).sum() == 100


def test_rows_outside_of_the_mask_take_no_part():
    X = RANDOM.standard_normal((300, 4))
    X[1], X[2] = X[0], X[0]
    mask = np.arange(300) != 0
    original = find(X, mask=mask)
    assert original[0] == -1 and sorted(original[1:3]) in ([-1, 1], [-1, 2])
    assert np.all(find(X, mask=np.zeros(300, dtype=bool)) == -1)


@pytest.mark.parametrize("value", [1e15, 3e38])
def test_rows_far_out_do_not_hide_copies(value):
    X = RANDOM.standard_normal((600, 8)).astype(np.float32)
    X[5:8] = value
    X[100] = X[50]
    X[200:230, 3] = value * RANDOM.random(30)
    assert np.flatnonzero(find(X) >= 0).tolist() == [6, 7, 100]
