"""Rows that belong to no class: groups that the class does not explain.

Seen from the center of its class, a corrupted row is off in the same way whatever its class. So the rows fall into
two groups along some direction, with hardly a row between. The direction is that of Fisher's discriminant, found
without labels: the rows are whitened, and the difference of the two groups' means is alternated with a mixture of two
Gaussians of one width along it. Every row is seen along a direction that was estimated without it, so that many
columns and few rows do not make groups by themselves. The smaller group is dropped if a valley of the density parts
it from the rest and it takes its rows from all classes alike. This is repeated until none is found. If less than half
of the rows is left then, there is no majority to call clean, and all stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.blocks import SAMPLE, Array, Blocks, Spectrum, beside, fixed_random, host, spread
from gmmatch.types import Indices, Mask, Vector, namespace

Points = NDArray[np.float32]

# Groups are sought in the widest directions: what spoils many rows makes them vary. Each needs twenty rows: fewer,
# whitened by their own scatter, have valleys by chance.
_WIDTH, _ROWS_PER_COLUMN = 256, 20
# The search starts from both ends of the widest directions and of the rows' size, with these shares of the rows.
_STARTS, _SHARES, _ROUNDS = 16, (0.1, 0.3), 15
_FOLDS = 10
# The density in the valley, as a part of the smaller group's peak, with two standard errors: few rows have valleys by
# chance. Clean CIFAR-10 has 0.44 at the least, fog 0.3.
_VALLEY = 0.4
# Without labels, or if classes are of several kinds, a kind is told from a fault only by the emptiness around it.
_VALLEY_ALONE = 0.1
# What the group may tell about the class, as a share of all there is to tell: a fault that half of the classes
# have twice as often as the others tells 2.4%.
_TOLD = 0.03
# Smaller groups do little harm, and natural data have many such. Of two halves, neither can be called clean.
LEAST, _MOST = 0.03, 0.47


@dataclass(frozen=True)
class NoClass:
    """The log odds of each row to belong to no class, and whether no majority could be called clean."""

    odds: Vector
    undecided: bool = False


@dataclass(frozen=True)
class _Group:
    odds_of: Callable[[Array, Array], Array]
    own: Vector


def no_class_odds(
    blocks: Blocks,
    codes: Indices,
    n_classes: int,
    left: Indices,
    likely: Indices | None = None,
    spectrum: Spectrum | None = None,
    *,
    curved: bool = False,
) -> NoClass:
    """Return the log odds of each row to belong to no class; -inf where nothing speaks for it.

    Parameters
    ----------
    blocks : Blocks
    codes : int64 array of shape (n,)
        The class of each row; all 0 without labels, below 0 for rows that are not judged.
    n_classes : int
    left : int64 array
        The rows that are judged.
    likely : int64 array of shape (n,), optional
        The class from whose center each row is seen, if not the given one: mislabeled rows would be a group.
    spectrum : Spectrum, optional
        The scatter of the rows, where it is known.
    curved : bool
        Whether classes are of several kinds.

    Examples
    --------
    >>> from gmmatch.rows.rows import Rows
    >>> X = np.random.default_rng(0).standard_normal((1000, 8))
    >>> X[:300] += 9.0
    >>> found = no_class_odds(Blocks(Rows(X)), np.zeros(1000, int), 1, np.arange(1000))
    >>> np.flatnonzero(found.odds > 0.0).tolist() == list(range(300))
    True
    """
    nothing = np.full(len(codes), -np.inf)
    sample = left[spread(len(left), SAMPLE // 2)]
    if len(sample) < 10 * _FOLDS:
        return NoClass(nothing)
    near = codes if likely is None else likely
    judged = np.zeros(len(codes), dtype=bool)
    judged[left] = True
    blocks, _, axes = spectrum or blocks.spectrum(left)
    blocks = blocks.along(axes[:, -min(_WIDTH, len(sample) // _ROWS_PER_COLUMN) :])
    odds, deep = nothing.copy(), _VALLEY_ALONE if curved or n_classes == 1 else _VALLEY
    while True:
        rest = sample[odds[sample] <= 0.0]
        if len(rest) < 0.5 * len(sample):
            return NoClass(nothing, undecided=True)
        centers = host(blocks.class_means(np.where(judged & (odds <= 0.0), near, -1), n_classes))
        group = _find_group(
            host(blocks.take(rest)), codes[rest], near[rest], n_classes, centers.astype(np.float32), deep
        )
        if group is None:
            return NoClass(odds)
        if isinstance(group, str):
            return NoClass(nothing, undecided=True)
        every = blocks.scores(group.odds_of, near).astype(np.float64)
        every[rest] = group.own
        odds[left] = np.maximum(odds[left], every[left])
        if not np.any(group.own > 0.0):
            return NoClass(odds)


def _find_group(
    points: Points, given: Indices, near: Indices, n_classes: int, means: Points, deep: float
) -> _Group | str | None:
    """Return the clearest group in the sample; "kinds" if rows without labels are of several kinds; or None."""
    whitened = _whitening(points, near, means)
    z = np.asarray(whitened(points, near), dtype=np.float32)
    # At random: corrupted rows may stand in one piece.
    folds = np.array_split(fixed_random("groups").permutation(len(z)), _FOLDS)
    candidates = _candidates(z, folds)
    for depth, group in candidates:
        if depth >= deep or _told(group, given, n_classes) >= _TOLD:
            continue
        r = group[:, None].astype(np.float32)
        for _ in range(_ROUNDS):
            along, direction = _from_outside(z, r, folds)
            r, (slope, offset) = _two_gaussians(along, r)
        own = (slope * along + offset)[:, 0].astype(np.float64)
        if 0.0 < np.mean(own > 0.0) < _MOST:
            return _Group(_odds(whitened, direction[:, 0] * slope, float(offset[0])), own)
    # If what is left without labels falls apart as well, there are several kinds, none of them the clean one.
    return "kinds" if n_classes == 1 and candidates and candidates[0][0] < _VALLEY else None


def _candidates(z: Points, folds: list[Indices]) -> list[tuple[float, Mask]]:
    """Return the groups that valleys part, each the smaller one, and the depths of the valleys, deepest first."""
    # Columns are sorted by width, the last is the size.
    starts = np.r_[0 : min(_STARTS, z.shape[1] - 1), z.shape[1] - 1]
    ends = z[:, starts]
    r = np.hstack(
        [ends < np.quantile(ends, share, axis=0) for share in _SHARES]
        + [ends > np.quantile(ends, 1.0 - share, axis=0) for share in _SHARES]
    ).astype(np.float32)
    for space in (ends, z):
        for _ in range(_ROUNDS):
            along, _ = _from_outside(space, r, folds)
            r, _ = _two_gaussians(along, r)
    candidates = []
    for column in along.T:
        depth, cut = _valley(column)
        group = column > cut
        group = ~group if group.mean() > 0.5 else group
        if group.mean() >= LEAST:
            candidates.append((depth, group))
    return sorted(candidates, key=lambda one: one[0])


def _odds(
    whitened: Callable[..., Array], direction: Points, offset: float
) -> Callable[[Array, Array], Array]:
    def odds_of(block: Array, codes: Array) -> Array:
        z = whitened(block, codes)
        return z @ beside(z, direction) + offset

    return odds_of


def _whitening(points: Points, given: Indices, means: Points) -> Callable[[Array, Array], Array]:
    """Return a map of rows to class-centered columns of unit scatter, widest first, and the news in their log size.

    Rows of another scale differ along the size, as rows elsewhere do along a column.
    """
    centered = (points - means[given]).astype(np.float64)
    n, d = centered.shape
    scatter = centered.T @ centered / n
    sphere = np.trace(scatter) / d
    # Ledoit and Wolf's shrinkage: few rows in many columns tell little about the scatter. Importing scikit-learn's
    # takes a second.
    apart = ((scatter - sphere * np.eye(d)) ** 2).sum()
    error = (((centered**2).sum(axis=1) ** 2).mean() - (scatter**2).sum()) / n
    weight = 1.0 if apart <= error else max(error / apart, 1e-6)
    widths, vectors = np.linalg.eigh((1.0 - weight) * scatter + weight * sphere * np.eye(d))
    widths, vectors = np.maximum(widths[::-1], 1e-12 * max(sphere, 1e-30)), vectors[:, ::-1]
    basis = (vectors / np.sqrt(widths)).astype(np.float32)
    z = centered @ basis
    size = np.log(np.maximum((z**2).sum(axis=1), 1e-12))
    center, slopes = float(size.mean()), (z.T @ (size - size.mean()) / n).astype(np.float32)
    width = float((size - center - z @ slopes).std()) + 1e-6

    def whitened(block: Array, codes: Array) -> Array:
        xp = namespace(block)
        z = (block - beside(block, means)[codes]) @ beside(block, basis)
        size = xp.log((z * z).sum(1) + 1e-12)
        return xp.concatenate([z, ((size - center - z @ beside(block, slopes)) / width)[:, None]], 1)

    return whitened


def _from_outside(z: Points, r: Points, folds: list[Indices]) -> tuple[Points, Points]:
    """Return the rows along the differences of the weighted means, each estimated without the row's own fold."""
    r = r - r.mean(axis=0)
    sums = [z[fold].T @ r[fold] for fold in folds]
    total = np.sum(sums, axis=0)
    along = np.empty((len(z), r.shape[1]), dtype=np.float32)
    for fold, own in zip(folds, sums, strict=True):
        rest = total - own
        along[fold] = z[fold] @ (rest / np.maximum(np.linalg.norm(rest, axis=0), 1e-12))
    return along, total / np.maximum(np.linalg.norm(total, axis=0), 1e-12)


def _two_gaussians(s: Points, r: Points) -> tuple[Points, tuple[Points, Points]]:
    """Return a step of EM for two Gaussians of one width on each line: weights, and log odds = slope · s + offset."""
    n = len(s)
    p = np.clip(r.mean(axis=0), 1e-4, 1.0 - 1e-4)
    mean, square = s.mean(axis=0), np.einsum("nm,nm->m", s, s) / n
    one = np.einsum("nm,nm->m", r, s) / n / p
    zero = (mean - p * one) / (1.0 - p)
    width = np.maximum(square - p * one**2 - (1.0 - p) * zero**2, 1e-3 * square + 1e-12)
    slope = (one - zero) / width
    offset = np.log(p / (1.0 - p)) - (one**2 - zero**2) / 2.0 / width
    weights = 1.0 / (1.0 + np.exp(-np.clip(s * slope + offset, -30, 30)))
    return weights.astype(np.float32), (slope, offset)


def _valley(s: Points) -> tuple[float, float]:
    """Return the depth of the deepest valley of the density along a line, with two standard errors, and its place."""
    low, high = np.quantile(s, [0.001, 0.999])
    if not high > low:
        return 1.0, float(low)
    counts, edges = np.histogram(s, 200, (low, high))
    quartiles = np.quantile(s, [0.25, 0.75])
    # Silverman's bandwidth.
    width = 0.9 * min(float(s.std()), float(quartiles[1] - quartiles[0]) / 1.34) * len(s) ** -0.2
    bins = max(width / (edges[1] - edges[0]), 1.0)
    # The rows that an estimate of the density rests on.
    reach = int(4.0 * bins) + 1
    near = np.exp(-0.5 * (np.arange(-reach, reach + 1) / bins) ** 2)
    rows = np.convolve(counts, near / near.sum())[reach:-reach] * 2.0 * np.sqrt(np.pi) * bins
    peak = np.minimum(np.maximum.accumulate(rows), np.maximum.accumulate(rows[::-1])[::-1]).clip(1e-9)
    below = np.cumsum(counts) / len(s)
    depth = (rows + 2.0 * np.sqrt(rows * (1.0 + rows / peak))) / peak
    depth = np.where(np.minimum(below, 1.0 - below) >= LEAST, depth, 1.0)
    i = int(depth.argmin())
    return float(depth[i]), float(edges[i + 1])


def _told(group: Mask, given: Indices, n_classes: int) -> float:
    """Return what the group and the class tell of one another, of all there is to tell about the group."""
    rows, mine = np.bincount(given, minlength=n_classes), np.bincount(given[group], minlength=n_classes)
    n, p = len(given), group.mean()

    def information(count: Indices, expected: Vector) -> float:
        ratio = np.maximum(count, 1) / np.maximum(expected, 1e-300)
        return float(np.where(count > 0, count * np.log(ratio), 0.0).sum())

    # Expected of a group that is blind to the class.
    chance = (np.count_nonzero(rows) - 1) / 2
    found = information(mine, rows * p) + information(rows - mine, rows * (1.0 - p)) - chance
    return float(found / n / -(p * np.log(p) + (1.0 - p) * np.log1p(-p)))
