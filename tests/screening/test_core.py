"""The core: what is dropped without labels, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.errors import InvalidInputError


def clean_and_far(n, share, width, seed=0, distance=12.0):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, width))
    bad = np.arange(n) < round(share * n)
    rows[bad] += distance * np.sqrt(width / 2)
    return rows, bad


@pytest.mark.parametrize("width", [1, 2, 5, 15, 40])
@pytest.mark.parametrize("n", [50, 400])
def test_nothing_is_dropped_of_a_gaussian(n, width):
    rows = np.random.default_rng(3).normal(size=(n, width))
    assert gm.screen(rows).kept.all()


@pytest.mark.parametrize("width", [2, 40])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.45])
def test_a_far_cluster_is_dropped_and_nothing_else(share, width):
    rows, bad = clean_and_far(400, share, width)
    screening = gm.screen(rows)
    assert np.array_equal(screening.kept, ~bad)
    assert set(screening.reason[bad].tolist()) == {screening.reasons.index("far from the core")}
    assert (screening.suspicion[bad] > 0).all() and (screening.suspicion[~bad] <= 0).all()


@pytest.mark.parametrize("width", [2, 40])
def test_one_row_a_million_away_is_dropped_and_no_other(width):
    rows = np.random.default_rng(1).normal(size=(300, width))
    rows[17] = 1e6
    assert np.flatnonzero(~gm.screen(rows).kept).tolist() == [17]


def test_a_shell_around_the_data_is_dropped():
    random = np.random.default_rng(0)
    rows = random.normal(size=(500, 2))
    angles = random.uniform(0, 2 * np.pi, 200)
    rows[:200] = 12 * np.column_stack([np.cos(angles), np.sin(angles)])
    kept = gm.screen(rows).kept
    assert not kept[:200].any()
    assert kept[200:].mean() > 0.97


def test_of_an_overlapping_cluster_little_more_gets_in_than_a_rule_that_knows_both_would_let_in():
    random = np.random.default_rng(0)
    rows = random.normal(size=(1000, 2))
    rows[:300, 0] += 3.0
    kept = gm.screen(rows).kept
    likely = np.log(0.7) - 0.5 * rows[:, 0] ** 2 > np.log(0.3) - 0.5 * (rows[:, 0] - 3.0) ** 2
    assert kept[:300].sum() <= 1.3 * likely[:300].sum()
    assert kept[300:].mean() > 0.9


def test_a_small_clean_cluster_stays_when_two_are_expected():
    random = np.random.default_rng(0)
    rows = random.normal(size=(500, 2))
    rows[:60] += [12.0, 0.0]
    rows[60:70] += [0.0, 80.0]
    one, two = gm.screen(rows, n_modes=1).kept, gm.screen(rows, n_modes=2).kept
    assert not one[:70].any()
    assert two[:60].all() and not two[60:70].any()
    assert one[70:].all() and two[70:].all()


@pytest.mark.parametrize("share", [0.2, 0.45])
def test_an_overlapping_cluster_shows_in_many_columns_too(share):
    """Of 1,000 rows in 512 columns; the rule that knows both clusters looks along the first column alone."""
    random = np.random.default_rng(3)
    rows = random.normal(size=(1000, 512))
    bad = np.arange(1000) < 1000 * share
    rows[bad, 0] += 3.0
    kept = gm.screen(rows).kept
    likely = np.log1p(-share) - 0.5 * rows[:, 0] ** 2 > np.log(share) - 0.5 * (rows[:, 0] - 3.0) ** 2
    assert kept[bad].sum() <= 1.3 * likely[bad].sum()
    assert kept[~bad].mean() > 0.85


@pytest.mark.parametrize(("n", "width"), [(1000, 512), (400, 128), (300, 300)])
@pytest.mark.parametrize(
    "shape",
    ["round", "one wide direction", "falling widths", "exponential", "t with 5 degrees", "ReLU", "one norm"],
)
def test_clean_rows_of_many_columns_stay_whatever_their_shape(shape, n, width):
    random = np.random.default_rng(100)
    normal = random.normal(size=(n, width))
    order = np.arange(width)
    rows = {
        "round": normal,
        "one wide direction": normal * np.where(order == 0, 2.0, 1.0),
        "falling widths": normal / np.sqrt(order + 1.0),
        "exponential": random.exponential(size=(n, width)),
        "t with 5 degrees": random.standard_t(5, size=(n, width)),
        "ReLU": np.maximum(normal, 0.0),
        "one norm": normal / np.linalg.norm(normal, axis=1, keepdims=True),
    }[shape]
    # Of the t's tails a few rows are lost.
    assert gm.screen(rows).kept.mean() > 0.95


@pytest.mark.parametrize("n", [500, 2000])
def test_uniform_rows_stay(n):
    assert gm.screen(np.random.default_rng(1).random((n, 2))).kept.all()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_scale_and_origin_do_not_matter(scale):
    rows, bad = clean_and_far(300, 0.3, 3)
    moved = scale * (rows + np.array([5.0, -7.0, 100.0]))
    assert np.array_equal(gm.screen(moved).kept, ~bad)


def test_the_order_of_the_rows_does_not_matter():
    rows, bad = clean_and_far(300, 0.4, 4)
    order = np.random.default_rng(5).permutation(300)
    assert np.array_equal(gm.screen(rows[order]).kept, ~bad[order])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32])
def test_types_and_read_only_rows(dtype):
    rows, bad = clean_and_far(300, 0.3, 2)
    rows = np.round(100 * rows).astype(dtype)
    rows.flags.writeable = False
    before = rows.copy()
    assert np.array_equal(gm.screen(rows).kept, ~bad)
    assert np.array_equal(rows, before)


@pytest.mark.parametrize("rows", [np.ones((1, 3)), np.ones((9, 2)), np.zeros((40, 30)), np.eye(4)])
def test_too_little_to_judge_by_is_kept(rows):
    screening = gm.screen(rows)
    assert screening.kept.all()
    assert screening.looks_like is None


def test_copies_of_the_same_rows_are_kept():
    rows = np.repeat(np.random.default_rng(0).normal(size=(50, 3)), 6, axis=0)
    assert gm.screen(rows).kept.all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "cor"}, "screen='cor'"),
        ({"n_modes": 0}, "n_modes=0"),
        ({"n_modes": True}, "n_modes=True"),
        ({"tolerance": 0.0}, "tolerance=0.0"),
        ({"method": "contrast"}, "labels"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(InvalidInputError, match=words):
        gm.screen(np.eye(3), **options)
