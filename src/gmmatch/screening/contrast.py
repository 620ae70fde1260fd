"""Contrast: which rows agree better with another class than with their own label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gmmatch.rows.rows import Rows
from gmmatch.screening.algebra import Square, combined, shrunk_solutions, trace
from gmmatch.screening.channel import (
    Channel,
    Scores,
    clean_channel,
    explains_better,
    first_channel,
    noisy_channel,
    quick_likelihood,
)
from gmmatch.screening.points import Points, Sample
from gmmatch.screening.sampling import fold_slices, spread_sample
from gmmatch.types import Indices, Mask, Vector

FOLDS = 3
# How far the scatter is pulled towards a sphere; the likelihood of held-out labels chooses.
_SHRINKAGES = (0.01, 0.1, 0.5)
# Columns of very different scales need less of it; where there are few directions, little is enough.
_LITTLE_SHRINKAGE = 1e-4
_FEW_DIRECTIONS = 64
_ROUNDING = 3e-7
_FEW_ROUNDS, _ROUNDS, _MORE_ROUNDS = 2, 3, 5
_FITTED_ROWS = 25_000
# A class with fewer rows cannot be told from the others.
FEWEST = 20
TOLERANCE = 0.02
_LEAST_KEPT = 0.8
# Rows that decide between a linear discriminant and one in a kernel's space.
_COMPARED_ROWS = 3000
_COMPARED_WIDTH = 128
_DISTANCE_ROWS = 1000
_ROWS_PER_FREQUENCY = 20
_LEAST_FREQUENCIES, _MOST_FREQUENCIES = 16, 150


@dataclass(frozen=True)
class Contrast:
    """What the labels and the rows say about each other.

    Attributes
    ----------
    responsibilities : (n, C)
        The probability of each true class for each row.
    looks_like : (n,)
        The class that each row looks most like, whatever its label.
    channel : Channel
    centers : (C, s)
        The mean of each true class, from the origin that the rows were moved to.
    scatter : (s, s)
        The scatter within the classes.
    linear : bool
        Whether the discriminant was linear.
    """

    responsibilities: Scores
    looks_like: Indices
    channel: Channel
    centers: NDArray[np.float64]
    scatter: Square
    linear: bool = True

    def trust(self, given: Indices) -> Vector:
        """Return the probability that each row's label is right."""
        found: Vector = self.responsibilities[np.arange(len(given)), given].astype(np.float64)
        return found


def contrast_labels(points: Points, given: Indices, used: Mask, n_classes: int) -> Contrast:
    """Contrast the classes by linear discriminants, or by those in a kernel's space where they do better.

    Better means more evidence. With many rows, the kernel is only tried if it does better on a sample, of which few
    coordinates are looked at: classes that are no Gaussians, but bent, or in several pieces, show in a few
    thousand rows.
    """
    inside = np.flatnonzero(used)
    compared = inside[spread_sample(len(inside), _COMPARED_ROWS)]
    frequencies = int(np.clip(len(compared) // _ROWS_PER_FREQUENCY, _LEAST_FREQUENCIES, _MOST_FREQUENCIES))
    linear = contrast_rows(points, given, used, n_classes)
    if len(inside) > _COMPARED_ROWS and not _is_bent(points, compared, given, n_classes, frequencies):
        return linear
    lifted = points.lifted(compared[spread_sample(len(compared), _DISTANCE_ROWS)], frequencies)
    kernel = contrast_rows(lifted, given, used, n_classes)
    if not explains_better(kernel.channel, linear.channel, len(inside)):
        return linear
    # What is foreign is sought in the rows' own space, from the centres there.
    return replace(kernel, centers=linear.centers, scatter=linear.scatter, linear=False)


def _is_bent(points: Points, compared: Indices, given: Indices, n_classes: int, frequencies: int) -> bool:
    """Return whether a kernel tells more about the labels of these rows than a linear discriminant does."""
    block, given = points.gather(compared), given[compared]
    if block.shape[1] > _COMPARED_WIDTH:
        mixing = np.random.default_rng(0).standard_normal((block.shape[1], _COMPARED_WIDTH))
        block = block @ mixing.astype(np.float32)
    sample = spread_sample(len(block), _DISTANCE_ROWS)
    lifted = Points(Rows(block), np.zeros(block.shape[1])).lifted(sample, frequencies)
    folds = _spread_folds(given)
    flat, bent = (
        _fit(_Folded.of(points.held(one), given, folds, n_classes), _FEW_ROUNDS).channel
        for one in (block, lifted.gather(np.arange(len(block))))
    )
    return explains_better(bent, flat, len(block))


def contrast_rows(points: Points, given: Indices, used: Mask, n_classes: int) -> Contrast:
    """Fit one robust linear discriminant, cross-fitted, and the channel of the labels, in turn.

    The classes are Gaussians with one common scatter. Which row belongs to which of them is known only
    up to the channel, so that the rows count for every class with the probability that they belong to it. All
    this is fitted to a sample. Every row is judged by models that were fitted to the other two thirds of it.
    The labels are taken to be right unless the evidence for a noisy channel is greater.
    """
    folds = _spread_folds(given)
    chosen = [np.flatnonzero(used & (folds == fold)) for fold in range(FOLDS)]
    sample = np.concatenate([mine[spread_sample(len(mine), _FITTED_ROWS // FOLDS)] for mine in chosen])
    rounds = _ROUNDS if len(sample) > _COMPARED_ROWS else _MORE_ROUNDS
    fitted = _fit(_Folded.of(points.sample(sample), given[sample], folds[sample], n_classes), rounds)
    slopes = np.column_stack([model.slopes for model in fitted.models])
    offsets = np.concatenate([model.offsets for model in fitted.models])
    every = points.scored(slopes, offsets).reshape(len(points), FOLDS, n_classes)
    scores: Scores = every[np.arange(len(points)), folds]
    scores -= scores.max(axis=1, keepdims=True)
    looks_like: Indices = scores.argmax(axis=1)
    shares = fitted.channel.responsibilities(scores, given)
    return Contrast(shares, looks_like, fitted.channel, fitted.centers, fitted.scatter)


def threshold(trust: Vector, tolerance: float = TOLERANCE) -> float:
    """Return the least trust at which the expected share of wrong labels among the kept stays tolerable.

    Never below one half: a label that is more likely wrong than right is not kept. And never at the cost
    of more than a fifth of the right labels: where rows tell little about their class, many right
    labels look doubtful.

    Examples
    --------
    >>> threshold(np.array([1.0, 0.97, 0.95, 0.6, 0.1]), tolerance=0.03)
    0.95
    """
    ranked = np.sort(trust)[::-1]
    wrong = np.cumsum(1.0 - ranked) / np.arange(1, len(ranked) + 1)
    tolerable = int(np.searchsorted(wrong, tolerance * (1.0 + 1e-9), side="right"))
    right = np.cumsum(np.where(ranked >= 0.5, ranked, 0.0))
    enough = int(np.searchsorted(right, _LEAST_KEPT * right[-1])) + 1
    return max(0.5, float(ranked[min(max(tolerable, enough), len(ranked)) - 1]))


def _spread_folds(given: Indices) -> Indices:
    """Return a fold for each row: the rows of each class in turn, in a fixed scramble of their order."""
    folds = np.empty(len(given), dtype=np.int64)
    order = np.random.default_rng(0).permutation(len(given))
    order = order[np.argsort(given[order], kind="stable")]
    # Counted within each class, so that the names of the labels and thus their order do not matter.
    firsts = np.concatenate([[0], np.cumsum(np.bincount(given))[:-1]])
    folds[order] = (np.arange(len(given)) - firsts[given[order]]) % FOLDS
    return folds


class _Model(NamedTuple):
    """Linear scores of the classes."""

    slopes: Scores
    offsets: Scores


class _Fitted(NamedTuple):
    """What a sample says: a model for each fold from the others, the channel, the classes of all folds."""

    models: list[_Model]
    channel: Channel
    centers: NDArray[np.float64]
    scatter: Square


@dataclass(frozen=True)
class _Folded:
    """Rows that models are fitted to, fold by fold, and Σ x xᵀ of each fold."""

    points: Sample
    given: Indices
    parts: list[slice]
    whole: list[Square]
    n_classes: int

    @classmethod
    def of(cls, points: Sample, given: Indices, folds: Indices, n_classes: int) -> _Folded:
        order = np.argsort(folds, kind="stable")
        if not np.array_equal(order, np.arange(len(order))):
            points, given = points.ordered(order), given[order]
        parts = fold_slices(folds, FOLDS)
        # Shrunk by a hundredth, as wide ones are, single precision is enough.
        whole = [points.gram(part, wide=points.shape[1] <= _FEW_DIRECTIONS) for part in parts]
        return cls(points, given, parts, whole, n_classes)


class _Sums(NamedTuple):
    """Sums over the rows of a fold: of those that have each class's label, and of all."""

    own: NDArray[np.float64]
    own_weights: Vector
    all: NDArray[np.float64]
    all_weights: Vector


def _fit(sample: _Folded, rounds: int) -> _Fitted:
    """Fit discriminants and channel in turn; the first discriminants believe all labels."""
    few = sample.points.shape[1] <= _FEW_DIRECTIONS
    shrinkages: tuple[float, ...] = (_LITTLE_SHRINKAGE, *_SHRINKAGES) if few else _SHRINKAGES
    given, n_classes = sample.given, sample.n_classes
    shares = np.zeros((len(given), n_classes), dtype=np.float32)
    shares[np.arange(len(given)), given] = 1.0
    channel = first_channel(given, n_classes)
    best: tuple[list[_Model], Channel, list[_Sums]] | None = None
    for number in range(rounds):
        sums = _class_sums(sample, shares)
        models = [_discriminants(sample, sums, fold, shrinkages) for fold in range(FOLDS)]
        judged = _judge(sample, models, len(shrinkages))
        chosen = 0
        if len(shrinkages) > 1:
            chosen = int(np.argmax([quick_likelihood(one, given, channel) for one in judged]))
        scores, picked = judged[chosen], [model[chosen] for model in models]
        # Labels that are believed less need no more shrinkage than before, and by then it is settled.
        if len(given) > _COMPARED_ROWS:
            shrinkages = shrinkages[: chosen + 1] if number == 0 else shrinkages[chosen : chosen + 1]
        if best is None:  # the models of labels that are all right
            best = picked, clean_channel(scores, given, n_classes), sums
            if best[1].trust == 0.0:  # later rounds know the labels that they are to judge, a little
                break
        channel = noisy_channel(scores, given, channel)
        shares = channel.responsibilities(scores, given)
        if explains_better(channel, best[1], len(given)):
            best = picked, channel, sums
    assert best is not None
    centers, scatter, _ = _class_model(best[2], sample.whole)
    return _Fitted(best[0], best[1], centers, scatter)


def _class_sums(sample: _Folded, shares: Scores) -> list[_Sums]:
    """Return, for each fold, the classes' sums over the rows that have their label, and over all.

    The centre of a class comes from rows with its label alone: rows of no class at all, which look like some
    class all the same, would carry it away otherwise.
    """
    own = np.zeros_like(shares)
    rows = np.arange(len(shares))
    own[rows, sample.given] = shares[rows, sample.given]
    both = np.concatenate([own, shares], axis=1)
    found = []
    for part in sample.parts:
        totals = sample.points.totals(part, both[part]).astype(np.float64)
        weights = both[part].sum(axis=0, dtype=np.float64)
        count = sample.n_classes
        found.append(_Sums(totals[:count], weights[:count], totals[count:], weights[count:]))
    return found


def _class_model(sums: list[_Sums], whole: list[Square]) -> tuple[NDArray[np.float64], Square, Vector]:
    """Return the classes' centres, their common scatter and their weights, from some of the folds."""
    weights = np.sum([part.own_weights for part in sums], axis=0)
    centers = np.sum([part.own for part in sums], axis=0) / np.maximum(weights, 1e-9)[:, None]
    totals = np.sum([part.all for part in sums], axis=0)
    counts = np.sum([part.all_weights for part in sums], axis=0)
    # Σ Σ share (x − centre)(x − centre)ᵀ multiplied out: the scatter of all rows is computed only once.
    turned = 0.5 * centers * counts[:, None] - totals
    # (½ C n − T)ᵀ C and its transpose in one product.
    left, right = np.concatenate([turned, centers]), np.concatenate([centers, turned])
    return centers, combined(whole, left, right, max(float(counts.sum()), 1e-9)), weights


def _judge(sample: _Folded, models: list[list[_Model]], count: int) -> list[Scores]:
    """Return the scores of all rows for each shrinkage, each row's from the other folds; the best is 0."""
    found = [np.empty((len(sample.given), sample.n_classes), dtype=np.float32) for _ in range(count)]
    for part, mine in zip(sample.parts, models, strict=True):
        scores = sample.points.times(part, np.column_stack([model.slopes for model in mine]))
        scores += np.concatenate([model.offsets for model in mine])
        scores = scores.reshape(len(scores), count, sample.n_classes)
        scores -= scores.max(axis=2, keepdims=True)
        for number, one in enumerate(found):
            one[part] = scores[:, number]
    return found


def _discriminants(
    sample: _Folded, sums: list[_Sums], fold: int, shrinkages: tuple[float, ...]
) -> list[_Model]:
    """Return the linear scores of every class from the other folds, one for each shrinkage."""
    others = [other for other in range(FOLDS) if other != fold]
    centers, scatter, weights = _class_model(
        [sums[other] for other in others], [sample.whole[other] for other in others]
    )
    sphere = max(trace(scatter) / len(scatter), 0.0)
    # Where the rows of a class are all but equal, its scatter is what rounding left of that of all rows.
    rounding = _ROUNDING * max(sum(trace(sample.whole[other]) for other in others), 1e-30)
    rounding /= max(sum(float(sums[other].all_weights.sum()) for other in others), 1.0)
    found = []
    for slopes in shrunk_solutions(scatter, shrinkages, sphere, rounding, centers.T):
        # A class without rows in these folds is no candidate.
        level = -0.5 * np.einsum("cs,sc->c", centers, slopes)
        offsets = np.where(weights > 0.5, level, -1e6)
        found.append(_Model(slopes, offsets.astype(np.float32)))
    return found
