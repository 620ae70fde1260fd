"""Steps before the selection: center, scale, PCA, unit length."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

import gmmatch as gm
from gmmatch.preprocess import fit_step

X = np.random.default_rng(0).standard_normal((300, 6)) * np.linspace(1, 3, 6) + 2.0


def transform(X, name, number=0):
    with gm.open_rows(X) as rows:
        mapped = rows.map(fit_step(rows, name, number))
        return mapped.take(np.arange(len(X)))


def test_steps_are_what_their_names_say():
    np.testing.assert_allclose(transform(X, "center").mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(transform(X, "scale").std(axis=0), 1.0)
    np.testing.assert_allclose(np.linalg.norm(transform(X, "unit"), axis=1), 1.0)
    components = PCA(3).fit_transform(X)
    np.testing.assert_allclose(np.abs(transform(X, "pca", 3)), np.abs(components), atol=1e-9)


def test_rows_keep_their_precision():
    with gm.open_rows(X.astype(np.float32)) as rows:
        assert rows.map(fit_step(rows, "scale")).block(0, 10).dtype == np.float32


def test_constant_columns_zero_rows_and_extreme_numbers():
    constant = X.copy()
    constant[:, 2] = 0.1
    np.testing.assert_array_equal(transform(constant, "scale")[:, 2], 0.1)
    assert transform(np.zeros((3, 2)), "unit").tolist() == [[0.0, 0.0]] * 3
    tiny, huge = transform(X * 1e-140, "unit"), transform(X * 1e140, "unit")
    np.testing.assert_allclose(tiny, transform(X, "unit"))
    np.testing.assert_allclose(huge, transform(X, "unit"))


def test_steps_are_recorded_and_done_in_order():
    selection = gm.select(X, k=10, method="herding", preprocess=["center", "pca:3", "unit"])
    assert selection.provenance["preprocess"] == ["center", "pca:3", "unit"]
    by_hand = transform(transform(transform(X, "center"), "pca", 3), "unit")
    assert selection.order.tolist() == gm.select(by_hand, k=10, method="herding").order.tolist()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("whiten", "'whiten' is not a step"),
        ("pca", "'pca' is not a step"),
        ("pca:0", "needs a number of components"),
        ("pca:7", 'more components than X has rows or columns; "pca:6" is the most'),
        (5, "preprocess=5: expected a list of steps"),
    ],
)
def test_unusable_steps_are_named(steps, message):
    with pytest.raises(gm.GMMatchError, match=message):
        gm.select(X, k=3, method="easy", preprocess=steps)
