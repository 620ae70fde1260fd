"""A mixture of the classes and of one group of no class.

    p(x, y) = (1 - e) sum_z pi_z N(x; mu_z, W) T[z, y]  +  e N(x; m, V) p_y

The classes share the scatter W. The group has a mean and a scatter of its own, and labels as in the whole, which
say nothing about it. T lets a few labels be wrong: a mislabeled row belongs to a class. Without labels there is one
class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask, Matrix, Vector

# Labels that may be wrong, so that mislabeled rows make no group.
_WRONG_LABELS = 0.05
# Bins between the medians of two sides, and as many beyond: fewer hide a valley, more make some by chance.
_BINS = 10


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows in few dimensions, with their labels.

    Attributes
    ----------
    values : array of shape (n, r)
    codes : int64 array of shape (n,)
        The class of each row, -1 for rows without a label.
    shares : array of shape (K,)
        The share of each label; of length 1 without labels.
    """

    values: Matrix
    codes: Indices
    shares: Vector

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, kept: Mask) -> Sample:
        return replace(self, values=self.values[kept], codes=self.codes[kept])

    def channel(self) -> tuple[Matrix, Vector]:
        """Return log T[z, y] of each class z and log p_y of each row's label y; 0 for rows without one."""
        n_classes, given = len(self.shares), np.flatnonzero(self.codes >= 0)
        log_channel, log_label = np.zeros((len(self), n_classes)), np.zeros(len(self))
        if n_classes > 1:
            log_channel[given] = np.log(_WRONG_LABELS / (n_classes - 1))
            log_channel[given, self.codes[given]] = np.log1p(-_WRONG_LABELS)
            log_label[given] = np.log(self.shares[self.codes[given]] + 1e-12)
        return log_channel, log_label


class Mixture:
    """The likeliest parameters.

    Parameters
    ----------
    sample : Sample
    group : array of shape (n,)
        How far each row belongs to the group.
    classes : array of shape (n, K)
        How far it belongs to each class, if not to the group.
    """

    def __init__(self, sample: Sample, group: Vector, classes: Matrix) -> None:
        group = np.clip(group, 1e-6, 1.0 - 1e-6)
        self.log_odds = float(np.log(group.sum() / (1.0 - group).sum()))
        self.classes = _Normal(sample.values, classes * (1.0 - group)[:, None])
        self.group = _Normal(sample.values, group[:, None])

    def judge(self, sample: Sample) -> tuple[Matrix, Matrix, Vector]:
        """Return what rows look like.

        Returns
        -------
        columns : array of shape (3, n)
            Log odds of the group, log squared distance from the nearest class, minus that from the group.
        classes : array of shape (n, K)
            How far each row belongs to each class, if not to the group.
        density : array of shape (n,)
            The log density, but for a constant.
        """
        log_channel, log_label = sample.channel()
        squares, from_group = self.classes.squares(sample.values), self.group.squares(sample.values)[:, 0]
        joint = log_channel + np.log(self.classes.shares) - 0.5 * squares
        top = joint.max(axis=1, keepdims=True)
        classes = np.exp(joint - top)
        total = classes.sum(axis=1, keepdims=True)
        known = (top + np.log(total))[:, 0] - self.classes.volume
        odds = self.log_odds - 0.5 * from_group - self.group.volume + log_label - known
        columns = np.stack([odds, np.log(squares.min(axis=1)), -np.log(from_group)])
        density = known - np.logaddexp(0.0, self.log_odds) + np.logaddexp(0.0, odds)
        return columns, classes / total, density


class _Normal:
    """Normal laws with one scatter, from weights of rows, shape (n, K)."""

    def __init__(self, values: Matrix, weights: Matrix) -> None:
        counts, r = weights.sum(axis=0) + 1e-9, values.shape[1]
        self.shares, self.means = counts / counts.sum(), weights.T @ values / counts[:, None]
        scatter = (values.T * weights.sum(axis=1)) @ values - (self.means.T * counts) @ self.means
        # As many rows as there are dimensions are added, scattered as its own diagonal is: few rows in many
        # dimensions would else leave directions without scatter.
        diagonal = np.diag(scatter).clip(0.0)
        np.fill_diagonal(scatter, diagonal * (1.0 + r / counts.sum()))
        scatter = scatter / (counts.sum() + r) + 1e-7 * np.eye(r)
        self.root = np.linalg.inv(np.linalg.cholesky(scatter)).T
        self.volume = -float(np.log(np.diag(self.root)).sum())

    def squares(self, values: Matrix) -> Matrix:
        """Return squared distances from each mean, shape (n, K)."""
        white, means = values @ self.root, self.means @ self.root
        squares = (white**2).sum(axis=1)[:, None] - 2.0 * white @ means.T + (means**2).sum(axis=1)
        return np.asarray(squares.clip(1e-9))


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
