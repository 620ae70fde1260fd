"""A mixture of the classes and of one group of no class, fitted from many starts at once.

    p(x, y) = (1 - e) sum_z pi_z N(x; mu_z, W) T[z, y]  +  e N(x; m, V) p_y

The classes share the scatter W. The group has a mean and a scatter of its own, and labels as in the whole, which
say nothing about it. T lets a few labels be wrong: a mislabeled row belongs to a class. Without labels there is one
class. All starts take their steps of EM together, as products of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix, Vector

Stack = NDArray[np.float64]

# Labels that may be wrong, so that mislabeled rows make no group.
_WRONG_LABELS = 0.05
# Bins between the medians of two sides, and as many beyond: fewer hide a valley, more make some by chance.
_BINS = 10


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Parameters of M mixtures of K classes in r dimensions.

    Attributes
    ----------
    share : array of shape (M,)
        Of the group.
    class_shares : array of shape (M, K)
    means : array of shape (M, K, r)
    precision : array of shape (M, r, r)
        Inverse of the scatter within classes.
    volume : array of shape (M,)
        Half the log-determinant of that scatter.
    group_mean, group_precision, group_volume : arrays of shape (M, r), (M, r, r) and (M,)
    """

    share: Vector
    class_shares: Matrix
    means: Stack
    precision: Stack
    volume: Vector
    group_mean: Matrix
    group_precision: Stack
    group_volume: Vector


class Points:
    """Rows in few dimensions with their labels, and what every step of EM needs of them.

    Parameters
    ----------
    values : array of shape (n, r)
    codes : int64 array of shape (n,)
        The class of each row, -1 for rows without a label.
    label_shares : array of shape (K,)
        The share of each label; of length 1 without labels.
    """

    def __init__(self, values: Matrix, codes: Indices, label_shares: Vector) -> None:
        self.values, self._index = values, np.triu_indices(values.shape[1])
        self._products = values[:, self._index[0]] * values[:, self._index[1]]
        n_classes, given = len(label_shares), codes >= 0
        self._log_label, self._log_channel = np.zeros(len(codes)), np.zeros((len(codes), n_classes))
        if n_classes > 1:
            self._log_label[given] = np.log(label_shares[codes[given]] + 1e-12)
            self._log_channel[given] = np.log(_WRONG_LABELS / (n_classes - 1))
            self._log_channel[given, codes[given]] = np.log1p(-_WRONG_LABELS)

    def __len__(self) -> int:
        return len(self.values)

    def given_classes(self) -> Stack:
        """Return how far each row belongs to each class by its label alone, shape (1, n, K)."""
        classes: Stack = np.exp(self._log_channel)[None]
        classes /= classes.sum(axis=2, keepdims=True)
        return classes

    def fit(self, group: Matrix, classes: Stack, steps: int) -> tuple[Matrix, Stack, Stack]:
        """Take steps of EM from how far rows belong to the group (M, n) and to each class (M or 1, n, K).

        Returns
        -------
        group, classes : arrays of shape (M, n) and (M, n, K)
            The same afterwards.
        columns : array of shape (M, 3, n)
            As in :meth:`columns`.
        """
        for _ in range(steps):
            columns, classes = self.columns(self.maximize(group, classes))
            group = 1.0 / (1.0 + np.exp(-np.clip(columns[:, 0], -50.0, 50.0)))
        return group, classes, columns

    def maximize(self, group: Matrix, classes: Stack, folds: Indices | None = None) -> Mixtures:
        """Return the likeliest parameters; with the ``folds`` of the rows, those of one start without each fold."""
        group = np.clip(group, 1e-6, 1.0 - 1e-6)
        rest = 1.0 - group
        if folds is not None:
            kept = folds != np.arange(folds.max() + 1)[:, None]
            group, rest = group * kept, rest * kept
        counts = np.matmul(rest[:, None], classes)[:, 0] + 1e-9
        means = np.matmul((classes * rest[:, :, None]).swapaxes(1, 2), self.values) / counts[:, :, None]
        precision, volume = self._invert(rest, np.matmul(means.swapaxes(1, 2) * counts[:, None], means))
        size = group.sum(axis=1) + 1e-9
        mean = group @ self.values / size[:, None]
        outer = size[:, None, None] * mean[:, :, None] * mean[:, None]
        return Mixtures(
            size / (size + counts.sum(axis=1)), counts / counts.sum(axis=1, keepdims=True), means, precision, volume,
            mean, *self._invert(group, outer),
        )  # fmt: skip

    def _invert(self, weights: Matrix, explained: Stack) -> tuple[Stack, Vector]:
        """Return the inverse of the scatter that means do not explain, and half its log-determinant.

        As many rows as there are dimensions are added, scattered as its own diagonal is: few rows in many
        dimensions would else leave directions without scatter.
        """
        r, (first, second) = self.values.shape[1], self._index
        scatter = np.empty_like(explained)
        scatter[:, first, second] = scatter[:, second, first] = weights @ self._products
        scatter -= explained
        total, diagonal = weights.sum(axis=1)[:, None] + 1e-9, np.arange(r)
        scatter[:, diagonal, diagonal] = scatter[:, diagonal, diagonal].clip(0.0) * (1.0 + r / total)
        scatter /= total[:, :, None] + r
        scatter[:, diagonal, diagonal] += 1e-7
        inverse: Stack = np.linalg.inv(scatter).astype(np.float64, copy=False)
        return inverse, 0.5 * np.linalg.slogdet(scatter)[1]

    def columns(self, mixtures: Mixtures) -> tuple[Stack, Stack]:
        """Return what each row looks like to each mixture.

        Returns
        -------
        columns : array of shape (M, 3, n)
            Log odds of the group, log squared distance from the nearest class, minus that from the group.
        classes : array of shape (M, n, K)
            How far the row belongs to each class, if not to the group.
        """
        squares = self.squares(mixtures.precision, mixtures.means)
        joint = self._log_channel - 0.5 * squares + np.log(mixtures.class_shares)[:, None]
        top = joint.max(axis=2, keepdims=True)
        classes = np.exp(joint - top)
        sums = classes.sum(axis=2, keepdims=True)
        from_group = self.squares(mixtures.group_precision, mixtures.group_mean[:, None])[:, :, 0]
        prior = np.log(mixtures.share) - np.log1p(-mixtures.share) + mixtures.volume - mixtures.group_volume
        odds = prior[:, None] - 0.5 * from_group + self._log_label - (top + np.log(sums))[:, :, 0]
        return np.stack([odds, np.log(squares.min(axis=2)), -np.log(from_group)], axis=1), classes / sums

    def log_density(self, mixtures: Mixtures) -> Matrix:
        """Return the log density of each row without its label, but for a constant, if there is one class, (M, n)."""
        odds, squares, _ = self.columns(mixtures)[0].swapaxes(0, 1)
        classes = np.log1p(-mixtures.share) - mixtures.volume
        density: Matrix = classes[:, None] - 0.5 * np.exp(squares) + np.logaddexp(0.0, odds)
        return density

    def squares(self, precision: Stack, means: Stack) -> Stack:
        """Return squared distances from each mean, shape (M, n, K)."""
        first, second = self._index
        packed = precision[:, first, second] * np.where(first == second, 1.0, 2.0)
        slopes = np.matmul(means, precision)
        squares: Stack = (packed @ self._products.T)[:, :, None] + (slopes * means).sum(axis=2)[:, None]
        squares = squares - 2.0 * np.matmul(self.values, slopes.swapaxes(1, 2))
        return squares.clip(1e-9)


def find_valley(values: Vector, inside: NDArray[np.bool_], *, both: bool = False) -> tuple[float, float]:
    """Return how empty the deepest valley of a density is between two sides, and where it lies.

    Parameters
    ----------
    values : array of shape (n,)
    inside : boolean array of shape (n,)
        The side with the larger values.
    both : bool
        Whether the valley must be one seen from both sides; else it is compared with the fullest bin of the inside.

    Returns
    -------
    depth : float
        Rows in the emptiest bin, and one standard error, as a share of the fullest bin; 1 or more without a valley.
    cut : float

    Examples
    --------
    >>> values = np.r_[np.linspace(0, 1, 100), np.linspace(3, 4, 50)]
    >>> depth, cut = find_valley(values, values > 2)
    >>> depth < 0.1 and 1 < cut < 3
    True
    """
    if not 0 < inside.sum() < len(inside):
        return 1.0, 0.0
    low, high = np.median(values[~inside]), np.median(values[inside])
    width = (high - low) / _BINS
    if not width > 1e-9 * max(abs(low), abs(high)):
        return 1.0, 0.0
    edges = low + width * np.arange(-_BINS, 2 * _BINS + 1)
    counts = np.histogram(values, edges)[0].astype(np.float64)
    between = np.arange(_BINS + 1, 2 * _BINS)
    peak = np.maximum.accumulate(counts[::-1])[::-1][between + 1]
    if both:
        peak = np.minimum(peak, np.maximum.accumulate(counts)[between - 1])
    depth = (counts[between] + np.sqrt(counts[between]) + 1.0) / np.maximum(peak, 1.0)
    deepest = between[depth <= depth.min() + 1e-9]
    return float(depth.min()), float(edges[deepest[len(deepest) // 2]] + 0.5 * width)
