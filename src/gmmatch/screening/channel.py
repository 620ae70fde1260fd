"""A noisy channel from true to given labels: how often which label was given for which class.

A discriminant tells how much a row looks like each class. Where labels are right, the two agree as far as the
discriminant is any good; the rest is noise of the labels. Both are estimated at once, by maximum likelihood of
the given labels: the channel, and how far the discriminant may be trusted (a factor on its scores).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.sampling import spread_sample
from gmmatch.types import Indices

Scores = NDArray[np.float32]

_ITERATIONS = 25
_FITTED_ROWS = 8192
_TINY = 1e-12


@dataclass(frozen=True)
class Channel:
    """The joint distribution of true and given labels, and the trust in the scores.

    Attributes
    ----------
    joint : (C, C)
        The share of rows of each true class (down) that were given each label (across).
    trust : float
        Factor on the scores, 1 if they are calibrated log densities.
    likelihood : float
        Mean log probability of the given labels.
    """

    joint: NDArray[np.float64]
    trust: float
    likelihood: float = -np.inf

    @property
    def noise(self) -> float:
        """The estimated share of rows whose label is wrong."""
        return float(1.0 - np.trace(self.joint))

    def responsibilities(self, scores: Scores, given: Indices) -> Scores:
        """Return the probability of each true class for each row, given its label and its scores."""
        logs = self.trust * scores + np.log(self.joint.T + _TINY)[given]
        return _softmax(logs)


def first_channel(given: Indices, n_classes: int) -> Channel:
    """Return a channel that doubts every label a little.

    Examples
    --------
    >>> first_channel(np.array([0, 1]), 2).joint.round(3)
    array([[0.425, 0.075],
           [0.075, 0.425]])
    """
    shares = np.bincount(given, minlength=n_classes) / len(given)
    mixing = 0.7 * np.eye(n_classes) + 0.3 / n_classes
    return Channel(mixing * shares[None, :], 0.5)


def fit_channel(scores: Scores, given: Indices, start: Channel) -> Channel:
    """Estimate the channel and the trust by expectation-maximisation.

    Parameters
    ----------
    scores : float32 array of shape (n, C)
        Log densities of each row under each class, up to a factor and a constant per row.
    given : int64 array of shape (n,)
        The given labels, from 0 to C − 1.
    start : Channel

    Examples
    --------
    A tenth of the labels is wrong:

    >>> true = np.arange(400) % 2
    >>> x = 4.0 * true + np.random.default_rng(0).standard_normal(400)
    >>> given = np.where(np.arange(400) < 40, 1 - true, true)
    >>> scores = np.column_stack([-(x**2), -((x - 4.0) ** 2)]).astype(np.float32) / 2.0
    >>> scores -= scores.max(axis=1, keepdims=True)
    >>> round(fit_channel(scores, given, first_channel(given, 2)).noise, 1)
    0.1
    """
    n_classes = len(start.joint)
    channel = start
    if len(given) > _FITTED_ROWS:  # so many tell the few numbers of a channel well enough
        sample = spread_sample(len(given), _FITTED_ROWS)
        scores, given = scores[sample], given[sample]
    members = [np.flatnonzero(given == label) for label in range(n_classes)]
    for step in range(_ITERATIONS):
        shares = channel.responsibilities(scores, given)
        joint = np.column_stack([shares[rows].sum(axis=0, dtype=np.float64) for rows in members])
        joint = _mostly_right(joint / len(given))
        change = float(np.abs(joint - channel.joint).max())
        trust = channel.trust
        if step % 2 == 0:
            reach = 0.4 if step < 4 else 0.1
            tried = trust * np.exp(np.linspace(-reach, reach, 5))
            found = [_likelihood(scores, given, joint, float(factor)) for factor in tried]
            trust = float(tried[int(np.argmax(found))])
        channel = Channel(joint, trust)
        if change < 1e-4 and step > 4:
            break
    noisy = Channel(channel.joint, channel.trust, _likelihood(scores, given, channel.joint, channel.trust))
    clean = _without_noise(scores, given, n_classes)
    # One more number per class has to pay for itself, by the Bayesian information criterion.
    price = 0.5 * n_classes * float(np.log(len(given))) / len(given)
    return noisy if noisy.likelihood - price > clean.likelihood else clean


def _mostly_right(joint: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the joint distribution with no label wrong more often than right.

    Without that, a class could be explained away as the mistakes of another.
    """
    right = np.diag(joint)
    wrong = joint.sum(axis=0) - right
    excess = np.maximum(wrong - right, 0.0) / 2.0
    bounded = joint * np.where(wrong > 0.0, (wrong - excess) / np.maximum(wrong, _TINY), 1.0)
    bounded[np.diag_indices_from(bounded)] = right + excess
    return bounded


def _without_noise(scores: Scores, given: Indices, n_classes: int) -> Channel:
    """Return the channel of labels that are all right, with the trust that suits it best."""
    joint = np.diag(np.bincount(given, minlength=n_classes) / len(given))
    trust = 1.0
    for reach in (4.0, 1.0, 0.25):
        tried = trust * np.exp(np.linspace(-reach, reach, 9))
        found = [_likelihood(scores, given, joint, float(factor)) for factor in tried]
        trust = float(tried[int(np.argmax(found))])
    return Channel(joint, trust, _likelihood(scores, given, joint, trust))


def _likelihood(scores: Scores, given: Indices, joint: NDArray[np.float64], trust: float) -> float:
    """Return the mean log probability of the given labels."""
    weights = np.exp(trust * scores)  # at most 1: the best class of each row scores 0
    together = np.einsum("ij,ij->i", weights, (joint.T + _TINY).astype(np.float32)[given])
    alone = weights @ (joint.sum(axis=1) + _TINY).astype(np.float32)
    return float(np.mean(np.log(together, dtype=np.float64) - np.log(alone, dtype=np.float64)))


def _softmax(logs: NDArray[np.floating]) -> Scores:
    logs = logs.astype(np.float32)
    logs -= logs.max(axis=1, keepdims=True)
    np.exp(logs, out=logs)
    logs /= logs.sum(axis=1, keepdims=True)
    return logs
