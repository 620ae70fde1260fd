"""Rows of no class, rows far out, duplicates: found whatever the class, and not invented where there are none."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from examples import classes, mislabeled
from gmmatch.errors import InvalidInputError
from gmmatch.rows.rows import Rows
from gmmatch.screening import groups
from gmmatch.screening.blocks import Blocks


def dropped_as(screening, reason):
    return screening.reason == screening.reasons.index(reason)


@pytest.mark.grid
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("share", [0.1, 0.4])
def test_rows_that_leave_every_class_in_one_direction(share, noise):
    rows, truth = classes(4000, width=12, count=6)
    labels, wrong = mislabeled(truth, noise)
    bad = np.random.default_rng(2).random(4000) < share
    rows[bad, -1] += 8.0
    screening = gm.screen(rows, labels)
    assert screening.kept[bad].mean() < 0.02
    assert screening.kept[~bad & ~wrong].mean() > 0.95
    assert dropped_as(screening, "belongs to no class")[bad].mean() > 0.9


@pytest.mark.parametrize("seed", [3, 4])
def test_corrupted_rows_in_one_piece(seed):
    """Data sets are joined from sources: no part of the search may see one source alone."""
    random = np.random.default_rng(seed)
    y = random.integers(4, size=2000)
    X = random.standard_normal((2000, 64)) + 6.0 * np.eye(64)[y]
    X[:120, 20] += 5.5
    for order in (np.arange(2000), random.permutation(2000)):
        dropped = ~gm.screen(X[order], y[order], "rows").kept
        assert dropped[order < 120].mean() > 0.9
        assert dropped[order >= 120].mean() < 0.01


@pytest.mark.parametrize("scale", [1 / 3, 3.0])
def test_rows_of_another_scale(scale):
    rows, labels = classes(3000, width=40, count=3)
    centers = rows * 0 + 5.0 * np.eye(40)[labels]
    bad = np.random.default_rng(0).random(3000) < 0.2
    rows[bad] = (rows - centers)[bad] * scale + centers[bad]
    screening = gm.screen(rows, labels)
    assert screening.kept[bad].mean() < 0.05
    assert screening.kept[~bad].mean() > 0.97


@pytest.mark.parametrize("width", [64, 256, 1024])
@pytest.mark.parametrize("round_shape", [True, False])
def test_a_shift_in_many_dimensions(width, round_shape):
    random = np.random.default_rng(0)
    widths = np.ones(width) if round_shape else 1.0 / np.sqrt(np.arange(1, width + 1))
    rows = random.normal(size=(1500, width)) * widths
    bad = np.arange(1500) < 600
    direction = random.normal(size=width)
    rows[bad] += direction / np.linalg.norm(direction) * np.sqrt((widths**2).sum())
    screening = gm.screen(rows)
    assert screening.kept[bad].mean() < 0.02
    assert screening.kept[~bad].mean() > 0.97


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("share", [0.2, 0.45])
def test_a_far_cluster_among_few_rows_of_many_columns(share, seed):
    """What is left has valleys by chance, but no kinds of its own."""
    rows = np.random.default_rng(seed).normal(size=(1000, 512))
    bad = np.arange(1000) < share * 1000
    rows[bad, 0] += 160.0
    screening = gm.screen(rows)
    assert not screening.kept[bad].any() and screening.kept[~bad].mean() > 0.99


@pytest.mark.parametrize("width", [2, 64])
def test_clusters_without_labels_stay(width):
    random = np.random.default_rng(0)
    rows = random.normal(size=(2000, width)) + 12.0 * random.normal(size=(10, width))[np.arange(2000) % 10]
    assert gm.screen(rows).kept.mean() > 0.95


@pytest.mark.parametrize(
    ("rows", "width"),
    [(2000, 3), *(pytest.param(*shape, marks=pytest.mark.slow) for shape in ((300, 2000), (5000, 100)))],
)
def test_many_columns_and_few_rows_make_no_groups(rows, width):
    random = np.random.default_rng(0)
    assert gm.screen(random.normal(size=(rows, width)), np.arange(rows) % 3).kept.mean() > 0.99
    assert gm.screen(random.normal(size=(rows, width))).kept.mean() > 0.99


def test_a_copied_row_counts_once():
    rows = np.random.default_rng(0).normal(size=(1000, 32))
    rows[500:900] = rows[7]
    rows[900:950] = rows[8] + 1e-6 * np.random.default_rng(1).normal(size=(50, 32))
    screening = gm.screen(rows)
    copies = dropped_as(screening, "duplicate")
    assert copies[500:950].all() and copies.sum() == 450 and screening.kept[7]
    assert gm.Robust(k=100).select(rows).mask[500:950].sum() == 0


def test_a_point_mass_is_not_picked():
    rows = np.random.default_rng(0).normal(size=(1000, 16))
    rows[:400] = 3.0
    assert gm.Robust(k=100).select(rows).mask[:400].sum() <= 1


@pytest.mark.parametrize("value", [50.0, 1e6, 3.4e38, 1e140])
def test_rows_far_from_every_class_are_far_out(value):
    rows, labels = classes(600)
    rows[5:9] = value
    screening = gm.screen(rows, labels)
    assert not screening.kept[6]
    assert screening.counts.get("far out", 0) >= 1
    assert screening.kept.sum() >= 0.98 * 600


@pytest.mark.parametrize("apart", [5.0, 8.0])
def test_rows_far_out_are_told_from_mislabeled_ones(apart):
    rows, truth = classes(3000, width=16, apart=apart)
    labels, wrong = mislabeled(truth, 0.2)
    rows[:10] *= 50.0
    screening = gm.screen(rows, labels)
    assert not screening.kept[:10].any()
    assert screening.noise_rate == pytest.approx(0.2, abs=0.03)
    assert dropped_as(screening, "likely mislabeled")[10:][wrong[10:]].mean() > 0.9


def test_heavy_tails_around_the_centre():
    random = np.random.default_rng(0)
    rows = random.normal(size=(1000, 64))
    bad = np.arange(1000) < 300
    rows[bad] *= 3.0 / np.sqrt(random.chisquare(2.0, (300, 1)) / 2.0)
    kept = gm.screen(rows).kept
    assert kept[bad].mean() < 0.1
    assert kept[~bad].mean() > 0.97


def counts(random, y):
    return random.poisson(np.exp(0.8 * random.standard_normal((10, 40))[y] - 1.5)).astype(float)


def categories(random, y):
    centers = 1.5 * random.standard_normal((10, 12))
    kinds = 4.0 * np.eye(5)[random.integers(0, 5, len(y))]
    return np.column_stack([centers[y] + random.standard_normal((len(y), 12)), kinds])


def flag(random, y):
    centers = 1.5 * random.standard_normal((10, 12))
    flags = 10.0 * (random.random(len(y)) < 0.1)
    return np.column_stack([centers[y] + random.standard_normal((len(y), 12)), flags])


@pytest.mark.parametrize("make", [counts, categories, flag])
def test_counts_categories_and_flags_are_no_faults(make):
    y = np.arange(6000) % 10
    assert gm.screen(make(np.random.default_rng(1), y), y).kept.mean() > 0.98


@pytest.mark.parametrize("n", [1, 2, 3, 7, 30])
def test_few_rows_are_kept(n):
    rows = np.random.default_rng(0).normal(size=(n, 3))
    assert gm.screen(rows).kept.all()
    assert gm.screen(rows, np.arange(n) % 2).kept.all()


def test_equal_rows_are_kept():
    """If all rows are copies there is nothing else to keep."""
    assert gm.screen(np.ones((50, 3)), np.arange(50) % 2).kept.all()


def test_each_part_can_be_asked_for_alone():
    rows, truth = classes(2000)
    labels, wrong = mislabeled(truth, 0.3)
    bad = np.arange(2000) % 10 == 3
    rows[bad] += 20.0
    by_rows, by_labels = gm.screen(rows, labels, "rows"), gm.screen(rows, labels, "labels")
    assert by_rows.kept[wrong & ~bad].mean() > 0.95 and not by_rows.kept[bad].any()
    assert by_labels.kept[wrong & ~bad].mean() < 0.1
    assert gm.screen(rows, labels, "none").kept.all()


def test_options_are_checked():
    with pytest.raises(InvalidInputError, match="method='core'"):
        gm.screen(np.ones((3, 2)), method="core")
    with pytest.raises(InvalidInputError, match="tolerance=0"):
        gm.screen(np.ones((3, 2)), tolerance=0)


def test_threads_and_stored_types_do_not_matter():
    rows, truth = classes(900)
    labels, _ = mislabeled(truth, 0.3)
    narrow = rows.astype(np.float16)
    one = gm.screen(narrow, labels, n_jobs=1)
    assert one == gm.screen(narrow, labels, n_jobs=2)
    assert np.array_equal(one.kept, gm.screen(narrow.astype(np.float64), labels).kept)


def test_rows_that_were_dropped_do_not_move_the_centers():
    """A row at 1e38 counts in no class mean, by which others would be judged."""
    rows, labels = classes(600)
    rows[5:9] = 1e38
    centers = []
    found = groups._find_group

    def looked_at(points, given, near, n_classes, means, deep):
        centers.append(means)
        return found(points, given, near, n_classes, means, deep)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(groups, "_find_group", looked_at)
        assert gm.screen(rows, labels).kept.sum() >= 0.98 * 600
    assert np.abs(centers).max() < 10.0


@pytest.mark.parametrize("filled", [0.1, 0.2, 0.3, 0.38, 0.42, 0.5, 0.6])
def test_columns_that_are_mostly_zero_are_not_blown_up(filled):
    """Whether the middle column is zero in a few rows more or less must not change how the rows are seen."""
    random = np.random.default_rng(0)
    for n in range(200, 400, 20):
        bright = random.random((n, 60)) < np.linspace(0.0, 2.0 * filled, 60)
        rows = bright * random.uniform(0.0, 255.0, (n, 60))
        assert np.abs(Blocks(Rows(rows)).take(np.arange(n))).max() < 12.0


def test_equal_rows_of_grades_are_not_copies():
    random = np.random.default_rng(0)
    rows = random.integers(0, 4, (400, 5)).astype(float)
    assert len(np.unique(rows, axis=0)) < 360  # many rows are equal, as patients of one diagnosis are
    assert gm.screen(rows).kept.all()
