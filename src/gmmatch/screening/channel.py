"""Channel: how true classes become given labels, and what the labels then say about the evidence.

    p(y | x) = Σ_z softmax(Σ_m w_m S_m(x) + b)_z T[z, y]

T has a background rate for every wrong pair of classes, and own rates for the pairs that stand out. Weights, offsets
and rates maximize the likelihood of the given labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Matrix, Vector
from gmmatch.screening.evidence import Labels
from gmmatch.screening.learners import log_softmax

# Deviations, and rows, by which a pair's count must exceed the background to stand out.
_STANDS_OUT = 3.0
# The rate is the largest within one standard error of the likeliest, half a unit of log-likelihood: overlap of the
# classes explains noise too, so the likelihood hardly falls towards smaller rates.
_SLACK = 0.5
# The true class stays the likeliest label, or classes could swap their names.
_LARGEST_SHARE = 0.95
# Precision of a prior around 0: it holds the weights and offsets that few rows leave open.
_PRIOR = 0.1


@dataclass(frozen=True, eq=False)
class Noise:
    """The transition matrix T.

    Attributes
    ----------
    background : float
        The rate of every pair (true, given) that does not stand out.
    pairs : array of shape (K, K)
        The rates of those that do, 0 elsewhere.
    """

    background: float
    pairs: Matrix

    @classmethod
    def uniform(cls, rate: float, n_classes: int) -> Noise:
        """Return noise that makes any class of any other."""
        return cls(rate / max(1, n_classes - 1), np.zeros((n_classes, n_classes)))

    @property
    def ceiling(self) -> float:
        """The largest background with which the true class is the likeliest label."""
        return _LARGEST_SHARE * float((1.0 - self.pairs.sum(axis=1)).min()) / len(self.pairs)

    def raise_to(self, rate: float) -> Noise:
        """Return the noise with at least so many wrong labels of each class, evenly over the pairs."""
        least = rate / max(1, len(self.pairs) - 1)
        pairs = np.where(self.pairs > 0.0, np.maximum(self.pairs, least), 0.0)
        return Noise(max(self.background, least), pairs)

    @property
    def matrix(self) -> Matrix:
        """T[z, y], shape (K + 1, K), with the background for the rest of the classes in its last line."""
        n_classes = len(self.pairs)
        matrix = np.full((n_classes + 1, n_classes), self.background)
        matrix[:-1] = np.where(self.pairs > 0.0, self.pairs, self.background)
        np.fill_diagonal(matrix, 0.0)
        np.fill_diagonal(matrix, 1.0 - matrix[:-1].sum(axis=1))
        return matrix

    def transitions(self, labels: Labels) -> NDArray[np.float32]:
        """Return T[z, y] of each row's candidates z and given label y, shape (C, n)."""
        rates = self.matrix[labels.candidates, labels.given]
        return np.maximum(rates, 1e-3 * self.background).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Channel:
    """Weights of the evidence, offsets of the classes, and the noise."""

    weights: Vector
    offsets: Vector
    noise: Noise

    def combine(self, scores: NDArray[Any], labels: Labels) -> NDArray[np.float32]:
        """Return the weighted evidence, shape (C, n)."""
        pooled: NDArray[np.float32] = np.tensordot(self.weights.astype(np.float32), scores, 1)
        # The rest of the classes count as many, with the mean offset: larger ones for all must not make it disappear.
        rest = np.log(max(labels.n_rest, 1e-30))
        offsets = np.append(self.offsets - self.offsets.mean(), rest)
        pooled += offsets.astype(np.float32)[labels.candidates]
        return pooled

    def classify(self, scores: NDArray[Any], labels: Labels) -> NDArray[np.float32]:
        """Return p(z | x) of the candidates, shape (C, n)."""
        return np.asarray(np.exp(log_softmax(self.combine(scores, labels))))

    def joint(self, scores: NDArray[Any], labels: Labels) -> NDArray[np.float32]:
        """Return p(z, y | x) of the candidates and the given label, shape (C, n)."""
        return self.classify(scores, labels) * self.noise.transitions(labels) + np.float32(1e-12)

    def posterior(self, scores: NDArray[Any], labels: Labels) -> NDArray[np.float32]:
        """Return p(z | x, y) of the candidates, shape (C, n)."""
        joint = self.joint(scores, labels)
        return np.asarray(joint / joint.sum(axis=0))

    def log_likelihood(self, scores: NDArray[Any], labels: Labels) -> Vector:
        """Return log p(y | x) of each row."""
        return np.asarray(np.log(self.joint(scores, labels).sum(axis=0, dtype=np.float64)))


def estimate_noise(counts: Matrix) -> Noise:
    """Return the background rate, and the rates of the pairs that stand out, from expected counts (true, given)."""
    n_classes = len(counts)
    totals = np.repeat(counts.sum(axis=1, keepdims=True) + 1e-9, n_classes, axis=1)
    wrong = ~np.eye(n_classes, dtype=bool)
    common = wrong
    for _ in range(10):
        background = (counts[common].sum() + 1e-3) / (totals[common].sum() + 1e-3) if common.any() else 1e-6
        expected = totals * background
        usual = wrong & (counts <= expected + _STANDS_OUT * np.sqrt(expected) + _STANDS_OUT)
        if np.array_equal(usual, common):
            break
        common = usual
    pairs = np.where(wrong & ~common, counts / totals, 0.0)
    largest, total = pairs.max(axis=1, keepdims=True), pairs.sum(axis=1, keepdims=True)
    pairs *= np.minimum(1.0, _LARGEST_SHARE / np.maximum(largest + _LARGEST_SHARE * total, 1e-12))
    noise = Noise(float(background), pairs)
    return replace(noise, background=min(noise.background, noise.ceiling))


def fit_channel(
    scores: NDArray[Any], labels: Labels, start: Noise | None = None, *, noisy: bool = True
) -> Channel:
    """Return the likeliest channel: without noise, with a background alone, or with the pairs of ``start``."""
    n_classes = labels.n_classes
    uniform = Noise.uniform(0.1 if noisy else 0.0, n_classes)
    channel = Channel(np.full(len(scores), 1 / len(scores)), np.zeros(n_classes), start or uniform)
    if not noisy:
        return _maximize(channel, scores, labels, fixed=True, steps=40)[0]
    previous = -np.inf
    for _ in range(4):
        channel, value = _maximize(channel, scores, labels)
        if start is None or value - previous < 1e-4:
            break
        previous, had_pairs = value, channel.noise.pairs.any()
        for _ in range(3):
            noise = estimate_noise(labels.count_pairs(channel.posterior(scores, labels)))
            channel = replace(channel, noise=replace(channel.noise, pairs=noise.pairs))
        if not had_pairs and not channel.noise.pairs.any():
            break
    return channel


def raise_background(channel: Channel, scores: NDArray[Any], labels: Labels) -> Channel:
    """Return the channel with the largest background that the data allow."""
    channel, best = _maximize(channel, scores, labels, steps=40)
    low, high, n = channel.noise.background, channel.noise.ceiling, len(labels)
    for _ in range(7):
        noise = replace(channel.noise, background=(low + high) / 2)
        trial, value = _maximize(replace(channel, noise=noise), scores, labels, fixed=True, steps=20)
        if n * (best - value) <= _SLACK:
            channel, low = trial, noise.background
        else:
            high = noise.background
    return channel


def _maximize(
    channel: Channel, scores: NDArray[Any], labels: Labels, *, fixed: bool = False, steps: int = 25
) -> tuple[Channel, float]:
    """Return the likeliest weights, offsets and (unless it is fixed) background, and the mean log-likelihood."""
    from scipy.optimize import minimize

    n_learners, n_classes, n = len(scores), len(channel.offsets), len(labels)
    # T is linear in the background.
    at_0, at_1 = (replace(channel.noise, background=rate).matrix for rate in (0.0, 1.0))
    cells, ceiling = (labels.candidates, labels.given), channel.noise.ceiling
    base, slope = at_0[cells].astype(np.float32), (at_1 - at_0)[cells].astype(np.float32)

    def loss(flat: Vector) -> tuple[float, Vector]:
        # The logistic function keeps the background between 0 and its ceiling.
        background = channel.noise.background if fixed else ceiling / (1.0 + np.exp(-flat[-1]))
        offsets = flat[n_learners : n_learners + n_classes]
        trial = Channel(flat[:n_learners], offsets, channel.noise)
        p = trial.classify(scores, labels)
        joint = p * (base + np.float32(background) * slope)
        total = joint.sum(axis=0) + np.float32(1e-12)
        joint /= total
        joint -= p
        by_class = labels.sum(joint) / n
        by_class -= by_class.mean()
        by_weight = np.tensordot(scores, joint, 2).astype(np.float64) / n
        free = flat[: n_learners + n_classes]
        gradient = np.append(-by_weight, -by_class) + _PRIOR / n * free
        value = -float(np.log(total).mean(dtype=np.float64)) + 0.5 * _PRIOR / n * float(free @ free)
        if not fixed:
            rate = float(((p * slope).sum(axis=0) / total).mean(dtype=np.float64))
            gradient = np.append(gradient, -rate * background * (1.0 - background / ceiling))
        return value, gradient

    start, bounds = (
        np.concatenate([channel.weights, channel.offsets]),
        [(0, 8)] * n_learners + [(-6, 6)] * n_classes,
    )
    if not fixed:
        share = np.clip(channel.noise.background / ceiling, 1e-4, 0.99)
        start, bounds = np.append(start, np.log(share / (1.0 - share))), [*bounds, (-12, 6)]
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps})
    background = channel.noise.background if fixed else float(ceiling / (1.0 + np.exp(-result.x[-1])))
    weights, offsets = result.x[:n_learners], result.x[n_learners : n_learners + n_classes]
    return Channel(weights, offsets, replace(channel.noise, background=background)), -float(result.fun)
