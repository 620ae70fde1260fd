"""The geometric median: worked examples, what theory promises, and every kind of input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes import SHAPES, make

from gmmatch import geometric_median
from gmmatch.errors import ConvergenceWarning, GMMatchError, InvalidInputError

# ------------------------------------------------------------------ worked examples


def test_one_row_is_its_own_median():
    result = geometric_median([[3.0, -1.0]])
    assert np.array_equal(result.point, [3.0, -1.0])
    assert (result.objective, result.gap, result.converged) == (0.0, 0.0, True)


def test_of_two_rows_the_heavier_wins_and_equals_tie():
    assert np.array_equal(geometric_median([[0.0], [1.0]], sample_weight=[1.0, 2.0]).point, [1.0])
    tie = geometric_median([[0.0, 0.0], [2.0, 0.0]])
    assert tie.objective == pytest.approx(2.0)
    assert tie.converged


def test_equal_rows():
    result = geometric_median(np.full((5, 3), 2.5))
    assert np.array_equal(result.point, [2.5, 2.5, 2.5])
    assert result.gap == 0.0


def test_equilateral_triangle_and_square_have_their_centres():
    triangle = [[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]]
    assert geometric_median(triangle).point == pytest.approx([0.5, np.sqrt(3) / 6], abs=1e-7)
    square = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    assert geometric_median(square).point == pytest.approx([0.5, 0.5], abs=1e-7)


def test_obtuse_triangle_has_its_obtuse_corner():
    """Fermat: a corner of 120 degrees or more is the median, exactly."""
    result = geometric_median([[0.0, 0.0], [10.0, 1.0], [-10.0, 1.0]])
    assert np.array_equal(result.point, [0.0, 0.0])


def test_fermat_point_of_a_right_triangle():
    """All three sides are seen under 120 degrees."""
    corners = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    point = geometric_median(corners, eps=1e-12).point
    rays = (corners - point) / np.linalg.norm(corners - point, axis=1)[:, None]
    assert (rays @ rays.T)[np.triu_indices(3, 1)] == pytest.approx([-0.5] * 3, abs=1e-6)


@pytest.mark.parametrize("n", [3, 5, 11, 101])
def test_of_an_odd_number_of_collinear_rows_the_middle_one(n):
    line = np.random.default_rng(n).standard_normal(n)
    rows = line[:, None] * np.array([1.0, -2.0, 0.5]) + 7.0
    middle = rows[np.argsort(line)[n // 2]]
    assert np.array_equal(geometric_median(rows).point, middle)


def test_a_start_on_a_wrong_row_is_left():
    """The paper's rule (leave the coincident row out) can cycle here; Vardi and Zhang's does not."""
    rows = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0], [1.0, 1.5]])
    expected = geometric_median(rows).point
    for row in rows:
        assert geometric_median(rows, init=row).point == pytest.approx(expected, abs=1e-6)


def test_copies_of_a_row_count_like_weight():
    random = np.random.default_rng(0)
    rows = random.standard_normal((12, 3))
    copies = random.integers(1, 5, 12)
    repeated = geometric_median(np.repeat(rows, copies, axis=0), eps=1e-12)
    weighted = geometric_median(rows, sample_weight=copies, eps=1e-12)
    assert repeated.point == pytest.approx(weighted.point, abs=1e-9)
    assert repeated.objective == pytest.approx(weighted.objective)


def test_a_row_without_weight_does_not_matter():
    rows = np.random.default_rng(1).standard_normal((9, 2))
    with_stranger = np.vstack([rows, [[1e9, 1e9]]])
    weights = np.append(np.ones(9), 0.0)
    moved = geometric_median(with_stranger, sample_weight=weights).point
    assert moved == pytest.approx(geometric_median(rows).point, abs=1e-7)


# ------------------------------------------------------------------ what theory promises

finite = st.floats(-100, 100)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 40), s=st.integers(1, 8), shape=st.sampled_from(SHAPES))
@settings(max_examples=60, deadline=None)
def test_equivariance(seed, n, s, shape):
    """Moving, turning, scaling and reordering the rows does the same to the median's objective."""
    rows, weights = make(shape, n, s, seed)
    if shape == "far from the origin":
        rows -= 1e6
    random = np.random.default_rng(seed)
    base = geometric_median(rows, sample_weight=weights)
    shift, scale = random.standard_normal(rows.shape[1]), 2.0 ** random.integers(-3, 4)
    turn = np.linalg.qr(random.standard_normal((s, s)))[0]
    order = random.permutation(len(rows))
    for moved, back in (
        (rows + shift, lambda z: z - shift),
        (rows @ turn, lambda z: z @ turn.T),
        (rows * scale, lambda z: z / scale),
    ):
        result = geometric_median(moved, sample_weight=weights)
        again = np.linalg.norm(rows - back(result.point), axis=1) @ weights
        # Both are within 1e-8 of the least objective, and nothing more is promised where it is flat.
        assert again == pytest.approx(base.objective, rel=5e-8, abs=1e-9)
    shuffled = geometric_median(rows[order], sample_weight=weights[order])
    assert shuffled.objective == pytest.approx(base.objective, rel=5e-8, abs=1e-12)


@given(seed=st.integers(0, 10_000), corrupt=st.integers(0, 19), distance=st.floats(1.0, 1e8))
@settings(max_examples=50, deadline=None)
def test_breakdown_point_is_one_half(seed, corrupt, distance):
    """With under half of the rows corrupt the median stays within the proof's bound, however far they are."""
    random = np.random.default_rng(seed)
    clean = random.standard_normal((20, 3))
    bad = distance * (1.0 + 0.01 * random.standard_normal((corrupt, 3)))
    point = geometric_median(np.vstack([clean, bad])).point
    center = clean.mean(axis=0)
    bound = 2.0 * np.linalg.norm(clean - center, axis=1).sum() / (20 - corrupt)
    assert np.linalg.norm(point - center) <= bound * 1.0001


def test_mean_breaks_where_the_median_does_not():
    rows = np.vstack([np.random.default_rng(0).standard_normal((60, 4)), np.full((40, 4), 1e6)])
    assert np.linalg.norm(rows.mean(axis=0)) > 1e5
    assert np.linalg.norm(geometric_median(rows).point) < 3.0


# ------------------------------------------------------------------ options


def plain_weiszfeld(rows, delta, eps, most):
    """The paper's listing, in NumPy."""
    point = rows.mean(axis=0)
    for count in range(1, most + 1):
        pull = 1.0 / (np.linalg.norm(rows - point, axis=1) + delta)
        moved = (pull[:, None] * rows).sum(axis=0) / pull.sum()
        if np.linalg.norm(moved - point) < eps:
            return point, count
        point = moved
    return point, most


@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_the_papers_iteration_and_stopping_rule(delta):
    rows = np.random.default_rng(3).standard_normal((200, 6)) + 2.0
    expected, passes = plain_weiszfeld(rows, delta, 1e-5, 100)
    result = geometric_median(
        rows, delta=delta, eps=1e-5, max_iter=100, stop="step", accelerate=False, init="mean"
    )
    assert result.iterations == passes
    assert result.point == pytest.approx(expected, abs=1e-12)
    assert result.converged


def test_fraction_uses_a_seeded_sample():
    rows = np.random.default_rng(0).standard_normal((1000, 2))
    first = geometric_median(rows, fraction=0.25, random_state=1)
    assert first.n_rows == 250
    assert np.array_equal(first.point, geometric_median(rows, fraction=0.25, random_state=1).point)
    assert not np.array_equal(first.point, geometric_median(rows, fraction=0.25, random_state=2).point)
    assert geometric_median(rows, fraction=1e-9, random_state=0).n_rows == 1


def test_init_changes_the_way_but_not_the_answer():
    rows = np.random.default_rng(0).standard_normal((9000, 3))  # enough for a start from a sample
    points = [
        geometric_median(rows, init=init, eps=1e-11).point for init in ("auto", "mean", [5.0, 5.0, 5.0])
    ]
    assert points[0] == pytest.approx(points[1], abs=1e-8)
    assert points[0] == pytest.approx(points[2], abs=1e-8)


def test_stopping_at_max_iter_warns_and_keeps_the_gap():
    rows = np.random.default_rng(0).standard_normal((50, 2))
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        result = geometric_median(rows, max_iter=2)
    assert not result.converged
    assert result.iterations == 2
    assert 1e-8 < result.gap < 10.0


def test_distances_and_objective_belong_to_the_point():
    rows = np.random.default_rng(0).standard_normal((50, 2))
    result = geometric_median(rows)
    assert result.distances == pytest.approx(np.linalg.norm(rows - result.point, axis=1))
    assert result.objective == pytest.approx(result.distances.sum())


# ------------------------------------------------------------------ input


@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
def test_threads_do_not_change_a_bit(n_jobs):
    rows = np.random.default_rng(0).standard_normal((50_000, 100), dtype=np.float32)  # three chunks
    alone = geometric_median(rows, n_jobs=1, eps=1e-6)
    assert np.array_equal(alone.point, geometric_median(rows, n_jobs=n_jobs, eps=1e-6).point)


def as_every_kind(rows):
    """The same values as arrays of every memory layout, all exactly representable in float16."""
    yield rows.astype(np.float32)
    yield rows.astype(np.float16)
    yield np.asfortranarray(rows)
    yield np.repeat(rows, 2, axis=0)[::2]
    yield np.repeat(rows, 2, axis=1)[:, ::2]
    yield rows[::-1].copy()[::-1]
    yield rows.astype(">f8")
    frozen = rows.copy()
    frozen.flags.writeable = False
    yield frozen
    yield rows.tolist()


def test_every_kind_of_array_gives_the_same_median():
    rows = np.round(np.random.default_rng(0).standard_normal((300, 5)) * 64) / 64
    expected = geometric_median(rows, eps=1e-12).point
    for kind in as_every_kind(rows):
        assert geometric_median(kind, eps=1e-12).point == pytest.approx(expected, abs=1e-12)
    integers = np.round(rows * 64).astype(np.int32)
    assert geometric_median(integers, eps=1e-12).point == pytest.approx(expected * 64, abs=1e-9)


def test_bfloat16_through_torch():
    torch = pytest.importorskip("torch")
    tensor = torch.randn(500, 7, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    expected = geometric_median(tensor.to(torch.float64).numpy(), eps=1e-12).point
    assert geometric_median(tensor, eps=1e-12).point == pytest.approx(expected, abs=1e-12)


def test_float16_is_converted_chunk_by_chunk():
    """More than one chunk, so that the converted blocks have to fit together."""
    rows = np.random.default_rng(0).standard_normal((30_000, 128)).astype(np.float16)
    narrow, wide = geometric_median(rows), geometric_median(rows.astype(np.float64))
    assert narrow.point == pytest.approx(wide.point, abs=1e-9)


def test_input_is_not_modified():
    rows = np.random.default_rng(0).standard_normal((40, 3))
    before = rows.copy()
    geometric_median(rows, sample_weight=np.ones(40))
    assert np.array_equal(rows, before)
    assert rows.flags.writeable


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"eps": -1.0}, "eps=-1.0"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"delta": -0.5}, "delta=-0.5"),
        ({"stop": "gaps"}, '"gap"'),
        ({"init": "median"}, "init='median'"),
        ({"init": [1.0, 2.0, 3.0]}, "one per column"),
        ({"fraction": 0.0}, "fraction=0.0"),
        ({"fraction": 1.5}, "fraction=1.5"),
        ({"sample_weight": [1.0]}, "sample_weight"),
        ({"sample_weight": [1.0, -1.0, 1.0]}, r"sample_weight\[1\]"),
        ({"sample_weight": [0.0, 0.0, 0.0]}, "zero for every row"),
        ({"n_jobs": 0}, "n_jobs=0"),
    ],
)
def test_bad_options_are_named(arguments, words):
    with pytest.raises(InvalidInputError, match=words):
        geometric_median([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], **arguments)


@pytest.mark.parametrize("name", ["eps", "max_iter", "delta"])
def test_options_of_another_type_are_named(name):
    with pytest.raises(TypeError, match=f"{name}=None: expected a number"):
        geometric_median([[0.0], [1.0]], **{name: None})


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[0.0], [np.nan], [1.0], [np.inf]], r"first: 1, 3"),
        ([1.0, 2.0], "two-dimensional"),
        (np.empty((0, 3)), "no rows"),
        (np.empty((3, 0)), "no columns"),
        ([["a", "b"]], "dtype"),
        ([[1e200], [0.0]], "too large"),
    ],
)
def test_bad_rows_are_named(rows, words):
    with pytest.raises(ValueError, match=words) as caught:
        geometric_median(rows)
    assert isinstance(caught.value, GMMatchError)


def test_nan_is_found_in_every_chunk():
    rows = np.zeros((60_000, 64), dtype=np.float32)
    rows[59_999, 63] = np.nan
    with pytest.raises(InvalidInputError, match="first: 59999"):
        geometric_median(rows)


def test_no_warning_on_ordinary_data():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        geometric_median(np.random.default_rng(0).standard_normal((100, 3)))
