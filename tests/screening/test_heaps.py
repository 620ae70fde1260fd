"""Heaps: rows of no class, close together, with labels of every class."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.screening.heaps import agreement


def classes_and_a_heap(n_classes, share, where, noise=0.0, seed=0, n=2000, width=12):
    """Return rows, labels, which rows are in the heap, and which labels of the others are wrong."""
    random = np.random.default_rng(seed)
    true = random.integers(0, n_classes, n)
    rows = random.normal(0.0, 6.0, (n_classes, width))[true] + random.normal(size=(n, width))
    heap = random.random(n) < share
    rows[heap] = where + 0.7 * random.normal(size=(int(heap.sum()), width))
    given = true.copy()
    flipped = random.random(n) < noise
    given[flipped] = random.integers(0, n_classes, int(flipped.sum()))
    return rows, given, heap, ~heap & (given != true)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("where", [0.0, 8.0], ids=["among the classes", "far from them"])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_heap_is_dropped_and_the_classes_stay(n_classes, where, noise):
    rows, given, heap, wrong = classes_and_a_heap(n_classes, 0.2, where, noise)
    kept = gm.screen(rows, given).kept
    assert kept[heap].mean() < 0.05
    assert kept[~heap & ~wrong].mean() > 0.98
    if noise:
        assert kept[wrong].mean() < 0.05


@pytest.mark.parametrize("share", [0.1, 0.35])
def test_small_and_large_heaps_are_dropped(share):
    rows, given, heap, _ = classes_and_a_heap(6, share, 5.0, n=4000)
    kept = gm.screen(rows, given).kept
    assert kept[heap].mean() < 0.05
    assert kept[~heap].mean() > 0.98


def test_picks_stay_clear_of_a_heap():
    rows, given, heap, _ = classes_and_a_heap(4, 0.25, 8.0)
    picks = gm.select(rows, y=given, k=200, method="robust").indices
    assert heap[picks].mean() < 0.02
    assert heap[gm.select(rows, y=given, k=200, method="random", random_state=0).indices].mean() > 0.15


def test_clusters_that_every_class_shares_are_no_heaps_where_rows_tell_the_class():
    random = np.random.default_rng(0)
    cluster, given = random.integers(0, 4, 2000), random.integers(0, 2, 2000)
    rows = random.normal(0.0, 10.0, (4, 6))[cluster] + random.normal(size=(2000, 6))
    rows[:, 0] += 4.0 * given
    assert gm.screen(rows, given).kept.mean() > 0.98


def test_clusters_of_one_class_each_are_no_heaps():
    random = np.random.default_rng(0)
    given, part = random.integers(0, 5, 3000), random.integers(0, 3, 3000)
    rows = random.normal(0.0, 6.0, (5, 3, 8))[given, part] + random.normal(size=(3000, 8))
    assert gm.screen(rows, given).kept.mean() > 0.98


def test_agreement_is_what_chance_does_not_explain():
    given = np.array([0, 0, 1, 1])
    assert agreement(given, given) == 1.0
    assert agreement(given, np.zeros(4, dtype=np.int64)) == 0.0
    assert agreement(given, 1 - given) < 0.0
    assert agreement(np.array([], dtype=np.int64), np.array([], dtype=np.int64)) == 0.0
