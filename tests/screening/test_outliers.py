"""Rows of no class: what was hidden is found, and kinds of rows, grades and label noise are left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gmmatch as gm

N = 600


def screen(X: Any, y: Any = None) -> Any:
    return gm.screen(X, y, duplicates="keep", random_state=0)


def normal_rows(n_features: int = 8) -> Any:
    return np.random.default_rng(0).standard_normal((N, n_features))


def test_rows_far_out_are_outliers() -> None:
    X = normal_rows()
    X[3], X[500] = 40.0, 1e30
    assert np.flatnonzero(screen(X).reason == "outlier").tolist() == [3, 500]


@pytest.mark.parametrize("shape", ["cluster", "shell", "copies", "shrunk"])
def test_a_hidden_group_is_found(shape: str) -> None:
    X, random = normal_rows(), np.random.default_rng(1)
    hidden = np.arange(N) < 150
    noise = random.standard_normal((150, 8))
    X[hidden] = {
        "cluster": 6.0 + 0.5 * noise,
        "shell": 9.0 * noise / np.linalg.norm(noise, axis=1, keepdims=True),
        "copies": X[-1] + 1e-3 * noise,
        "shrunk": 0.02 * noise,
    }[shape]
    result = screen(X)
    assert (result.reason == "out of distribution")[hidden].mean() > 0.98
    assert result.trusted[~hidden].mean() > 0.99


def test_negated_rows_of_all_classes_are_found_and_a_kind_of_its_own_is_kept() -> None:
    random = np.random.default_rng(2)
    y = np.arange(2 * N) % 6
    X = 4.0 + 2.0 * random.standard_normal((6, 8))[y] + random.standard_normal((2 * N, 8))
    negated = random.random(2 * N) < 0.3
    bad = screen(np.where(negated[:, None], -X, X), y)
    assert (bad.reason == "out of distribution")[negated].mean() > 0.95
    assert (bad.reason == "out of distribution")[~negated].mean() < 0.02
    X[y == 0] *= -1.0
    assert not np.isin(screen(X, y).reason, ("out of distribution", "group")).any()


@pytest.mark.parametrize("rows", ["heavy tails", "skewed", "grades", "flags"])
def test_clean_rows_of_many_laws_are_trusted(rows: str) -> None:
    random, X = np.random.default_rng(3), normal_rows()
    X = {
        "heavy tails": random.standard_t(3, X.shape),
        "skewed": np.exp(X),
        "grades": np.round(X),
        "flags": (X > 0.5).astype(float),
    }[rows]
    assert screen(X).trusted.mean() > 0.995


def test_rows_of_other_classes_with_random_labels_are_not_trusted() -> None:
    random, n = np.random.default_rng(4), 1500
    centers = random.standard_normal((16, 32))
    kind = random.integers(0, 16, n)
    X = 1.0 + centers[kind] + 0.7 * random.standard_normal((n, 32))
    others = kind >= 10
    y = np.where(others, random.integers(0, 10, n), kind)
    result = screen(X, y)
    assert (~result.trusted)[others].mean() > 0.85
    assert (result.reason == "out of distribution")[~others].mean() < 0.03
