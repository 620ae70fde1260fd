"""The three targets: worked examples, weights as repeated rows, and input of any type."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gmmatch.errors import InvalidInputError
from gmmatch.median.weiszfeld import sample_positions
from gmmatch.rows.rows import as_rows
from gmmatch.targets import (
    CoordinateMedianTarget,
    GeometricMedianTarget,
    MeanTarget,
    Moment,
    moments,
    resolve_target,
)
from gmmatch.targets.moments import weighted_column_medians

NAMES = ["mean", "geometric-median", "coordinate-median"]

# Quarters, so that sums and midpoints are exact and equal numbers occur.
quarters = st.integers(-40, 40).map(lambda number: number / 4)


def point(name, X, weights=None, seed=0, **options):
    rows = as_rows(X)
    weights = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
    return resolve_target(name, **options).of(rows, weights, np.random.default_rng(seed), 1).point


def test_worked_examples():
    X = [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [4.0, 8.0], [8.0, 4.0]]
    assert point("mean", X).tolist() == [2.4, 2.4]
    assert point("coordinate-median", X).tolist() == [0.0, 0.0]
    assert np.allclose(point("geometric-median", X), [0.0, 0.0])


def test_the_median_of_an_equilateral_triangle_is_its_middle():
    corners = [[np.cos(angle), np.sin(angle)] for angle in (0.0, 2 * np.pi / 3, 4 * np.pi / 3)]
    assert np.allclose(point("geometric-median", corners), 0.0, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
@given(
    X=hnp.arrays(np.float64, st.tuples(st.integers(1, 7), st.integers(1, 3)), elements=quarters),
    data=st.data(),
)
def test_a_weight_is_a_number_of_copies(name, X, data):
    """Weight 2 is the row twice, weight 0 is no row at all."""
    weights = data.draw(hnp.arrays(np.int64, len(X), elements=st.integers(0, 3)))
    if weights.sum() == 0:
        weights[0] = 1
    copies = np.repeat(X, weights, axis=0)
    ours, theirs = point(name, X, weights), point(name, copies)
    if name == "geometric-median":
        # It is not unique on a line, where any point between two middle rows will do.
        def objective(z):
            return np.linalg.norm(copies - z, axis=1).sum()

        assert np.isclose(objective(ours), objective(theirs), rtol=1e-7, atol=1e-12)
    else:
        assert np.allclose(ours, theirs, rtol=1e-13, atol=1e-13)


@given(
    hnp.arrays(
        np.float32, st.tuples(st.integers(1, 9), st.integers(1, 3)), elements=st.floats(-9, 9, width=32)
    )
)
def test_the_coordinate_median_is_numpys_in_float64(X):
    expected = np.median(X.astype(np.float64), axis=0)
    assert np.array_equal(point("coordinate-median", X), expected)
    # Unequal weights take another way through the code; a row without weight makes them unequal.
    padded = np.vstack([X, X[:1]]).astype(np.float64)
    weights = np.r_[np.ones(len(X)), 0.0]
    assert np.array_equal(weighted_column_medians(padded, weights), expected)


def test_half_the_weight_is_a_tie_and_gives_the_middle():
    columns = np.array([[0.0], [1.0], [4.0]])
    assert weighted_column_medians(columns, np.array([1.0, 2.0, 3.0])) == [2.5]
    assert weighted_column_medians(columns, np.array([1.0, 2.0, 3.1])) == [4.0]
    assert weighted_column_medians(columns, np.array([1.0, 2.0, 2.9])) == [1.0]
    # A row without weight between the two halves is not a middle.
    assert weighted_column_medians(np.array([[0.0], [2.0], [4.0]]), np.array([1.0, 0.0, 1.0])) == [2.0]
    assert weighted_column_medians(np.array([[0.0], [3.0], [4.0]]), np.array([1.0, 0.0, 1.0])) == [2.0]


def test_many_columns_come_in_blocks(monkeypatch):
    X = np.random.default_rng(0).normal(size=(3_000, 7)).astype(np.float16)
    expected = np.median(X.astype(np.float64), axis=0)
    assert np.array_equal(point("coordinate-median", X), expected)
    monkeypatch.setattr("gmmatch.targets.moments._BLOCK_ELEMENTS", 6_000)  # two columns at a time
    assert np.array_equal(point("coordinate-median", X), expected)


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_and_a_subset(name):
    torch = pytest.importorskip("torch")
    X = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    chosen = np.arange(49, 0, -3)
    rows = as_rows(X).subset(chosen)
    ours = resolve_target(name).of(rows, np.ones(len(rows)), np.random.default_rng(0), 1).point
    assert np.allclose(ours, point(name, X.double().numpy()[chosen]), rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_distances_are_to_the_point(name):
    X = np.random.default_rng(0).normal(size=(40, 3))
    weights = np.r_[np.zeros(5), np.ones(35)]  # rows without weight have a distance too
    for w in (np.ones(40), weights):
        moment = resolve_target(name).of(as_rows(X), w, np.random.default_rng(0), 1)
        expected = np.linalg.norm(X - moment.point, axis=1)
        assert np.allclose(moment.distances_of(as_rows(X)), expected, atol=1e-12)


def test_a_moment_without_distances_computes_them():
    assert Moment(np.array([3.0, 4.0])).distances_of(as_rows([[0.0, 0.0], [3.0, 5.0]])).tolist() == [5.0, 1.0]


# -------------------------------------------------------------------------------- a part of the rows


def test_a_sample_has_the_size_that_was_asked_for():
    ones = np.ones(100)
    random = np.random.default_rng
    assert len(sample_positions(ones, 0.25, random(0))) == 25
    assert len(sample_positions(ones, 0.001, random(0))) == 1
    chosen = sample_positions(ones, 0.5, random(0))
    assert np.all(np.diff(chosen) > 0)
    assert np.array_equal(chosen, sample_positions(ones, 0.5, random(0)))
    assert not np.array_equal(chosen, sample_positions(ones, 0.5, random(1)))


def test_rows_without_weight_are_not_sampled():
    weights = np.zeros(100)
    weights[[3, 50, 97]] = [1.0, 2.0, 3.0]
    for seed in range(20):
        chosen = sample_positions(weights, 0.67, np.random.default_rng(seed))
        assert len(chosen) == 2 and set(chosen) < {3, 50, 97}


def test_the_fraction_is_of_the_rows():
    X = np.random.default_rng(0).normal(size=(400, 3))
    full = point("geometric-median", X)
    half = point("geometric-median", X, seed=1, fraction=0.5)
    other = point("geometric-median", X, seed=2, fraction=0.5)
    assert not np.allclose(half, other)
    assert max(np.linalg.norm(half - full), np.linalg.norm(other - full)) < 0.3
    chosen = sample_positions(np.ones(400), 0.5, np.random.default_rng(1))
    assert np.allclose(half, point("geometric-median", X[chosen]), atol=1e-6)


@pytest.mark.parametrize(
    ("center", "weights", "expected"),
    [
        ("mean", [1, 1, 1, 1], 3.0),
        ("mean", [1, 1, 1, 0], 1.0),
        ("coordinate-median", [1, 1, 1, 1], 1.5),
        ("coordinate-median", [1, 1, 5, 1], 2.0),
        ("geometric-median", [1, 1, 5, 1], 2.0),
    ],
)
def test_weighted_centres_and_the_distances_to_them(center, weights, expected):
    X = np.array([[0.0], [1.0], [2.0], [9.0]])
    rows, random = as_rows(X), np.random.default_rng(0)
    moment = resolve_target(center).of(rows, np.asarray(weights, dtype=float), random, 1)
    distances, middle = moment.distances_of(rows), moment.point
    assert np.allclose(middle, expected)
    assert np.allclose(distances, np.abs(X[:, 0] - expected))


class Elsewhere:
    """Rows that come by runs and by numbers alone, as those of files and of a GPU do."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.bfloat16 = array, array.shape, array.dtype, False
        self.largest = 0

    def __len__(self):
        return len(self.array)

    def row_source(self):
        return self

    def __getitem__(self, rows):
        assert isinstance(rows, (slice, np.ndarray))
        found = self.array[rows]
        self.largest = max(self.largest, len(found))
        return found


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_medians_of_columns_come_block_by_block_from_any_source(dtype, weighted, monkeypatch):
    monkeypatch.setattr("gmmatch.rows.rows.CHUNK_ELEMENTS", 500)
    monkeypatch.setattr(moments, "_READ_ELEMENTS", 400)
    X = np.random.default_rng(0).normal(size=(200, 7)).astype(dtype)
    weights = np.arange(200) % 3 if weighted else None
    source = Elsewhere(X)
    assert (
        point("coordinate-median", source, weights).tolist()
        == point("coordinate-median", X, weights).tolist()
    )
    assert source.largest < 100  # never all of them at once
    some = as_rows(source).subset(np.arange(0, 200, 3))
    found = resolve_target("coordinate-median").of(some, np.ones(67), np.random.default_rng(0), 1)
    assert found.point.tolist() == point("coordinate-median", X[::3]).tolist()


# --------------------------------------------------------------------------------------------- names


def test_names_and_options():
    assert resolve_target("mean") == MeanTarget()
    assert resolve_target("coordinate-median") == CoordinateMedianTarget()
    assert resolve_target("geometric-median", max_iter=5) == GeometricMedianTarget(max_iter=5)


def test_an_unknown_name_says_which_argument():
    with pytest.raises(InvalidInputError, match='center=\'median\': expected "mean", "geometric-median" or'):
        resolve_target("median", argument="center")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eps": -1e-8}, "eps=-1e-08: expected a finite number of at least 0"),
        ({"eps": None}, "eps=None: expected"),
        ({"eps": np.nan}, "eps=nan: expected"),
        ({"delta": np.inf}, "delta=inf: expected"),
        ({"delta": "small"}, "delta='small': expected"),
        ({"max_iter": 0}, "max_iter=0: expected a whole number of at least 1"),
        ({"max_iter": 1.5}, "max_iter=1.5: expected"),
        ({"fraction": 0.0}, "median_fraction=0.0: expected a number above 0"),
    ],
)
@pytest.mark.parametrize("name", ["geometric-median", "mean"])
def test_options_that_cannot_be_used(options, message, name):
    with pytest.raises(InvalidInputError, match=message):
        resolve_target(name, **options)
