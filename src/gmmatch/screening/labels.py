"""Label noise: how far each given label can be trusted.

The evidence is a Gaussian discriminant with one shared, shrunk scatter: of the linear models it is the one that noise
harms least. Its scores never come from a model that has seen the row's label. Each of the four folds has its own
chain of EM rounds on the others, in which the posteriors come from models that have seen neither fold nor row:
plain cross-fitting would let labels leak from round to round. A noise channel (:mod:`gmmatch.screening.channel`)
turns scores and labels into posteriors, to which the discriminant is fitted again.

Three or four passes over the rows: class sums, one for each refit, and the posteriors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmmatch.screening.blocks import (
    FEWEST,
    SAMPLE,
    Array,
    Blocks,
    Spectrum,
    beside,
    fixed_random,
    host,
    spread,
)
from gmmatch.screening.channel import Channel, best_channel, fit_channel
from gmmatch.types import Indices, Mask, Vector, namespace

# Models within a chain are fitted to two folds less: four is the least that leaves them half of the rows.
_FOLDS = 4
# Of the scatter towards a sphere, and of the scores by a power of the row's radius (0 for Gaussian classes, 2 for
# heavy tails): the likelihood of held-out labels chooses.
_SHRINKAGES, _TAILS = (0.01, 0.1, 0.5), (0.0, 1.0, 2.0)
# Random directions that tell the radius to 9%.
_SKETCH = 64
# Refits: later ones gain nothing.
_ROUNDS = 2
# Rows that tell a shrinkage; twice as many tell a channel of a thousand classes.
_FEW = 2_000


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


def label_noise(
    blocks: Blocks, codes: Indices, n_classes: int, spectrum: Spectrum | None = None
) -> LabelNoise:
    """Return how far labels can be trusted.

    Parameters
    ----------
    blocks : Blocks
    codes : int64 array of shape (n,)
        Given classes, below 0 for rows that are not judged.
    n_classes : int
    spectrum : Spectrum, optional
        The scatter of the rows, where it is known.

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
    # Only classes that are judged have a column.
    columns = np.flatnonzero(sizes >= FEWEST)
    found = LabelNoise(np.ones(n), codes.copy(), np.ones(n), np.ones(n, dtype=bool))
    if len(columns) < 2:
        return found
    judged = np.flatnonzero((codes >= 0) & (sizes[codes] >= FEWEST))
    given = np.full(n, -1, dtype=np.int64)
    given[judged] = np.searchsorted(columns, codes[judged])
    chains = _Chains(spectrum or blocks.spectrum(judged), given, len(columns))
    channel = chains.fitted_channel()
    if channel.form == "none":
        return found
    for where, trust, likely, certainty, agrees in chains.posteriors(channel):
        found.trust[where], found.likely_probability[where] = host(trust), host(certainty)
        found.likely[where], found.agrees[where] = columns[host(likely)], host(agrees)
    rate = float(1.0 - found.trust[judged].mean())
    return LabelNoise(found.trust, found.likely, found.likely_probability, found.agrees, rate, channel.form)


class _Chains:
    """The discriminants of all folds, from sums over rows."""

    def __init__(self, spectrum: Spectrum, given: Indices, n_classes: int) -> None:
        # The scatter of all rows knows no labels, so that one serves all models.
        blocks, self.widths, self.axes = spectrum
        self.blocks, self.given, self.n_classes = blocks, given, n_classes
        self.fold = _stratified(given, n_classes)
        places = self.places = np.where(given >= 0, self.fold * n_classes + given, -1)
        sums = blocks.class_sums(places, _FOLDS * n_classes)
        xp = self.xp = namespace(sums)
        counts = np.bincount(places[places >= 0], minlength=_FOLDS * n_classes).astype(np.float64)
        # Chain, fold, class: class sums and counts of every fold, as a chain sees their labels.
        shape = (_FOLDS, _FOLDS, n_classes)
        self.sums = xp.broadcast_to(sums.reshape(1, *shape[1:], -1), (*shape, sums.shape[1]))
        self.counts = xp.broadcast_to(beside(sums, counts).reshape(1, *shape[1:]), shape)
        judged = np.flatnonzero(given >= 0)
        sample = judged[spread(len(judged), max(2 * _FEW, min(SAMPLE, 2000 * _FEW // n_classes)))]
        self.points, self.labels = blocks.take(sample), beside(sums, given[sample])
        self.sample_fold = beside(sums, self.fold[sample])
        self.quick = beside(sums, fixed_random("quick").permutation(len(sample))[:_FEW])
        self.shrinkage, self.tail = _SHRINKAGES[-1], 0.0
        self.sketch, self.middle, self.usual_radius = self.axes, self.points.mean(0), 1.0

    def fitted_channel(self) -> Channel:
        """Return the channel, after refits of the discriminants that predict labels no worse."""
        scores = self._held_out(_SHRINKAGES, None)
        scores = scores * self._choose_tail(scores)
        value, channel = best_channel(scores, self.labels)
        chance = 2.0 * np.log(len(self.labels)) / len(self.labels)
        for _ in range(_ROUNDS if channel.form != "none" else 0):
            before = self.sums, self.counts, self.shrinkage
            self.sums, self.counts = self._refitted(channel)
            # Labels that are believed less need no more shrinkage than before.
            scores = self._held_out([s for s in _SHRINKAGES if s <= self.shrinkage], channel)
            new_value, refitted = best_channel(scores * self._scale(self.points), self.labels, channel)
            if new_value <= value - chance:
                self.sums, self.counts, self.shrinkage = before
                break
            value, channel = new_value, refitted
        return channel

    def _models(self, wanted: Sequence[tuple[int, Sequence[int]]], shrinkage: float) -> tuple[Array, Array]:
        """Return slopes and offsets of the discriminants of some folds, as a chain sees their labels.

        The scatter within classes is that of all rows less that of the class means: with D = (1 − γ) S + γ σ² and the
        centred means M, slopes solve (D − Mᵀ B M) W = Mᵀ, so W = D⁻¹Mᵀ (I − B M D⁻¹Mᵀ)⁻¹.
        """
        xp = self.xp
        sums = xp.stack([self.sums[chain][list(folds)].sum(0) for chain, folds in wanted])
        counts = xp.stack([self.counts[chain][list(folds)].sum(0) for chain, folds in wanted])
        total = counts.sum(1)[:, None].clip(1e-6)
        grand, shares = sums.sum(1) / total, counts / total
        means = (sums / counts.clip(1e-6)[..., None] - grand[:, None]) * (counts > 0.5)[..., None]
        between = (shares * (means**2).sum(2)).sum(1)
        turned = means @ self.axes
        whitened = turned / self._shrunk(shrinkage, between)[:, None]
        inner = (1.0 - shrinkage) * shares[..., None] * (turned @ whitened.swapaxes(1, 2))
        eye = beside(sums, np.eye(self.n_classes))
        slopes = xp.linalg.solve((eye - inner).swapaxes(1, 2), whitened) @ self.axes.T
        offsets = -0.5 * (means * slopes).sum(2) - (slopes * grand[:, None]).sum(2)
        return slopes.swapaxes(1, 2), xp.where(counts > 0.5, offsets, -1e4)

    def _shrunk(self, shrinkage: float, between: Array) -> Array:
        """Return the widths of the scatter of all rows, shrunk as the one within classes is to be."""
        total, count = self.widths.sum(), len(self.widths)
        sphere = (total - between).clip(1e-6 * float(total)) / count
        floor = 1e-6 * total / count + 1e-20
        return (1.0 - shrinkage) * self.widths + (shrinkage * sphere)[..., None] + floor

    def _held_out(self, shrinkages: Sequence[float], channel: Channel | None) -> Array:
        """Return the sample's scores by models of the other folds, with the shrinkage that explains labels best."""
        best, found = -np.inf, None
        for shrinkage in shrinkages:
            slopes, offsets = self._models([(fold, _others(fold)) for fold in range(_FOLDS)], shrinkage)
            scores = self.blocks.put(np.empty((len(self.points), self.n_classes), dtype=np.float32))
            for fold in range(_FOLDS):
                mine = self.sample_fold == fold
                scores[mine] = self.points[mine] @ self.blocks.put(slopes[fold]) + self.blocks.put(
                    offsets[fold]
                )
            value = np.inf
            if len(shrinkages) > 1:
                some, start = self.quick, None if channel is None else channel.matrix
                form = "one" if channel is None else channel.form
                value = fit_channel(scores[some], self.labels[some], form, start=start, quick=True).value
            if value > best:
                best, self.shrinkage, found = value, shrinkage, scores
        return found

    def _choose_tail(self, scores: Array) -> Array:
        """Return what each sampled row's scores are multiplied by."""
        random = beside(self.axes, fixed_random("sketch").standard_normal((len(self.widths), _SKETCH)))
        whitened = random / self._shrunk(self.shrinkage, 0.0 * self.widths.sum())[:, None] ** 0.5
        self.sketch = self.blocks.put(self.axes @ whitened)
        self.usual_radius = float(np.median(host(self._radius(self.points)))) or 1.0
        values = []
        for self.tail in _TAILS:
            some = (scores * self._scale(self.points))[self.quick]
            values.append(fit_channel(some, self.labels[self.quick], "one", quick=True).value)
        self.tail = _TAILS[int(np.argmax(values))]
        return self._scale(self.points)

    def _radius(self, part: Array) -> Array:
        return (((part - self.middle) @ self.sketch) ** 2).mean(1)[:, None] ** 0.5

    def _scale(self, part: Array) -> Array:
        """Return what rows' scores are multiplied by: a power of their radius, in units of the usual one."""
        return (self._radius(part) / self.usual_radius).clip(0.1, 10.0) ** -self.tail if self.tail else 1.0

    def _refitted(self, channel: Channel) -> tuple[Array, Array]:
        """Return the class sums and counts of all chains after a round of EM: one pass over the rows."""
        sums, counts = self.xp.zeros_like(self.sums), self.xp.zeros_like(self.counts)
        wanted = [
            (chain, [f for f in _others(chain) if f != fold])
            for fold in range(_FOLDS)
            for chain in _others(fold)
        ]
        models = self._models(wanted, self.shrinkage)
        if self.blocks.with_workers:
            found = self.blocks.total(_Refit(self.apart(), *models, channel, counts.shape), self.places)
            return found[..., :-1], found[..., -1]
        self.refit(self.blocks, *models, channel, sums, counts)
        return sums, counts

    def refit(
        self, blocks: Any, slopes: Array, offsets: Array, channel: Channel, sums: Array, counts: Array
    ) -> None:
        """Add the posteriors of some blocks' rows, and these rows by them, to those of each chain, fold and class."""
        for part, labels, fold, _ in self._parts(blocks):
            # The models of the three chains that learn from this fold, side by side.
            own = slice(fold * (_FOLDS - 1), (fold + 1) * (_FOLDS - 1))
            scores = self._scored(part, slopes[own], offsets[own])
            posterior = channel.posterior(scores, labels)
            for number, chain in enumerate(_others(fold)):
                sums[chain, fold] += posterior[:, number].T @ part
                counts[chain, fold] += posterior[:, number].sum(0)

    def apart(self) -> _Chains:
        """Return what is needed to score rows, without what is known of all of them: what workers are sent."""
        found = copy(self)
        found.blocks = self.blocks.apart()
        for name in ("given", "fold", "places", "sums", "counts", "points", "labels", "sample_fold", "quick"):
            delattr(found, name)
        return found

    def told(self, places: Indices) -> _Chains:
        """Return the chains as a worker knows them that is told the places of some rows."""
        found = copy(self)
        found.fold = places // self.n_classes
        found.given = np.where(places >= 0, places % self.n_classes, -1)
        return found

    def _scored(self, part: Array, slopes: Array, offsets: Array) -> Array:
        """Return the scores of rows by several models, as (rows, models, classes)."""
        side = self.blocks.put(slopes.swapaxes(0, 1).reshape(part.shape[1], -1))
        scores = (part @ side).reshape(len(part), *offsets.shape) + self.blocks.put(offsets)
        return scores * self._scale(part)[..., None] if self.tail else scores

    def posteriors(self, channel: Channel) -> Iterator[tuple[Indices, Array, Array, Array, Array]]:
        """Yield row numbers, trust, likely class, its probability, and whether the features agree: one pass."""
        models = self._models([(fold, _others(fold)) for fold in range(_FOLDS)], self.shrinkage)
        if self.blocks.with_workers:
            found = self.blocks.scores(_Posteriors(self.apart(), *models, channel), self.places)
            judged = np.flatnonzero(self.places >= 0)
            trust, likely, certainty, agrees = found[judged].T
            yield judged, trust, likely.astype(np.int64), certainty, agrees > 0.0
            return
        yield from self.judged(self.blocks, *models, channel)

    def judged(
        self, blocks: Any, slopes: Array, offsets: Array, channel: Channel
    ) -> Iterator[tuple[Indices, Array, Array, Array, Array]]:
        """Yield what :meth:`posteriors` does, of some blocks."""
        for part, labels, fold, where in self._parts(blocks):
            scores = self._scored(part, slopes[fold : fold + 1], offsets[fold : fold + 1])[:, 0]
            classes, joint = channel.joint(scores, labels)
            posterior = joint / joint.sum(1)[:, None]
            trust = posterior[beside(labels, np.arange(len(where))), labels]
            yield where, trust, posterior.argmax(1), self.xp.amax(posterior, 1), classes.argmax(1) == labels

    def _parts(self, blocks: Any) -> Iterator[tuple[Array, Array, int, Indices]]:
        """Yield the judged rows of each block, fold by fold: rows, labels, fold, row numbers."""
        for where, block in blocks:
            for number in range(_FOLDS):
                mine = np.flatnonzero((self.fold[where] == number) & (self.given[where] >= 0))
                if len(mine):
                    labels = beside(block, self.given[where][mine])
                    yield block[beside(block, mine)], labels, number, where.start + mine


@dataclass(frozen=True)
class _Refit:
    """A round of EM on a worker's blocks: sums of rows and, last, counts."""

    chains: _Chains
    slopes: Array
    offsets: Array
    channel: Channel
    shape: tuple[int, ...]

    def __call__(self, block: Array, places: Indices) -> Array:
        chains, found = self.chains.told(places), np.zeros((*self.shape, block.shape[1] + 1))
        blocks = [(slice(0, len(block)), block)]
        chains.refit(blocks, self.slopes, self.offsets, self.channel, found[..., :-1], found[..., -1])
        return found


@dataclass(frozen=True)
class _Posteriors:
    """What is known of the labels of a worker's rows, 0 where they are not judged."""

    chains: _Chains
    slopes: Array
    offsets: Array
    channel: Channel

    def __call__(self, block: Array, places: Indices) -> Array:
        chains, found = self.chains.told(places), np.zeros((len(block), 4))
        blocks = [(slice(0, len(block)), block)]
        for where, *columns in chains.judged(blocks, self.slopes, self.offsets, self.channel):
            found[where] = np.stack(columns, axis=1)
        return found


def _others(number: int) -> list[int]:
    return [fold for fold in range(_FOLDS) if fold != number]


def _stratified(given: Indices, n_classes: int) -> Indices:
    """Return the fold of each row, the rows of each class in turn; -1 for rows without a class."""
    order = fixed_random("folds").permutation(len(given))
    order = order[np.argsort(given[order], kind="stable")]
    order = order[np.searchsorted(given[order], 0) :]
    firsts = np.concatenate([[0], np.cumsum(np.bincount(given[order], minlength=n_classes))[:-1]])
    fold = np.full(len(given), -1, dtype=np.int64)
    fold[order] = (np.arange(len(order)) - firsts[given[order]]) % _FOLDS
    return fold
