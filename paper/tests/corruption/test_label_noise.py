"""Label noise: exact rates, and never a label that turns into itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmmatch.errors import InvalidInputError
from gmmatch_paper.corruption import PairFlip, SymmetricNoise, TransitionNoise

SIZES = (101, 40, 7, 52)
INTEGERS = np.repeat(np.arange(4), SIZES)
STRINGS = np.array(["ant", "bee", "cicada", "dragonfly"])[INTEGERS]


def rounded(rate: float, n: int) -> int:
    return int(np.floor(rate * n + 0.5))


@pytest.mark.parametrize("noise", [SymmetricNoise, PairFlip])
@pytest.mark.parametrize("labels", [INTEGERS, STRINGS, INTEGERS.tolist(), STRINGS.tolist()], ids=str)
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.35, 0.5, 1.0])
def test_the_rate_is_exact_overall_and_per_class_and_no_label_stays(noise, labels, rate):
    result = noise(rate=rate, seed=1).apply(labels)
    before, after = np.asarray(labels), result.data
    assert result.mask.sum() == rounded(rate, 200)
    assert np.array_equal(before != after, result.mask)
    for label, size in zip(np.unique(before), SIZES, strict=True):
        assert abs(result.mask[before == label].sum() - rate * size) < 1
    assert set(after) <= set(before)


@given(
    st.lists(st.sampled_from("abcde"), min_size=2, max_size=60).filter(lambda y: len(set(y)) > 1),
    st.floats(0, 1),
    st.integers(0, 9),
)
def test_exact_for_any_labels(labels, rate, seed):
    for noise in (SymmetricNoise, PairFlip):
        result = noise(rate=rate, seed=seed).apply(labels)
        changed = [a != b for a, b in zip(labels, result.data.tolist(), strict=True)]
        assert changed == result.mask.tolist()
        assert abs(sum(changed) - rate * len(labels)) <= 0.5 + 1e-9


def test_symmetric_noise_spreads_evenly_over_the_other_classes():
    labels = np.repeat(np.arange(5), 20_000)
    after = SymmetricNoise(rate=0.4, seed=0).apply(labels).data
    counts = np.array([np.bincount(after[labels == c], minlength=5) for c in range(5)])
    assert (np.diag(counts) == 12_000).all()
    others = counts[~np.eye(5, dtype=bool)]
    # Binomial with 8,000 trials and a quarter: five standard deviations are 194.
    assert np.abs(others - 2_000).max() < 194


def test_pairs_turn_into_the_next_class_in_order():
    result = PairFlip(rate=1.0).apply(STRINGS)
    expected = {"ant": "bee", "bee": "cicada", "cicada": "dragonfly", "dragonfly": "ant"}
    assert result.data.tolist() == [expected[label] for label in STRINGS]


def test_a_transition_matrix_gives_its_shares_exactly():
    matrix = np.array(
        [[0.6, 0.3, 0.1, 0.0], [0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 0.5, 0.5]]
    )
    result = TransitionNoise(matrix=matrix, seed=2).apply(INTEGERS)
    counts = np.array([np.bincount(result.data[c == INTEGERS], minlength=4) for c in range(4)])
    exact = matrix * np.array(SIZES)[:, None]
    assert np.abs(counts - exact).max() < 1
    assert (counts[matrix == 0.0] == 0).all()
    assert np.array_equal(result.mask, result.data != INTEGERS)


def test_the_matrix_follows_the_classes_that_are_named():
    swap = [[0.0, 1.0], [1.0, 0.0]]
    assert TransitionNoise(matrix=swap).apply(["yes", "no", "no"]).data.tolist() == ["no", "yes", "yes"]
    stay = [[1.0, 0.0], [1.0, 0.0]]
    for classes, expected in ((("yes", "no"), ["yes"] * 3), (("no", "yes"), ["no"] * 3)):
        assert (
            TransitionNoise(matrix=stay, classes=classes).apply(["yes", "no", "no"]).data.tolist() == expected
        )


def test_rows_without_a_label_stay_as_they_are():
    result = SymmetricNoise(rate=1.0).apply(["a", None, "b", None])
    assert result.data.tolist() == ["b", None, "a", None]
    assert result.mask.tolist() == [True, False, True, False]
    numbers = SymmetricNoise(rate=1.0).apply(np.array([0, -1, 2, 1]))
    assert numbers.mask.tolist() == [True, False, True, True] and numbers.data[1] == -1


def test_classes_that_no_row_has_yet_are_possible_and_fit():
    found = SymmetricNoise(rate=1.0, classes=["a", "longer"]).apply(np.array(["a"] * 5)).data
    assert found.tolist() == ["longer"] * 5
    wide = SymmetricNoise(rate=1.0, classes=range(1000)).apply(np.zeros(50, dtype=np.uint8)).data
    assert wide.max() > 255 and wide.min() > 0
    assert SymmetricNoise(rate=1.0).apply([1, "one", 1]).data.tolist() == ["one", 1, "one"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SymmetricNoise().apply([1, 1, 1]), "1 classes"),
        (lambda: SymmetricNoise().apply(np.ones((3, 2))), "one label per row"),
        (lambda: SymmetricNoise(classes=[0, 1]).apply([0, 1, 2]), "class 2"),
        (lambda: SymmetricNoise(classes=[0, 0, 1]).apply([0, 1]), "twice"),
        (lambda: TransitionNoise(matrix=[[0.5, 0.6], [0.0, 1.0]]), "row 0 sums to 1.1"),
        (lambda: TransitionNoise(matrix=[[1.0, 0.0]]), "shape"),
        (lambda: TransitionNoise(matrix=[[2.0, -1.0], [0.0, 1.0]]), "negative"),
        (lambda: TransitionNoise(matrix=np.eye(3)).apply([0, 1]), "for 3 classes"),
    ],
)
def test_what_cannot_be_done_is_explained(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
