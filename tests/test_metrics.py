"""Metrics and the budget curve: hand-computed values, the same on every backend, and errors that explain."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import gmmatch as gm
from gmmatch import metrics
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.kernels import RBF, Laplacian, Polynomial
from gmmatch.metrics import SubsetMetrics


def draw(n, s=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, s))


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def forms(torch, tmp_path):
    """Return a function that gives the same rows in a file and as a tensor."""

    def make(X):
        np.save(tmp_path / "rows.npy", X)
        return tmp_path / "rows.npy", torch.from_numpy(X)

    return make


class TestMomentError:
    def test_worked_example(self):
        # Means (2, 0) and (-1, 4): apart by (3, -4).
        assert metrics.moment_error([[1.0, 0.0], [3.0, 0.0]], [[-1.0, 4.0]]) == 5.0

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_sums_in_float64(self, dtype):
        # In float16 a sum of 1s stops growing at 2048.
        ones, zeros = np.ones((5000, 2), dtype=dtype), np.zeros((3, 2), dtype=dtype)
        assert metrics.moment_error(ones, zeros) == pytest.approx(np.sqrt(2), rel=1e-12)

    def test_far_from_the_origin(self):
        A, B = draw(1000), draw(2000, seed=1)
        # Rows at 1e9 are themselves rounded to 1e-7, which averages out further.
        assert metrics.moment_error(A + 1e9, B + 1e9) == pytest.approx(metrics.moment_error(A, B), abs=1e-7)

    def test_other_columns_are_refused(self):
        with pytest.raises(InvalidInputError, match="picked_rows has 3 columns and reference_rows has 4"):
            metrics.moment_error(draw(5, 3), draw(5, 4))


class TestMMD:
    def test_worked_example(self):
        # A = {0, 1}, B = {0, 2}, h = 1: k(0,1) = e^-1/2, k(0,2) = e^-2, k(1,2) = e^-1/2.
        near, far = np.exp(-0.5), np.exp(-2.0)
        expected = (1 + near) / 2 + (1 + far) / 2 - 2 * (1 + far + near + near) / 4
        A, B = [[0.0], [1.0]], [[0.0], [2.0]]
        assert metrics.mmd(A, B, kernel=RBF(1.0), squared=True) == pytest.approx(expected, rel=1e-12)
        assert metrics.mmd(A, B, kernel=RBF(1.0)) == pytest.approx(np.sqrt(expected), rel=1e-12)

    @pytest.mark.parametrize("kernel", [Polynomial(3), RBF(2.0), Laplacian(3.0)], ids=repr)
    def test_equals_the_definition_in_any_number_of_pieces(self, kernel, monkeypatch):
        A, B, weights = draw(30), draw(45, seed=1) + 0.3, np.random.default_rng(2).random(30)
        shares = weights / weights.sum()
        expected = shares @ kernel.gram(A, A) @ shares + kernel.gram(B, B).mean()
        expected -= 2.0 * shares @ kernel.gram(A, B).mean(axis=1)
        for products in (1, 40, 1 << 19):
            monkeypatch.setattr(metrics, "_PRODUCTS", products)
            value = metrics.mmd(A, B, kernel=kernel, weights=weights, squared=True)
            assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)

    def test_a_linear_kernel_gives_the_moment_error(self):
        A, B = draw(50), draw(80, seed=1)
        linear = metrics.mmd(A, B, kernel=Polynomial(degree=1, c=0.0))
        assert linear == pytest.approx(metrics.moment_error(A, B), rel=1e-9)

    def test_the_bandwidth_is_that_of_the_reference(self):
        A, B = 10 * draw(60), draw(60, seed=1)
        assert metrics.mmd(A, B) == metrics.mmd(A, B, kernel=RBF().fit([B]))
        assert metrics.mmd(A, B) != metrics.mmd(A, B, kernel=RBF().fit([A]))

    @pytest.mark.parametrize(
        ("A", "options", "message"),
        [
            (np.zeros((0, 4)), {}, "0 sample"),
            (np.zeros((3, 5)), {}, "A has 5 columns and B has 4"),
            (np.full((3, 4), np.nan), {}, "A contains NaN"),
            (np.zeros((2, 4)), {"weights": [1.0]}, "weights needs one number per row"),
        ],
    )
    def test_errors(self, A, options, message):
        with pytest.raises(InvalidInputError, match=message):
            metrics.mmd(A, draw(5), **options)


class TestContamination:
    CORRUPT = np.array([True, False, True, False, False])

    @pytest.mark.parametrize(
        "picks", [[0, 1, 2, 4], np.array([True, True, True, False, True]), gm.Selection([2, 0, 4, 1], 5)]
    )
    def test_every_form_of_picks(self, picks):
        assert metrics.contamination(picks, self.CORRUPT) == 0.5

    def test_repeated_picks_count_twice(self):
        assert metrics.contamination([0, 0, 1], self.CORRUPT) == pytest.approx(2 / 3)

    @pytest.mark.parametrize(
        ("picks", "corrupt", "error", "message"),
        [
            ([], CORRUPT, InvalidInputError, "picks is empty"),
            ([5], CORRUPT, InvalidInputError, "row 5.*0 to 4"),
            ([0.0], CORRUPT, InvalidInputError, "float64"),
            (np.zeros(5, dtype=bool), CORRUPT, InvalidInputError, "picks is empty"),
            (np.ones(4, dtype=bool), CORRUPT, InvalidInputError, r"mask of shape \(4,\); expected \(5,\)"),
            (gm.Selection([0], 4), CORRUPT, InvalidInputError, "from 4 rows; expected one from 5"),
            ([0], [0, 1, 0], InvalidTypeError, "corrupt must be a boolean mask"),
            ([0], np.zeros(0, dtype=bool), InvalidInputError, "corrupt is empty"),
        ],
    )
    def test_errors(self, picks, corrupt, error, message):
        with pytest.raises(error, match=message):
            metrics.contamination(picks, corrupt)


class TestClassBalance:
    def test_worked_example(self):
        labels = np.array([2, 2, 2, 7, 7, 9, 9, 9])
        shares = metrics.class_balance(labels, [0, 3, 4, 5])
        assert shares == {2: (0.375, 0.25), 7: (0.25, 0.5), 9: (0.375, 0.25)}
        assert list(shares) == [2, 7, 9] and all(type(label) is int for label in shares)
        # Half of 0.125 + 0.25 + 0.125.
        assert metrics.imbalance(labels, [0, 3, 4, 5]) == 0.25

    def test_rows_without_a_label_are_a_class(self):
        shares = metrics.class_balance(["a", None, "b", "a"], [0, 1])
        assert shares == {"a": (0.5, 0.5), "b": (0.25, 0.0), None: (0.25, 0.5)}

    @given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=30), data=st.data())
    @settings(max_examples=40)
    def test_shares_sum_to_one_and_imbalance_lies_between_0_and_1(self, labels, data):
        picks = data.draw(st.lists(st.integers(0, len(labels) - 1), min_size=1, max_size=10))
        before, after = np.array(list(metrics.class_balance(labels, picks).values())).T
        assert before.sum() == pytest.approx(1.0) and after.sum() == pytest.approx(1.0)
        assert 0.0 <= metrics.imbalance(labels, picks) < 1.0
        assert metrics.imbalance(labels, range(len(labels))) == 0.0

    def test_errors(self):
        with pytest.raises(InvalidInputError, match="one label per row"):
            metrics.class_balance([], [0])


class TestCoverage:
    def test_worked_example(self):
        X = [[0.0, 0.0], [3.0, 4.0], [6.0, 8.0], [6.0, 9.0]]
        # Distances to the nearest of rows 0 and 2: 0, 5, 0, 1.
        assert metrics.coverage(X, [0, 2]) == metrics.Coverage(largest=5.0, mean=1.5)
        assert metrics.coverage(X, [0, 2], of=[0, 3]) == metrics.Coverage(largest=1.0, mean=0.5)

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_equals_all_pairs_in_any_number_of_pieces(self, dtype, monkeypatch):
        X, picks = draw(150).astype(dtype), np.arange(0, 150, 11)
        nearest = cdist(X.astype(np.float64), X[picks].astype(np.float64)).min(axis=1)
        for size in (1, 20, 1 << 19):
            monkeypatch.setattr(metrics, "_READ_NUMBERS", size)
            monkeypatch.setattr(metrics, "_PRODUCTS", size)
            value = metrics.coverage(X, picks)
            assert (value.largest, value.mean) == pytest.approx((nearest.max(), nearest.mean()), rel=1e-12)

    @pytest.mark.parametrize("split", [0.0, 1e6], ids=["one cluster", "two distant clusters"])
    def test_far_from_the_origin(self, split):
        X, picks = draw(200) * 1e-2 + 1e6, np.arange(0, 200, 9)
        X[100:] += split
        nearest, value = cdist(X, X[picks]).min(axis=1), metrics.coverage(X, picks)
        assert (value.largest, value.mean) == pytest.approx((nearest.max(), nearest.mean()), rel=1e-9)


class TestSubsetMetrics:
    def measure(self, X, picks, codes=None, **options):
        with gm.open_rows(X) as rows:
            return SubsetMetrics(rows, codes, **options).measure(np.asarray(picks))

    def test_they_are_the_functions_averaged_over_the_classes(self, forms):
        X, codes = draw(90), np.arange(90) % 3
        picks = np.array([0, 1, 3, 4, 30, 31, 33])  # none of class 2
        pairs = [(X[picks[codes[picks] == code]], X[codes == code]) for code in (0, 1)]
        expected = [
            np.mean([function(*pair) for pair in pairs]) for function in (metrics.moment_error, metrics.mmd)
        ]
        expected += [metrics.coverage(X, picks).mean, metrics.coverage(X, picks).largest]
        for form in (X, *forms(X)):
            value = self.measure(form, picks, codes)
            measured = (value.moment_error, value.mmd, value.coverage_mean, value.coverage_max)
            assert measured == pytest.approx(expected, rel=1e-9)

    def test_rows_of_no_class_and_rows_outside_of_the_reference_do_not_count(self):
        X = draw(60)
        codes = np.where(np.arange(60) < 40, np.arange(60) % 2, -1)
        value = self.measure(X, [0, 1, 2, 3, 50], codes)
        without = self.measure(X[:40], [0, 1, 2, 3], codes[:40])
        assert (value.moment_error, value.mmd) == pytest.approx((without.moment_error, without.mmd))
        X[50:] += 100.0
        clean = np.arange(60) < 50
        value = self.measure(X, [0, 1, 2], reference=clean)
        assert value == self.measure(X[:50], [0, 1, 2])


RANDOM = np.random.default_rng(0)
Y = RANDOM.integers(0, 3, 400)
X = RANDOM.standard_normal((400, 5)) + 2.0 * np.eye(3, 5)[Y]


@pytest.fixture(scope="module")
def curve():
    selection = gm.select(X, Y, k=100, method="easy", random_state=0)
    return gm.budget_curve(selection, X, Y, sizes=[10, 40, 100], repeats=2, random_state=0)


def test_every_size_of_both_methods_is_measured(curve):
    assert curve.methods == ["easy", "random"]
    assert [point.k for point in curve.of("easy")] == [10, 40, 100]
    for point in curve.points:
        assert 0.3 < point.accuracy <= 1.0 and point.low <= point.accuracy <= point.high
        assert point.mmd >= 0.0 and point.coverage_mean <= point.coverage_max
    assert curve.of("random")[-1].moment_error < curve.of("random")[0].moment_error


def test_the_sentence_compares_with_random_rows(curve):
    assert " easy picks " in curve.sentence and " 100 random ones" in curve.sentence
    assert curve.sentence in repr(curve)
    json.dumps(curve.as_json(), allow_nan=False)
    assert curve.to_frame()["k"].tolist() == [10, 40, 100] * 2


def test_the_same_seed_gives_the_same_curve(curve):
    selection = gm.select(X, Y, k=100, method="easy", random_state=0)
    again = gm.budget_curve(selection, X, Y, sizes=[10, 40, 100], repeats=2, random_state=0)
    assert again == curve


def test_test_rows_of_ones_own_judge():
    selection = gm.select(X[:300], Y[:300], k=60, method="herding", random_state=0)
    curve = gm.budget_curve(selection, X[:300], Y[:300], sizes=["20%"], test=(X[300:], Y[300:]), repeats=1)
    assert [point.k for point in curve.of("herding")] == [60]
    assert "100 test rows" in curve.judged_by


def test_without_labels_there_is_no_accuracy():
    curve = gm.budget_curve(gm.select(X, k=50, method="herding"), X, sizes=[10, 50])
    assert all(point.accuracy is None for point in curve.points)
    assert "no accuracy" in curve.sentence


def test_without_sizes_they_grow_evenly_and_a_figure_shows_them(curve, tmp_path):
    whole = gm.budget_curve(gm.select(X, Y, k=100, method="easy"), X, Y, repeats=1)
    sizes = [point.k for point in whole.of("easy")]
    assert sizes == sorted(set(sizes)) and sizes[-1] == 100 and len(sizes) > 4
    pytest.importorskip("matplotlib")
    assert len(curve.figure(tmp_path / "curve.png").axes[0].lines) == 2
    assert (tmp_path / "curve.png").stat().st_size > 5_000


def test_sizes_that_a_selection_does_not_have_are_refused():
    selection = gm.select(X, Y, k=50, method="easy")
    with pytest.raises(gm.GMMatchError, match="sizes"):
        gm.budget_curve(selection, X, Y, sizes=[80])
