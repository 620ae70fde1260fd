"""Far out: rows many times as far from the center of their class as the others.

The squared distances from the center are those of a core, which follow a Gamma law as a Gaussian's do whatever its
spectrum, and of a wide part, whose logarithms are normal. Both are fitted by EM to a sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln

from gmmatch.screening.blocks import FEWEST, SAMPLE, Array, Blocks, host, spread
from gmmatch.screening.channel import STEPS
from gmmatch.types import Indices, Vector, namespace

# The wide part must be this many times as far out as the core on average: natural data (digits, wine) reach twice.
_TIMES = 3.0
# Values such as 1e38 that mark what is missing hide lesser ones: the search is repeated without what it found.
_ROUNDS = 3
_STARTS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class _Law(NamedTuple):
    """Log squared distances: shape and mean of the core; share, mean and width of the wide part."""

    shape: float
    mean: float
    share: float
    middle: float
    width: float


def far_odds(blocks: Blocks, codes: Indices, n_classes: int, left: Indices) -> Vector:
    """Return the log odds of each row to be far out, -inf where none is; the law is fitted to the rows ``left``.

    Examples
    --------
    >>> from gmmatch.rows.rows import Rows
    >>> X = np.random.default_rng(0).standard_normal((200, 8))
    >>> X[:20] *= 50.0
    >>> odds = far_odds(Blocks(Rows(X)), np.zeros(200, int), 1, np.arange(200))
    >>> np.flatnonzero(odds > 0.0).tolist() == list(range(20))
    True
    """
    sizes = _log_squares(blocks, codes, n_classes, left)
    sample = left[spread(len(left), SAMPLE // 2)]
    odds = np.full(len(sizes), -np.inf)
    for _ in range(_ROUNDS):
        rest = sample[odds[sample] <= 0.0]
        found = _odds_of_wide_part(sizes, rest) if len(rest) > 20 else None
        if found is None or np.mean((odds[left] > 0.0) | (found[left] > 0.0)) > 0.5:
            break
        odds = np.maximum(odds, found)
    if n_classes > 1:  # a class too small for a median is far from the others' medians, and believed
        odds[(codes >= 0) & (np.bincount(codes[codes >= 0], minlength=n_classes) < FEWEST)[codes]] = -np.inf
    return odds


def _log_squares(blocks: Blocks, codes: Indices, n_classes: int, left: Indices) -> Vector:
    """Return the logarithm of each row's squared distance to the nearest class median: its label may be wrong.

    Distances are seen in units of those that are usual in the class, since one class may be wider than another.
    """
    some = left[spread(len(left), max(SAMPLE // 2, 20 * n_classes))]
    rows, given = host(blocks.take(some)), codes[some]
    # A median of fewer rows than these is one of them, and none is far from itself.
    present = np.flatnonzero(np.bincount(given[given >= 0], minlength=n_classes) >= FEWEST)
    centers = np.array([np.median(rows[given == number], axis=0) for number in present])
    if len(centers) == 0:
        centers = np.median(rows, axis=0)[None]
    turned, sizes = blocks.put(centers.T), blocks.put((centers**2).sum(axis=1))
    widths = blocks.put(np.ones(len(centers)))

    def squares(block: Array, where: Array) -> Array:
        xp = namespace(block)
        apart = (block * block).sum(1)[:, None] + sizes - 2.0 * (block @ turned)
        with np.errstate(over="ignore"):
            return xp.log(xp.amin(apart / widths, 1).clip(1e-30, 1e30))

    if len(present) > 1:
        near = np.exp(host(squares(blocks.put(rows), None)))
        widths = blocks.put(np.array([np.median(near[given == number]) for number in present]).clip(1e-30))
    return host(blocks.scores(squares)).astype(np.float64)


def _odds_of_wide_part(sizes: Vector, sample: Indices) -> Vector | None:
    """Return each row's log odds to be of the wide part, or None if there is no part so wide."""
    middle = np.median(sizes[sample])
    fitted, best = sizes[sample] - middle, None
    for edge in [*np.quantile(fitted, _STARTS), 2.0 * np.log(_TIMES)]:
        wide = (fitted > edge).astype(np.float64)
        if not 0 < wide.sum() < len(wide):
            continue
        for _ in range(STEPS):
            law = _fitted(fitted, wide)
            inner, outer = _log_densities(fitted, law)
            wide = expit(np.clip(outer - inner, -50, 50))
        value = float(np.logaddexp(inner, outer).sum())
        if best is None or value > best[0]:
            best = value, law
    if best is None or best[1].share >= 0.5:
        return None
    law = best[1]
    if law.middle - np.log(law.mean) < 2.0 * np.log(_TIMES):
        return None
    inner, outer = _log_densities(sizes - middle, law)
    odds: Vector = outer - inner
    return odds if np.any(odds > 0.0) else None


def _fitted(t: Vector, wide: Vector) -> _Law:
    inner, squares = 1.0 - wide, np.exp(np.minimum(t, 200.0))
    mean = (inner * squares).sum() / inner.sum()
    gap = max(np.log(mean) - (inner * t).sum() / inner.sum(), 1e-6)
    # Minka's start is within 1.5% of the likeliest shape.
    shape = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
    total = max(wide.sum(), 1e-9)
    middle = (wide * t).sum() / total
    width = max(np.sqrt((wide * (t - middle) ** 2).sum() / total), 1.0 / np.sqrt(shape))
    return _Law(shape, mean, total / len(t), middle, width)


def _log_densities(t: Vector, law: _Law) -> tuple[Vector, Vector]:
    """Return those of both parts; nothing below the core's mean is of the wide part."""
    shape, mean, share, middle, width = law
    squares = np.exp(np.minimum(t, 200.0))
    inner = np.log1p(-share) + shape * (np.log(shape / mean) + t) - shape * squares / mean - gammaln(shape)
    outer = np.log(share) - 0.5 * ((t - middle) / width) ** 2 - np.log(width * np.sqrt(2.0 * np.pi))
    return inner, np.where(t > np.log(mean), outer, -1e9)
