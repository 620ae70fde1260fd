"""Contrast: which rows agree better with another class than with their own label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.channel import Channel, Scores, first_channel, fit_channel
from gmmatch.types import Indices, Mask, Vector

Rows32 = NDArray[np.float32]

FOLDS = 3
# How far the scatter is pulled towards a sphere; the likelihood of held-out labels chooses.
_SHRINKAGES = (0.01, 0.03, 0.1, 0.3)
_ROUNDS = 2
# A class with fewer rows cannot be told from the others.
FEWEST = 2 * FOLDS
TOLERANCE = 0.02
_LEAST_KEPT = 0.8


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
    """

    responsibilities: Scores
    looks_like: Indices
    channel: Channel
    centers: NDArray[np.float64]
    scatter: NDArray[np.float64]

    def trust(self, given: Indices) -> Vector:
        """Return the probability that each row's label is right."""
        found: Vector = self.responsibilities[np.arange(len(given)), given].astype(np.float64)
        return found


def contrast_rows(matrix: Rows32, given: Indices, used: Mask, n_classes: int) -> Contrast:
    """Fit one robust linear discriminant, cross-fitted, and the channel of the labels, in turn.

    The classes are Gaussians with one common scatter. Which row belongs to which of them is known only
    up to the channel, so that the rows count for every class with the probability that they belong to it. The
    common scatter is then the whole scatter less that of the centres, and the rows need to be read only
    once for it. Every row is judged by models that were fitted to the other two thirds.
    """
    folds = _spread_folds(given)
    whole = [_scatter(matrix, np.flatnonzero(used & (folds == fold))) for fold in range(FOLDS)]
    counts = np.array([int((used & (folds == fold)).sum()) for fold in range(FOLDS)])
    shares = np.zeros((len(given), n_classes), dtype=np.float32)
    shares[np.arange(len(given)), given] = 1.0
    channel = first_channel(given, n_classes)
    for _ in range(_ROUNDS):
        sums = [_class_sums(matrix, shares, np.flatnonzero(used & (folds == fold))) for fold in range(FOLDS)]
        scores = _judge(matrix, folds, whole, counts, sums, n_classes)
        fitted = [fit_channel(one, given, channel) for one in scores]
        best = int(np.argmax([one.likelihood for one in fitted]))
        channel = fitted[best]
        shares = channel.responsibilities(scores[best], given)
    centers, scatter = _class_model(sums, whole, counts)
    return Contrast(shares, scores[best].argmax(axis=1).astype(np.int64), channel, centers, scatter)


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
    folds[order] = np.arange(len(given)) % FOLDS
    return folds


def _scatter(matrix: Rows32, chosen: Indices) -> NDArray[np.float64]:
    total = np.zeros((matrix.shape[1], matrix.shape[1]))
    for first in range(0, len(chosen), 8192):
        block = matrix[chosen[first : first + 8192]]
        total += block.T @ block
    return total


def _class_sums(matrix: Rows32, shares: Scores, chosen: Indices) -> tuple[NDArray[np.float64], Vector]:
    total = np.zeros((shares.shape[1], matrix.shape[1]))
    for first in range(0, len(chosen), 8192):
        part = chosen[first : first + 8192]
        total += shares[part].T @ matrix[part]
    return total, shares[chosen].sum(axis=0, dtype=np.float64)


def _class_model(
    sums: list[tuple[NDArray[np.float64], Vector]], whole: list[NDArray[np.float64]], counts: Indices
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the classes' centres and their common scatter, from the sums over some folds."""
    weights = np.sum([part[1] for part in sums], axis=0)
    centers = np.sum([part[0] for part in sums], axis=0) / np.maximum(weights, 1e-9)[:, None]
    between = (centers.T * weights) @ centers
    return centers, (np.sum(whole, axis=0) - between) / max(int(counts.sum()), 1)


def _judge(
    matrix: Rows32,
    folds: Indices,
    whole: list[NDArray[np.float64]],
    counts: Indices,
    sums: list[tuple[NDArray[np.float64], Vector]],
    n_classes: int,
) -> list[Scores]:
    """Return the scores of all rows for each shrinkage, each row's from the other folds; the best is 0."""
    from scipy.linalg import cho_factor, cho_solve

    found = [np.empty((len(matrix), n_classes), dtype=np.float32) for _ in _SHRINKAGES]
    for fold in range(FOLDS):
        others = [other for other in range(FOLDS) if other != fold]
        weights = np.sum([sums[other][1] for other in others], axis=0)
        centers, scatter = _class_model(
            [sums[other] for other in others], [whole[other] for other in others], counts[others]
        )
        sphere = max(float(np.trace(scatter)) / len(scatter), 1e-30) * np.eye(len(scatter))
        models = []
        for shrinkage in _SHRINKAGES:
            factor = cho_factor((1.0 - shrinkage) * scatter + shrinkage * sphere)
            slopes = cho_solve(factor, centers.T)
            offsets = -0.5 * np.einsum("cs,sc->c", centers, slopes)
            # A class without rows in the other folds is no candidate.
            models.append((slopes, np.where(weights > 0.5, offsets, -1e6)))
        slopes = np.column_stack([model[0] for model in models]).astype(np.float32)
        mine = np.flatnonzero(folds == fold)
        for first in range(0, len(mine), 8192):
            part = mine[first : first + 8192]
            products = matrix[part] @ slopes
            for number, (_, offsets) in enumerate(models):
                scores = products[:, number * n_classes : (number + 1) * n_classes] + offsets
                found[number][part] = scores - scores.max(axis=1, keepdims=True)
    return found
