"""Label noise: how far each given label can be trusted.

The evidence is a Gaussian discriminant with one shared, shrunk scatter: of the linear models it is the one that noise
harms least. Where classes are rings, or of several kinds, it is one of waves (random Fourier features). A row's
scores come from class means of the three folds that it is not in. A noise channel
(:mod:`gmmatch.screening.channel`) turns scores and labels into posteriors.

Two passes over the rows: class sums, and the posteriors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gmmatch.kernels.feature_maps import FourierFeatures
from gmmatch.kernels.kernels import RBF
from gmmatch.screening.blocks import (
    FEWEST,
    SAMPLE,
    Array,
    Blocks,
    Spectrum,
    beside,
    definite,
    fixed_random,
    host,
    single,
    spread,
)
from gmmatch.screening.channel import ERRORS, Channel, begun, best_channel, fit_channel
from gmmatch.types import Indices, Vector, namespace

# Class means come from three quarters of the rows.
_FOLDS = 4
# Of the scatter towards a sphere, and of the scores by a power of the row's radius (0 for Gaussian classes, 2 for
# heavy tails): the likelihood of held-out labels chooses.
_SHRINKAGES, _TAILS = (0.01, 0.1, 0.5), (0.0, 1.0, 2.0)
# Random directions that tell the radius to 9%.
_SKETCH = 64
# Rows that tell a shrinkage, or a channel of a thousand classes.
_FEW = 4_000
# Their phases are random: so many tell the kernel exp(−d²/2), of distances in units of the usual one, to 4%.
_WAVES = 256


@dataclass(frozen=True)
class LabelNoise:
    """What is known of the labels.

    Attributes
    ----------
    trust : float64 array of shape (n,)
        The probability that the given label is the true class.
    likely, likely_probability : int64 and float64 arrays of shape (n,)
        The most probable true class, and its probability.
    rate : float
        The expected share of mislabeled rows.
    form : str
        Of the channel.
    curved : bool
        Whether waves part the classes better than lines do.
    unpredicted : float
        The share of labels that models of other rows do not predict; 1 is that of a guess.
    """

    trust: Vector
    likely: Indices
    likely_probability: Vector
    rate: float = 0.0
    form: str = "none"
    curved: bool = False
    unpredicted: float = 0.0


def label_noise(
    blocks: Blocks, codes: Indices, n_classes: int, tolerance: float, spectrum: Spectrum | None = None
) -> LabelNoise:
    """Return how far labels can be trusted.

    Parameters
    ----------
    blocks : Blocks
    codes : int64 array of shape (n,)
        Given classes, below 0 for rows that are not judged.
    n_classes : int
    tolerance : float
        If more rows than this share are mislabeled whatever they look like, others are taken to be mislabeled
        because of what they look like.
    spectrum : Spectrum, optional
        The scatter of the rows, where it is known.

    Examples
    --------
    >>> from gmmatch.rows.rows import Rows
    >>> random = np.random.default_rng(0)
    >>> true = random.integers(3, size=900)
    >>> X = 4.0 * np.eye(3)[true] + random.standard_normal((900, 3))
    >>> given = np.where(np.arange(900) < 200, (true + 1) % 3, true)
    >>> found = label_noise(Blocks(Rows(X)), given, 3, 0.02)
    >>> round(found.rate, 1), float(np.mean(found.likely == true)) > 0.95
    (0.2, True)
    """
    n = len(codes)
    sizes = np.bincount(codes[codes >= 0], minlength=n_classes)
    # Only classes that are judged have a column.
    columns = np.flatnonzero(sizes >= FEWEST)
    if len(columns) < 2:
        return LabelNoise(np.ones(n), codes.copy(), np.ones(n))
    judged = np.flatnonzero((codes >= 0) & (sizes[codes] >= FEWEST))
    given = np.full(n, -1, dtype=np.int64)
    given[judged] = np.searchsorted(columns, codes[judged])
    evidence = _Evidence(spectrum or blocks.spectrum(judged), given, len(columns))
    waves, gain = evidence.waves(given)
    if gain > ERRORS:
        evidence = _Evidence(evidence.blocks.waved(waves).spectrum(judged), given, len(columns))
    channel, unpredicted = evidence.fitted_channel(tolerance)
    found = LabelNoise(np.ones(n), codes.copy(), np.ones(n), curved=gain > 0.0, unpredicted=unpredicted)
    if channel.form == "none":
        return found
    trust, likely, certainty = evidence.posteriors(channel)[judged].T
    found.trust[judged], found.likely_probability[judged] = trust, certainty
    found.likely[judged] = columns[likely.astype(np.int64)]
    return replace(found, rate=float(1.0 - trust.mean()), form=channel.form)


class _Evidence:
    """The discriminants of all folds, from sums over rows, and the scores of a sample.

    ``told`` says how well each of a few labels is explained with the shrinkage that does it best.
    """

    def __init__(self, spectrum: Spectrum, given: Indices, n_classes: int) -> None:
        # The scatter of all rows knows no labels, so that one serves all models.
        blocks, self.widths, self.axes = spectrum
        self.blocks, self.n_classes = blocks, n_classes
        fold = _stratified(given, n_classes)
        self.places = np.where(given >= 0, fold * n_classes + given, -1)
        sums = blocks.class_sums(self.places, _FOLDS * n_classes)
        counts = np.bincount(self.places[given >= 0], minlength=len(sums)).astype(np.float64)
        self.sums = sums.reshape(_FOLDS, n_classes, -1)
        self.counts = beside(sums, counts).reshape(_FOLDS, n_classes)
        judged = np.flatnonzero(given >= 0)
        self.sample = judged[spread(len(judged), max(_FEW, min(2 * SAMPLE, 1000 * _FEW // n_classes)))]
        self.points, self.labels = blocks.take(self.sample), beside(sums, given[self.sample])
        self.sample_fold = beside(sums, fold[self.sample])
        self.few = fixed_random("few").permutation(len(self.sample))[:_FEW]
        tried = {shrinkage: self._value(self._scores(self.few, shrinkage)) for shrinkage in _SHRINKAGES}
        self.shrinkage = max(tried, key=lambda shrinkage: float(tried[shrinkage].sum()))
        self.told = host(tried[self.shrinkage])
        self.tail = _Tail(self.axes, self.points.mean(0))

    def waves(self, given: Indices) -> tuple[FourierFeatures, float]:
        """Return waves, and by how many standard errors they explain a few labels better, if fitted to those alone.

        Classes may be rings, or have several kinds each: no line parts those, but waves do.
        """
        random, some = fixed_random("waves"), self.sample[self.few]
        points, order = host(self.points)[self.few], np.arange(len(some))
        usual = float(np.median(np.linalg.norm(points - points[random.permutation(order)], axis=1))) or 1.0
        waves = FourierFeatures(RBF(usual), 2 * _WAVES, random).fit(points)
        waved = self.blocks.sample(some).waved(waves)
        other = _Evidence(waved.spectrum(order), given[some], self.n_classes)
        gain = other.told[np.argsort(other.few)] - self.told
        return waves, float(gain.mean() / (gain.std() + 1e-12)) * len(gain) ** 0.5

    def fitted_channel(self, tolerance: float) -> tuple[Channel, float]:
        """Return the channel, and the share of labels that the scores miss; the tail predicts a few labels best."""
        scores, points = self._scores(self.few, self.shrinkage), self.points[beside(self.sums, self.few)]
        self.tail = max(
            self._tails(points), key=lambda tail: float(self._value(tail.scaled(scores, points)).sum())
        )
        every = np.arange(len(self.points))
        scores = self.tail.scaled(self._scores(every, self.shrinkage), self.points)
        missed = float(single(scores.argmax(1) != self.labels).mean())
        channel = best_channel(scores, self.labels, tolerance, len(self.widths))
        return channel, missed / (1.0 - 1.0 / self.n_classes)

    def _models(self, shrinkage: float) -> tuple[Array, Array]:
        """Return slopes and offsets of each fold's discriminant, from the rows of the other folds.

        The scatter within classes is that of all rows less that of the class means: with D = (1 − γ) S + γ σ² and the
        centered means M, slopes solve (D − Mᵀ B M) W = Mᵀ, so W = D⁻¹Mᵀ (I − B M D⁻¹Mᵀ)⁻¹.
        """
        xp, eye = namespace(self.sums), beside(self.sums, np.eye(self.n_classes))
        sums, counts = self.sums.sum(0) - self.sums, self.counts.sum(0) - self.counts
        total = counts.sum(1)[:, None].clip(1e-6)
        grand, shares = sums.sum(1) / total, counts / total
        means = (sums / counts.clip(1e-6)[..., None] - grand[:, None]) * (counts > 0.5)[..., None]
        between = (shares * (means**2).sum(2)).sum(1)
        turned = means @ self.axes
        whitened = turned / self._shrunk(shrinkage, between)[:, None]
        inner = (1.0 - shrinkage) * shares[..., None] * (turned @ whitened.swapaxes(1, 2))
        # Where classes lie far apart, means of other folds can explain more than the scatter of all rows has. What is
        # left is known to about a standard error.
        roots, most = shares[..., None] ** 0.5, 1.0 - total**-0.5
        explained = inner * roots.swapaxes(1, 2) / (roots + 1e-12)
        if not definite(most[..., None] * eye - explained):
            inner = inner / (xp.linalg.eigvalsh(explained)[:, -1:] / most).clip(1.0)[..., None]
        slopes = xp.linalg.solve((eye - inner).swapaxes(1, 2), whitened) @ self.axes.T
        offsets = -0.5 * (means * slopes).sum(2) - (slopes * grand[:, None]).sum(2)
        offsets = xp.where(counts > 0.5, offsets, -1e4)
        return self.blocks.put(slopes.swapaxes(1, 2)), self.blocks.put(offsets)

    def _shrunk(self, shrinkage: float, between: Array) -> Array:
        """Return the widths of the scatter of all rows, shrunk as the one within classes is to be."""
        total, count = self.widths.sum(), len(self.widths)
        sphere = (total - between).clip(1e-6 * float(total)) / count
        floor = 1e-6 * total / count + 1e-20
        return (1.0 - shrinkage) * self.widths + (shrinkage * sphere)[..., None] + floor

    def _scores(self, some: Indices, shrinkage: float) -> Array:
        """Return scores of some rows of the sample, by models of the other folds."""
        slopes, offsets = self._models(shrinkage)
        where = beside(self.sums, some)
        points, fold = self.points[where], self.sample_fold[where]
        scores = self.blocks.put(np.empty((len(points), self.n_classes), dtype=np.float32))
        for number in range(_FOLDS):
            mine = fold == number
            scores[mine] = points[mine] @ slopes[number] + offsets[number]
        return scores

    def _value(self, scores: Array) -> Array:
        """Return how well scores explain a few labels, in a few steps."""
        labels = self.labels[beside(self.sums, self.few)]
        channel = fit_channel(scores, labels, begun("one", scores), quick=True)
        return namespace(scores).log(channel.joint(scores, labels)[1].sum(1))

    def _tails(self, points: Array) -> list[_Tail]:
        """Return tails to choose from, with the radius that is usual among some rows."""
        random = beside(self.axes, fixed_random("sketch").standard_normal((len(self.widths), _SKETCH)))
        whitened = random / self._shrunk(self.shrinkage, 0.0 * self.widths.sum())[:, None] ** 0.5
        plain = _Tail(self.blocks.put(self.axes @ whitened), self.tail.middle)
        usual = float(np.median(host(plain.radius(points)))) or 1.0
        return [_Tail(plain.sketch, plain.middle, usual, power) for power in _TAILS]

    def posteriors(self, channel: Channel) -> Array:
        """Return trust, likely class and its probability of every row: one pass."""
        found = _Posteriors(self.n_classes, *self._models(self.shrinkage), self.tail, channel)
        return self.blocks.scores(found, self.places)


@dataclass(frozen=True)
class _Tail:
    """What scores are multiplied by: a power of the row's radius, in units of the usual one."""

    sketch: Array
    middle: Array
    usual: float = 1.0
    power: float = 0.0

    def radius(self, part: Array) -> Array:
        return (((part - self.middle) @ self.sketch) ** 2).mean(1)[:, None] ** 0.5

    def scaled(self, scores: Array, part: Array) -> Array:
        if not self.power:
            return scores
        return scores * (self.radius(part) / self.usual).clip(0.1, 10.0) ** -self.power


@dataclass(frozen=True)
class _Posteriors:
    """Trust, likely class and its probability of a block's rows by the models of their folds, 0 if not judged."""

    n_classes: int
    slopes: Array
    offsets: Array
    tail: _Tail
    channel: Channel

    def __call__(self, block: Array, places: Array) -> Array:
        xp = namespace(block)
        found = xp.zeros_like(block[:, :1]) + beside(block, np.zeros(3, dtype=np.float32))
        for fold in range(_FOLDS):
            mine = xp.where((places >= 0) & (places // self.n_classes == fold))[0]
            part, labels = block[mine], places[mine] % self.n_classes
            scores = self.tail.scaled(part @ self.slopes[fold] + self.offsets[fold], part)
            posterior = self.channel.posterior(scores, labels)
            trust = posterior[beside(labels, np.arange(len(labels))), labels]
            found[mine] = xp.stack([trust, single(posterior.argmax(1)), xp.amax(posterior, 1)], 1)
        return found


def _stratified(given: Indices, n_classes: int) -> Indices:
    """Return the fold of each row, the rows of each class in turn; -1 for rows without a class."""
    order = fixed_random("folds").permutation(len(given))
    order = order[np.argsort(given[order], kind="stable")]
    order = order[np.searchsorted(given[order], 0) :]
    firsts = np.concatenate([[0], np.cumsum(np.bincount(given[order], minlength=n_classes))[:-1]])
    fold = np.full(len(given), -1, dtype=np.int64)
    fold[order] = (np.arange(len(order)) - firsts[given[order]]) % _FOLDS
    return fold
