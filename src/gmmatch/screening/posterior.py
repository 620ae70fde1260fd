"""Posterior: the probability of each class given the row and its label, from the channel that predicts labels best.

Two explanations compete. In the first, learners fitted to the given labels are right up to a background of noise. In
the second, classes are clusters of the scores, noise may prefer pairs of classes, and learners are fitted again to
labels drawn from that. The second is taken where it predicts held-out labels better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask, Vector
from gmmatch.screening.channel import Channel, Noise, estimate_noise, fit_channel, raise_background
from gmmatch.screening.evidence import Evidence, Labels, Scores, soften
from gmmatch.screening.learners import log_softmax, sum_classes

# Standard errors by which noise must predict labels better than no noise, so that a few rows cannot decide; and the
# second explanation better than others: mistakes of people have patterns, too, which are not quite those of classes.
_SURE_ERRORS, _SURE_ERRORS_OF_SECOND = 2.0, 4.0
# Pairs of more classes have too few rows each to stand out.
_MAX_CLASSES = 256


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of each row's class.

    Attributes
    ----------
    labels : Labels
    classes : float32 array of shape (C, n)
        p(z | x), without the label.
    posterior : float32 array of shape (C, n)
        p(z | x, y).
    noise : Noise
    sure : bool
        Whether the data reject that there is no noise.
    contradicted : boolean array of shape (n,)
        Whether another class is likelier than the given label, by the evidence alone.
    """

    labels: Labels
    classes: NDArray[np.float32]
    posterior: NDArray[np.float32]
    noise: Noise
    sure: bool
    contradicted: Mask

    @property
    def wrong(self) -> NDArray[np.float32]:
        """The probability that the given label is wrong."""
        return np.asarray(1.0 - self.posterior[0])


@dataclass(frozen=True, eq=False)
class Explanation:
    """How labels came about: what turns evidence into a posterior.

    Attributes
    ----------
    channel : Channel
    sure : bool
        Whether the data reject that there is no noise.
    informed : bool
        Whether the rows predict the labels better than their shares do.
    plain : Channel, optional
        For the second explanation: pools the evidence of the given labels, as one learner among those fitted again.
    drawn : int64 array of shape (m,), optional
        The labels that learners were fitted to again.
    """

    channel: Channel
    sure: bool
    informed: bool
    plain: Channel | None = None
    drawn: Indices | None = None

    def apply(self, scores: Scores, refitted: Scores | None, labels: Labels) -> Posterior:
        """Return the posterior from the evidence of the given labels, and of the drawn ones."""
        # What one model says stands as it is; offsets of the classes are for several that are weighed.
        alone = scores[0] if len(scores) == 1 else None
        if self.plain is not None:
            assert refitted is not None
            scores = np.concatenate([self.plain.combine(scores, labels)[None], refitted])
        classes, posterior = self.channel.classify(scores, labels), self.channel.posterior(scores, labels)
        evidence = classes if alone is None else alone
        contradicted = np.asarray(evidence.max(axis=0) > evidence[0])
        return Posterior(labels, classes, posterior, self.channel.noise, self.sure, contradicted)


def explain(evidence: Evidence, seed: int) -> tuple[Explanation, Posterior]:
    """Fit both explanations; return the better one, and the posterior of the sample."""
    scores, labels = evidence.scores, evidence.labels
    plain = fit_channel(scores, labels, noisy=False)
    channel = raise_background(fit_channel(scores, labels), scores, labels)
    clean, noisy = (option.log_likelihood(scores, labels) for option in (plain, channel))
    shares = np.bincount(labels.given, minlength=labels.n_classes) / len(labels)
    informed = _standard_errors(clean - np.log(shares[labels.given])) > _SURE_ERRORS
    first = Explanation(channel, _standard_errors(noisy - clean) > _SURE_ERRORS, informed)
    clusters = None if labels.n_classes > _MAX_CLASSES else Clusters(plain.combine(scores, labels), labels)
    if clusters is None:
        return first, first.apply(scores, None, labels)
    clustered = clusters(plain.combine(scores, labels))
    guess = raise_background(fit_channel(clustered, labels, clusters.noise), clustered, labels)
    if guess.posterior(clustered, labels)[0].min() > 0.5:
        # No label is likely wrong.
        return first, first.apply(scores, None, labels)
    drawn = []
    for fold, unseen in enumerate(evidence.without_fold):
        posterior = guess.posterior(clusters(plain.combine(unseen, labels)), labels)
        drawn.append(_draw(posterior, labels, [seed, fold]))
    refitted = evidence.refit(drawn)
    both = np.concatenate([plain.combine(scores, labels)[None], refitted])
    channel = raise_background(fit_channel(both, labels, guess.noise), both, labels)
    errors = _compare(scores, both, labels, guess.noise, np.random.default_rng([seed, 1]))
    surely = errors > _SURE_ERRORS_OF_SECOND
    if surely or (not first.sure and errors > -_SURE_ERRORS_OF_SECOND):
        second = Explanation(channel, surely, informed, plain, drawn[0])
        return second, second.apply(scores, refitted, labels)
    return first, first.apply(scores, None, labels)


class Clusters:
    """Normal clusters of pooled scores: p(u, y) = Σ_z π_z N(u; μ_z, Σ) T[z, y], by expectation-maximization."""

    def __init__(self, pooled: NDArray[np.float32], labels: Labels) -> None:
        self.labels, n_classes = labels, labels.n_classes
        scores = self._by_class(pooled)
        self.mean = scores.mean(axis=1, keepdims=True)
        centered = self._center(scores)
        self.basis = np.linalg.eigh(centered @ centered.T)[1][:, 1 - n_classes :].T
        points = self.basis @ centered
        products, n = points @ points.T, points.shape[1]
        # Classes that lie far apart must not shrink to points.
        ridge = 1e-3 * float(np.diag(products).mean()) / n + 1e-9
        weights = 0.7 * np.eye(n_classes)[:, scores.argmax(axis=0)] + 0.3 / n_classes
        for _ in range(30):
            counts = weights.sum(axis=1).clip(1e-6)
            means = weights @ points.T / counts[:, None]
            scatter = (products - (means.T * counts) @ means) / n
            scatter += ridge * np.eye(len(scatter))
            self.slopes = np.linalg.solve(scatter, means.T).T
            self.intercept = np.log(counts / n) - 0.5 * (means * self.slopes).sum(axis=1)
            self.noise = estimate_noise(sum_classes(weights.T, labels.given, n_classes).T)
            weights = np.exp(log_softmax(self.slopes @ points + self.intercept[:, None]))
            weights = weights * self.noise.matrix[:-1][:, labels.given].clip(0.0) + 1e-12
            weights /= weights.sum(axis=0)

    def _by_class(self, pooled: NDArray[np.float32]) -> NDArray[np.float32]:
        labels = self.labels
        rest = pooled[-1] - np.float32(np.log(max(1, labels.n_rest)))
        scores = np.repeat(rest[None], labels.n_classes, axis=0)
        np.put_along_axis(scores, labels.candidates[:-1], pooled[:-1], axis=0)
        # Clusters must not learn which label is given.
        unlikely = np.flatnonzero(labels.unlikely)
        scores[labels.given[unlikely], unlikely] = rest[unlikely]
        return scores

    def _center(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        centered = scores - self.mean
        return np.asarray(centered - centered.mean(axis=0))

    def __call__(self, pooled: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return log p(z | u) of the candidates as the evidence of one learner, shape (1, C, n)."""
        points = self.basis @ self._center(self._by_class(pooled))
        return self.labels.select(soften(log_softmax(self.slopes @ points + self.intercept[:, None])))[None]


def _draw(posterior: NDArray[Any], labels: Labels, seed: list[int]) -> Indices:
    """Draw a class for each row."""
    cumulative = posterior.cumsum(axis=0)
    at = np.random.default_rng(seed).random(posterior.shape[1]) * cumulative[-1]
    return labels.classes_at(np.minimum((cumulative < at).sum(axis=0), len(posterior) - 1)).astype(np.int64)


def _compare(
    scores: Scores, both: Scores, labels: Labels, start: Noise, random: np.random.Generator
) -> float:
    """Return by how many standard errors the second explanation predicts held-out labels better than others do."""
    half = random.permutation(len(labels)) % 2 == 0
    second, first, clean = np.empty((3, len(labels)))
    for test in (half, ~half):
        fitted, held_out = labels.take(~test), labels.take(test)
        for values, evidence, noise, noisy in (
            (second, both, start, True),
            (first, scores, None, True),
            (clean, both, None, False),
        ):
            channel = fit_channel(evidence[..., ~test], fitted, noise, noisy=noisy)
            values[test] = channel.log_likelihood(evidence[..., test], held_out)
    return min(_standard_errors(second - first), _standard_errors(second - clean))


def _standard_errors(differences: Vector) -> float:
    """Return how many standard errors a mean is above 0."""
    return float(differences.mean() / (differences.std() + 1e-12) * len(differences) ** 0.5)
