"""Centre, scale, PCA and unit length against NumPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.rows.preprocessing import fit_steps, parse_steps
from gmmatch.rows.rows import as_rows


def after(X, *steps):
    return fit_steps(as_rows(X), parse_steps(list(steps)))[0].copied()


@pytest.fixture(name="X")
def correlated_rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(9_000, 5)) @ rng.normal(size=(5, 5)) + rng.normal(size=5)


def test_center_and_scale_are_scikit_learns(X):
    assert np.allclose(after(X, "center"), StandardScaler(with_std=False).fit_transform(X))
    assert np.allclose(after(X, "scale"), StandardScaler(with_mean=False).fit_transform(X))
    assert np.allclose(after(X, "center", "scale"), StandardScaler().fit_transform(X))


def test_pca_is_scikit_learns_up_to_signs(X):
    ours, theirs = after(X, "pca:3"), PCA(3).fit_transform(X)
    assert ours.shape == (9_000, 3)
    assert np.allclose(np.abs(ours), np.abs(theirs), atol=1e-9)
    # All components only turn the rows around their mean.
    turned = after(X, "pca:5")
    assert np.allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(X - X.mean(axis=0), axis=1))


def test_steps_run_in_the_order_given(X):
    assert np.allclose(np.linalg.norm(after(X, "center", "unit"), axis=1), 1.0)
    assert np.allclose(after(X, "unit", "center").mean(axis=0), 0.0)
    assert not np.allclose(after(X, "unit", "center"), after(X, "center", "unit"))


@pytest.mark.parametrize("offset", [0.1, 1e6 / 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_column_is_left_alone_by_scale(offset, dtype):
    """Its deviation is 0 but for rounding, and 1 divided by rounding is a column of 10¹³."""
    X = np.column_stack([np.full(1_000, offset), np.random.default_rng(0).normal(size=1_000)]).astype(dtype)
    assert np.array_equal(after(X, "scale")[:, 0], X[:, 0])
    assert np.abs(after(X, "center", "scale")[:, 0]).max() < 1e-6
    assert np.isclose(after(X, "scale")[:, 1].std(), 1.0)


def test_a_row_of_zeros_stays_under_unit():
    assert after([[0.0, 0.0], [3.0, 4.0]], "unit").tolist() == [[0.0, 0.0], [0.6, 0.8]]


@pytest.mark.parametrize("size", [1e-30, 1.0, 3e38])
def test_unit_length_at_the_ends_of_float32(size):
    X = np.array([[size, size], [size, -size]], dtype=np.float32)
    assert np.allclose(np.abs(after(X, "unit")), np.sqrt(0.5))


@pytest.mark.parametrize("step", ["center", "scale", "unit"])
def test_float32_loses_one_rounding_only(step):
    """Far from the origin a mean that is rounded to float32 first would shift every row."""
    X = (np.random.default_rng(0).normal(size=(500, 3)) + 1_000).astype(np.float32)
    exact = after(X.astype(np.float64), step)
    ours = after(X, step)
    assert ours.dtype == np.float32
    assert np.all(np.abs(ours - exact) <= np.spacing(np.abs(exact).astype(np.float32)))


@given(
    hnp.arrays(
        st.sampled_from([np.float16, np.float32, np.float64, np.int8]),
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
        elements=st.integers(-9, 9),
    ),
    st.lists(st.sampled_from(["center", "scale", "unit", "pca:1"]), max_size=3),
)
def test_the_input_is_never_written_to(X, steps):
    before = X.copy()
    result = after(X, *steps)
    assert X.tobytes() == before.tobytes()
    assert not np.shares_memory(result, X)
    assert np.all(np.isfinite(result))


def test_without_steps_the_rows_are_the_same_object(X):
    rows = as_rows(X)
    assert fit_steps(rows, [])[0] is rows


def test_one_step_may_be_given_as_text():
    assert parse_steps("unit") == [("unit", 0)] == parse_steps(("unit",))
    assert parse_steps(None) == []


@pytest.mark.parametrize(
    ("preprocess", "message"),
    [
        ("whiten", r"preprocess='whiten'.*'whiten' is not a step.*\"center\", \"scale\", \"pca:64\""),
        (["unit", "pca"], r"'pca' is not a step.*pca:64"),
        (["pca:0"], "'pca:0' needs a number of components"),
        (["pca:x"], "'pca:x' needs a number of components"),
        (["pca:²"], "'pca:²' needs a number of components"),
        (["unit:3"], "'unit:3' is not a step"),
        ([None], "None is not a step"),
    ],
)
def test_what_is_no_step(preprocess, message):
    with pytest.raises(InvalidInputError, match=message):
        parse_steps(preprocess)


@pytest.mark.parametrize("preprocess", [5, {"unit": 1}, abs])
def test_what_is_no_list_of_steps(preprocess):
    with pytest.raises(InvalidTypeError, match=r"preprocess=.*expected a list of steps"):
        parse_steps(preprocess)


def test_more_components_than_there_are():
    with pytest.raises(InvalidInputError, match=r'"pca:9" asks for more components .* "pca:2" is the most'):
        after(np.eye(2), "pca:9")
