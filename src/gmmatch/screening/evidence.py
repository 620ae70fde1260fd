"""Evidence: what plain learners say about each row's class, without having seen the row.

Every learner is fitted without two of five folds, for each pair of folds. So there are predictions for a row by
models that have seen neither the row nor any one other fold, and labels can be drawn from these for a second fit
without a leak from the row's own label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask, Matrix, array_namespace, asarray_like
from gmmatch.duplicates.sketch import READ_NUMBERS
from gmmatch.preprocess import RobustScale
from gmmatch.rows.base import RowMap, Rows
from gmmatch.screening.learners import Learner, Values

Scores = NDArray[np.float32]
"""Log-probabilities of shape (learners, candidate classes, rows)."""

# Learners gain little from more rows, and their cost grows.
SAMPLE_ROWS = 20_000
# Embeddings have their signal in fewer directions; a covariance of more columns needs more rows than there are.
_MAX_COLUMNS = 256
# Ten pairs of folds: the fewest folds with which the models see more than half of the rows.
FOLDS = 5
# No model is surer than 99%: one wild log-probability must not decide alone.
FLOOR = 0.01
# Classes that a row is compared with: its own label and the likeliest others.
_N_CANDIDATES = 32


@dataclass(frozen=True, eq=False)
class Standardize(RobustScale):
    """Standardize rows, and project wide ones on principal components.

    Attributes
    ----------
    projection : array of shape (s, d), optional
    """

    projection: Matrix | None = None

    @classmethod
    def fit(cls, sample: Matrix) -> Self:
        """Measure the columns of a sample of the rows."""
        fitted = super().fit(sample)
        if sample.shape[1] <= _MAX_COLUMNS:
            return fitted
        return replace(fitted, projection=principal_components(fitted(sample), _MAX_COLUMNS))

    def __call__(self, block: Any) -> Any:
        """Return the new rows of a block, in float32."""
        xp, values = array_namespace(block), super().__call__(block)
        if self.projection is not None:
            values = xp.astype(values, xp.float32) @ asarray_like(self.projection, block)
        return xp.astype(values, xp.float32)


def read_rows(rows: Rows, row_map: RowMap, index: Indices) -> Values:
    """Return some rows after a map, read a few at a time: they take less memory than the rows."""
    size = max(1, READ_NUMBERS // rows.n_features)
    pieces = (index[first : first + size] for first in range(0, len(index), size))
    return np.concatenate([row_map(rows.take(piece)) for piece in pieces])


def principal_components(values: Matrix, count: int) -> Matrix:
    """Return directions of the largest variance, shape (s, count), from the smaller of the two products."""
    from scipy.linalg import eigh

    centered = np.asarray(values - values.mean(axis=0), dtype=np.float32)
    n, s = centered.shape
    size = min(n, s, count)
    gram = centered @ centered.T if n < s else centered.T @ centered
    values_, vectors = eigh(gram, subset_by_index=[min(n, s) - size, min(n, s) - 1])
    if n < s:
        vectors = centered.T @ vectors / np.sqrt(values_.clip(1e-6 * max(float(values_[-1]), 1e-30)))
    return np.asarray(vectors, dtype=np.float32)


def draw_sample(codes: Indices, random: np.random.Generator) -> Indices:
    """Return up to SAMPLE_ROWS labeled rows: half at random, half as evenly over the classes as can be."""
    labeled = np.flatnonzero(codes >= 0)
    if len(labeled) <= SAMPLE_ROWS:
        return labeled
    half, rest = np.split(random.permutation(labeled), [SAMPLE_ROWS // 2])
    rest = rest[np.argsort(codes[rest], kind="stable")]
    rank = np.arange(len(rest)) - np.searchsorted(codes[rest], codes[rest])
    return np.sort(np.concatenate([half, rest[np.argsort(rank, kind="stable")[: len(half)]]]))


def assign_folds(codes: Indices, random: np.random.Generator) -> Indices:
    """Return the fold of each row; every class is spread evenly over the folds."""
    order = random.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    folds = np.empty(len(codes), dtype=np.int64)
    folds[order] = np.arange(len(codes)) % FOLDS
    return folds


@dataclass(frozen=True, eq=False)
class Labels:
    """Given labels, and the classes that each row is compared with.

    Attributes
    ----------
    given : int64 array of shape (n,)
    n_classes : int
    candidates : int32 array of shape (C, n)
        The given label first, then the likeliest others, then ``n_classes`` for all the rest together, if there are
        any.
    unlikely : boolean array of shape (n,)
        Where the given label would be among the rest if it were not given.
    """

    given: Indices
    n_classes: int
    candidates: NDArray[np.int32]
    unlikely: Mask

    @classmethod
    def of(cls, given: Indices, scores: NDArray[Any]) -> Labels:
        """Choose the likeliest classes by scores of shape (K, n)."""
        n_classes, n = scores.shape
        size = min(_N_CANDIDATES, n_classes)
        top = np.argpartition(-scores.T, size - 1, axis=1)[:, :size].T.astype(np.int32)
        is_given = top == given
        unlikely = ~is_given.any(axis=0)
        # The given label takes the first position, in exchange for the class that is there, or in place of the least
        # likely one.
        likelihood = np.take_along_axis(scores, top, axis=0)
        position = np.where(unlikely, likelihood.argmin(axis=0), is_given.argmax(axis=0))
        top[position, np.arange(n)] = top[0]
        top[0] = given
        rest = np.full((1, n), n_classes, dtype=np.int32)
        return cls(given, n_classes, np.concatenate([top, rest]), unlikely)

    def __len__(self) -> int:
        return len(self.given)

    @property
    def n_rest(self) -> int:
        """How many classes a row is not compared with one by one."""
        return self.n_classes - len(self.candidates) + 1

    def take(self, rows: Any) -> Labels:
        """Return the labels of some rows."""
        candidates = np.ascontiguousarray(self.candidates[:, rows])
        return Labels(self.given[rows], self.n_classes, candidates, self.unlikely[rows])

    def select(self, log_p: NDArray[Any]) -> NDArray[Any]:
        """Return log-probabilities of shape (K, n) for the candidates; for the rest, that of one class of them."""
        likely = np.take_along_axis(log_p, self.candidates[:-1], axis=0)
        rest = (1.0 - np.exp(likely).sum(axis=0)) / max(1, self.n_rest)
        return np.concatenate([likely, np.log(rest.clip(FLOOR / self.n_classes))[None]])

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of values of shape (C, n) for each class, shape (K,)."""
        return np.bincount(self.candidates.ravel(), values.ravel(), self.n_classes + 1)[:-1]

    def count_pairs(self, posterior: NDArray[Any]) -> Matrix:
        """Return the expected counts of each pair (true, given), shape (K, K), from p(z | x, y) of shape (C, n)."""
        cells = self.candidates[:-1].astype(np.int64) * self.n_classes + self.given
        counts = np.bincount(cells.ravel(), posterior[:-1].ravel(), self.n_classes**2)
        return counts.reshape(self.n_classes, self.n_classes).astype(np.float64)

    def classes_at(self, position: Indices) -> Indices:
        """Return the class of a candidate of each row; the given one for the rest."""
        classes = self.candidates[position, np.arange(len(self))]
        return np.where(classes < self.n_classes, classes, self.given)


class Evidence:
    """Log-probabilities of the candidate classes of sampled rows, by models that have not seen them.

    Parameters
    ----------
    learners : list of Learner
        They share their folds.
    given : int64 array of shape (m,)
        The labels of the rows of the learners.

    Attributes
    ----------
    labels : Labels
    without_fold : float32 array of shape (FOLDS, M, C, m)
        By models that have seen neither this fold nor the row's own; 0 for the rows of the fold.
    """

    def __init__(self, learners: Sequence[Learner], given: Indices) -> None:
        self.learners, self.folds = learners, learners[0].folds
        coarse = np.zeros((learners[0].n_classes, len(given)), dtype=np.float32)
        for fold in range(FOLDS):
            rows = np.flatnonzero(self.folds == fold)
            coarse[:, rows] = learners[0].predict(given, (fold,), rows)
        self.labels = Labels.of(given, coarse)
        shape = (FOLDS, len(learners), *self.labels.candidates.shape)
        self.without_fold = np.zeros(shape, dtype=np.float32)
        for pair in combinations(range(FOLDS), 2):
            rows = np.flatnonzero(np.isin(self.folds, pair))
            predicted, row_folds = self._predict(given, pair, rows), self.folds[rows]
            for unseen, other in (pair, pair[::-1]):
                self.without_fold[unseen][..., rows[row_folds == other]] = predicted[..., row_folds == other]

    @property
    def scores(self) -> Scores:
        """The mean over the models that have not seen a row, shape (M, C, m)."""
        return np.asarray(self.without_fold.sum(axis=0) / np.float32(FOLDS - 1))

    def refit(self, labels_of_fold: Sequence[Indices]) -> Scores:
        """Return log-probabilities by models fitted to other labels: for each fold, labels that it had no part in."""
        scores = np.zeros(self.without_fold.shape[1:], dtype=np.float32)
        for fold, labels in enumerate(labels_of_fold):
            rows = np.flatnonzero(self.folds == fold)
            scores[..., rows] = self._predict(labels, (fold,), rows)
        return scores

    def _predict(self, labels: Indices, excluded: tuple[int, ...], rows: Indices) -> Scores:
        """Fit every learner without some folds; return log-probabilities of the candidates of some rows."""
        candidates = self.labels.take(rows)
        predictions = (learner.predict(labels, excluded, rows) for learner in self.learners)
        return np.stack([candidates.select(soften(log_p)) for log_p in predictions])


def soften(log_p: NDArray[Any]) -> NDArray[np.float32]:
    """Return log-probabilities, shape (K, n), that are bounded from below."""
    return np.asarray(np.log((1.0 - FLOOR) * np.exp(log_p) + FLOOR / len(log_p)), dtype=np.float32)
