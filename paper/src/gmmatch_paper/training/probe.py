"""A linear probe: how well a linear classifier on frozen embeddings does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.rows.checks import as_generator, check_rows
from gmmatch.types import Vector
from gmmatch_paper.training.softmax import SoftmaxLoss, softmax_loss

STRENGTHS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4)
"""The closed set of regularisations that cross-validation chooses from, strongest first."""


@dataclass(frozen=True)
class LinearProbe:
    """A softmax classifier on standardised embeddings.

    Attributes
    ----------
    classes
        The labels, sorted.
    weights, intercepts
        One column and one number per class, for rows as they come (the standardisation is folded in).
    strength
        The regularisation that was used, chosen by cross-validation where there was a choice.
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
        rows = check_rows(X)
        found = np.empty((len(rows), len(self.classes)))
        for number in range(rows.n_chunks):
            first, last = rows.bounds(number)
            found[first:last] = rows.block(number, np.float64) @ self.weights + self.intercepts
        return found

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
    """Fit a linear classifier to embeddings, by L-BFGS, its regularisation chosen by cross-validation.

    Minimises the mean cross-entropy plus λ/2 · ‖W‖² over standardised columns, for every λ of
    ``strengths``; the one with the best accuracy over ``folds`` stratified folds is fitted to all rows.

    Parameters
    ----------
    X : array of shape (n, s)
        Embeddings; a CUDA tensor is worked on where it is.
    y : array of shape (n,)
        Labels.
    strengths : sequence of float
        The regularisations λ to choose from; one alone is used as it is.
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
    loss = softmax_loss(X, labels)
    path = sorted(strengths, reverse=True)
    validation: dict[float, float] = {}
    if len(path) > 1:
        validation = _cross_validate(loss, path, folds, max_iter, random_state)
    # Ties go to the stronger regularisation, which comes first.
    best = max(path, key=lambda strength: validation.get(strength, 0.0))
    start = None
    for strength in path[: path.index(best) + 1]:
        start = loss.minimize(strength, start, max_iter)
    assert start is not None
    weights, intercepts = loss.unstandardized(start)
    return LinearProbe(loss.classes, weights, intercepts, float(best), validation)


def _cross_validate(
    loss: SoftmaxLoss, path: list[float], folds: int, max_iter: int, random_state: int | None
) -> dict[float, float]:
    """Return the accuracy of every strength on rows that were held out."""
    fold_of = stratified_folds(loss.codes, folds, random_state)
    correct = np.zeros(len(path))
    for fold in range(int(fold_of.max()) + 1):
        held_out = fold_of == fold
        inner = loss.subset(~held_out)
        start = None
        for number, strength in enumerate(path):
            # Each solution is a good start for the next, weaker regularisation.
            start = inner.minimize(strength, start, max_iter)
            correct[number] += loss.correct(start, held_out)
    return {
        float(strength): float(share) for strength, share in zip(path, correct / len(fold_of), strict=True)
    }


def stratified_folds(codes: NDArray[np.intp], folds: int, random_state: int | None) -> NDArray[np.intp]:
    """Return the fold of every row: each class is spread evenly, in a random order.

    Examples
    --------
    >>> sorted(stratified_folds(np.array([0, 0, 1, 1]), 2, 0)[:2].tolist())
    [0, 1]
    """
    if folds < 2:
        raise InvalidInputError(f"folds={folds}: expected 2 or more.")
    if len(codes) < 2:
        raise InvalidInputError(
            f"strengths cannot be chosen by cross-validation on {len(codes)} row: give one strength."
        )
    folds = min(folds, len(codes))
    random = as_generator(random_state)
    shuffled = random.permutation(len(codes))
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    fold_of = np.empty(len(codes), dtype=np.intp)
    fold_of[by_class] = np.arange(len(codes)) % folds
    return fold_of
