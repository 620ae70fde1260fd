"""A linear probe: how well a linear classifier on frozen embeddings does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gmmatch as gm
from gmmatch.errors import InvalidInputError
from gmmatch_paper.arrays import Indices, Matrix, Vector, float_blocks
from gmmatch_paper.baselines.softmax_regression import SoftmaxRegression
from gmmatch_paper.checks import check_matrix

STRENGTHS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4)
"""The closed set of regularizations that cross-validation chooses from, strongest first."""


@dataclass(frozen=True)
class LinearProbe:
    """A softmax classifier on standardized embeddings.

    Attributes
    ----------
    classes
        The labels, sorted.
    weights, intercepts
        One column and one number per class, for rows as they come (the standardization is folded in).
    strength
        The regularization that was used, chosen by cross-validation where there was a choice.
    validation
        Accuracy in cross-validation of every strength tried; empty without a choice.
    """

    classes: NDArray[Any]
    weights: NDArray[np.float64]
    intercepts: Vector
    strength: float
    validation: dict[float, float]

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Return one score per row and class; the largest is the prediction."""
        blocks = float_blocks(check_matrix(X))
        return np.concatenate([block @ self.weights + self.intercepts for block in blocks])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted label of every row."""
        predicted: NDArray[Any] = self.classes[self.scores(X).argmax(axis=1)]
        return predicted

    def accuracy(self, X: Any, y: Any) -> float:
        """Return the share of rows whose label is predicted."""
        return float(np.mean(self.predict(X) == np.asarray(y)))


def fit_linear_probe(
    X: Any,
    y: Any,
    *,
    strengths: Sequence[float] = STRENGTHS,
    folds: int = 3,
    max_iter: int = 200,
    random_state: int | None = 0,
) -> LinearProbe:
    """Fit a linear classifier to embeddings, by L-BFGS, its regularization chosen by cross-validation.

    Minimizes the mean cross-entropy plus λ/2 · ‖W‖² over standardized columns, for every λ of
    ``strengths``; the one with the best accuracy over ``folds`` stratified folds is fitted to all rows.

    Parameters
    ----------
    X : array of shape (n, s)
        Embeddings; a CUDA tensor is worked on where it is.
    y : array of shape (n,)
        Labels.
    strengths : sequence of float
        The regularizations λ to choose from; one alone is used as it is.
    folds : int
        Folds of the cross-validation; fewer where a class has fewer rows.
    max_iter : int
        Iterations of L-BFGS at most, for each fit.
    random_state : int, optional
        Seed of the folds.

    Examples
    --------
    >>> X = [[0.0, 1.0], [0.2, 0.9], [1.0, 0.1], [1.1, 0.0]]
    >>> probe = fit_linear_probe(X, ["cat", "cat", "dog", "dog"], strengths=[0.01])
    >>> probe.predict([[0.1, 1.0], [1.0, 0.0]]).tolist()
    ['cat', 'dog']
    """
    if not len(strengths) or min(strengths) < 0:
        raise InvalidInputError(
            f"strengths={list(strengths)}: expected one or more numbers that are not negative."
        )
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise InvalidInputError(f"y has {labels.ndim} dimensions: expected one label per row.")
    if len(labels) != len(X):
        raise InvalidInputError(f"y has {len(labels)} labels for {len(X)} rows: expected one for each.")
    classes, codes = np.unique(labels, return_inverse=True)
    path = sorted(strengths, reverse=True)
    validation: dict[float, float] = {}
    with gm.open_rows(X) as rows:
        regression = SoftmaxRegression.of(
            rows, codes, np.ones(len(codes)), len(classes), decay_bias=False, farthest=np.inf, dtype="float32"
        )
        if len(path) > 1:
            validation = _cross_validate(regression, path, folds, max_iter, random_state)
        # Ties go to the stronger regularization, which comes first.
        best = max(path, key=lambda strength: validation.get(strength, 0.0))
        *_, parameters = _fits(regression, path[: path.index(best) + 1], max_iter)
    scale = regression.scale
    weights = parameters[:, :-1].T * scale.inverse[:, None]
    return LinearProbe(classes, weights, parameters[:, -1] - scale.center @ weights, float(best), validation)


def _fits(regression: SoftmaxRegression, path: list[float], max_iter: int) -> Iterator[Matrix]:
    """Yield the parameters for each strength; each is a good start for the next, weaker regularization."""
    start = None
    for strength in path:
        start = replace(regression, strength=strength).fit(
            start, max_iter=max_iter, loss_tolerance=1e-7, gradient_tolerance=1e-5
        )
        yield start


def _cross_validate(
    regression: SoftmaxRegression,
    path: list[float],
    folds: int,
    max_iter: int,
    random_state: int | None,
) -> dict[float, float]:
    """Return the accuracy of every strength on rows that were held out."""
    fold_of = stratified_folds(regression.codes, folds, random_state)
    correct = np.zeros(len(path))
    for fold in range(int(fold_of.max()) + 1):
        held_out = fold_of == fold
        others = regression.reweight(np.where(held_out, 0.0, 1.0))
        for number, parameters in enumerate(_fits(others, path, max_iter)):
            correct[number] += np.sum((regression.predict(parameters) == regression.codes)[held_out])
    return {
        float(strength): float(share) for strength, share in zip(path, correct / len(fold_of), strict=True)
    }


def stratified_folds(codes: Indices, folds: int, random_state: int | None) -> Indices:
    """Return the fold of every row: each class is spread evenly, in a random order."""
    if folds < 2:
        raise InvalidInputError(f"folds={folds}: expected 2 or more.")
    if len(codes) < 2:
        raise InvalidInputError(
            f"strengths cannot be chosen by cross-validation on {len(codes)} row: give one strength."
        )
    folds = min(folds, len(codes))
    shuffled = np.random.default_rng(random_state).permutation(len(codes))
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    fold_of = np.empty(len(codes), dtype=np.int64)
    fold_of[by_class] = np.arange(len(codes)) % folds
    return fold_of
