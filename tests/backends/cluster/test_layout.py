"""The tree over pieces: sums do not depend on who owns which piece."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmmatch.backends.cluster.layout import (
    assign_pieces,
    fold,
    piece_bounds,
    piece_count,
    subtrees,
)
from gmmatch.errors import InvalidInputError
from gmmatch.matching.batches import batch_of_rows, independent_batches, stages


@given(st.integers(0, 10), st.data())
def test_subtrees_are_aligned_and_follow_one_another(power, data):
    n_pieces = 2**power
    first = data.draw(st.integers(0, n_pieces))
    stop = data.draw(st.integers(first, n_pieces))
    found = subtrees(first, stop)
    assert [number for begin, end in found for number in range(begin, end)] == list(range(first, stop))
    for begin, end in found:
        size = end - begin
        assert size & (size - 1) == 0 and begin % size == 0
    for (begin, end), (_, later) in pairwise(found):
        # Two that could be one would send two numbers where one will do.
        assert not (later - end == end - begin and begin % (later - begin) == 0)


@given(st.integers(1, 200), st.integers(1, 10**7), st.integers(1, 3000))
def test_every_piece_has_an_owner_and_shares_are_nearly_equal(workers, n_rows, n_features):
    n_pieces = piece_count(n_rows, n_features)
    workers = min(workers, n_pieces)
    owned = assign_pieces(n_pieces, workers)
    assert [number for first, stop in owned for number in range(first, stop)] == list(range(n_pieces))
    sizes = [stop - first for first, stop in owned]
    assert max(sizes) - min(sizes) <= max(1, n_pieces // workers // 4)


@pytest.mark.parametrize("workers", [1, 2, 4, 8, 16, 32, 64])
def test_a_power_of_two_of_workers_owns_one_subtree_each(workers):
    assert all(len(subtrees(*owned)) == 1 for owned in assign_pieces(1024, workers))


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 7, 13, 64])
def test_sums_have_the_same_bits_for_any_number_of_workers(workers):
    values = np.random.default_rng(0).normal(size=(64, 5)) * 10.0 ** np.arange(-2, 3)

    def leaf(first, stop):
        return values[first] if stop == first + 1 else None

    alone = fold(0, 64, leaf, np.add)
    parts = {
        (begin, end): fold(begin, end, leaf, np.add)
        for owned in assign_pieces(64, workers)
        for begin, end in subtrees(*owned)
    }
    joined = fold(0, 64, lambda *run: parts.get(run), np.add)
    assert joined.tobytes() == alone.tobytes()


def test_more_workers_than_pieces_are_refused():
    with pytest.raises(InvalidInputError, match="workers=65: give a number from 1 to 64"):
        assign_pieces(64, 65)


def test_pieces_cover_all_rows_even_if_there_are_fewer_rows_than_pieces():
    bounds = piece_bounds(10, piece_count(10, 3))
    assert bounds[0] == 0 and bounds[-1] == 10 and np.all(np.diff(bounds) <= 1)


def test_batches_are_random_and_nearly_equal_however_rows_are_stored():
    batch = batch_of_rows(np.arange(64_000), 16, seed=3)
    sizes = np.bincount(batch, minlength=16)
    assert abs(sizes - 4000).max() < 5 * np.sqrt(4000)  # five deviations of a fair draw
    neighbours = np.mean(batch[1:] == batch[:-1])
    assert abs(neighbours - 1 / 16) < 0.01
    assert not np.array_equal(batch, batch_of_rows(np.arange(64_000), 16, seed=4))


def test_a_rows_batch_depends_on_its_number_alone():
    rows = np.array([5, 99_999, 7])
    assert np.array_equal(batch_of_rows(rows, 7, 0), batch_of_rows(np.arange(100_000), 7, 0)[rows])


@given(st.integers(0, 3000), st.lists(st.integers(1, 500), min_size=2, max_size=40))
def test_stages_make_exactly_k_picks(extra, sizes):
    k = 32 * len(sizes) + extra
    first, *corrections, last = stages(k, np.array(sizes))
    before = sum(int(stage.quota.sum()) for stage in (first, *corrections))
    assert last.quota.tolist() == [-1] and k - before == 16
    assert corrections[-1].quota.tolist() == [4]


def test_automatic_batches_keep_every_theta_within_bounds():
    count = independent_batches(10_000_000, 1_000_000_000, 512, None, 1_000_000_000)
    assert count * 512 <= 1 << 23
    assert independent_batches(31, 10**6, 8, 100, 10**6) == 1
