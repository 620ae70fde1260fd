"""Matchings: the picks of plain NumPy, the residuals that can be recomputed from them, and batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmmatch as gm
from gmmatch.batches import hash_rows
from tests.textbook import geometric_median, kernel_median, kernel_picks, noisy_gaussian, rbf, textbook_picks

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_picks_of_the_noisy_gaussian_are_those_of_plain_numpy(seed):
    X, _ = noisy_gaussian(seed)
    assert np.array_equal(gm.GMMatching(k=100).select(X).order, textbook_picks(X, geometric_median(X), 100))
    assert np.array_equal(gm.Herding(k=100).select(X).order, textbook_picks(X, X.mean(axis=0), 100))


def test_the_noisy_gaussian_is_matched_as_the_paper_says():
    """At 40% corruption: contamination 0.11 against 0.38, error of the mean 0.97 against 4.7."""
    contamination = {"gm-matching": [], "herding": []}
    error = {"gm-matching": [], "herding": []}
    for seed in SEEDS:
        X, corrupt = noisy_gaussian(seed)
        for method in contamination:
            rows = gm.select(X, k=100, method=method).indices
            contamination[method].append(corrupt[rows].mean())
            error[method].append(np.linalg.norm(X[rows].mean(axis=0)))
    assert np.mean(contamination["gm-matching"]) == pytest.approx(0.11, abs=0.02)
    assert np.mean(contamination["herding"]) == pytest.approx(0.38, abs=0.03)
    assert np.mean(error["gm-matching"]) == pytest.approx(0.97, abs=0.2)
    assert np.mean(error["herding"]) == pytest.approx(4.7, abs=0.3)


def test_without_corruption_both_match_the_mean():
    X, _ = noisy_gaussian(0, psi=0.0)
    for method in ("gm-matching", "herding"):
        rows = gm.select(X, k=100, method=method).indices
        assert np.linalg.norm(X[rows].mean(axis=0) - X.mean(axis=0)) < 0.1


def test_the_authors_released_behaviour():
    """Unit-length rows matched to a unit-length median: ``preprocess="unit"`` and ``GeometricMedian(unit=True)``."""
    X, _ = noisy_gaussian(0)
    X = np.hstack([X, np.random.default_rng(1).normal(size=(1_000, 6)) + 1.0])
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    median = geometric_median(unit)
    theirs = textbook_picks(unit, median / np.linalg.norm(median), 100)
    selection = gm.GMMatching(k=100, target=gm.GeometricMedian(unit=True)).select(X, preprocess="unit")
    assert np.array_equal(selection.order, theirs)
    # Its residual is to the unit-length target, which the mean of unit rows cannot reach.
    expected = np.linalg.norm(unit[theirs].mean(axis=0) - median / np.linalg.norm(median))
    assert selection.residual[None] == pytest.approx(expected, rel=1e-6)
    # With a plain target it is the text's algorithm on unit rows.
    text = gm.GMMatching(k=100).select(X, preprocess="unit")
    assert np.array_equal(text.order, textbook_picks(unit, median, 100))
    assert text.residual[None] < 0.1 * selection.residual[None]


def test_a_target_of_zeros_cannot_be_of_unit_length():
    X = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    selection = gm.Herding(k=4, target=gm.Mean(unit=True)).select(X)
    assert selection.residual[None] == 0.0


@pytest.mark.parametrize("start", ["target", "zero"])
def test_kernel_methods_are_those_of_plain_numpy(start):
    X, _ = noisy_gaussian(1, n=200)
    gram = rbf(X, 3.0)
    ours = gm.GMMatching(k=40, kernel=gm.RBF(3.0), start=start).select(X)
    assert np.array_equal(ours.order, kernel_picks(gram, kernel_median(gram), 40, start))
    ours = gm.KernelHerding(k=40, kernel=gm.RBF(3.0), start=start).select(X)
    assert np.array_equal(ours.order, kernel_picks(gram, np.full(200, 1 / 200), 40, start))


@pytest.mark.parametrize("degree", [1, 3])
def test_the_papers_polynomial_kernels(degree):
    X = np.random.default_rng(2).normal(size=(150, 3))
    gram = (X @ X.T + 1.0) ** degree
    ours = gm.GMMatching(k=30, kernel=gm.Polynomial(degree=degree)).select(X)
    assert np.array_equal(ours.order, kernel_picks(gram, kernel_median(gram), 30))


def test_coordinate_median():
    X = np.random.default_rng(4).standard_t(2, size=(301, 3))
    ours = gm.Matching(k=20, target=gm.CoordinateMedian(), start="zero").select(X).order
    assert np.array_equal(ours, textbook_picks(X, np.median(X, axis=0), 20, theta=np.zeros(3)))


@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("easy", lambda d: d),
        ("hard", lambda d: -d),
        ("moderate", lambda d: np.abs(d - np.median(d))),
    ],
)
@pytest.mark.parametrize(
    ("center", "middle"),
    [
        (gm.Mean(), lambda X: X.mean(axis=0)),
        (gm.CoordinateMedian(), lambda X: np.median(X, axis=0)),
        (gm.GeometricMedian(), geometric_median),
    ],
)
def test_rankings(method, key, center, middle):
    X = np.random.default_rng(6).standard_t(3, size=(201, 4))
    distances = np.linalg.norm(X - middle(X), axis=1)
    ours = gm.select(X, k=50, method=method, center=center).order
    assert np.array_equal(ours, np.argsort(key(distances), kind="stable")[:50])


X, _ = noisy_gaussian(7, n=300)
Y = np.arange(300) % 3

TARGETS = {
    "random": lambda X: X.mean(axis=0),
    "easy": lambda X: X.mean(axis=0),
    "hard": lambda X: X.mean(axis=0),
    "moderate": lambda X: X.mean(axis=0),
    "herding": lambda X: X.mean(axis=0),
    "matching": lambda X: X.mean(axis=0),
    "gm-matching": geometric_median,
}


def path(rows, target):
    """‖target − mean of the first t picks‖ for t = 1, 2, ..."""
    means = np.cumsum(rows, axis=0) / np.arange(1, len(rows) + 1)[:, None]
    return np.linalg.norm(means - target, axis=1)


def kernel_path(gram, coefficients, order):
    steps = []
    for t in range(1, len(order) + 1):
        difference = coefficients.copy()
        np.subtract.at(difference, order[:t], 1.0 / t)
        steps.append(np.sqrt(max(0.0, difference @ gram @ difference)))
    return np.array(steps)


@pytest.mark.parametrize("method", TARGETS)
@pytest.mark.parametrize("options", [{}, {"preprocess": ["center", "scale"]}], ids=["plain", "scaled"])
def test_the_whole_path(method, options):
    selection = gm.select(X, y=Y, k=60, method=method, random_state=0, **options)
    rows = (X - X.mean(axis=0)) / X.std(axis=0) if options else X
    for label, residuals in selection.residual_path.items():
        own = selection.order[Y[selection.order] == label]
        assert np.allclose(
            residuals, path(rows[own], TARGETS[method](rows[label == Y])), rtol=1e-6, atol=1e-7
        )
        assert selection.residual[label] == residuals[-1]


@pytest.mark.parametrize(
    "options",
    [
        {"start": "zero"},
        {"replacement": True},
        {"batches": 4},
        {"batches": gm.Independent(4)},
        {"batches": gm.Independent(40)},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_whatever_the_way_to_the_picks(options, dtype):
    rows = X.astype(dtype)
    selection = gm.Herding(k=80, random_state=0, **options).select(rows)
    wide = rows.astype(np.float64)
    expected = path(wide[selection.order], wide.mean(axis=0))
    assert np.allclose(selection.residual_path[None], expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("target", [gm.Mean(), gm.GeometricMedian()])
@pytest.mark.parametrize("options", [{}, {"start": "zero"}, {"replacement": True}], ids=str)
def test_in_a_kernels_space(target, options):
    small = X[::3]
    gram = rbf(small, 2.0)
    selection = gm.Matching(k=40, target=target, kernel=gm.RBF(2.0), random_state=0, **options).select(small)
    coefficients = np.full(100, 0.01) if target == gm.Mean() else kernel_median(gram)
    expected = kernel_path(gram, coefficients, selection.order)
    assert np.allclose(selection.residual_path[None], expected, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.sampled_from(list(TARGETS)))
def test_a_prefix_is_a_selection_with_the_residuals_of_its_own_picks(k, method):
    whole = gm.select(X, y=Y, k=60, method=method, random_state=0)
    part = whole.prefix(k)
    assert np.array_equal(part.order, whole.order[:k])
    for label, residual in part.residual.items():
        own = part.order[Y[part.order] == label]
        if len(own):
            expected = np.linalg.norm(X[own].mean(axis=0) - TARGETS[method](X[label == Y]))
            assert residual == pytest.approx(expected, abs=1e-6)


def test_matching_beats_chance_by_far():
    """The greedy bound: the residual falls like 1/k, that of a random draw like 1/√k."""
    clean = np.random.default_rng(0).normal(size=(2_000, 8))
    herded = gm.Herding(k=200, start="zero").select(clean).residual[None]
    drawn = gm.Random(k=200, random_state=0).select(clean).residual[None]
    assert herded < drawn / 10


ROWS = np.random.default_rng(0).normal(size=(400, 5)) + 1.0

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
    ).select(ROWS[:n], exclude=exclude)
    assert selection.k == k
    assert not exclude & set(selection.order.tolist())
    if not replacement:
        assert len(set(selection.order.tolist())) == k


@carry
def test_one_batch_is_no_batches(carry):
    plain = gm.Herding(k=50).select(ROWS)
    assert np.array_equal(gm.Herding(k=50, batches=carry(1)).select(ROWS).order, plain.order)


@carry
def test_the_seed_decides_the_partition(carry):
    def picks(seed, n_jobs=-1):
        selector = gm.Herding(k=160, batches=carry(5), random_state=seed)
        return selector.select(ROWS, n_jobs=n_jobs).order.tolist()

    assert picks(0) == picks(0, n_jobs=1) == picks(0, n_jobs=4)
    assert picks(0) != picks(1)


def test_carried_batches_are_the_papers_listing():
    """Each batch goes on from the θ that the last one left, towards the target of all rows."""
    selection = gm.Herding(k=40, batches=4, random_state=3).select(ROWS)
    mean = ROWS.mean(axis=0)
    done = []
    batches = [selection.order[start : start + 10] for start in range(0, 40, 10)]
    for batch in batches:
        assert len(batch) == 10
        # The rows of a batch are not known, but its own picks are: the best of them in their own order.
        allowed = np.isin(np.arange(400), batch)
        done = textbook_picks(ROWS, mean, len(done) + 10, already=list(done), available=allowed)
        assert np.array_equal(done[-10:], batch)


def test_independent_batches_are_matchings_of_their_own():
    """The first picks of every batch, made before the correction, know nothing of the other batches."""
    options = {"k": 160, "batches": gm.Independent(4), "random_state": 3, "start": "zero"}
    selection = gm.Herding(**options).select(ROWS)
    mean = ROWS.mean(axis=0)
    stream = np.random.SeedSequence(3).spawn(1)[0]
    batch = hash_rows(np.arange(400), 4, int(stream.generate_state(1, np.uint64)[0]))
    first = selection.order[: 160 - 28]  # the last 28 picks are made by pairs of batches, and by all
    for number in range(4):
        own = first[batch[first] == number]
        assert len(own) > 25
        assert np.array_equal(
            textbook_picks(ROWS, mean, len(own), theta=0.0 * mean, available=batch == number), own
        )


@carry
def test_excluded_and_included_rows_are_shared_among_batches(carry):
    selection = gm.Herding(k=30, batches=carry(4), random_state=0).select(
        ROWS, include=[5, 399], exclude=np.arange(100, 300)
    )
    assert selection.order[:2].tolist() == [5, 399]
    assert selection.k == 30 and not set(selection.indices) & set(range(100, 300))
    expected = np.linalg.norm(ROWS[selection.indices].mean(axis=0) - ROWS.mean(axis=0))
    assert selection.residual[None] == pytest.approx(expected)


@carry
@pytest.mark.parametrize("batches", [2, 10])
def test_sorted_rows_do_not_ruin_it(carry, batches):
    """Batches of neighbours would each be far from the whole; random ones are not."""
    ranked = ROWS[np.argsort(ROWS[:, 0])]
    options = {"k": 200, "start": "zero"}
    whole = gm.Herding(**options).select(ranked).residual[None]
    for seed in range(3):
        residual = gm.Herding(batches=carry(batches), random_state=seed, **options).select(ranked).residual
        assert residual[None] < whole + 0.05


def test_independent_batches_of_few_picks_still_match():
    """Two picks each would all err the same way: such batches are merged."""
    residual = (
        gm.Herding(k=80, batches=gm.Independent(40), start="zero", random_state=0).select(ROWS).residual[None]
    )
    drawn = np.mean([gm.Random(k=80, random_state=seed).select(ROWS).residual[None] for seed in range(5)])
    assert residual < drawn / 2
