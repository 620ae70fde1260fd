"""Contrast: which rows agree better with another class than with their own label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.channel import (
    Channel,
    Scores,
    clean_channel,
    first_channel,
    noisy_channel,
    quick_likelihood,
)
from gmmatch.screening.points import Points
from gmmatch.screening.sampling import spread_sample
from gmmatch.types import Indices, Mask, Vector

FOLDS = 3
# How far the scatter is pulled towards a sphere; the likelihood of held-out labels chooses.
_SHRINKAGES = (0.01, 0.1, 0.5)
# Columns of very different scales need less of it; where there are few directions, little is enough.
_LITTLE_SHRINKAGE = 1e-4
_FEW_DIRECTIONS = 64
_ROUNDS = 3
_FITTED_ROWS = 15_000
# A class with fewer rows cannot be told from the others.
FEWEST = 20
TOLERANCE = 0.02
_LEAST_KEPT = 0.8
# Rows that decide between a linear discriminant and one in a kernel's space.
_COMPARED_ROWS = 4000
_DISTANCE_ROWS = 1000
_ROWS_PER_FREQUENCY = 20
_LEAST_FREQUENCIES, _MOST_FREQUENCIES = 16, 200


class Sums(NamedTuple):
    """Sums over the rows of a fold, and over the sample that the scatter is computed from."""

    totals: NDArray[np.float64]
    weights: Vector
    sample_totals: NDArray[np.float64]
    sample_weights: Vector


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
    clearness : float
        How much the rows alone tell of their class: 0 for nothing, 1 for everything.
    linear : bool
        Whether the discriminant was linear.
    """

    responsibilities: Scores
    looks_like: Indices
    channel: Channel
    centers: NDArray[np.float64]
    scatter: NDArray[np.float64]
    clearness: float = 1.0
    linear: bool = True

    def trust(self, given: Indices) -> Vector:
        """Return the probability that each row's label is right."""
        found: Vector = self.responsibilities[np.arange(len(given)), given].astype(np.float64)
        return found


def contrast_rows(points: Points, given: Indices, used: Mask, n_classes: int) -> Contrast:
    """Fit one robust linear discriminant, cross-fitted, and the channel of the labels, in turn.

    The classes are Gaussians with one common scatter. Which row belongs to which of them is known only
    up to the channel, so that the rows count for every class with the probability that they belong to it. The
    common scatter is then the whole scatter less that of the centres, so that it is computed once, from a
    sample. Every row is judged by models that were fitted to the other two thirds. The labels are taken to be
    right unless the evidence for a noisy channel is greater.
    """
    shrinkages = _SHRINKAGES if points.width > _FEW_DIRECTIONS else (_LITTLE_SHRINKAGE, *_SHRINKAGES)
    folds = _spread_folds(given)
    sample = np.zeros(len(given), dtype=np.bool_)
    for fold in range(FOLDS):
        mine = np.flatnonzero(used & (folds == fold))
        sample[mine[spread_sample(len(mine), _FITTED_ROWS // FOLDS)]] = True
    whole = [_scatter(points, np.flatnonzero(sample & (folds == fold))) for fold in range(FOLDS)]
    shares = np.zeros((len(given), n_classes), dtype=np.float32)
    shares[np.arange(len(given)), given] = 1.0
    channel = first_channel(given[used], n_classes)
    best: Contrast | None = None
    for _ in range(_ROUNDS):
        sums = _class_sums(points, shares, given, folds, used, sample)
        judged = _judge(points, folds, whole, sums, shrinkages)
        likely = [quick_likelihood(one[used], given[used], channel) for one in judged]
        scores = judged[int(np.argmax(likely))]
        model = _class_model(sums, whole)[:2]
        if best is None:  # the models of labels that are all right
            best = _summary(scores, clean_channel(scores[used], given[used], n_classes), shares, model)
        channel = noisy_channel(scores[used], given[used], channel)
        shares = channel.responsibilities(scores, given)
        if channel.evidence > best.channel.evidence:
            best = _summary(scores, channel, shares, model)
    assert best is not None
    return best


def contrast_labels(points: Points, given: Indices, used: Mask, n_classes: int) -> Contrast:
    """Contrast the classes by linear discriminants, or by those in a kernel's space where they do better.

    Better means more evidence. With many rows, a sample decides: classes that are no Gaussians, but bent, or in
    several pieces, show in a few thousand rows.
    """
    inside = np.flatnonzero(used)
    compared = inside[spread_sample(len(inside), _COMPARED_ROWS)]
    count = int(np.clip(len(compared) // _ROWS_PER_FREQUENCY, _LEAST_FREQUENCIES, _MOST_FREQUENCIES))
    lifted = points.lifted(inside[spread_sample(len(inside), _DISTANCE_ROWS)], count)
    if len(inside) <= _COMPARED_ROWS:
        linear = contrast_rows(points, given, used, n_classes)
        kernel = contrast_rows(lifted, given, used, n_classes)
        bent = kernel.channel.evidence > linear.channel.evidence
    else:
        found = [
            contrast_rows(
                one.subset(compared), given[compared], np.ones(len(compared), dtype=np.bool_), n_classes
            )
            for one in (points, lifted)
        ]
        bent = found[1].channel.evidence > found[0].channel.evidence
        linear = contrast_rows(points, given, used, n_classes)
        kernel = contrast_rows(lifted, given, used, n_classes) if bent else linear
    # What is foreign is sought in the rows' own space, from the centres there.
    return replace(kernel, centers=linear.centers, scatter=linear.scatter, linear=False) if bent else linear


def _summary(
    scores: Scores, channel: Channel, shares: Scores, model: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> Contrast:
    looks_like: Indices = scores.argmax(axis=1)
    return Contrast(shares, looks_like, channel, *model, clearness=channel.clearness(scores))


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


def _scatter(points: Points, chosen: Indices) -> NDArray[np.float64]:
    """Return Σ x xᵀ over the chosen rows."""
    total = np.zeros((points.width, points.width))
    for first in range(0, len(chosen), 4096):
        block = points.gather(chosen[first : first + 4096])
        total += block.T @ block
    return total


def _class_sums(
    points: Points, shares: Scores, given: Indices, folds: Indices, used: Mask, sample: Mask
) -> list[Sums]:
    """Return, for each fold, the classes' sums over the rows that have their label, and over the sample.

    The centre of a class comes from rows with its label alone: rows of no class at all, which look like some
    class all the same, would carry it away otherwise.
    """
    n_classes = shares.shape[1]
    own = np.zeros_like(shares)
    own[np.arange(len(given)), given] = shares[np.arange(len(given)), given]
    totals = np.zeros((2 * FOLDS * n_classes, points.width))
    for positions, block in points.blocks():
        # All the sums in one product: rows that do not count for one have no share in it.
        counts = np.zeros((len(positions), FOLDS, 2, n_classes), dtype=np.float32)
        for number, (among, parts) in enumerate(((used, own), (sample, shares))):
            mine = np.flatnonzero(among[positions])
            counts[mine, folds[positions[mine]], number] = parts[positions[mine]]
        totals += counts.reshape(len(positions), -1).T @ block
    totals = totals.reshape(FOLDS, 2, n_classes, points.width)
    found = []
    for fold in range(FOLDS):
        all_weights = own[(folds == fold) & used].sum(axis=0, dtype=np.float64)
        sample_weights = shares[(folds == fold) & sample].sum(axis=0, dtype=np.float64)
        found.append(Sums(totals[fold, 0], all_weights, totals[fold, 1], sample_weights))
    return found


def _class_model(
    sums: list[Sums], whole: list[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64], Vector]:
    """Return the classes' centres, their common scatter and their weights, from some of the folds."""
    weights = np.sum([part.weights for part in sums], axis=0)
    centers = np.sum([part.totals for part in sums], axis=0) / np.maximum(weights, 1e-9)[:, None]
    sampled = np.sum([part.sample_totals for part in sums], axis=0)
    counts = np.sum([part.sample_weights for part in sums], axis=0)
    # Σ Σ share (x − centre)(x − centre)ᵀ over the sample, multiplied out.
    crossed = centers.T @ sampled
    scatter = np.sum(whole, axis=0) - crossed - crossed.T + (centers.T * counts) @ centers
    return centers, scatter / max(float(counts.sum()), 1e-9), weights


def _judge(
    points: Points,
    folds: Indices,
    whole: list[NDArray[np.float64]],
    sums: list[Sums],
    shrinkages: tuple[float, ...],
) -> list[Scores]:
    """Return the scores of all rows for each shrinkage, each row's from the other folds; the best is 0."""
    n_classes = len(sums[0].weights)
    models = []
    for fold in range(FOLDS):
        others = [other for other in range(FOLDS) if other != fold]
        models.append(
            _discriminants([sums[other] for other in others], [whole[other] for other in others], shrinkages)
        )
    found = [np.empty((len(points), n_classes), dtype=np.float32) for _ in shrinkages]
    for positions, block in points.blocks():
        for fold, (slopes, offsets) in enumerate(models):
            mine = folds[positions] == fold
            scores = (block[mine] @ slopes + offsets).reshape(-1, len(shrinkages), n_classes)
            scores -= scores.max(axis=2, keepdims=True)
            for number, one in enumerate(found):
                one[positions[mine]] = scores[:, number]
    return found


def _discriminants(
    sums: list[Sums], whole: list[NDArray[np.float64]], shrinkages: tuple[float, ...]
) -> tuple[Scores, Scores]:
    """Return slopes and offsets of the linear scores of every class, one shrinkage after another."""
    from scipy.linalg import cho_factor, cho_solve

    centers, scatter, weights = _class_model(sums, whole)
    sphere = max(float(np.trace(scatter)) / len(scatter), 1e-30) * np.eye(len(scatter))
    slopes, offsets = [], []
    for shrinkage in shrinkages:
        factor = cho_factor((1.0 - shrinkage) * scatter + shrinkage * sphere)
        slopes.append(cho_solve(factor, centers.T))
        # A class without rows in these folds is no candidate.
        level = -0.5 * np.einsum("cs,sc->c", centers, slopes[-1])
        offsets.append(np.where(weights > 0.5, level, -1e6))
    return np.column_stack(slopes).astype(np.float32), np.concatenate(offsets).astype(np.float32)
