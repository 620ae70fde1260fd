"""Label noise: how far each given label can be trusted.

The evidence is a Gaussian discriminant with one shared, shrunk scatter: of the linear models it is the one that noise
harms least. Its scores never come from a model that has seen the row's label. Each of the four folds has its own
chain of EM rounds on the others, in which the posteriors come from models that have seen neither fold nor row:
plain cross-fitting would let labels leak from round to round. A noise channel (:mod:`gmmatch.screening.channel`)
turns scores and labels into posteriors, to which the discriminant is fitted again.

Three or four passes over the rows: class sums, one for each refit, and the posteriors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.screening.blocks import Array, Blocks, class_sums, fixed_random, host, spread, widest_axes
from gmmatch.screening.channel import Channel, Form, Scores, best_channel, fit_channel
from gmmatch.types import Indices, Mask, Vector, namespace

# Models within a chain are fitted to two folds less: four is the least that leaves them half of the rows.
_FOLDS = 4
# A class needs two rows in every fold to be described; labels of smaller ones are believed.
FEWEST = 2 * _FOLDS
# Of the scatter towards a sphere, and of the scores by a power of the row's radius (0 for Gaussian classes, 2 for
# heavy tails): the likelihood of held-out labels chooses.
_SHRINKAGES, _TAILS = (0.01, 0.1, 0.5), (0.0, 1.0, 2.0)
# Random directions that tell the radius to 9%.
_SKETCH = 64
# Refits: later ones gain nothing.
_ROUNDS = 2
# The channel has few numbers: more rows than this tell them no better. Fewer do for the shrinkage, and where many
# classes are scored.
_SAMPLE, _QUICK_SAMPLE, _SCORES = 10_000, 4_000, 4_000_000
# Twenty for each of a thousand columns tell the scatter.
_SCATTER_ROWS = 20_000
# Wider rows are seen along their widest directions.
_WIDTH = 1024


@dataclass(frozen=True)
class LabelNoise:
    """What is known of the labels.

    Attributes
    ----------
    trust : float64 array of shape (n,)
        The probability that the given label is the true class.
    likely, likely_probability : int64 and float64 arrays of shape (n,)
        The most probable true class, and its probability.
    agrees : bool array of shape (n,)
        Whether the features alone, without the label, point to the given label.
    rate : float
        The expected share of mislabeled rows.
    form : str
        Of the channel.
    """

    trust: Vector
    likely: Indices
    likely_probability: Vector
    agrees: Mask
    rate: float = 0.0
    form: str = "none"


def label_noise(blocks: Blocks, codes: Indices, n_classes: int) -> LabelNoise:
    """Return how far labels can be trusted.

    Parameters
    ----------
    blocks : Blocks
    codes : int64 array of shape (n,)
        Given classes, below 0 for rows that are not judged.
    n_classes : int

    Examples
    --------
    >>> from gmmatch.rows.rows import Rows
    >>> random = np.random.default_rng(0)
    >>> true = random.integers(3, size=900)
    >>> X = 4.0 * np.eye(3)[true] + random.standard_normal((900, 3))
    >>> given = np.where(np.arange(900) < 200, (true + 1) % 3, true)
    >>> found = label_noise(Blocks(Rows(X)), given, 3)
    >>> round(found.rate, 1), float(np.mean(found.likely == true)) > 0.95
    (0.2, True)
    """
    n = len(codes)
    sizes = np.bincount(codes[codes >= 0], minlength=n_classes)
    judged = (codes >= 0) & (sizes[np.maximum(codes, 0)] >= FEWEST)
    believed = LabelNoise(np.ones(n), codes.copy(), np.ones(n), np.ones(n, dtype=bool))
    if np.count_nonzero(sizes >= FEWEST) < 2:
        return believed
    # Only classes that are judged have a column.
    columns = np.flatnonzero(sizes >= FEWEST)
    given = np.full(n, -1, dtype=np.int64)
    given[judged] = np.searchsorted(columns, codes[judged])
    if blocks.shape[1] > _WIDTH:
        points = blocks.sample(spread(n, 4 * _WIDTH))
        blocks = blocks.along(widest_axes(points - points.mean(axis=0), _WIDTH))
    found = _Chains(blocks, given, len(columns)).run()
    if found is None:
        return believed
    channel, trust, likely, certainty, agrees = found
    likely_codes = np.where(judged, columns[likely], codes)
    trust, certainty = np.where(judged, trust, 1.0), np.where(judged, certainty, 1.0)
    rate = float(1.0 - trust[judged].mean())
    return LabelNoise(trust, likely_codes, certainty, agrees | ~judged, rate, channel.form)


@dataclass(frozen=True)
class _Model:
    """Linear scores of the classes."""

    slopes: NDArray[np.float32]
    offsets: NDArray[np.float32]


class _Chains:
    """The discriminants of all folds, from sums over rows."""

    def __init__(self, blocks: Blocks, given: Indices, n_classes: int) -> None:
        self.blocks, self.given, self.n_classes = blocks, given, n_classes
        self.fold = _stratified(given, n_classes)
        sums = np.zeros((_FOLDS, n_classes, blocks.shape[1]))
        places = np.where(given >= 0, self.fold * n_classes + given, -1)
        for where, block in blocks:
            found = class_sums(block, blocks.put(places[where]), _FOLDS * n_classes)
            sums += found.reshape(sums.shape)
        counts = np.bincount(places[places >= 0], minlength=_FOLDS * n_classes)
        # A chain for each fold: class sums and counts of every fold, as that chain sees their labels.
        self.chains = [(sums, counts.reshape(_FOLDS, n_classes).astype(np.float64))] * _FOLDS
        judged = np.flatnonzero(given >= 0)
        points = blocks.sample(judged[spread(len(judged), _SCATTER_ROWS)])
        points -= points.mean(axis=0)
        # The scatter of all rows knows no labels, so that one serves all models.
        widths, self.axes = np.linalg.eigh(points.T @ points / np.float32(len(points)))
        self.widths = np.maximum(widths.astype(np.float64), 0.0)
        self.sample = judged[spread(len(judged), max(_QUICK_SAMPLE, min(_SAMPLE, _SCORES // n_classes)))]
        self.points = blocks.sample(self.sample)
        self.labels = given[self.sample]
        self.quick = fixed_random("quick").permutation(len(self.sample))[:_QUICK_SAMPLE]
        self.shrinkage, self.tail, self.usual_radius = _SHRINKAGES[-1], 0.0, 1.0

    def run(self) -> tuple[Channel, Vector, Indices, Vector, Mask] | None:
        """Return the channel, and each row's trust, likely class, its probability, and whether features agree."""
        scores = self._held_out(_SHRINKAGES, None)
        scores = scores * self._choose_tail(scores)
        value, channel = best_channel(scores, self.labels)
        if channel.form == "none":
            return None
        chance = 2.0 * np.log(len(self.labels)) / len(self.labels)
        for _ in range(_ROUNDS):
            before = self.chains, self.shrinkage
            self.chains = self._refitted(channel)
            # Labels that are believed less need no more shrinkage than before.
            scores = self._held_out([s for s in _SHRINKAGES if s <= self.shrinkage], channel)
            new_value, refitted = best_channel(scores * self._sample_scale(), self.labels, channel)
            if new_value <= value - chance:
                self.chains, self.shrinkage = before
                break
            value, channel = new_value, refitted
        return (channel, *self._posteriors(channel))

    def _model(self, chain: int, folds: list[int], shrinkage: float) -> _Model:
        """Return the discriminant of some folds, as a chain sees their labels.

        The scatter within classes is that of all rows less that of the class means: with D = (1 − γ) S + γ σ² and the
        centred means M, slopes solve (D − Mᵀ B M) W = Mᵀ, so W = D⁻¹Mᵀ (I − B M D⁻¹Mᵀ)⁻¹.
        """
        sums, counts = (part[folds].sum(axis=0) for part in self.chains[chain])
        shares = counts / max(float(counts.sum()), 1e-6)
        grand = sums.sum(axis=0) / max(float(counts.sum()), 1e-6)
        means = (sums / np.maximum(counts, 1e-6)[:, None] - grand) * (counts > 0.5)[:, None]
        diagonal = self._shrunk(shrinkage, float(shares @ (means**2).sum(axis=1)))
        turned = means @ self.axes
        whitened = turned / diagonal
        inner = np.eye(len(means)) - (1.0 - shrinkage) * shares[:, None] * (turned @ whitened.T)
        slopes = self.axes @ np.linalg.solve(inner.T, whitened).T
        offsets = -0.5 * np.einsum("cs,sc->c", means, slopes) - grand @ slopes
        return _Model(slopes.astype(np.float32), np.where(counts > 0.5, offsets, -1e4).astype(np.float32))

    def _shrunk(self, shrinkage: float, between: float) -> Vector:
        """Return the widths of the scatter of all rows, shrunk as the one within classes is to be."""
        total = float(self.widths.sum())
        sphere = max(total - between, 1e-6 * total, 1e-20) / len(self.widths)
        return (1.0 - shrinkage) * self.widths + shrinkage * sphere + 1e-6 * total / len(self.widths) + 1e-20

    def _held_out(self, shrinkages: Any, channel: Channel | None) -> Scores:
        """Return the sample's scores by models of the other folds, with the shrinkage that explains labels best."""
        best = -np.inf
        found = np.empty((len(self.sample), self.n_classes), np.float32)
        for shrinkage in shrinkages:
            scores = np.empty_like(found)
            for number in range(_FOLDS):
                mine = self.fold[self.sample] == number
                model = self._model(number, _others(number), shrinkage)
                scores[mine] = self.points[mine] @ model.slopes + model.offsets
            if len(shrinkages) == 1:
                value = np.inf
            else:
                some, start = self.quick, None if channel is None else channel.matrix
                form: Form = "one" if channel is None else channel.form
                value = fit_channel(scores[some], self.labels[some], form, start=start, quick=True).value
            if value > best:
                best, self.shrinkage, found = value, shrinkage, scores
        return found

    def _choose_tail(self, scores: Scores) -> Scores:
        """Return what each sampled row's scores are multiplied by."""
        random = fixed_random("sketch").standard_normal((len(self.widths), _SKETCH))
        whitened = random / np.sqrt(self._shrunk(self.shrinkage, 0.0))[:, None]
        self.sketch = (self.axes @ whitened).astype(np.float32)
        self.sample_radius = _radius(self.points - self.points.mean(axis=0), self.sketch)
        self.usual_radius = float(np.median(self.sample_radius)) or 1.0
        values = []
        for tail in _TAILS:
            self.tail = tail
            some = (scores * self._sample_scale())[self.quick]
            values.append(fit_channel(some, self.labels[self.quick], "one", quick=True).value)
        self.tail = _TAILS[int(np.argmax(values))]
        return self._sample_scale()

    def _sample_scale(self) -> Scores:
        scale: Scores = self._scaled(self.sample_radius)[:, None]
        return scale

    def _scaled(self, radius: Array) -> Array:
        ratio = radius / np.float32(self.usual_radius)
        ratio = ratio.clip(0.1, 10.0)
        return ratio ** (-self.tail)

    def _scores(self, part: Array, model: _Model) -> Array:
        """Return the scores of rows by a model."""
        scores = part @ self.blocks.put(model.slopes) + self.blocks.put(model.offsets)
        if self.tail == 0.0:
            return scores
        centered = part - self.blocks.put(self.points.mean(axis=0))
        return scores * self._scaled(_radius(centered, self.blocks.put(self.sketch)))[:, None]

    def _refitted(self, channel: Channel) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Return the class sums of all chains after a round of EM: one pass over the rows."""
        pairs = [(chain, fold) for chain in range(_FOLDS) for fold in _others(chain)]
        models = {
            (chain, fold): self._model(chain, [f for f in _others(chain) if f != fold], self.shrinkage)
            for chain, fold in pairs
        }
        sums = np.zeros((_FOLDS, _FOLDS, self.n_classes, self.blocks.shape[1]))
        counts = np.zeros((_FOLDS, _FOLDS, self.n_classes))
        for part, labels, fold, _ in self._parts():
            for chain in _others(fold):
                posterior = channel.posterior(self._scores(part, models[chain, fold]), labels)
                sums[chain, fold] += host(posterior.T @ part)
                counts[chain, fold] += host(posterior.sum(0))
        return list(zip(sums, counts, strict=True))

    def _posteriors(self, channel: Channel) -> tuple[Vector, Indices, Vector, Mask]:
        models = [self._model(number, _others(number), self.shrinkage) for number in range(_FOLDS)]
        n = len(self.given)
        trust, likely, certainty = np.ones(n), np.zeros(n, dtype=np.int64), np.ones(n)
        agrees = np.ones(n, dtype=bool)
        for part, labels, fold, rows in self._parts():
            xp = namespace(part)
            classes, joint = channel.joint(self._scores(part, models[fold]), labels)
            posterior = joint / joint.sum(1)[:, None]
            best = posterior.argmax(1)
            places = xp.arange(len(labels)) if xp is np else xp.arange(len(labels), device=part.device)
            trust[rows], certainty[rows] = host(posterior[places, labels]), host(posterior[places, best])
            likely[rows], agrees[rows] = host(best), host(classes.argmax(1) == labels)
        return trust, likely, certainty, agrees

    def _parts(self) -> Any:
        """Yield the judged rows of each block, fold by fold: rows, labels, fold, row numbers."""
        for where, block in self.blocks:
            for number in range(_FOLDS):
                mine = np.flatnonzero((self.fold[where] == number) & (self.given[where] >= 0))
                if len(mine):
                    labels = self.blocks.put(self.given[where][mine])
                    yield block[self.blocks.put(mine)], labels, number, where.start + mine


def _others(number: int) -> list[int]:
    return [fold for fold in range(_FOLDS) if fold != number]


def _radius(points: Array, sketch: Array) -> Array:
    along = points @ sketch
    return ((along * along).mean(1) + 1e-20) ** 0.5


def _stratified(given: Indices, n_classes: int) -> Indices:
    """Return the fold of each row, the rows of each class in turn; -1 for rows without a class."""
    order = fixed_random("folds").permutation(len(given))
    order = order[np.argsort(given[order], kind="stable")]
    order = order[np.searchsorted(given[order], 0) :]
    firsts = np.concatenate([[0], np.cumsum(np.bincount(given[order], minlength=n_classes))[:-1]])
    fold = np.full(len(given), -1, dtype=np.int64)
    fold[order] = (np.arange(len(order)) - firsts[given[order]]) % _FOLDS
    return fold
