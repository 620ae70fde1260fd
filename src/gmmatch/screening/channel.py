"""The noise channel: how probable each given label is for each true class, fitted to the given labels.

p(y | x) = (1 − g) Σ_z p(z | x) T[z, y] + g q(y | x),   p(z | x) = softmax(β s(x) + b),   q ∝ √p

The scores s(x) come from models that have not seen the row. T is the identity (no noise), one rate, or full; its form
is the one that predicts the labels of one half of a sample best when fitted to the other half. With probability g the
label is a guess among the classes that the row looks like, as people's mistakes are.

Labels alone cannot tell mistakes between classes from classes that overlap. Where they see no noise, p(s, y) tells:
if classes with a full T explain scores and labels of the other half much better than classes that are the labels, the
scores have clusters that the labels do not respect.

Everything here takes NumPy arrays or tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from gmmatch.screening.blocks import FEWEST, SAMPLE, Array, beside, class_sums, fixed_random, single
from gmmatch.types import namespace

Form = Literal["none", "one", "full"]
Halves = list[tuple[Array, Array]]
"""Rows to fit to, and rows to test on."""

# Clear rows: their class is nine times as likely as all others. A channel is identified by them. Where fewer than a
# fifth are clear, classes that overlap look the same as wrong labels, and labels are believed: noisy features of
# images have a quarter or more, clean raw pixels an eighth.
_CLEAR, _CLEAR_SHARE = 0.9, 0.2
# Noise must explain held-out labels better than none by so many standard errors.
ERRORS = 2.0
# What clusters must tell of noise, in nats per dimension of the scores, where labels tell of it, and where not:
# clean images have up to 0.01, clean text 0.03, CIFAR-100 with a fifth of the labels wrong 0.02, digits 0.07 or more.
# A single row tells no more than the last number.
_LEAST_TOLD, _TOLD, _MOST_TOLD = 0.005, 0.05, 5.0
# If labels are wrong nearly as often as by chance, they are not about these clusters.
_MOST_WRONG = 0.9
# Most labels are no guess: else classes that overlap would be told apart by force.
_MOST_GUESSES = 0.5
# Of EM; a comparison of settings needs a third of them.
STEPS = 30
_TINY = 1e-12


@dataclass(frozen=True)
class Channel:
    """A fitted channel. ``mapping`` is a linear map of the scores to re-estimated classes, if it is full."""

    form: Form
    beta: float
    offsets: Array
    matrix: Array
    guess: float = 0.0
    mapping: tuple[Array, Array] | None = None

    def mapped(self, scores: Array) -> Array:
        """Return the scores of the re-estimated classes."""
        return scores if self.mapping is None else scores @ self.mapping[0] + self.mapping[1]

    def classes(self, scores: Array) -> Array:
        """Return p(z | x), before the label is looked at."""
        return _softmax(self.beta * self.mapped(scores) + self.offsets)

    def joint(self, scores: Array, labels: Array) -> tuple[Array, Array, Array]:
        """Return p(z | x), p(z, y | x) for the given labels y, and q(y | x)."""
        classes = self.classes(scores)
        guessed = _at(_guesses(classes), labels)[:, None]
        return classes, classes * self._likelihood(labels, guessed, self.guess), guessed

    def posterior(self, scores: Array, labels: Array) -> Array:
        """Return p(z | x, y).

        Labels alone cannot tell whether a guess is the label or the class, which the scores then do not know well
        enough: each is half of the guesses.
        """
        half, classes = 0.5 * self.guess, self.classes(scores)
        guesses = _guesses(classes)
        joint = (1.0 - half) * classes + half * guesses
        joint = joint * self._likelihood(labels, _at(guesses, labels)[:, None], half)
        return joint / joint.sum(1)[:, None]

    def _likelihood(self, labels: Array, guessed: Array, guess: float) -> Array:
        return (1.0 - guess) * (self.matrix.T + _TINY)[labels] + guess * guessed

    def rate(self, scores: Array, labels: Array) -> float:
        """Return the expected share of wrong labels."""
        return 1.0 - float(_at(self.posterior(scores, labels), labels).mean())


def _at(values: Array, labels: Array) -> Array:
    return values[beside(labels, np.arange(len(labels))), labels]


def _guesses(classes: Array) -> Array:
    roots = classes**0.5
    return roots / roots.sum(1)[:, None]


def _softmax(logits: Array) -> Array:
    xp = namespace(logits)
    odds = xp.exp(logits - xp.amax(logits, -1)[..., None])
    return odds / odds.sum(-1)[..., None]


def best_channel(scores: Array, labels: Array, tolerance: float, columns: int) -> Channel:
    """Return the channel of the form that predicts held-out labels best, fitted to all.

    Parameters
    ----------
    scores : float32 array of shape (n, classes)
        Of a sample of rows, by models that have not seen them.
    labels : int64 array of shape (n,)
    tolerance : float
        If more labels are wrong whatever the row looks like, guesses are taken for wrong labels as well. Otherwise
        they are how rows of the class look.
    columns : int
        Of the rows.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> true = random.integers(3, size=3000)
    >>> scores = (4.0 * np.eye(3)[true] + random.standard_normal((3000, 3))).astype(np.float32)
    >>> labels = np.where(random.random(3000) < 0.3, random.integers(3, size=3000), true)
    >>> channel = best_channel(scores, labels, 0.02, 3)
    >>> channel.form, round(1.0 - float(channel.matrix[0, 0]), 1)
    ('one', 0.2)
    """
    n, n_classes = scores.shape
    order = beside(scores, fixed_random("halves").permutation(n))
    halves = [(order[: n // 2], order[n // 2 :])]
    if n < SAMPLE // 2:
        halves.append(halves[0][::-1])
    turn = _turned(scores, min(columns, n_classes - 1))
    none, known = begun("none", scores), n >= FEWEST * n_classes
    told = told_by_clusters(scores, labels, turn, halves) if known else 1.0
    if told < _LEAST_TOLD:
        return none
    grouped = clusters(scores, labels, turn, scores.argmax(1)).channel if known else none
    if grouped.rate(scores, labels) > _MOST_WRONG * (1.0 - 1.0 / n_classes):
        return none
    form = form_by_labels(scores, labels, turn, halves)
    if form != "none":
        start = _started(form, scores, labels, turn)
        if fit_channel(scores, labels, start).rate(scores, labels) > tolerance:
            return fit_channel(scores, labels, start, guess=True)
    return grouped if told > _TOLD else none


def form_by_labels(scores: Array, labels: Array, turn: Array, halves: Halves) -> Form:
    """Return the form that predicts the labels of the other half best, if it is clearly better than no noise."""
    xp, (n, n_classes) = namespace(scores), scores.shape
    tested = xp.concatenate([labels[test] for _, test in halves])
    # Rows that tell nothing about their label are no reason to doubt it.
    shares = class_sums(xp.ones_like(scores[:, :1]), labels, n_classes)[:, 0] / n
    plain = xp.log(single(shares) + _TINY)[tested]
    forms: tuple[Form, ...] = ("none", "one", "full")
    best, chosen = -np.inf, forms[0]
    for form in forms:
        parts, clear = [], 0.0
        for fit, test in halves:
            start = _started(form, scores[fit], labels[fit], turn)
            channel = fit_channel(scores[fit], labels[fit], start, guess=True)
            classes, joint, _ = channel.joint(scores[test], labels[test])
            parts.append(xp.log(joint.sum(1) + 1e-30))
            clear += float((xp.amax(classes, 1) > _CLEAR).sum()) / len(tested)
        found = xp.concatenate(parts)
        if form == "none":
            plain = found = found if float(found.mean()) > float(plain.mean()) else plain
        else:
            gain = found - plain
            errors = float(gain.mean()) / (float(gain.std()) + _TINY) * len(gain) ** 0.5
            if clear < _CLEAR_SHARE or errors < ERRORS:
                continue
        if float(found.mean()) > best:
            best, chosen = float(found.mean()), form
    return chosen


def told_by_clusters(scores: Array, labels: Array, turn: Array, halves: Halves) -> float:
    """Return how much better scores and labels are explained with noise than without, in nats per dimension."""
    told = 0.0
    for fit, test in halves:
        some = scores[fit], labels[fit], turn
        gain, without = (
            clusters(*some, start).log_density(scores[test], labels[test])
            for start in (scores[fit].argmax(1), None)
        )
        gain = (gain - without).clip(-_MOST_TOLD, _MOST_TOLD)
        told += float(gain.mean()) / len(halves)
    return told / float(turn.shape[1])


def fit_channel(
    scores: Array, labels: Array, start: Channel, *, quick: bool = False, guess: bool = False
) -> Channel:
    """Fit β and b by Newton steps and T by EM to the likelihood of the labels; also g, if asked."""
    xp, (n, n_classes) = namespace(scores), scores.shape
    scores, form, mapping = start.mapped(scores), start.form, start.mapping
    scores = (scores - xp.amax(scores, 1)[:, None]).clip(-1e3)
    unit = max(-float(scores.mean()), _TINY)
    scores = scores / unit
    given = beside(scores, np.eye(n_classes, dtype=np.float32))[labels]
    beta, offsets = 3.0, xp.log((given.sum(0) + 1.0) / n)
    offsets = offsets - offsets.mean()
    matrix, guessing, value = start.matrix, 0.1 if guess else 0.0, -np.inf
    for step in range(STEPS // 3 if quick else STEPS):
        now = Channel(form, beta, offsets, matrix, guessing)
        classes, joint, guessed = now.joint(scores, labels)
        likelihood = joint.sum(1)
        before, value = value, n * float(xp.log(likelihood).mean())
        if step > 5 and abs(value - before) < 1e-4 * n:
            break
        posterior = joint / likelihood[:, None]
        change, weighted = posterior - classes, classes * scores
        if guess:
            ratio = guessed / likelihood[:, None]
            change = change + 0.5 * guessing * ratio * (given - _guesses(classes))
            posterior = (posterior - guessing * ratio * classes).clip(0.0)
            gain = (ratio - 1.0) / (1.0 - guessing)
            guessing += float(gain.mean()) / max(float((gain**2).mean()), _TINY)
            guessing = min(max(guessing, _TINY), _MOST_GUESSES)
        slope = float((change * scores).sum(1).mean())
        curvature = float(((weighted * scores).sum(1) - weighted.sum(1) ** 2).mean())
        # Steps are bounded, so that a poor start cannot overshoot.
        beta *= float(np.exp(np.clip(1.5 * slope / max(curvature, _TINY) / beta, -0.5, 0.5)))
        spread = (classes * (1.0 - classes)).mean(0)
        offsets = offsets + (change.mean(0) / (spread + 1e-3)).clip(-0.5, 0.5)
        if form != "none":
            matrix = _shaped(_counted(posterior, labels), form)
    return Channel(form, beta / unit, offsets, matrix, guessing, mapping)


def _started(form: Form, scores: Array, labels: Array, turn: Array) -> Channel:
    return clusters(scores, labels, turn, labels).channel if form == "full" else begun(form, scores)


def begun(form: Literal["none", "one"], scores: Array) -> Channel:
    """Return where the search for a channel of few numbers begins."""
    n_classes = scores.shape[1]
    eye = beside(scores, np.eye(n_classes, dtype=np.float32))
    matrix = eye if form == "none" else _shaped(0.7 * eye + 0.3 / n_classes, "one")
    return Channel(form, 1.0, 0.0 * matrix[0], matrix)


def _shaped(counts: Array, form: Form) -> Array:
    """Return T of a form from expected counts (true × given).

    A full one is shrunk to one rate with the square root of the class's rows as pseudo-rows: the minimax estimate of
    a multinomial.
    """
    n_classes = len(counts)
    rate = 1.0 - float(counts.diagonal().sum()) / max(float(counts.sum()), _TINY)
    other = rate / max(n_classes - 1, 1)
    matrix = other + (1.0 - rate - other) * beside(counts, np.eye(n_classes, dtype=np.float32))
    if form == "one":
        return matrix
    rows = counts.sum(1)[:, None] + _TINY
    return (counts + rows**0.5 * matrix) / (rows + rows**0.5)


def _counted(posterior: Array, labels: Array) -> Array:
    return single(class_sums(posterior, labels, posterior.shape[1])).T


class Clusters(NamedTuple):
    """Gaussians of one scatter in the space of the scores, one for each true class, and a full channel."""

    channel: Channel
    turn: Array
    precision: Array
    size: float

    def log_density(self, scores: Array, labels: Array) -> Array:
        """Return log p(s, y), up to a constant."""
        xp, points, channel = namespace(scores), scores @ self.turn, self.channel
        joint = channel.mapped(scores) + channel.offsets + xp.log((channel.matrix.T + _TINY)[labels])
        most = xp.amax(joint, 1)
        square = ((points @ self.precision) * points).sum(1)
        return most + xp.log(xp.exp(joint - most[:, None]).sum(1)) - 0.5 * square - self.size


def _turned(scores: Array, dimensions: int) -> Array:
    """Return the widest directions of the scores, without what all have in common.

    Where there are more classes than columns, what is left are differences between folds.
    """
    xp, centered = namespace(scores), scores - scores.mean(1)[:, None]
    return xp.linalg.eigh(centered.T @ centered)[1][:, -dimensions:]


def clusters(scores: Array, labels: Array, turn: Array, start: Array | None) -> Clusters:
    """Fit p(s, y) by EM from classes to start with; without them, every label is the class.

    Labels that swap two classes at a high rate leave both means between the classes, and p(y | x) alone then needs no
    noise. Nor does it where labels are wrong between classes. The clusters of the scores tell.
    """
    xp, (n, n_classes) = namespace(scores), scores.shape
    eye = beside(scores, np.eye(n_classes, dtype=np.float32))
    points = scores @ turn
    gram, small = points.T @ points, eye[: points.shape[1], : points.shape[1]]
    posterior = eye[labels] if start is None else 0.7 * eye[start] + 0.3 / n_classes
    for _ in range(1 if start is None else STEPS):
        totals = posterior.sum(0).clip(1e-6)
        means = (posterior.T @ points) / totals[:, None]
        scatter: Any = (gram - (means.T * totals) @ means) / n
        scatter = scatter + (1e-3 * scatter.diagonal().mean() + _TINY) * small
        slopes = xp.linalg.solve(scatter, means.T)
        matrix = eye if start is None else _shaped(_counted(posterior, labels), "full")
        mapping = (turn @ slopes, -0.5 * (means * slopes.T).sum(1))
        channel = Channel("full", 1.0, xp.log(totals / n), matrix, mapping=mapping)
        posterior = channel.posterior(scores, labels)
    size = 0.5 * float(xp.linalg.slogdet(scatter)[1])
    return Clusters(channel, turn, xp.linalg.solve(scatter, small), size)
