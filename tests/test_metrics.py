"""Metrics: hand-computed values, blocks that make no difference, and errors that explain."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from gmmatch import metrics, yardsticks
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.kernels.kernels import RBF, Kernel, Laplacian, Linear, Polynomial
from gmmatch.selection.selection import Selection
from gmmatch.yardsticks import Yardsticks


def sample(n: int, s: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, s))


class TestMomentError:
    def test_worked_example(self) -> None:
        # Means (2, 0) and (-1, 4): apart by (3, -4).
        assert metrics.moment_error([[1.0, 0.0], [3.0, 0.0]], [[-1.0, 4.0]]) == 5.0

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_sums_in_float64(self, dtype: type) -> None:
        # In float16 a sum of 1s stops growing at 2048.
        ones = np.ones((5000, 2), dtype=dtype)
        assert metrics.moment_error(ones, np.zeros((3, 2), dtype=dtype)) == pytest.approx(
            np.sqrt(2), rel=1e-12
        )

    def test_far_from_the_origin(self) -> None:
        A, B = sample(1000), sample(2000, seed=1)
        near = metrics.moment_error(A, B)
        # Rows at 1e9 are themselves rounded to 1e-7, which averages out further.
        assert metrics.moment_error(A + 1e9, B + 1e9) == pytest.approx(near, abs=1e-7)

    def test_memory_order_does_not_matter_and_input_stays(self) -> None:
        A = sample(300)
        before = A.copy()
        strided = np.repeat(A, 2, axis=0)[::2]
        expected = metrics.moment_error(A, A[:20])
        assert metrics.moment_error(np.asfortranarray(A), A[:20]) == expected
        assert metrics.moment_error(strided, A[:20]) == expected
        np.testing.assert_array_equal(A, before)


class TestMMD:
    def test_worked_example_rbf(self) -> None:
        # A = {0, 1}, B = {0, 2}, h = 1: k(0,1) = e^-1/2, k(0,2) = e^-2, k(1,2) = e^-1/2.
        near, far = np.exp(-0.5), np.exp(-2.0)
        A, B = [[0.0], [1.0]], [[0.0], [2.0]]
        cross = (1 + far + near + near) / 4
        biased = (1 + near) / 2 + (1 + far) / 2 - 2 * cross
        unbiased = near + far - 2 * cross
        assert metrics.mmd(A, B, bandwidth=1.0, squared=True) == pytest.approx(biased, rel=1e-12)
        assert metrics.mmd(A, B, bandwidth=1.0) == pytest.approx(np.sqrt(biased), rel=1e-12)
        assert metrics.mmd(A, B, bandwidth=1.0, biased=False, squared=True) == pytest.approx(
            unbiased, rel=1e-12
        )
        assert unbiased < 0.0
        assert metrics.mmd(A, B, bandwidth=1.0, biased=False) == 0.0

    @pytest.mark.parametrize("biased", [True, False])
    @pytest.mark.parametrize("kernel", [Linear(), Polynomial(3), RBF(2.0), Laplacian(3.0)], ids=repr)
    def test_equals_the_definition_whatever_the_block(self, kernel: Kernel, biased: bool) -> None:
        A, B = sample(30), sample(45, seed=1) + 0.3

        def within(X: np.ndarray) -> float:
            gram = kernel(X, X)
            keep = np.ones_like(gram, dtype=bool) if biased else ~np.eye(len(X), dtype=bool)
            return float(gram[keep].mean())

        expected = within(A) + within(B) - 2 * kernel(A, B).mean()
        for block_rows in (1, 7, 45, 4096):
            ours = metrics.mmd(A, B, kernel=kernel, biased=biased, squared=True, block_rows=block_rows)
            assert ours == pytest.approx(expected, rel=1e-9, abs=1e-13)

    def test_linear_mmd_is_the_moment_error(self) -> None:
        A, B = sample(50) + 1e6, sample(80, seed=1) + 1e6
        assert metrics.mmd(A, B, kernel="linear") == pytest.approx(metrics.moment_error(A, B), rel=1e-12)

    def test_median_bandwidth_comes_from_the_reference(self) -> None:
        A, B = 10 * sample(60), sample(60, seed=1)
        own = metrics.mmd(A, B, kernel=RBF().fit(B))
        assert metrics.mmd(A, B) == own
        assert metrics.mmd(A, B, kernel=RBF()) == own
        assert metrics.mmd(A, B, kernel=RBF().fit(A)) != own

    def test_unbiased_is_unbiased(self) -> None:
        estimates = np.array(
            [
                [
                    metrics.mmd(
                        sample(40, 2, seed),
                        sample(60, 2, 10_000 + seed),
                        bandwidth=1.0,
                        squared=True,
                        biased=b,
                    )
                    for b in (True, False)
                ]
                for seed in range(300)
            ]
        )
        standard_error = estimates.std(axis=0) / np.sqrt(len(estimates))
        assert abs(estimates[:, 1].mean()) < 4 * standard_error[1]
        # The test has teeth: the biased estimate is far outside of the same band.
        assert estimates[:, 0].mean() > 20 * standard_error[0]

    @given(seed=st.integers(0, 10_000), n=st.integers(2, 12), m=st.integers(2, 12))
    @settings(max_examples=50, deadline=None)
    def test_biased_is_never_below_unbiased(self, seed: int, n: int, m: int) -> None:
        A, B = sample(n, 2, seed), sample(m, 2, seed + 1)
        options = {"bandwidth": 1.0, "squared": True}
        biased, unbiased = (metrics.mmd(A, B, biased=b, **options) for b in (True, False))  # type: ignore[arg-type]
        assert biased >= max(0.0, unbiased)

    def test_symmetric_and_zero_for_the_same_rows(self) -> None:
        A, B = sample(30), sample(20, seed=1)
        assert metrics.mmd(A, B, bandwidth=1.0) == pytest.approx(metrics.mmd(B, A, bandwidth=1.0), rel=1e-12)
        assert metrics.mmd(A, A[::-1], squared=True) == pytest.approx(0.0, abs=1e-14)

    def test_grows_with_the_shift(self) -> None:
        A, B = sample(100), sample(100, seed=1)
        values = [metrics.mmd(A + shift, B, bandwidth=2.0) for shift in (0.0, 0.5, 1.0, 2.0)]
        assert values == sorted(values)
        assert values[-1] > 3 * values[0]

    @pytest.mark.parametrize(
        ("A", "options", "message"),
        [
            (np.zeros((0, 4)), {}, "0 sample"),
            (np.zeros((3, 5)), {}, "5 columns and B has 4"),
            (np.full((3, 4), np.nan), {}, "A contains NaN"),
            (np.zeros((1, 4)), {"biased": False}, "need 2 or more"),
            (np.zeros((2, 4)), {"kernel": RBF(1.0), "bandwidth": 2.0}, "given by name"),
            (np.zeros((2, 4)), {"kernel": "linear", "bandwidth": 2.0}, "given by name"),
            (np.zeros((2, 4)), {"bandwidth": -1.0}, "bandwidth=-1.0"),
            (np.zeros((2, 4)), {"kernel": "rfb"}, "'rbf'"),
            (np.zeros((2, 4)), {"block_rows": 0}, "block=0"),
        ],
    )
    def test_errors(self, A: np.ndarray, options: dict[str, object], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            metrics.mmd(A, sample(5), **options)  # type: ignore[arg-type]


class TestContamination:
    CORRUPT = np.array([True, False, True, False, False])

    @pytest.mark.parametrize(
        "picks",
        [
            [0, 1, 2, 4],
            np.array([0, 1, 2, 4], dtype=np.uint8),
            np.array([True, True, True, False, True]),
            SimpleNamespace(indices=np.array([0, 1, 2, 4])),
        ],
        ids=["list", "unsigned", "mask", "selection"],
    )
    def test_every_form_of_picks(self, picks: object) -> None:
        assert metrics.contamination(picks, self.CORRUPT) == 0.5

    def test_repeated_picks_count_twice(self) -> None:
        assert metrics.contamination([0, 0, 1], self.CORRUPT) == pytest.approx(2 / 3)

    @pytest.mark.parametrize(
        ("picks", "corrupt", "error", "message"),
        [
            ([], CORRUPT, InvalidInputError, "picks is empty"),
            ([5], CORRUPT, InvalidInputError, "row 5.*0 to 4"),
            ([-1], CORRUPT, InvalidInputError, "row -1"),
            ([0.0], CORRUPT, InvalidInputError, "float64"),
            (np.zeros(5, dtype=bool), CORRUPT, InvalidInputError, "picks is empty"),
            (np.ones(4, dtype=bool), CORRUPT, InvalidInputError, r"mask of shape \(4,\); expected \(5,\)"),
            (
                Selection([0], n_rows=4),
                CORRUPT,
                InvalidInputError,
                "selection from 4 rows; expected one from 5",
            ),
            ([0], [0, 1, 0], InvalidTypeError, "corrupt must be a boolean mask"),
            ([0], np.zeros(0, dtype=bool), InvalidInputError, "corrupt is empty"),
        ],
    )
    def test_errors(self, picks: object, corrupt: object, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            metrics.contamination(picks, corrupt)


class TestClassBalance:
    def test_worked_example(self) -> None:
        labels = np.array([2, 2, 2, 7, 7, 9, 9, 9])
        shares = metrics.class_balance(labels, [0, 3, 4, 5])
        assert shares == {2: (0.375, 0.25), 7: (0.25, 0.5), 9: (0.375, 0.25)}
        assert list(shares) == [2, 7, 9]
        assert all(type(label) is int for label in shares)
        # Half of 0.125 + 0.25 + 0.125.
        assert metrics.imbalance(labels, [0, 3, 4, 5]) == 0.25

    def test_mixed_labels_keep_their_type(self) -> None:
        shares = metrics.class_balance(["a", None, 1, "a"], [0, 1])
        assert shares == {"a": (0.5, 0.5), None: (0.25, 0.5), 1: (0.25, 0.0)}

    def test_objects_and_strings_agree(self) -> None:
        labels = ["b", "a", "c", "a"]
        mask = np.array([True, False, True, True])
        assert metrics.class_balance(np.array(labels, dtype=object), mask) == metrics.class_balance(
            labels, mask
        )
        assert list(metrics.class_balance(np.array(labels, dtype=object), mask)) == ["a", "b", "c"]

    @given(
        labels=st.lists(st.integers(0, 4), min_size=1, max_size=30),
        data=st.data(),
    )
    @settings(max_examples=60, deadline=None)
    def test_shares_sum_to_one_and_imbalance_lies_between_0_and_1(
        self, labels: list[int], data: st.DataObject
    ) -> None:
        picks = data.draw(st.lists(st.integers(0, len(labels) - 1), min_size=1, max_size=10))
        before, after = np.array(list(metrics.class_balance(labels, picks).values())).T
        assert before.sum() == pytest.approx(1.0)
        assert after.sum() == pytest.approx(1.0)
        assert 0.0 <= metrics.imbalance(labels, picks) < 1.0
        assert metrics.imbalance(labels, range(len(labels))) == 0.0

    def test_errors(self) -> None:
        with pytest.raises(InvalidInputError, match="one label per row"):
            metrics.class_balance([], [0])
        with pytest.raises(InvalidInputError, match=r"mask of shape \(3,\); expected \(2,\)"):
            metrics.imbalance([0, 1], [True, False, True])


class TestCoverage:
    def test_worked_example(self) -> None:
        X = [[0.0, 0.0], [3.0, 4.0], [6.0, 8.0], [6.0, 9.0]]
        # Distances to the nearest of rows 0 and 2: 0, 5, 0, 1.
        assert metrics.coverage(X, [0, 2]) == metrics.Coverage(largest=5.0, mean=1.5)

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    @pytest.mark.parametrize("block_rows", [1, 13, 1000])
    def test_equals_all_pairs_whatever_the_block(self, block_rows: int, dtype: type) -> None:
        X = sample(150).astype(dtype)
        picks = np.arange(0, 150, 11)
        nearest = cdist(X.astype(np.float64), X[picks].astype(np.float64)).min(axis=1)
        ours = metrics.coverage(X, picks, block_rows=block_rows)
        assert ours.largest == pytest.approx(nearest.max(), rel=1e-12)
        assert ours.mean == pytest.approx(nearest.mean(), rel=1e-12)

    @pytest.mark.parametrize("split", [0.0, 1e6], ids=["one cluster", "two distant clusters"])
    def test_far_from_the_origin(self, split: float) -> None:
        X = sample(200) * 1e-2 + 1e6
        X[100:] += split
        picks = np.arange(0, 200, 9)
        nearest = cdist(X, X[picks]).min(axis=1)
        ours = metrics.coverage(X, picks)
        assert ours.largest == pytest.approx(nearest.max(), rel=1e-9)
        assert ours.mean == pytest.approx(nearest.mean(), rel=1e-9)

    def test_picking_everything_leaves_no_distance(self) -> None:
        X = sample(100) + 1e6
        assert metrics.coverage(X, np.ones(100, dtype=bool)) == metrics.Coverage(0.0, 0.0)

    def test_more_picks_never_cover_less(self) -> None:
        X = sample(200)
        steps = [metrics.coverage(X, range(k)) for k in (1, 5, 20, 100)]
        for fewer, more in pairwise(steps):
            assert more.largest <= fewer.largest
            assert more.mean < fewer.mean

    @pytest.mark.parametrize(
        ("X", "picks", "options", "message"),
        [
            (np.zeros((0, 2)), [0], {}, "0 sample"),
            ([[np.inf], [0.0]], [0], {}, "infinity"),
            ([[1.0], [0.0]], [2], {}, "row 2"),
            ([[1.0], [0.0]], [True], {}, r"mask of shape \(1,\); expected \(2,\)"),
            ([[1.0], [0.0]], [0], {"block_rows": 0}, "block_rows=0"),
        ],
    )
    def test_errors(self, X: object, picks: object, options: dict[str, int], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            metrics.coverage(X, picks, **options)  # type: ignore[arg-type]


class TestYardsticks:
    def test_figures_are_the_functions_averaged_over_the_classes(self) -> None:
        X, classes = sample(90), np.arange(90) % 3
        picks = np.array([0, 1, 3, 4, 30, 31, 33])  # none of class 2
        found = Yardsticks(X, classes).measure(picks)
        of = [picks[classes[picks] == number] for number in (0, 1)]
        pairs = [(X[mine], X[classes == number]) for number, mine in enumerate(of)]
        assert found.moment_error == pytest.approx(np.mean([metrics.moment_error(*pair) for pair in pairs]))
        assert found.mmd == pytest.approx(np.mean([metrics.mmd(*pair) for pair in pairs]))
        assert (found.coverage_max, found.coverage_mean) == pytest.approx(
            (metrics.coverage(X, picks).largest, metrics.coverage(X, picks).mean)
        )

    def test_rows_of_no_class_are_no_class(self) -> None:
        X = sample(60)
        classes = np.where(np.arange(60) < 40, np.arange(60) % 2, -1)
        picks = np.array([0, 1, 2, 3, 50])
        ours = Yardsticks(X, classes)
        without = Yardsticks(X[:40], classes[:40])
        assert ours.n_classes == 2
        assert ours.measure(picks).moment_error == without.measure(picks[:4]).moment_error
        assert ours.measure(picks).mmd == without.measure(picks[:4]).mmd

    def test_blocks_make_no_difference(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, picks = sample(200), np.arange(0, 200, 3)
        whole = Yardsticks(X, np.arange(200) % 4).measure(picks)
        monkeypatch.setattr(metrics, "BLOCK_ELEMENTS", 40)
        monkeypatch.setattr(yardsticks, "BLOCK_ELEMENTS", 40)
        parts = Yardsticks(X, np.arange(200) % 4).measure(picks)
        assert parts.moment_error == pytest.approx(whole.moment_error, rel=1e-12)
        assert parts.coverage_mean == pytest.approx(whole.coverage_mean, rel=1e-12)
        assert parts.coverage_max == pytest.approx(whole.coverage_max, rel=1e-12)
