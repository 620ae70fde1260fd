"""What include, exclude, weights, replacement and seeds mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmmatch as gm
from tests.methods.conftest import ROW_BASED
from tests.textbook import geometric_median, textbook_picks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3)) + np.array([1.0, 0.5, 0.0])
Y = np.arange(80) % 3

every_method = pytest.mark.parametrize("method", ROW_BASED)
deterministic = pytest.mark.parametrize("method", [name for name in ROW_BASED if name != "random"])
matchings = pytest.mark.parametrize("method", ["herding", "gm-matching", "kernel-herding"])


def select(method, X=X, y=None, **options):
    return gm.select(X, y=y, method=method, random_state=0, **{"k": 20, **options})


# ----------------------------------------------------------------------------------------- include


@every_method
@pytest.mark.parametrize("y", [None, Y], ids=["no labels", "labels"])
def test_included_rows_come_first_and_count(method, y):
    include = [70, 3, 41]
    selection = select(method, y=y, include=include)
    assert selection.k == 20
    assert selection.order[:3].tolist() == sorted(include)
    assert selection.prefix(3).indices.tolist() == sorted(include)
    assert len(set(selection.order.tolist())) == 20
    mask = np.isin(np.arange(80), include)
    assert selection == select(method, y=y, include=mask) == select(method, y=y, include=set(include))


@deterministic
@pytest.mark.parametrize("given_picks", [1, 5, 19])
def test_going_on_from_the_first_picks_gives_the_same_picks(method, given_picks):
    """So a selection can be enlarged later without losing what has been picked."""
    whole = select(method)
    resumed = select(method, include=whole.order[:given_picks])
    assert set(resumed.order[:given_picks]) == set(whole.order[:given_picks])
    assert np.array_equal(resumed.order[given_picks:], whole.order[given_picks:])
    assert resumed.residual[None] == pytest.approx(whole.residual[None], abs=1e-9)


def test_included_rows_steer_the_matching():
    far_left = np.argsort(X[:, 0])[:5]
    free, steered = select("herding"), select("herding", include=far_left)
    assert np.array_equal(
        steered.order, textbook_picks(X, X.mean(axis=0), 20, already=sorted(far_left.tolist()))
    )
    others = steered.order[5:]
    assert X[others, 0].mean() > X[free.indices, 0].mean()


# ----------------------------------------------------------------------------------------- exclude


@every_method
@pytest.mark.parametrize("y", [None, Y], ids=["no labels", "labels"])
def test_excluded_rows_are_never_picked(method, y):
    first = select(method, y=y)
    second = select(method, y=y, exclude=first.indices)
    assert second.k == 20
    assert not set(second.indices) & set(first.indices)
    mask = first.mask
    assert select(method, y=y, exclude=mask) == second


@every_method
def test_a_share_is_one_of_the_rows_that_may_be_picked(method):
    assert select(method, k=0.5, exclude=np.arange(60)).k == 10
    assert select(method, k="100%", exclude=np.arange(60)).indices.tolist() == list(range(60, 80))


@pytest.mark.parametrize(
    ("method", "target"), [("herding", lambda X: X.mean(axis=0)), ("gm-matching", geometric_median)]
)
def test_excluded_rows_still_count_in_the_target(method, target):
    exclude = np.arange(40)
    ours = select(method, exclude=exclude).order
    assert np.array_equal(ours, textbook_picks(X, target(X), 20, available=np.arange(80) >= 40))


# ----------------------------------------------------------------------------------------- weights


@deterministic
def test_a_weight_of_two_is_the_row_twice(method):
    """In the target; picks are compared where the copies cannot be picked."""
    weights = np.ones(80)
    weights[60:] = 2.0
    copies = np.vstack([X, X[60:]])
    options = {"kernel": gm.RBF(2.0)} if method == "kernel-herding" else {}
    ours = select(method, sample_weight=weights, **options)
    theirs = select(method, copies, exclude=np.arange(80, 100), **options)
    assert np.array_equal(ours.order, theirs.order)
    assert ours.residual[None] == pytest.approx(theirs.residual[None], rel=1e-5)
    assert not np.array_equal(ours.order, select(method, **options).order)


@matchings
def test_the_scale_of_the_weights_does_not_matter(method):
    weights = RNG.uniform(0.5, 2.0, size=80)
    first = select(method, sample_weight=weights)
    assert np.array_equal(first.order, select(method, sample_weight=weights * 64.0).order)
    assert not np.array_equal(first.order, select(method).order)
    assert np.array_equal(select(method).order, select(method, sample_weight=np.full(80, 8.0)).order)


def test_random_draws_in_proportion_to_the_weights():
    weights = np.r_[np.zeros(40), np.ones(39), 39.0]
    drawn = [
        gm.Random(k=1, random_state=seed).select(X, sample_weight=weights).order[0] for seed in range(400)
    ]
    assert min(drawn) >= 40
    assert 160 <= drawn.count(79) <= 240  # 200 are expected, with a deviation of 10


def test_weights_of_a_class_that_nothing_is_picked_of_do_not_matter():
    weights = np.where(Y == 1, 0.0, 1.0)
    selection = select("gm-matching", y=Y, k=None, per_class={0: 3, 2: 3}, sample_weight=weights)
    assert selection.counts == {0: 3, 1: 0, 2: 3}


# ------------------------------------------------------------------------------- seeds and threads


@every_method
@pytest.mark.parametrize("y", [None, Y], ids=["no labels", "labels"])
def test_the_same_seed_gives_the_same_picks_for_any_number_of_threads(method, y):
    options = {"batches": 3} if method in ("herding", "gm-matching", "matching") else {}
    first = select(method, y=y, n_jobs=1, **options)
    for n_jobs in (None, 2, 4, -1):
        again = select(method, y=y, n_jobs=n_jobs, **options)
        assert np.array_equal(again.order, first.order)
        for label, path in first.residual_path.items():
            assert np.array_equal(path, again.residual_path[label])


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("random", {}),
        ("gm-matching", {"batches": 4}),
        ("gm-matching", {"batches": gm.Independent(4)}),
        ("gm-matching", {"target": gm.GeometricMedian(fraction=0.3)}),
        ("gm-matching", {"kernel": gm.RBF(), "target": gm.GeometricMedian(fraction=0.3)}),
        ("kernel-herding", {"kernel": gm.RandomFeatures(gm.RBF(), 8)}),
        ("kernel-herding", {"kernel": gm.Nystroem(gm.RBF(), 8)}),
    ],
)
def test_different_seeds_differ_where_chance_plays_a_part(method, options):
    picks = {
        tuple(gm.select(X, k=70, method=method, random_state=seed, **options).order) for seed in range(4)
    }
    assert len(picks) > 1


@deterministic
def test_and_nowhere_else(method):
    picks = {tuple(gm.select(X, k=20, method=method, random_state=seed).order) for seed in range(4)}
    assert len(picks) == 1


def test_a_generator_moves_on_and_an_integer_does_not():
    selector = gm.Random(k=20, random_state=np.random.default_rng(0))
    assert not np.array_equal(selector.select(X).order, selector.select(X).order)
    selector = gm.Random(k=20, random_state=0)
    assert np.array_equal(selector.select(X).order, selector.select(X).order)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    gm.Random(k=20).select(X)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


# --------------------------------------------------------------------------- ties and permutations


@pytest.mark.parametrize("seed", range(8))
def test_the_two_rows_around_the_middle_are_a_tie(seed):
    """An even number of rows has two at the same distance from the median distance, whatever rounding says."""
    rows = np.random.default_rng(seed).normal(size=(10, 3))
    distances = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
    middle = np.argsort(distances)[4:6]
    assert select("moderate", rows, k=1).order[0] == min(middle)


@deterministic
def test_equal_rows_are_picked_from_the_top(method):
    """Every row is there three times; of equal ones the lowest must go first."""
    tripled = np.tile(X[:20], (3, 1))
    order = select(method, tripled, k=40).order.tolist()
    place = {row: position for position, row in enumerate(order)}
    for row, position in place.items():
        if row >= 20:
            assert place.get(row - 20, 99) < position


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(39)))
def test_shuffled_rows_give_shuffled_picks(permutation):
    """An odd number of rows, because with an even one moderate has a tie in its middle."""
    order = np.array(permutation)
    for method in ("easy", "hard", "moderate", "herding", "gm-matching", "kernel-herding"):
        options = {"kernel": gm.RBF(2.0)} if method == "kernel-herding" else {}
        straight = select(method, X[:39], k=12, **options).order
        shuffled = select(method, X[:39][order], k=12, **options).order
        assert np.array_equal(order[shuffled], straight)


@matchings
def test_turning_the_data_does_not_change_the_picks(method):
    turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    assert np.array_equal(select(method, X @ turn).order, select(method).order)


@pytest.mark.parametrize("method", ["herding", "gm-matching"])
def test_a_start_at_zero_makes_the_origin_irrelevant(method):
    moved = X + np.array([20.0, -30.0, 5.0])
    assert np.array_equal(select(method, moved, start="zero").order, select(method, start="zero").order)
    assert not np.array_equal(select(method, moved).order, select(method).order)


# ------------------------------------------------------------------------------------- preprocess
