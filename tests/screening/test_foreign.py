"""Foreign rows: what is dropped because it leaves every class in one way, and which variation stays."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.screening.cloud import HostCloud
from gmmatch.screening.foreign import Classes
from gmmatch.screening.groups import find_groups

SHAPES = {
    "normal": lambda random, shape: random.normal(size=shape),
    "exponential": lambda random, shape: random.exponential(size=shape),
    "chi-square": lambda random, shape: random.normal(size=shape) ** 2,
    "log-normal": lambda random, shape: np.exp(0.7 * random.normal(size=shape)),
    "t with 3 degrees": lambda random, shape: random.standard_t(3, size=shape),
    "mostly zero": lambda random, shape: 2.0 * random.normal(size=shape) * (random.random(shape) < 0.15),
    "rare features": lambda random, shape: 2.0 * (random.random(shape) < random.uniform(0.02, 0.5, shape[1])),
}


def varied_classes(n=4000, width=30, count=8, groups=16, seed=0):
    """Return rows of classes that hold groups, each of which prefers two of the classes, and the labels."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, count, n)
    centers = random.normal(size=(count, width))
    shifts = random.normal(size=(groups, width))
    shifts *= 5.0 / np.linalg.norm(shifts, axis=1, keepdims=True)
    chosen = random.integers(0, groups, n)
    mine = (random.random(n) < 0.4) & ((chosen % count == labels) | ((chosen + 1) % count == labels))
    return random.normal(size=(n, width)) + centers[labels] + np.where(
        mine[:, None], shifts[chosen], 0.0
    ), labels


@pytest.mark.parametrize("shape", SHAPES)
def test_variation_that_all_classes_share_stays_whatever_its_shape(shape):
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 3000)
    rows = SHAPES[shape](random, (3000, 40)) + random.normal(size=(10, 40))[labels]
    screening = gm.screen(rows, labels)
    assert np.mean(screening.reason == screening.reasons.index("far from the core")) < 0.01


def test_natural_groups_that_prefer_some_classes_stay():
    rows, labels = varied_classes()
    assert gm.screen(rows, labels).kept.mean() > 0.99


def test_clusters_of_single_classes_stay_though_gaps_part_them():
    random = np.random.default_rng(0)
    labels = random.integers(0, 8, 4000)
    modes = 4.0 * random.normal(size=(8, 3, 20))
    rows = modes[labels, random.integers(0, 3, 4000)] + random.normal(size=(4000, 20))
    assert gm.screen(rows, labels).kept.mean() > 0.99


def test_rows_that_leave_every_class_a_little_are_foreign_among_natural_groups():
    rows, labels = varied_classes()
    random = np.random.default_rng(1)
    spoilt = random.random(len(rows)) < 0.06
    direction = random.normal(size=rows.shape[1])
    rows[spoilt] += 6.0 * direction / np.linalg.norm(direction)
    screening = gm.screen(rows, labels)
    assert screening.kept[spoilt].mean() < 0.2
    assert screening.kept[~spoilt].mean() > 0.98


def test_the_same_move_in_a_single_class_is_its_variation():
    rows, labels = varied_classes()
    random = np.random.default_rng(1)
    moved = (labels == 3) & (random.random(len(rows)) < 0.4)
    rows[moved, 0] += 6.0
    assert gm.screen(rows, labels).kept[moved].mean() > 0.95


@pytest.mark.parametrize("share", [0.1, 0.3, 0.45])
def test_among_few_classes_a_gap_shows_what_is_foreign(share):
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 3000)
    rows = random.normal(size=(3000, 15)) + 4.0 * labels[:, None] * np.eye(15)[0]
    spoilt = random.random(3000) < share
    rows[spoilt, -1] += 14.0
    kept = gm.screen(rows, labels).kept
    assert not kept[spoilt].any()
    assert kept[~spoilt].mean() > 0.98


def test_nothing_is_foreign_where_half_of_the_rows_would_be():
    random = np.random.default_rng(0)
    labels = random.integers(0, 6, 4000)
    rows = random.normal(size=(4000, 12)) + 3.0 * np.eye(12)[labels]
    rows[np.arange(4000) % 2 == 0, -1] += 20.0
    assert gm.screen(rows, labels).kept.mean() > 0.99


def test_copies_of_rows_are_no_evidence_of_a_group():
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 400)
    rows = random.normal(size=(400, 30)) + random.normal(size=(10, 30))[labels]
    again = random.integers(0, 400, 4000)
    assert gm.screen(rows[again], labels[again]).kept.mean() > 0.99


def test_a_group_of_all_classes_tells_nothing_about_them():
    given = np.arange(1000) % 10
    classes = Classes(given, 10, 0.0)
    assert abs(classes.information(np.arange(1000) < 500)) < 0.02
    assert classes.information(given == 3) > 2.0
    # Where a fifth of the labels is wrong, a group tells more than they show.
    half = given < 5
    assert Classes(given, 10, 0.2).information(half) > 1.5 * classes.information(half)


def test_a_group_hidden_by_larger_ones_is_found_beside_them():
    random = np.random.default_rng(0)
    points = random.normal(size=(6000, 30))
    points[:300, 0] += 5.0
    for column in range(1, 9):
        points[300 * column : 300 * (column + 1), column] += 7.0
    points -= points.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(points.T))
    white = (points @ (vectors / np.sqrt(values))).astype(np.float32)
    cloud = HostCloud(white)
    nearest = find_groups(cloud).scores(cloud).argmax(axis=1)
    group = np.bincount(nearest[:300]).argmax()
    assert np.mean(nearest[:300] == group) > 0.8
    assert np.mean(nearest[300:] == group) < 0.02


def test_few_groups_leave_the_variances_that_all_directions_would():
    from gmmatch.screening.groups import _within

    random = np.random.default_rng(0)
    centers, weights = 0.3 * random.standard_normal((4, 20)), np.full(4, 0.25)
    values, vectors = _within(centers, weights)
    within = np.eye(20) + (vectors * (values - 1.0)) @ vectors.T
    assert np.allclose(within, np.eye(20) - (centers.T * weights) @ centers)
    assert np.allclose(vectors.T @ vectors, np.eye(len(values)))


def test_a_climb_in_parts_is_a_climb_of_all_rows_at_once(monkeypatch):
    from gmmatch.screening import cloud, groups

    points = np.random.default_rng(0).standard_normal((500, 6))
    arguments = HostCloud(points), np.zeros(500), points[:5].T.copy(), np.full(5, 0.03), np.arange(5)
    whole = groups._step(*arguments, gained=True)[3], *groups._step(*arguments)[:3]
    monkeypatch.setattr(cloud, "_PART_ELEMENTS", 35)
    parts = groups._step(*arguments, gained=True)[3], *groups._step(*arguments)[:3]
    assert all(np.allclose(one, other) for one, other in zip(whole, parts, strict=True))
