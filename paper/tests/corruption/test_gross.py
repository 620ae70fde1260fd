"""Rows that an adversary replaces."""

from __future__ import annotations

import numpy as np
import pytest

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch_paper.corruption import FarCluster, GrossCorruption, HeavyTail, MeanAttack, Shell, adversaries


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(3.0, 2.0, size=(200, 5))


@pytest.mark.parametrize("adversary", adversaries())
def test_exactly_the_asked_rows_are_replaced_and_no_others(rows, adversary):
    before = rows.copy()
    result = GrossCorruption(rate=0.35, adversary=adversary, seed=3).apply(rows)
    assert np.array_equal(rows, before)
    assert result.mask.sum() == 70
    assert np.array_equal((result.data != rows).any(axis=1), result.mask)
    assert set(result.kinds[result.mask]) == {adversary} and set(result.kinds[~result.mask]) == {""}
    assert not np.shares_memory(result.data, rows)


def test_the_seed_decides_everything_and_a_higher_rate_replaces_more_rows(rows):
    some, again = GrossCorruption(rate=0.2, seed=1).apply(rows), GrossCorruption(rate=0.2, seed=1).apply(rows)
    assert np.array_equal(some.data, again.data)
    assert not np.array_equal(some.mask, GrossCorruption(rate=0.2, seed=2).apply(rows).mask)
    assert (GrossCorruption(rate=0.4, seed=1).apply(rows).mask >= some.mask).all()


def test_the_adversary_sees_all_rows_and_cannot_change_them(rows):
    seen = []

    def adversary(everything, count, random):
        seen.append(np.array(everything))
        with pytest.raises(ValueError, match="read-only"):
            everything[0] = 0.0
        return np.tile(everything.max(axis=0), (count, 1))

    result = GrossCorruption(rate=0.1, adversary=adversary).apply(rows)
    assert np.array_equal(seen[0], rows)
    assert np.array_equal(result.data[result.mask], np.tile(rows.max(axis=0), (20, 1)))
    assert result.counts == {"adversary": 20}


def test_a_far_cluster_lies_where_it_says(rows):
    center, radius = rows.mean(axis=0), np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())
    result = GrossCorruption(rate=0.45, adversary=FarCluster(distance=40.0, spread=0.5)).apply(rows)
    bad = result.data[result.mask]
    assert np.linalg.norm(bad.mean(axis=0) - center) == pytest.approx(40.0 * radius, rel=0.01)
    assert np.sqrt(((bad - bad.mean(axis=0)) ** 2).sum(axis=1).mean()) == pytest.approx(
        0.5 * radius, rel=0.15
    )


def test_a_shell_lies_at_one_distance_in_all_directions(rows):
    center, radius = rows.mean(axis=0), np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())
    result = GrossCorruption(rate=0.45, adversary=Shell(distance=7.0)).apply(rows)
    offsets = result.data[result.mask] - center
    assert np.linalg.norm(offsets, axis=1) == pytest.approx(7.0 * radius)
    # The mean of 90 directions is about 1/√90 long.
    assert np.linalg.norm(offsets.mean(axis=0)) < 3 * 7.0 * radius / np.sqrt(90)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_keep_their_type_and_integers_become_floats(rows, dtype):
    assert GrossCorruption(rate=0.1).apply(rows.astype(dtype)).data.dtype == dtype
    assert GrossCorruption(rate=0.1).apply(rows.astype(np.int32)).data.dtype == np.float64


def test_rows_that_the_type_cannot_hold_are_refused(rows):
    with pytest.raises(InvalidInputError, match="float16 cannot hold"):
        GrossCorruption(adversary=Shell(distance=1e6)).apply(rows.astype(np.float16))


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_one_row_puts_the_mean_at_any_point(n):
    random = np.random.default_rng(n)
    rows, target = random.normal(size=(n, 4)), random.normal(size=4) * 1e6
    result = MeanAttack(target=target, seed=5).apply(rows)
    assert result.mask.sum() == 1
    assert np.array_equal(result.data[~result.mask], rows[~result.mask])
    assert result.data.mean(axis=0) == pytest.approx(target, rel=1e-12)
    # The paper's closed form.
    assert result.data[result.mask][0] == pytest.approx(
        n * target - rows[~result.mask].sum(axis=0), rel=1e-12
    )


def test_the_mean_can_be_moved_by_a_distance(rows):
    radius = np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())
    result = MeanAttack(distance=30.0).apply(rows)
    assert np.linalg.norm(result.data.mean(axis=0) - rows.mean(axis=0)) == pytest.approx(30.0 * radius)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GrossCorruption(rate=1.2), "rate=1.2"),
        (lambda: GrossCorruption(rate=float("nan")), "rate=nan"),
        (lambda: GrossCorruption(seed=-1), "seed=-1"),
        (lambda: GrossCorruption(adversary="far-clustr"), "Did you mean 'far-cluster'"),
        (lambda: GrossCorruption(adversary=lambda r, c, g: r[:1]).apply(np.ones((10, 2))), "shape"),
        (lambda: MeanAttack(), "give one of the two"),
        (lambda: MeanAttack(target=[1.0]).apply(np.ones((3, 2))), "one number per column"),
        (lambda: GrossCorruption(adversary=HeavyTail(degrees=0.0)).apply(np.ones((3, 2))), "degrees"),
    ],
)
def test_what_cannot_be_done_is_explained(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_wrong_types_are_explained():
    with pytest.raises(InvalidTypeError, match="rate='half'"):
        GrossCorruption(rate="half")
    with pytest.raises(InvalidInputError, match="seed=None"):
        GrossCorruption(seed=None)
    with pytest.raises(InvalidTypeError, match="adversary has type int"):
        GrossCorruption(adversary=3)
