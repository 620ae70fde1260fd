"""A noisy channel from true to given labels: how often which label was given for which class.

A discriminant tells how much a row looks like each class. Two explanations of the given labels compete. Either all
of them are right, and the discriminant errs where it does; or some are wrong, whatever the row looks like. The
better one by the Bayesian information criterion is believed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.sampling import spread_sample
from gmmatch.types import Indices, Vector

Scores = NDArray[np.float32]
Joint = NDArray[np.float64]

_ITERATIONS = 40
_QUICK_ITERATIONS = 12
_FITTED_ROWS = 5000
_QUICK_ROWS = 1500
# Steps of expectation-maximisation are stretched by this much; below 2 the likelihood still rises.
_STRETCH = 1.9
# A linear discriminant of right labels claims at most four times the certainty that it has. Without a bound,
# wrong labels among tight classes pass for a discriminant that is hardly to be trusted.
_LEAST_TRUST = 0.25
_MOST_TRUST = 1.5
# Bounds for a trust and an offset per class.
_LEAST_SCALE, _MOST_SCALE = 0.05, 150.0
_MOST_OFFSET = 1.5
_MOST_SCORE = 60.0
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
    evidence : float
        The same, less the price of the fitted numbers.
    clearness : float
        How much the rows alone tell of their class: 0 for nothing, 1 for everything.
    """

    joint: Joint
    trust: float
    likelihood: float = -np.inf
    evidence: float = -np.inf
    clearness: float = 0.0

    @property
    def noise(self) -> float:
        """The estimated share of rows whose label is wrong."""
        return max(0.0, float(1.0 - np.trace(self.joint)))

    def responsibilities(self, scores: Scores, given: Indices) -> Scores:
        """Return the probability of each true class for each row, given its label and its scores."""
        logs = np.float32(self.trust) * scores
        logs += np.log(self.joint.T + _TINY).astype(np.float32)[given]
        return _softmax(logs)


def explains_better(channel: Channel, other: Channel, n: int) -> bool:
    """Return whether the labels of n rows speak for one channel rather than for the other.

    Where the evidence differs by less than a single number is worth, the rows' classes decide: tight classes far
    apart do not come about by chance, and a model that cannot tell them apart is the worse one.

    Examples
    --------
    >>> vague, clear = (Channel(np.eye(2) / 2, 1.0, -0.5, -0.5, clearness) for clearness in (0.2, 0.9))
    >>> explains_better(clear, vague, 100), explains_better(vague, clear, 100)
    (True, False)
    """
    gain = channel.evidence - other.evidence
    if abs(gain) <= _price(n):
        return channel.clearness >= other.clearness
    return gain > 0.0


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
    return Channel(mixing * shares[None, :], 1.0)


def noisy_channel(scores: Scores, given: Indices, start: Channel) -> Channel:
    """Estimate the channel and the trust if some labels are wrong, by expectation-maximisation.

    Mistakes are taken to be spread evenly over the classes, unless a rate for each pair of them pays for one
    more number per class.

    Parameters
    ----------
    scores : float32 array of shape (n, C)
        Log densities of each row under each class, up to a factor and a constant per row; the best is 0.
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
    >>> round(noisy_channel(scores, given, first_channel(given, 2)).noise, 1)
    0.1
    """
    scores, given = _sampled(scores, given, _FITTED_ROWS)
    price = _price(len(given))
    free = _fit(scores, given, start, even=False)
    even = _fit(scores, given, start, even=True)
    free = replace(free, evidence=free.likelihood - (len(start.joint) + 1) * price)
    even = replace(even, evidence=even.likelihood - 2 * price)
    found = free if free.evidence > even.evidence else even
    return replace(found, clearness=_clearness(scores, found.joint, found.trust))


def clean_channel(scores: Scores, given: Indices, n_classes: int) -> Channel:
    """Return the channel of labels that are all right, with the evidence for it.

    The discriminant may err, and be trusted more for some classes than for others. Where even no trust at all
    explains the labels better than its scores do, the trust is 0.

    Examples
    --------
    >>> x = np.random.default_rng(0).standard_normal((400, 2)).astype(np.float32)
    >>> given = x.argmax(axis=1)
    >>> scores = 4.0 * (x - x.max(axis=1, keepdims=True))
    >>> float(round(clean_channel(scores, given, 2).trust, 2))
    1.5
    >>> clean_channel(scores[::-1], given, 2).trust
    0.0
    """
    scores, given = _sampled(scores, given, _FITTED_ROWS)
    shares = np.bincount(given, minlength=n_classes) / len(given)
    joint, price = np.diag(shares), _price(len(given))
    tried = np.geomspace(_LEAST_TRUST, _MOST_TRUST, 9)
    found = _likelihoods(scores, given, joint, tried)
    nothing = float(shares @ np.log(shares + _TINY))
    # The trust alone is priced above an even channel: tight classes allow for either, and an even
    # channel that is not needed comes out without noise.
    plain, scaled = max(found), _scaled_likelihood(scores, given, shares)
    evidence = max(plain - 3 * price, scaled - (2 * n_classes - 1) * price)
    if nothing >= evidence:
        return Channel(joint, 0.0, nothing, nothing)
    trust = float(tried[int(np.argmax(found))])
    return Channel(joint, trust, max(plain, scaled), evidence, _clearness(scores, joint, trust))


def quick_likelihood(scores: Scores, given: Indices, start: Channel) -> float:
    """Return roughly how well a channel with evenly spread mistakes explains the labels.

    Examples
    --------
    >>> scores, given = np.array([[0.0, -9.0], [-9.0, 0.0]] * 9, dtype=np.float32), np.arange(18) % 2
    >>> right = quick_likelihood(scores, given, first_channel(given, 2))
    >>> right > quick_likelihood(0.1 * scores, given, first_channel(given, 2))
    True
    """
    scores, given = _sampled(scores, given, _QUICK_ROWS)
    return _fit(scores, given, start, even=True, steps=_QUICK_ITERATIONS).likelihood


def _price(n: int) -> float:
    """Return what each fitted number has to add to the mean log probability."""
    return 0.5 * float(np.log(n)) / n


def _sampled(scores: Scores, given: Indices, most: int) -> tuple[Scores, Indices]:
    """Return rows sorted by label, of which so many tell the few numbers of a channel well enough."""
    sample = spread_sample(len(given), most)
    sample = sample[np.argsort(given[sample], kind="stable")]
    return scores[sample], given[sample]


def _fit(scores: Scores, given: Indices, start: Channel, *, even: bool, steps: int = _ITERATIONS) -> Channel:
    """Return the channel that explains the labels of rows best, which are sorted by label."""
    joint, trust = start.joint, start.trust
    firsts = np.flatnonzero(np.diff(given, prepend=-1))
    counted, sums = np.zeros(joint.shape), np.ones(len(joint), dtype=np.float32)
    densities = _densities(scores, trust)
    for step in range(steps):
        shares = densities * _of_labels(joint, given)
        shares /= (shares @ sums)[:, None]
        counted[:, given[firsts]] = np.add.reduceat(shares, firsts, axis=0).T
        moved = (_evenly_wrong if even else _freely_wrong)(joint, counted / len(given))
        change = float(np.abs(moved - joint).max())
        joint = moved
        if step % 3 == 0:
            reach = 0.6 if step < 10 else 0.15
            tried = np.maximum(trust * np.exp(np.linspace(-reach, reach, 5)), _LEAST_TRUST)
            found = _likelihoods(scores, given, joint, tried)
            trust = float(tried[int(np.argmax(found))])
            densities = _densities(scores, trust)
        if change < 2e-4 and step > 8:
            break
    return Channel(joint, trust, _likelihoods(scores, given, joint, np.array([trust]))[0])


def _freely_wrong(joint: Joint, counted: Joint) -> Joint:
    """Return the next joint distribution: from one to the other, and farther, with no label mostly wrong.

    Were labels allowed to be wrong more often than right, a class could be explained away as the mistakes of
    another.
    """
    moved = joint * (counted / np.maximum(joint, _TINY)) ** _STRETCH
    moved /= moved.sum()
    right = np.diag(moved)
    wrong = moved.sum(axis=0) - right
    excess = np.maximum(wrong - right, 0.0) / 2.0
    bounded = moved * np.where(wrong > 0.0, (wrong - excess) / np.maximum(wrong, _TINY), 1.0)
    bounded[np.diag_indices_from(bounded)] = right + excess
    return bounded


def _evenly_wrong(joint: Joint, counted: Joint) -> Joint:
    """Return the next joint distribution in which every wrong label is as likely as any other."""
    before = max(1.0 - float(np.trace(joint)), _TINY)
    after = max(1.0 - float(np.trace(counted)), 0.0)
    wrong = min(before * (after / before) ** _STRETCH, 0.5)
    true = counted.sum(axis=1)
    found = np.repeat((true * wrong / max(len(true) - 1, 1))[:, None], len(true), axis=1)
    found[np.diag_indices_from(found)] = true * (1.0 - wrong)
    return found


def _scaled_likelihood(scores: Scores, given: Indices, shares: Vector) -> float:
    """Return the mean log probability of labels that are all right, with a trust and an offset for each class."""
    from scipy.optimize import minimize

    n, n_classes = scores.shape
    bounded, rows = np.maximum(scores, np.float32(-_MOST_SCORE)), np.arange(n)

    def loss(numbers: Vector) -> tuple[float, Vector]:
        trusts = np.exp(numbers[n_classes:])
        logs = bounded * trusts.astype(np.float32)
        logs += numbers[:n_classes].astype(np.float32)
        own = logs[rows, given]
        weights = np.exp(
            logs, out=logs
        )  # the best class of each row scores 0: neither too large nor all too small
        total = weights @ np.ones(n_classes, dtype=np.float32)
        value = float(np.mean(own - np.log(total), dtype=np.float64))
        apart = weights
        apart *= (-1.0 / total)[:, None]
        apart[rows, given] += 1.0
        slopes = np.einsum("ij,ij->j", apart, bounded).astype(np.float64) * trusts
        offsets = (np.ones(n, dtype=np.float32) @ apart).astype(np.float64)
        return -value, -np.concatenate([offsets, slopes]) / n

    usual = np.log(shares + 1e-6)
    limits = [(one - _MOST_OFFSET, one + _MOST_OFFSET) for one in usual.tolist()]
    limits += [(float(np.log(_LEAST_SCALE)), float(np.log(_MOST_SCALE)))] * n_classes
    start = np.concatenate([usual, np.full(n_classes, np.log(0.5))])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": 40})
    return -float(found.fun)


def _clearness(scores: Scores, joint: Joint, trust: float) -> float:
    """Return how much surer the rows are of their class than the share of the largest class is, 1 at most."""
    shares = joint.sum(axis=1)
    logs = np.float32(trust) * scores + np.log(shares + _TINY).astype(np.float32)
    sure, chance = float(_softmax(logs).max(axis=1).mean()), float(shares.max())
    return (sure - chance) / max(1.0 - chance, _TINY)


def _likelihoods(scores: Scores, given: Indices, joint: Joint, trusts: Vector) -> list[float]:
    """Return the mean log probability of the given labels for each trust."""
    mixed, sums = _of_labels(joint, given), np.ones(len(joint), dtype=np.float32)
    alone = (joint.sum(axis=1) + _TINY).astype(np.float32)
    found = []
    for trust in trusts:
        densities = _densities(scores, trust)
        without = densities @ alone  # of the row alone, whatever its label
        densities *= mixed
        found.append(float(np.mean(np.log(densities @ sums / without), dtype=np.float64)))
    return found


def _densities(scores: Scores, trust: float) -> Scores:
    found: Scores = np.float32(trust) * scores
    return np.exp(found, out=found)  # at most 1: the best class of each row scores 0


def _of_labels(joint: Joint, given: Indices) -> Scores:
    """Return the share of each true class (across) among all rows that was given the label of each row (down)."""
    return (joint.T + _TINY).astype(np.float32).take(given, axis=0)


def _softmax(logs: Scores) -> Scores:
    """Return the exponentials as shares of each row's sum, in place of the logarithms."""
    logs -= logs.max(axis=1, keepdims=True)
    np.exp(logs, out=logs)
    logs /= logs.sum(axis=1, keepdims=True)
    return logs
