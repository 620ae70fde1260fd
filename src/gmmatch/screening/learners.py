"""Plain learners: discriminant analysis, regression, neighbors, and trees for tables.

A learner holds the sample. It is fitted to any labels and without any folds, so what depends on neither (neighbors,
sums of products) is computed once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix
from gmmatch._threads import cached_property

Values: TypeAlias = NDArray[np.float32]

Model: TypeAlias = Callable[[Any], Values]
"""From what its learner prepares of rows to log-probabilities, shape (K, rows)."""

# Correlations within classes are taken at 90%: they are estimated from few rows.
_SHRINKAGE = 0.1
# Steps of the regression from zero, preconditioned: more change nothing that counts.
_REGRESSION_STEPS = 15
# Rows that neighbors are searched among.
_N_REFERENCE = 5_000
# Regression on more rows x columns x classes costs more than all else; discriminant analysis then stands in for it.
_REGRESSION_SIZE = 2 * 10**8
# Trees help where columns mean something by themselves, as in tables.
_TREE_COLUMNS, _N_TREES = 100, 10


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Log-probabilities of classes: log softmax(W x + b), with W of shape (K, d)."""

    coefficients: Values
    intercept: Values

    def __call__(self, features: Values) -> Values:
        """Return log-probabilities of shape (K, rows)."""
        return log_softmax(self.coefficients @ features.T + self.intercept[:, None])


class Learner(ABC):
    """A way to predict classes from rows.

    Attributes
    ----------
    features : float32 array of shape (m, d)
        The sample.
    folds : int64 array of shape (m,)
    """

    def __init__(self, values: Values, folds: Indices, n_classes: int) -> None:
        self.features, self.folds, self.n_classes = values, folds, n_classes

    @cached_property
    def products(self) -> NDArray[np.float64]:
        """Sums of products of features with a constant column, for each fold: shape (folds, d + 1, d + 1)."""
        runs = [
            _with_constant(self.features[self.folds == fold]) for fold in range(int(self.folds.max()) + 1)
        ]
        return np.stack([(run.T @ run).astype(np.float64) for run in runs])

    def prepare(self, values: Values) -> Any:
        """Return what models take of rows: what does not depend on labels is computed once."""
        return values

    @abstractmethod
    def fit(self, labels: Indices, excluded: tuple[int, ...] = ()) -> Model:
        """Return a function from prepared rows to log-probabilities of shape (K, rows), fitted without some folds."""

    def predict(self, labels: Indices, excluded: tuple[int, ...], rows: Indices) -> Values:
        """Return log-probabilities of rows of the sample by a model fitted without some folds."""
        return self.fit(labels, excluded)(self.features[rows])


class Regression(Learner):
    """Multinomial regression with a penalty."""

    def fit(self, labels: Indices, excluded: tuple[int, ...] = ()) -> LinearModel:
        """Minimize the penalized loss by L-BFGS, preconditioned by the bound on its Hessian."""
        from scipy.optimize import minimize

        train = ~np.isin(self.folds, excluded)
        features, labels = _with_constant(self.features[train]), labels[train]
        n, d = features.shape
        # Embeddings have more columns, and each says less.
        penalty = np.full(d, 100.0 if d > _TREE_COLUMNS else 1 / 0.3)
        penalty[-1] = 1e-3
        hessian = 0.25 * np.delete(self.products, excluded, axis=0).sum(axis=0) + np.diag(penalty)
        scaling = np.linalg.inv(np.linalg.cholesky(hessian)).T.astype(np.float32)
        inputs, ridge = features @ scaling, (scaling.T * penalty.astype(np.float32)) @ scaling
        given_cells = labels, np.arange(n)

        def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            weights = flat.reshape(-1, d).astype(np.float32)
            log_p = log_softmax(weights @ inputs.T)
            value = -float(log_p[given_cells].sum(dtype=np.float64))
            residual = np.exp(log_p)
            residual[given_cells] -= 1.0
            pull = weights @ ridge
            gradient = residual @ inputs + pull
            return value + 0.5 * float(np.vdot(weights, pull)), gradient.ravel().astype(np.float64)

        start = np.zeros(self.n_classes * d)
        flat = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _REGRESSION_STEPS}).x
        weights = flat.reshape(-1, d).astype(np.float32) @ scaling.T
        return LinearModel(weights[:, :-1], weights[:, -1])


class Discriminant(Learner):
    """Linear discriminant analysis, from sums."""

    def fit(self, labels: Indices, excluded: tuple[int, ...] = ()) -> LinearModel:
        """Return Bayes' rule for normal classes with one covariance."""
        train = np.flatnonzero(~np.isin(self.folds, excluded))
        products = np.delete(self.products, excluded, axis=0).sum(axis=0)[:-1, :-1]
        counts = np.bincount(labels[train], minlength=self.n_classes).astype(np.float64)
        means = sum_classes(self.features[train], labels[train], self.n_classes) / counts.clip(1.0)[:, None]
        within = (products - (means.T * counts) @ means) / len(train)
        variances = np.diag(within).copy()
        within *= 1.0 - _SHRINKAGE
        np.fill_diagonal(within, variances + 1e-6 * variances.mean() + 1e-9)
        coefficients = np.linalg.solve(within, means.T).T
        with np.errstate(divide="ignore"):
            priors = np.log(counts / len(train)).clip(-100.0)
        intercept = priors - 0.5 * (means * coefficients).sum(axis=1)
        return LinearModel(coefficients.astype(np.float32), intercept.astype(np.float32))


class Neighbors(Learner):
    """Votes of the nearest rows, weighted by the inverse of their distance.

    Neighbors of the sample are searched once; a fit leaves out those of its excluded folds.
    """

    def __init__(self, values: Values, folds: Indices, n_classes: int, random: np.random.Generator) -> None:
        super().__init__(values, folds, n_classes)
        self.reference = np.sort(random.permutation(len(values))[:_N_REFERENCE])
        self.count = min(30, max(5, len(self.reference) // (4 * n_classes)))
        self.nearest, self.weights = self.prepare(values)

    def prepare(self, values: Values) -> tuple[Indices, Values]:
        """Return the nearest rows of the reference, by position in the sample, and their weights."""
        from sklearn.neighbors import NearestNeighbors

        # Twice as many as there are votes: those of up to two folds of five are left out.
        most = min(2 * self.count, len(self.reference))
        model = NearestNeighbors(n_neighbors=most, algorithm="brute").fit(self.features[self.reference])
        distances, nearest = model.kneighbors(values)
        return self.reference[nearest], (1.0 / (distances + 1e-3)).astype(np.float32)

    def fit(self, labels: Indices, excluded: tuple[int, ...] = ()) -> Model:
        """Return the votes of the nearest rows."""
        return lambda neighbors: self._vote(labels, excluded, *neighbors)

    def predict(self, labels: Indices, excluded: tuple[int, ...], rows: Indices) -> Values:
        """Return the votes of the neighbors that were searched before."""
        return self._vote(labels, excluded, self.nearest[rows], self.weights[rows])

    def _vote(self, labels: Indices, excluded: tuple[int, ...], nearest: Indices, weights: Values) -> Values:
        usable = ~np.isin(self.folds, excluded)[nearest]
        usable &= usable.cumsum(axis=1) <= self.count
        cells = labels[nearest] * len(nearest) + np.arange(len(nearest))[:, None]
        sums = np.bincount(cells.ravel(), (weights * usable).ravel(), self.n_classes * len(nearest))
        votes = sums.reshape(self.n_classes, -1) + 1e-9
        return np.asarray(np.log(votes / votes.sum(axis=0)), dtype=np.float32)


class Trees(Learner):
    """Extremely randomized trees."""

    def fit(self, labels: Indices, excluded: tuple[int, ...] = ()) -> Model:
        """Grow the trees."""
        from sklearn.ensemble import ExtraTreesClassifier

        train = ~np.isin(self.folds, excluded)
        columns = 0.5 if self.features.shape[1] < 20 else "sqrt"
        forest = ExtraTreesClassifier(_N_TREES, min_samples_leaf=5, max_features=columns, random_state=0)
        forest.fit(self.features[train], labels[train])

        def predict(features: Values) -> Values:
            log_p = np.full((self.n_classes, len(features)), -np.inf, dtype=np.float32)
            with np.errstate(divide="ignore"):
                log_p[forest.classes_] = np.log(forest.predict_proba(features)).T
            return log_p

        return predict


class GivenProbabilities(Learner):
    """Out-of-fold probabilities of a model of the user's, which has seen no row and is not fitted here."""

    def fit(self, labels: Indices, excluded: tuple[int, ...] = ()) -> Model:
        """Return the logarithms of the probabilities."""

        def predict(features: Values) -> Values:
            positive = features.T.astype(np.float32) + np.float32(1e-12)
            return np.asarray(np.log(positive / positive.sum(axis=0)))

        return predict


def make_learners(
    values: Values, folds: Indices, n_classes: int, random: np.random.Generator
) -> list[Learner]:
    """Return the learners that suit the sample."""
    affordable = values.size * n_classes <= _REGRESSION_SIZE
    learners: list[Learner] = [Discriminant(values, folds, n_classes)]
    if affordable:
        learners.append(Regression(values, folds, n_classes))
        learners.append(Neighbors(values, folds, n_classes, random))
        if values.shape[1] < _TREE_COLUMNS:
            learners.append(Trees(values, folds, n_classes))
    return learners


def log_softmax(logits: NDArray[Any]) -> NDArray[Any]:
    """Return logarithms of the softmax over the first axis: classes come first, so that sums run along the rows."""
    shifted = logits - logits.max(axis=0)
    shifted -= np.log(np.exp(shifted).sum(axis=0))
    return np.asarray(shifted)


def sum_classes(features: NDArray[Any], labels: Indices, n_classes: int) -> Matrix:
    """Return the sums of the rows of each class, shape (K, d)."""
    from scipy.sparse import csr_array

    cells = np.ones(len(labels)), labels, np.arange(len(labels) + 1)
    sums: Matrix = csr_array(cells, shape=(len(labels), n_classes)).T @ features
    return sums


def _with_constant(features: Values) -> Values:
    return np.concatenate([features, np.ones((len(features), 1), dtype=np.float32)], axis=1)
