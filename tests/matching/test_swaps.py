"""Swapping picks until their sum is short."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from gmmatch.matching import swaps
from gmmatch.matching.swaps import SwapGroup, swap_towards_zero

RNG = np.random.default_rng(0)


def run(vectors, parts, sweeps=50, fixed=None, seed=0):
    groups = [SwapGroup(np.array(picked), np.array(others)) for picked, others in parts]
    fixed = np.zeros(vectors.shape[1]) if fixed is None else fixed
    random = np.random.default_rng(seed)
    lengths = swap_towards_zero(vectors.astype(np.float32), groups, fixed, random, sweeps=sweeps)
    return groups, lengths


def total(vectors, groups):
    return np.linalg.norm(sum(vectors[group.picked].sum(axis=0) for group in groups))


def test_rows_stay_in_their_group_and_the_length_is_that_of_the_sum():
    vectors = RNG.normal(size=(60, 3)).astype(np.float32)
    parts = [(np.arange(5), np.arange(5, 30)), (np.arange(30, 40), np.arange(40, 60))]
    groups, (before, after) = run(vectors, parts)
    for group, (picked, others) in zip(groups, parts, strict=True):
        assert len(group.picked) == len(picked)
        assert sorted([*group.picked, *group.others]) == sorted([*picked, *others])
    start = np.r_[np.arange(5), np.arange(30, 40)]
    assert before == pytest.approx(np.linalg.norm(vectors[start].sum(axis=0)), rel=1e-6)
    assert after == pytest.approx(total(vectors, groups), rel=1e-4, abs=1e-5)
    assert after < 0.1 * before


@pytest.mark.parametrize("seed", range(5))
def test_no_swap_of_the_pick_that_is_best_gone_is_left(seed):
    """What it stops at is a local optimum of the moves that it makes."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(12, 2)).astype(np.float32)
    swaps_until_it_stops, least = run(vectors, [(np.arange(4), np.arange(4, 12))], sweeps=200, seed=seed)
    (group,) = swaps_until_it_stops
    sum_now = vectors[group.picked].sum(axis=0, dtype=np.float64)
    best = min(np.linalg.norm(vectors[list(some)].sum(axis=0)) for some in combinations(range(12), 4))
    assert best - 1e-6 <= least[1] <= least[0]
    out = min(group.picked, key=lambda row: np.linalg.norm(sum_now - vectors[row]))
    for into in group.others:
        changed = np.linalg.norm(sum_now - vectors[out] + vectors[into])
        assert changed >= (1 - swaps._LEAST_GAIN) * least[1] - 1e-6


def test_what_is_fixed_is_balanced():
    vectors = np.array([[1.0], [2.0], [-5.0], [0.5]])
    (group,), (before, after) = run(vectors, [([0], [1, 2, 3])], fixed=np.array([5.0]))
    assert group.picked.tolist() == [2]
    assert (before, after) == (6.0, 0.0)


def test_no_sweeps_and_nothing_to_swap_leave_the_picks():
    vectors = RNG.normal(size=(6, 2))
    for parts, sweeps in (([([0, 1], [2, 3])], 0), ([([0, 1], [])], 9), ([([], [0, 1])], 9)):
        parts = [(np.array(a, dtype=int), np.array(b, dtype=int)) for a, b in parts]
        (group,), (before, after) = run(vectors, parts, sweeps)
        assert np.array_equal(group.picked, parts[0][0])
        assert before == after


def test_many_rows_are_looked_at_in_samples(monkeypatch):
    monkeypatch.setattr(swaps, "CANDIDATES", 16)
    vectors = RNG.normal(size=(400, 4))
    parts = [(np.arange(100), np.arange(100, 400))]
    (group,), (before, after) = run(vectors, parts)
    assert after < 0.2 * before
    assert len(set(group.picked.tolist())) == 100
    again, _ = run(vectors, parts)
    assert np.array_equal(again[0].picked, group.picked)


def test_a_greedy_matching_of_the_target_zero_prefers_long_vectors():
    """Why there are swaps: the matching's sum is longer than that of random rows, and swaps make it short."""
    from gmmatch.matching.match import match
    from gmmatch.rows.rows import Rows

    random = np.random.default_rng(0)
    # Most rows have little influence and some have much, as in a classifier that is mostly right.
    vectors = random.normal(size=(600, 50)) * random.lognormal(sigma=1.5, size=(600, 1))
    vectors = (vectors - vectors.mean(axis=0)).astype(np.float32)
    greedy = match(Rows(vectors), np.zeros(50), 60, start="zero").order
    group = SwapGroup(np.arange(60), np.arange(60, 600))
    before, after = swap_towards_zero(vectors, [group], np.zeros(50), random, sweeps=20)
    assert np.linalg.norm(vectors[greedy].sum(axis=0)) > before
    assert after < 0.2 * before
