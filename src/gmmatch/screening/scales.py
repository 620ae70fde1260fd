"""Scales: rows that vary more, or less, than the rest of their class in all directions at once.

Noise in place of a row, or a row that was dimmed, need not lie anywhere else than good rows do, and no group of
neighbours shows it. But its distance from the centre of its class, measured by how far the class varies in each
direction, is another one: of a large part of the rows it is about the number of directions, of the others far from
it, with hardly a row in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.algebra import shrunk_solutions, trace
from gmmatch.screening.contrast import FEWEST, Contrast
from gmmatch.screening.foreign import CLASSES, KEEP_ODDS, SHARED, Classes, most_common
from gmmatch.screening.groups import GAP, valley
from gmmatch.screening.points import Block, Points
from gmmatch.screening.sampling import spread_sample
from gmmatch.types import Indices, Mask, Vector

_FITTED_ROWS, _FEWEST_ROWS = 4000, 600
# Distances are measured along so many random directions; of few columns they tell nothing.
_DIRECTIONS, _FEWEST_COLUMNS = 128, 8
# As the classes' own scatter has what is sought in it, only directions that are all but empty need any.
_SHRINKAGE = 1e-3
# Where classes are all but points, their scatter is what rounding left of float32 sums; typical rows have length 1.
_ROUNDING = 1e-6
# The density between the two parts, as a share of that in the smaller one; good rows come in one part, without a dip.
_DIP = 0.15
# What the smaller part may tell about the class, in nats: what spoils rows does not ask for it.
_TOLD = 0.05
_LEAST_SHARE = 0.02
# In how many columns rows of the smaller part vary, for one in which the others do.
_COLUMNS = (0.5, 4.0)
# Columns in which the parts differ most that are looked at for flags.
_LEADING = 64
# Parts are sought from these shares of the rows on either side.
_BEGIN = (0.05, 0.4)
_STEPS = 30


def scale_odds(points: Points, given: Indices, used: Mask, contrast: Contrast) -> Vector:
    """Return each row's log odds of being of another scale, rows to drop above 0; −∞ where there is one scale."""
    nothing: Vector = np.full(len(points), -np.inf)
    fitted = np.flatnonzero(used)
    if len(fitted) < _FEWEST_ROWS or points.width < _FEWEST_COLUMNS:
        return nothing
    fitted = fitted[spread_sample(len(fitted), _FITTED_ROWS)]
    residuals = points.from_centers(contrast.centers, given)
    sample = residuals.gather(fitted)
    # Random sums of residuals vary as the class does; the inverse scatter makes them directions of unit variance.
    mixing = np.random.default_rng(0).standard_normal((len(sample), min(_DIRECTIONS, points.width)))
    sums = sample.T @ (mixing / np.sqrt(len(sample))).astype(np.float32)
    sphere = max(trace(contrast.scatter) / len(contrast.scatter), 1e-30)
    [slopes] = shrunk_solutions(contrast.scatter, [_SHRINKAGE], sphere, _ROUNDING, sums)
    classes = Classes(given[fitted], len(contrast.centers), contrast.channel.noise)
    sizes = _log_sizes(sample @ slopes)
    smaller = _smaller_part(sizes, classes)
    if smaller is None or not _everywhere(sample, smaller) or _by_flags(points.rows.gather(fitted), smaller):
        return nothing
    every = _log_sizes(residuals.scored(slopes, np.zeros(slopes.shape[1])))
    return _odds(every, sizes, smaller)


def _log_sizes(along: Block) -> Vector:
    found: Vector = np.log(np.maximum(np.einsum("nd,nd->n", along, along, dtype=np.float64), 1e-300))
    return found


def _smaller_part(sizes: Vector, classes: Classes) -> Mask | None:
    """Return the rows of a part that a dip sets off from most others, and that is spread alike over the classes."""
    deepest = _DIP if classes.count >= CLASSES else GAP
    found: Mask | None = None
    for upward in (sizes, -sizes):
        for share in _BEGIN:
            mine = _settled(upward, upward > np.quantile(upward, 1.0 - share))
            if not max(FEWEST, _LEAST_SHARE * len(sizes)) <= np.count_nonzero(mine) < 0.5 * len(sizes):
                continue
            dip = valley(upward, mine, ~mine)
            if dip < deepest and classes.information(mine) < _TOLD:
                deepest, found = dip, mine
    return found


def _everywhere(sample: Block, smaller: Mask) -> bool:
    """Return whether rows of the smaller part vary in about as many columns as the others do.

    A rare flag makes a row large along any random direction, and is one column all the same.
    """
    squares = (sample / np.maximum(sample.std(axis=0), 1e-30)) ** 2
    columns = squares.sum(axis=1) ** 2 / np.maximum((squares**2).sum(axis=1), 1e-30)
    ratio = float(np.median(columns[smaller]) / max(float(np.median(columns[~smaller])), 1e-30))
    return _COLUMNS[0] <= ratio <= _COLUMNS[1]


def _by_flags(rows: NDArray[Any], smaller: Mask) -> bool:
    """Return whether the parts differ mostly in columns of which each has one value again and again, as flags are."""
    deviations = np.maximum(rows.std(axis=0, dtype=np.float64), 1e-30)
    squares = ((rows - rows.mean(axis=0, dtype=np.float64)) / deviations) ** 2
    differences = np.abs(squares[smaller].mean(axis=0) - squares[~smaller].mean(axis=0))
    leading = np.argsort(differences)[-_LEADING:]
    flags = [
        min(most_common(rows[part, column]) for part in (smaller, ~smaller)) >= SHARED for column in leading
    ]
    return bool(differences[leading[flags]].sum() > 0.5 * differences[leading].sum())


def _settled(places: Vector, mine: Mask) -> Mask:
    """Return the part above the middle between its mean and that of the rest, from some rows on."""
    for _ in range(_STEPS):
        if mine.all() or not mine.any():
            break
        moved = places > 0.5 * (places[mine].mean() + places[~mine].mean())
        if np.array_equal(moved, mine):
            break
        mine = moved
    return mine


def _odds(every: Vector, sizes: Vector, smaller: Mask) -> Vector:
    """Return the log odds of two normal distributions of one variance, moved so that rows to drop are above 0."""
    middles = [float(sizes[part].mean()) for part in (smaller, ~smaller)]
    variance = max(float(np.mean(np.where(smaller, sizes - middles[0], sizes - middles[1]) ** 2)), 1e-12)
    weight = float(smaller.mean())
    odds: Vector = (middles[0] - middles[1]) * (every - 0.5 * sum(middles)) / variance
    odds += np.log(weight / (1.0 - weight)) + KEEP_ODDS
    return odds
