"""What is warned about, in which words, at whose line, and when not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.errors import ApproximationWarning, ConvergenceWarning, FarRowWarning


@pytest.fixture(name="X")
def clean_rows():
    return np.random.default_rng(0).normal(size=(200, 4))


@pytest.fixture(name="far")
def rows_with_one_far_away(X):
    X = X.copy()
    X[137] = 1e6
    return X


def warned(call):
    """Every warning that a call gives, as (category, text, file)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(one.category, str(one.message), one.filename) for one in caught]


# ---------------------------------------------------------------------------------------- far rows


def test_a_far_row_is_named_with_three_remedies(far):
    [(category, text, _)] = warned(lambda: gm.GMMatching(k=10).select(far))
    assert category is FarRowWarning
    assert text.startswith("Row 137 lies ")
    for remedy in ("preprocess='unit'", "exclude=[...]", "kernel=RBF()"):
        assert remedy in text


@pytest.mark.parametrize("method", [gm.GMMatching, gm.Herding])
def test_the_remedies_work(far, method):
    """Without them the far row is picked, and the mean of the picks is off by 10⁵."""
    with pytest.warns(FarRowWarning, match="Row 137"):
        assert 137 in method(k=10).select(far).indices
    excluded = method(k=10).select(far, exclude=[137])
    assert 137 not in excluded.indices
    if method is gm.GMMatching:
        clean = np.delete(far, 137, axis=0)
        assert np.linalg.norm(far[excluded.indices].mean(axis=0) - clean.mean(axis=0)) < 0.5
    # Of unit length, the far row is one among equals; a bounded kernel cannot tell it from one at 10.
    near = far.copy()
    near[137] = 1.0
    picks = [method(k=10).select(rows, preprocess="unit").order for rows in (far, near)]
    assert np.array_equal(*picks)
    assert method(k=10, kernel=gm.RBF(2.0)).select(far).k == 10


def test_many_classes_give_one_warning(X):
    far = X.copy()
    far[[3, 7, 11]] = 1e6
    [(_, text, _)] = warned(lambda: gm.GMMatching(k=20).select(far, np.arange(200) % 5))
    assert text.startswith("Row 11 of class 1 ") and text.endswith("for 2 more classes.")


def test_no_warning_where_none_is_due(X, far):
    assert warned(lambda: gm.GMMatching(k=10).select(X)) == []
    assert warned(lambda: gm.GMMatching(k=10).select(far, exclude=[137])) == []
    assert warned(lambda: gm.GMMatching(k=10).select(far, sample_weight=np.ones(200), exclude=[137])) == []
    assert warned(lambda: gm.Easy(k=10).select(far)) == []
    heavy = np.random.default_rng(1).standard_t(3, size=(2_000, 8))
    assert warned(lambda: gm.GMMatching(k=10).select(heavy)) == []


# -------------------------------------------------------------------------------------- convergence


def test_an_unfinished_median_says_so(X):
    [(category, text, _)] = warned(
        lambda: gm.GMMatching(k=10, target=gm.GeometricMedian(max_iter=1)).select(X)
    )
    assert category is ConvergenceWarning
    assert "certified gap of" in text and "raise max_iter or eps" in text
    [(category, text, _)] = warned(
        lambda: gm.GMMatching(k=10, kernel=gm.RBF(), target=gm.GeometricMedian(max_iter=1)).select(X)
    )
    assert category is ConvergenceWarning
    assert "certified gap of" in text


# ------------------------------------------------------------------------------------- whose line


@pytest.mark.parametrize("labels", [None, [0, 1] * 100], ids=["one group", "two groups"])
def test_warnings_point_at_the_line_that_called(far, labels):
    selector = gm.GMMatching(k=10)
    unlabeled = [0, 1, None, 1] * 50
    for call in (
        lambda: selector.select(far, labels),
        lambda: selector.fit(far, labels),
        lambda: gm.select(far, y=labels, k=10, method="gm-matching"),
        lambda: gm.Easy(k=10).select(far, unlabeled),
        lambda: gm.select(far, y=unlabeled, k=10, method="easy"),
    ):
        assert {file for _, _, file in warned(call)} == {__file__}


# ----------------------------------------------------------------------------------- approximations


def test_a_class_that_is_too_large_for_its_gram_matrix_is_approximated_with_a_warning(X, monkeypatch):
    monkeypatch.setattr("gmmatch.kernel_targets._MAX_ROWS", 100)
    [(category, text, _)] = warned(lambda: gm.KernelHerding(k=10).select(X))
    assert category is ApproximationWarning
    assert "RandomFeatures(kernel=RBF(bandwidth='median'), n_components=512) stands in" in text
    assert warned(lambda: gm.KernelHerding(k=10, kernel=gm.RandomFeatures()).select(X)) == []
