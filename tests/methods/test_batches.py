"""Batches: how many picks, which, and how well they still match."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmmatch as gm
from gmmatch.batches import hash_rows
from tests.textbook import textbook_picks

X = np.random.default_rng(0).normal(size=(400, 5)) + 1.0

carry = pytest.mark.parametrize("carry", [gm.Carried, gm.Independent])


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 60),
    st.sampled_from([gm.Carried, gm.Independent]),
    st.booleans(),
    st.data(),
)
def test_any_number_of_batches_makes_k_different_picks(n, batches, carry, replacement, data):
    k = data.draw(st.integers(1, n))
    exclude = data.draw(st.sets(st.integers(0, n - 1), max_size=n - k))
    selection = gm.GMMatching(
        k=k, batches=carry(batches), replacement=replacement, random_state=0, start="zero"
    ).select(X[:n], exclude=exclude)
    assert selection.k == k
    assert not exclude & set(selection.order.tolist())
    if not replacement:
        assert len(set(selection.order.tolist())) == k


@carry
def test_one_batch_is_no_batches(carry):
    plain = gm.Herding(k=50).select(X)
    assert np.array_equal(gm.Herding(k=50, batches=carry(1)).select(X).order, plain.order)


@carry
def test_the_seed_decides_the_partition(carry):
    def picks(seed, n_jobs=-1):
        selector = gm.Herding(k=160, batches=carry(5), random_state=seed)
        return selector.select(X, n_jobs=n_jobs).order.tolist()

    assert picks(0) == picks(0, n_jobs=1) == picks(0, n_jobs=4)
    assert picks(0) != picks(1)


def test_carried_batches_are_the_papers_listing():
    """Each batch goes on from the θ that the last one left, towards the target of all rows."""
    selection = gm.Herding(k=40, batches=4, random_state=3).select(X)
    mean = X.mean(axis=0)
    done = []
    batches = [selection.order[start : start + 10] for start in range(0, 40, 10)]
    for batch in batches:
        assert len(batch) == 10
        # The rows of a batch are not known, but its own picks are: the best of them in their own order.
        allowed = np.isin(np.arange(400), batch)
        done = textbook_picks(X, mean, len(done) + 10, already=list(done), available=allowed)
        assert np.array_equal(done[-10:], batch)


def test_independent_batches_are_matchings_of_their_own():
    """The first picks of every batch, made before the correction, know nothing of the other batches."""
    options = {"k": 160, "batches": gm.Independent(4), "random_state": 3, "start": "zero"}
    selection = gm.Herding(**options).select(X)
    mean = X.mean(axis=0)
    stream = np.random.SeedSequence(3).spawn(1)[0]
    batch = hash_rows(np.arange(400), 4, int(stream.generate_state(1, np.uint64)[0]))
    first = selection.order[: 160 - 28]  # the last 28 picks are made by pairs of batches, and by all
    for number in range(4):
        own = first[batch[first] == number]
        assert len(own) > 25
        assert np.array_equal(
            textbook_picks(X, mean, len(own), theta=0.0 * mean, available=batch == number), own
        )


@carry
def test_excluded_and_included_rows_are_shared_among_batches(carry):
    selection = gm.Herding(k=30, batches=carry(4), random_state=0).select(
        X, include=[5, 399], exclude=np.arange(100, 300)
    )
    assert selection.order[:2].tolist() == [5, 399]
    assert selection.k == 30 and not set(selection.indices) & set(range(100, 300))
    expected = np.linalg.norm(X[selection.indices].mean(axis=0) - X.mean(axis=0))
    assert selection.residual[None] == pytest.approx(expected)


@carry
@pytest.mark.parametrize("batches", [2, 10])
def test_sorted_rows_do_not_ruin_it(carry, batches):
    """Batches of neighbours would each be far from the whole; random ones are not."""
    ranked = X[np.argsort(X[:, 0])]
    options = {"k": 200, "start": "zero"}
    whole = gm.Herding(**options).select(ranked).residual[None]
    for seed in range(3):
        residual = gm.Herding(batches=carry(batches), random_state=seed, **options).select(ranked).residual
        assert residual[None] < whole + 0.05


def test_independent_batches_of_few_picks_still_match():
    """Two picks each would all err the same way: such batches are merged."""
    residual = (
        gm.Herding(k=80, batches=gm.Independent(40), start="zero", random_state=0).select(X).residual[None]
    )
    drawn = np.mean([gm.Random(k=80, random_state=seed).select(X).residual[None] for seed in range(5)])
    assert residual < drawn / 2
