"""Rows that vary more or less than the rest of their class in all directions at once."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm

N, WIDTH = 4000, 40


def data(seed=0, classes=8):
    """Classes with a scatter that is wide in a few directions and narrow in the others, as embeddings have it."""
    random = np.random.default_rng(seed)
    y = np.arange(N) % classes
    scales = np.geomspace(3.0, 0.1, WIDTH)
    axes = np.linalg.qr(random.standard_normal((WIDTH, WIDTH)))[0]
    centers = random.standard_normal((classes, WIDTH)) * scales * 2.0
    return (centers[y] + random.standard_normal((N, WIDTH)) * scales) @ axes, y, random


def shapeless(rows, bad, random):
    """Noise that has the mean and the deviation of every column, and nothing else of the rows."""
    rows[bad] = rows.mean(axis=0) + rows.std(axis=0) * random.standard_normal((bad.sum(), WIDTH))


def shuffled(rows, bad, random):
    """Every column of a row from another row."""
    for column in range(WIDTH):
        rows[bad, column] = random.choice(rows[:, column], bad.sum())


def faint(rows, bad, random):
    """Rows close to the centre of their class in all directions."""
    centers = np.stack([rows[label::8].mean(axis=0) for label in range(8)])[np.arange(N) % 8]
    rows[bad] = centers[bad] + 0.3 * (rows - centers)[bad]


@pytest.mark.parametrize("spoil", [shapeless, shuffled, faint])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.35])
def test_rows_of_another_scale_are_screened_out(spoil, share):
    rows, y, random = data()
    bad = random.random(N) < share
    spoil(rows, bad, random)
    found = gm.screen(rows, y)
    assert found.kept[bad].mean() < 0.1
    assert found.kept[~bad].mean() > 0.95


def test_wrong_labels_beside_them_are_found_too():
    rows, y, random = data()
    bad = random.random(N) < 0.2
    shapeless(rows, bad, random)
    given = np.where(random.random(N) < 0.3, random.integers(0, 8, N), y)
    picks = gm.Robust(k=0.1, random_state=0).select(rows, given).indices
    assert bad[picks].mean() < 0.02
    assert (given != y)[picks].mean() < 0.04


@pytest.mark.parametrize("change", ["nothing", "heavy tails", "tight classes", "few columns"])
def test_good_rows_stay(change):
    rows, y, random = data()
    if change == "heavy tails":
        rows += 0.3 * random.standard_t(2.0, rows.shape)
    elif change == "tight classes":  # three of eight: another scale, but not of all classes alike
        centers = np.stack([rows[y == label].mean(axis=0) for label in range(8)])
        rows = np.where((y < 3)[:, None], centers[y] + 0.2 * (rows - centers[y]), rows)
    elif change == "few columns":
        rows = rows[:, :5]
    found = gm.screen(rows, y)
    assert (np.asarray(found.reason) == found.reasons.index("far from the core")).mean() < 0.02


def test_the_answer_does_not_depend_on_where_the_origin_is_nor_on_the_units():
    rows, y, random = data()
    bad = random.random(N) < 0.2
    shapeless(rows, bad, random)
    first = gm.screen(rows, y).kept
    moved = gm.screen(1000.0 * rows + 5000.0, y).kept
    assert np.mean(first != moved) < 0.005


@pytest.mark.parametrize(("spread", "width"), [(3e-3, 512), (1e-3, 16), (0.0, 16), (0.0, 512)])
def test_classes_that_are_all_but_points_are_kept(spread, width):
    random = np.random.default_rng(0)
    y = random.integers(0, 10, 3000)
    rows = (3.0 * random.standard_normal((10, width)))[y] + spread * random.standard_normal((3000, width))
    assert gm.screen(rows.astype(np.float32), y).kept.all()


@pytest.mark.parametrize(
    ("columns", "flags", "rate"), [(8, 40, 0.01), (32, 40, 0.01), (16, 100, 0.01), (4, 50, 0.02)]
)
def test_rare_flags_are_no_other_scale(columns, flags, rate):
    random = np.random.default_rng(0)
    y = random.integers(0, 10, 5000)
    rows = 3.0 * random.standard_normal((10, columns))[y] + random.standard_normal((5000, columns))
    flagged = (random.random((5000, flags)) < rate).astype(float)
    assert gm.screen(np.hstack([rows, flagged]), y).kept.mean() > 0.99
