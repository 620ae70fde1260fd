"""Counts and categories: groups with a gap around them that are in the data by nature."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm


def counts(random, y):
    """Sparse counts, as words in short texts."""
    rates = random.standard_normal((10, 40))
    return random.poisson(np.exp(0.8 * rates[y] - 1.5)).astype(float)


def categories(random, y):
    """Twelve continuous columns, and a category that has nothing to do with the class."""
    centers = 1.5 * random.standard_normal((10, 12))
    return np.column_stack(
        [centers[y] + random.standard_normal((len(y), 12)), 4.0 * np.eye(5)[random.integers(0, 5, len(y))]]
    )


def flag(random, y):
    """A tenth of the rows has a flag."""
    centers = 1.5 * random.standard_normal((10, 12))
    return np.column_stack(
        [centers[y] + random.standard_normal((len(y), 12)), 10.0 * (random.random(len(y)) < 0.1)]
    )


@pytest.mark.parametrize("make", [counts, categories, flag])
@pytest.mark.parametrize("seed", [1, 4])
def test_good_rows_of_counts_and_categories_stay(make, seed):
    random = np.random.default_rng(seed)
    y = np.arange(6000) % 10
    assert gm.screen(make(random, y), y).kept.mean() > 0.99


def test_rows_that_were_spoilt_in_many_such_columns_are_found():
    random = np.random.default_rng(0)
    y = np.arange(6000) % 10
    rows = counts(random, y)
    bad = random.random(6000) < 0.2
    rows[bad] = random.poisson(2.0, (bad.sum(), 40))
    found = gm.screen(rows, y)
    assert found.kept[bad].mean() < 0.1
    assert found.kept[~bad].mean() > 0.95


@pytest.mark.parametrize("form", ["some zeros", "rectified", "rounded"])
def test_values_that_many_rows_share_do_not_hide_rows_that_were_moved(form):
    random = np.random.default_rng(0)
    y = random.integers(0, 10, 4000)
    bad = random.random(4000) < 0.05
    rows = 3.0 * random.standard_normal((10, 12))[y] + random.standard_normal((4000, 12))
    rows[bad, 0] += 14.0
    if form == "some zeros":
        rows[~bad & (random.random(4000) < 0.03), 0] = 0.0
    rows = {"rectified": np.maximum(rows, 0.0), "rounded": np.round(rows, 1)}.get(form, rows)
    assert gm.screen(rows, y).kept[bad].mean() < 0.05
