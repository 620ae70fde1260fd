"""The noise channel: how true classes come to be given labels, by the likelihood of the given labels.

p(y | x) = Σ_z p(z | x) T[z, y],   p(z | x) = softmax(β s(x) + b)

The scores s(x) come from models that have not seen the row. T is the identity (no noise), one rate, or full; its form
is the one that predicts the labels of one half of a sample best when fitted to the other half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.blocks import Array, fixed_random
from gmmatch.types import Indices, Vector, namespace

Scores = NDArray[np.float32]
Form = Literal["none", "one", "full"]

# Clear rows: their class is nine times as likely as all others. A channel is identified by them. Where fewer than a
# fifth are clear, classes that overlap look the same as wrong labels, and labels are believed: noisy features of
# images have a quarter or more, clean raw pixels an eighth.
_CLEAR, _CLEAR_SHARE = 0.9, 0.2
# Noise must explain held-out labels better than none by so many standard errors.
_ERRORS = 2.0
# A full channel has a number for every pair of classes: so many rows of each class tell them.
_ROWS_PER_CLASS = 40
# Where there are fewer rows, both halves are predicted from the other.
_SWAPPED_ROWS = 5_000
_STEPS, _QUICK_STEPS, _MAP_STEPS = 30, 12, 20
_TINY = 1e-12


@dataclass(frozen=True)
class Channel:
    """A fitted channel. ``mapping`` is a linear map of the scores to re-estimated classes, if there is one."""

    form: Form
    beta: float
    offsets: Vector
    matrix: NDArray[np.float64]
    value: float = 0.0
    mapping: tuple[Scores, Scores] | None = None

    def classes(self, scores: Array) -> Array:
        """Return p(z | x), before the label is looked at."""
        xp = namespace(scores)
        if self.mapping is not None:
            slopes, offsets = (_beside(scores, part) for part in self.mapping)
            scores = scores @ slopes + offsets
        logits = np.float32(self.beta) * scores + _beside(scores, self.offsets.astype(np.float32))
        odds = xp.exp(logits - xp.amax(logits, 1)[:, None])
        return odds / odds.sum(1)[:, None]

    def joint(self, scores: Array, labels: Array) -> tuple[Array, Array]:
        """Return p(z | x) and p(z, y | x) for the given labels y."""
        classes = self.classes(scores)
        likelihood = _beside(scores, np.ascontiguousarray(self.matrix.T + _TINY).astype(np.float32))
        return classes, classes * likelihood[labels]

    def posterior(self, scores: Array, labels: Array) -> Array:
        """Return p(z | x, y)."""
        joint = self.joint(scores, labels)[1]
        return joint / joint.sum(1)[:, None]


def _beside(scores: Array, array: NDArray[np.float32]) -> Array:
    return array if isinstance(scores, np.ndarray) else scores.new_tensor(array)


def best_channel(scores: Scores, labels: Indices, refit: Channel | None = None) -> tuple[float, Channel]:
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
    n, n_classes = scores.shape
    order = fixed_random("halves").permutation(n)
    halves = [(order[: n // 2], order[n // 2 :])]
    if n < _SWAPPED_ROWS:
        halves.append((order[n // 2 :], order[: n // 2]))
    candidates: list[tuple[Form, bool]] = [("none", False), ("one", False)]
    if n // 2 >= _ROWS_PER_CLASS * n_classes:
        candidates += [("full", False), ("full", True)]
    if refit is not None:
        candidates = [(refit.form, False)]
    best: tuple[float, Form, bool, NDArray[np.float64]] | None = None
    plain: Vector | None = None
    for form, mapped in candidates:
        parts, clear = [], []
        for fit, test in halves:
            start = None if refit is None else refit.matrix
            channel = fit_channel(scores[fit], labels[fit], form, mapped=mapped, start=start)
            classes, joint = channel.joint(scores[test], labels[test])
            parts.append(np.log(joint.sum(axis=1) + 1e-30).astype(np.float64))
            clear.append(float((classes.max(axis=1) > _CLEAR).mean()))
        found = np.concatenate(parts)
        if form == "none":
            # Rows that tell nothing about their label are no reason to doubt it.
            shares = np.log(np.bincount(labels, minlength=n_classes) / n + _TINY)
            alone = shares[np.concatenate([labels[test] for _, test in halves])]
            plain = found if found.mean() > alone.mean() else alone
            found = plain
        elif plain is not None and (np.mean(clear) < _CLEAR_SHARE or not _is_better(found, plain)):
            continue
        value = float(found.mean())
        if best is None or value > best[0]:
            best = value, form, mapped, channel.matrix
    assert best is not None
    value, form, mapped, matrix = best
    return value, fit_channel(scores, labels, form, mapped=mapped, start=matrix)


def _is_better(found: Vector, plain: Vector) -> bool:
    """Return whether noise explains held-out labels better than none, by more than chance."""
    gain = found - plain
    return bool(gain.mean() > _ERRORS * gain.std() / np.sqrt(len(gain)))


def fit_channel(
    scores: Scores,
    labels: Indices,
    form: Form,
    *,
    mapped: bool = False,
    start: NDArray[np.float64] | None = None,
    quick: bool = False,
) -> Channel:
    """Fit β and b by Newton steps and T by EM to Σ log Σ_z p(z | x) T[z, y]."""
    n, n_classes = scores.shape
    mapping = None
    if mapped:
        mapping, start = _remapped(scores, labels)
        scores = scores @ mapping[0] + mapping[1]
    scores = np.maximum(scores - scores.max(axis=1, keepdims=True), np.float32(-1e3))
    unit = max(float(-scores.mean(dtype=np.float64)), _TINY)
    scores = scores / np.float32(unit)
    beta, offsets = 3.0, np.log(np.bincount(labels, minlength=n_classes) / n + 1.0 / n)
    offsets -= offsets.mean()
    matrix = _shaped(0.7 * np.eye(n_classes) + 0.3 / n_classes, "one") if start is None else start
    if form == "none":
        matrix = np.eye(n_classes)
    value = -np.inf
    for step in range(_QUICK_STEPS if quick else _STEPS):
        channel = Channel(form, beta, offsets, matrix)
        classes, joint = channel.joint(scores, labels)
        likelihood = joint.sum(axis=1)
        before, value = value, float(np.log(likelihood).sum(dtype=np.float64))
        if step > 5 and abs(value - before) < 1e-5 * n:
            break
        posterior = joint / likelihood[:, None]
        change, weighted = posterior - classes, classes * scores
        slope = float((change * scores).sum(dtype=np.float64)) / n
        middle = weighted.sum(axis=1)
        curvature = float(((weighted * scores).sum(axis=1) - middle**2).mean(dtype=np.float64))
        # Steps are bounded, so that a poor start cannot overshoot.
        beta *= float(np.exp(np.clip(1.5 * slope / max(curvature, _TINY) / beta, -0.5, 0.5)))
        spread = (classes * (1.0 - classes)).mean(axis=0)
        offsets = offsets + np.clip(change.mean(axis=0) / (spread + 1e-3), -0.5, 0.5)
        if form != "none":
            matrix = _shaped(_counted(posterior, labels), form)
    return Channel(form, beta / unit, offsets, matrix, value, mapping)


def _shaped(counts: NDArray[np.float64], form: Form) -> NDArray[np.float64]:
    """Return T of a form from expected counts (true × given).

    A full one is shrunk to one rate with the square root of the class's rows as pseudo-rows: the minimax estimate of
    a multinomial.
    """
    n_classes = len(counts)
    rate = 1.0 - float(np.trace(counts)) / max(float(counts.sum()), _TINY)
    matrix = np.full((n_classes, n_classes), rate / max(n_classes - 1, 1))
    matrix[np.diag_indices(n_classes)] = 1.0 - rate
    if form == "one":
        return matrix
    rows = counts.sum(axis=1, keepdims=True) + _TINY
    full: NDArray[np.float64] = (counts + np.sqrt(rows) * matrix) / (rows + np.sqrt(rows))
    return full


def _counted(posterior: Scores, labels: Indices) -> NDArray[np.float64]:
    counts = np.zeros((posterior.shape[1], posterior.shape[1]))
    order = np.argsort(labels, kind="stable")
    present, firsts = np.unique(labels[order], return_index=True)
    counts[:, present] = np.add.reduceat(posterior[order], firsts, axis=0).T
    return counts


def _remapped(scores: Scores, labels: Indices) -> tuple[tuple[Scores, Scores], NDArray[np.float64]]:
    """Re-estimate the classes as Gaussians in the space of the scores, with a full channel, by EM on p(s, y).

    Labels that swap two classes at a high rate leave both means between the classes, and p(y | x) alone then needs no
    noise. The clusters of the scores tell.
    """
    n, n_classes = scores.shape
    points = scores - scores.mean(axis=1, keepdims=True)
    gram = points.T @ points
    posterior = np.full((n, n_classes), 0.3 / n_classes, np.float32)
    posterior[np.arange(n), labels] += 0.7
    for _ in range(_MAP_STEPS):
        totals = posterior.sum(axis=0)
        means = (posterior.T @ points) / np.maximum(totals, 1e-6)[:, None]
        scatter = (gram - (means.T * totals) @ means).astype(np.float64) / n
        scatter[np.diag_indices(n_classes)] += 1e-3 * np.trace(scatter) / n_classes + _TINY
        slopes = np.linalg.solve(scatter, means.T.astype(np.float64)).astype(np.float32)
        offsets = -0.5 * np.einsum("cs,sc->c", means, slopes)
        counts = _counted(posterior, labels)
        joint = _shaped(counts, "full") * (counts.sum(axis=1) / n)[:, None]
        channel = Channel("full", 1.0, offsets, joint)
        posterior = channel.posterior(points @ slopes, labels)
    return (slopes - slopes.mean(axis=0), offsets.astype(np.float32)), _shaped(counts, "full")
