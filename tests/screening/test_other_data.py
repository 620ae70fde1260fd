"""Columns of different units, two classes, wide classes, classes of two kinds, mistakes between classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_circles, make_moons

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine
from gmmatch.backends.cuda.blocks import TensorSource

TABLES = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}


def f1(dropped, wrong):
    return 2.0 * np.sum(dropped & wrong) / (np.sum(dropped) + np.sum(wrong))


def symmetric(labels, rate):
    random, n_classes = np.random.default_rng(7), labels.max() + 1
    moved = (labels + random.integers(1, n_classes, len(labels))) % n_classes
    return np.where(random.random(len(labels)) < rate, moved, labels)


def between(X, labels, rate):
    """Return labels of the nearest other class for some rows, the more often the nearer it is."""
    Z = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)
    centers = np.stack([Z[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    apart = ((Z[:, None] - centers) ** 2).sum(axis=2)
    apart[np.arange(len(labels)), labels] = np.inf
    share = np.argsort(np.argsort(apart.min(axis=1))) / len(labels)
    moved = np.random.default_rng(7).random(len(labels)) < 2.0 * rate * (1.0 - share)
    return np.where(moved, apart.argmin(axis=1), labels)


def two_modes():
    random = np.random.default_rng(3)
    centers, mode = 2.5 * random.standard_normal((6, 16)), random.integers(6, size=3000)
    return centers[mode] + random.standard_normal((3000, 16)), mode % 3


def one_wide_class():
    random = np.random.default_rng(4)
    centers, labels = 2.0 * random.standard_normal((3, 10)), random.integers(3, size=2000)
    widths = np.array([0.5, 1.0, 3.0])[labels]
    return centers[labels] + widths[:, None] * random.standard_normal((2000, 10)), labels


CLEAN = {
    **{name: (lambda load=load: load(return_X_y=True)) for name, load in TABLES.items()},
    "circles": lambda: make_circles(2000, noise=0.08, factor=0.5, random_state=0),
    "two modes in every class": two_modes,
    "one wide class": one_wide_class,
}


@pytest.mark.parametrize("name", CLEAN)
def test_clean_rows_stay(name):
    X, y = CLEAN[name]()
    assert gm.screen(X, y).kept.mean() > 0.98


@pytest.mark.parametrize(
    ("name", "least"), [("wine", 0.8), pytest.param("cancer", 0.8, marks=pytest.mark.slow), ("digits", 0.9)]
)
def test_label_noise_is_found_in_columns_of_any_unit(name, least):
    X, true = TABLES[name](return_X_y=True)
    given = symmetric(true, 0.2)
    units = 10.0 ** np.random.default_rng(0).uniform(-3, 3, X.shape[1]) if name != "digits" else 1.0
    assert f1(~gm.screen(X * units, given).kept, given != true) > least


@pytest.mark.parametrize("data", [make_circles, make_moons])
@pytest.mark.parametrize("order", ["mixed", "one class after the other"])
def test_label_noise_is_found_where_no_line_parts_the_classes(data, order):
    X, true = data(2000, noise=0.1, random_state=0, **({"factor": 0.5} if data is make_circles else {}))
    if order != "mixed":
        X, true = X[np.argsort(true)], np.sort(true)
    given = symmetric(true, 0.2)
    assert f1(~gm.screen(X, given).kept, given != true) > 0.9


def test_waves_are_the_same_on_tensors_and_workers(tmp_path):
    torch = pytest.importorskip("torch")
    # Far enough apart that no row stands at the edge, where rounding decides.
    X, true = make_circles(1500, noise=0.05, factor=0.4, random_state=0)
    X, given = X.astype(np.float32), symmetric(true, 0.2)
    np.save(tmp_path / "rows.npy", X)
    here = gm.select(X, given, k=100)
    there = gm.select(tmp_path / "rows.npy", given, k=100, engine=LocalEngine(2))
    assert there.order.tolist() == here.order.tolist()
    assert here.screening.counts["likely mislabeled"] > 200
    assert gm.screen(TensorSource(torch.from_numpy(X)), given).kept.tolist() == here.screening.kept.tolist()


@pytest.mark.parametrize("n", [120, 1200])
@pytest.mark.parametrize("apart", [10.0, 60.0])
def test_mistakes_that_all_go_one_way_between_classes_far_apart(n, apart):
    """Six photos of one kind in the folder of another."""
    random = np.random.default_rng(1)
    true = np.arange(n) % 3
    X = random.standard_normal((n, 16)) + apart / np.sqrt(2.0) * np.eye(16)[true]
    given = np.where((true == 0) & (np.arange(n) < 0.15 * n), 1, true)
    assert f1(~gm.screen(X, given).kept, given != true) > 0.9


def test_two_classes_of_which_two_fifths_are_mislabeled():
    X, true = load_breast_cancer(return_X_y=True)
    given = symmetric(true, 0.4)
    found = gm.screen(X, given)
    assert f1(~found.kept, given != true) > 0.7
    assert np.mean((given != true)[found.kept]) < 0.1


@pytest.mark.parametrize("data", [lambda: load_digits(return_X_y=True), two_modes, one_wide_class])
def test_mistakes_between_classes_are_found_where_classes_are_clusters(data):
    X, true = data()
    given = between(X, true, 0.2)
    assert f1(~gm.screen(X, given).kept, given != true) > 0.8
