"""The noise channel: how true classes come to be given labels, by the likelihood of the given labels.

p(y | x) = Σ_z p(z | x) T[z, y],   p(z | x) = softmax(β s(x) + b)

The scores s(x) come from models that have not seen the row. T is the identity (no noise), one rate, or full; its form
is the one that predicts the labels of one half of a sample best when fitted to the other half. Everything here takes
NumPy arrays or tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gmmatch.screening.blocks import SAMPLE, Array, beside, class_sums, fixed_random, single
from gmmatch.types import namespace

Form = Literal["none", "one", "full"]

# Clear rows: their class is nine times as likely as all others. A channel is identified by them. Where fewer than a
# fifth are clear, classes that overlap look the same as wrong labels, and labels are believed: noisy features of
# images have a quarter or more, clean raw pixels an eighth.
_CLEAR, _CLEAR_SHARE = 0.9, 0.2
# Noise must explain held-out labels better than none by so many standard errors.
_ERRORS = 2.0
# A full channel has a number for every pair of classes: so many rows of each class tell them.
_ROWS_PER_CLASS = 40
# Of EM; a comparison of settings needs a third of them.
STEPS = 30
_TINY = 1e-12


@dataclass(frozen=True)
class Channel:
    """A fitted channel. ``mapping`` is a linear map of the scores to re-estimated classes, if there is one."""

    form: Form
    beta: float
    offsets: Array
    matrix: Array
    value: float = 0.0
    mapping: tuple[Array, Array] | None = None

    def classes(self, scores: Array) -> Array:
        """Return p(z | x), before the label is looked at."""
        if self.mapping is not None:
            scores = scores @ self.mapping[0] + self.mapping[1]
        return _softmax(self.beta * scores + self.offsets)

    def joint(self, scores: Array, labels: Array) -> tuple[Array, Array]:
        """Return p(z | x) and p(z, y | x) for the given labels y; scores may have an axis of models in between."""
        classes = self.classes(scores)
        likelihood = (self.matrix.T + _TINY)[labels]
        return classes, classes * (likelihood if scores.ndim == 2 else likelihood[:, None])

    def posterior(self, scores: Array, labels: Array) -> Array:
        """Return p(z | x, y)."""
        joint = self.joint(scores, labels)[1]
        return joint / joint.sum(-1)[..., None]


def _softmax(logits: Array) -> Array:
    xp = namespace(logits)
    odds = xp.exp(logits - xp.amax(logits, -1)[..., None])
    return odds / odds.sum(-1)[..., None]


def best_channel(scores: Array, labels: Array, refit: Channel | None = None) -> tuple[float, Channel]:
    """Return how well held-out labels are predicted, and the channel that does it best, fitted to all.

    Parameters
    ----------
    scores : float32 array of shape (n, classes)
        Of a sample of rows, by models that have not seen them.
    labels : int64 array of shape (n,)
    refit : Channel, optional
        Fit this form again; otherwise all forms compete.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> true = random.integers(3, size=3000)
    >>> scores = (4.0 * np.eye(3)[true] + random.standard_normal((3000, 3))).astype(np.float32)
    >>> labels = np.where(random.random(3000) < 0.3, random.integers(3, size=3000), true)
    >>> _, channel = best_channel(scores, labels)
    >>> channel.form, round(1.0 - float(channel.matrix[0, 0]), 1)
    ('one', 0.2)
    """
    xp, (n, n_classes) = namespace(scores), scores.shape
    order = beside(scores, fixed_random("halves").permutation(n))
    halves = [(order[: n // 2], order[n // 2 :])]
    if n < SAMPLE // 2:
        halves.append(halves[0][::-1])
    tested = xp.concatenate([labels[test] for _, test in halves])
    # Rows that tell nothing about their label are no reason to doubt it.
    plain = xp.log(single(class_sums(xp.ones_like(scores[:, :1]), labels, n_classes))[:, 0] / n + _TINY)[
        tested
    ]
    candidates: list[tuple[Form, bool]] = [("none", False), ("one", False)]
    if n // 2 >= _ROWS_PER_CLASS * n_classes:
        candidates += [("full", False), ("full", True)]
    if refit is not None:
        candidates = [(refit.form, False)]
    best, chosen, start = -np.inf, candidates[0], None if refit is None else refit.matrix
    for form, mapped in candidates:
        parts, clear = [], 0.0
        for fit, test in halves:
            begin = None if refit is None else refit.matrix
            channel = fit_channel(scores[fit], labels[fit], form, mapped=mapped, start=begin)
            classes, joint = channel.joint(scores[test], labels[test])
            parts.append(xp.log(joint.sum(1) + 1e-30))
            clear += float((xp.amax(classes, 1) > _CLEAR).sum()) / len(tested)
        found = xp.concatenate(parts)
        if form == "none":
            plain = found = found if float(found.mean()) > float(plain.mean()) else plain
        elif refit is None:
            gain = found - plain
            errors = float(gain.mean()) / (float(gain.std()) + _TINY) * len(gain) ** 0.5
            if clear < _CLEAR_SHARE or errors < _ERRORS:
                continue
        if float(found.mean()) > best:
            best, chosen, start = float(found.mean()), (form, mapped), channel.matrix
    return best, fit_channel(scores, labels, chosen[0], mapped=chosen[1], start=start)


def fit_channel(
    scores: Array,
    labels: Array,
    form: Form,
    *,
    mapped: bool = False,
    start: Array | None = None,
    quick: bool = False,
) -> Channel:
    """Fit β and b by Newton steps and T by EM to Σ log Σ_z p(z | x) T[z, y]."""
    xp, (n, n_classes) = namespace(scores), scores.shape
    mapping = None
    if mapped:
        mapping, start = _remapped(scores, labels)
        scores = scores @ mapping[0] + mapping[1]
    scores = (scores - xp.amax(scores, 1)[:, None]).clip(-1e3)
    unit = max(-float(scores.mean()), _TINY)
    scores = scores / unit
    eye = beside(scores, np.eye(n_classes, dtype=np.float32))
    beta, offsets = 3.0, xp.log((eye[labels].sum(0) + 1.0) / n)
    offsets = offsets - offsets.mean()
    matrix = _shaped(0.7 * eye + 0.3 / n_classes, "one") if start is None else start
    matrix = eye if form == "none" else matrix
    value = -np.inf
    for step in range(STEPS // 3 if quick else STEPS):
        classes, joint = Channel(form, beta, offsets, matrix).joint(scores, labels)
        likelihood = joint.sum(1)
        before, value = value, n * float(xp.log(likelihood).mean())
        if step > 5 and abs(value - before) < 1e-4 * n:
            break
        posterior = joint / likelihood[:, None]
        change, weighted = posterior - classes, classes * scores
        slope = float((change * scores).sum(1).mean())
        curvature = float(((weighted * scores).sum(1) - weighted.sum(1) ** 2).mean())
        # Steps are bounded, so that a poor start cannot overshoot.
        beta *= float(np.exp(np.clip(1.5 * slope / max(curvature, _TINY) / beta, -0.5, 0.5)))
        spread = (classes * (1.0 - classes)).mean(0)
        offsets = offsets + (change.mean(0) / (spread + 1e-3)).clip(-0.5, 0.5)
        if form != "none":
            matrix = _shaped(_counted(posterior, labels), form)
    return Channel(form, beta / unit, offsets, matrix, value, mapping)


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


def _remapped(scores: Array, labels: Array) -> tuple[tuple[Array, Array], Array]:
    """Re-estimate the classes as Gaussians in the space of the scores, with a full channel, by EM on p(s, y).

    Labels that swap two classes at a high rate leave both means between the classes, and p(y | x) alone then needs no
    noise. The clusters of the scores tell.
    """
    xp, (n, n_classes) = namespace(scores), scores.shape
    points = scores - scores.mean(1)[:, None]
    gram, eye = points.T @ points, beside(scores, np.eye(n_classes, dtype=np.float32))
    posterior = 0.7 * eye[labels] + 0.3 / n_classes
    for _ in range(STEPS):
        totals = posterior.sum(0).clip(1e-6)
        means = (posterior.T @ points) / totals[:, None]
        scatter: Any = (gram - (means.T * totals) @ means) / n
        slopes = xp.linalg.solve(scatter + (1e-3 * scatter.diagonal().mean() + _TINY) * eye, means.T)
        offsets = -0.5 * (means * slopes.T).sum(1)
        counts = _counted(posterior, labels)
        matrix = _shaped(counts, "full")
        channel = Channel("full", 1.0, offsets, matrix * (counts.sum(1) / n)[:, None])
        posterior = channel.posterior(points @ slopes, labels)
    return (slopes - slopes.mean(0), offsets), matrix
