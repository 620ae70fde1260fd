"""Softmax regression to the optimum, on rows of any backend: the last layer of a network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from gmmatch.rows import Rows
from gmmatch_paper.arrays import Indices, Matrix, Vector

# A value that is more deviations away would dominate every step of a small model.
FARTHEST = 10.0


@dataclass(frozen=True, eq=False)
class Standardize:
    """The map of rows x ↦ (x − center) · inverse, clipped, with blocks of any namespace.

    Attributes
    ----------
    center, inverse : arrays of shape (s,)
        The mean of each column, and one over its standard deviation; 0 for a constant column.
    farthest : float
        The most standard deviations that a value may have.
    dtype : "float32" or "float64"
        The type of the mapped rows; it is computed in float64.
    """

    center: Vector
    inverse: Vector
    farthest: float = FARTHEST
    dtype: str = "float64"

    @classmethod
    def fit(
        cls, rows: Rows, weights: Vector, *, farthest: float = FARTHEST, dtype: str = "float64"
    ) -> Standardize:
        """Return the map for these rows and weights."""
        center = rows.group_means(np.zeros(len(rows), dtype=np.int64), weights, 1)[0]
        deviation = np.sqrt(
            rows.reduce_blocks(_squared_deviations, center, per_row=(weights,)) / weights.sum()
        )
        # The mean of equal numbers may be off by rounding, which must not be scaled up.
        constant = deviation <= 1e-10 * np.abs(center)
        with np.errstate(divide="ignore"):
            inverse = np.where(constant, 0.0, 1.0 / deviation)
        return cls(center, np.where(np.isfinite(inverse), inverse, 0.0), farthest, dtype)

    def __call__(self, block: Any) -> Any:
        """Return a block of standardized rows."""
        xp = array_namespace(block)
        center, inverse = (xp.asarray(values, device=device(block)) for values in (self.center, self.inverse))
        scaled = (xp.astype(block, xp.float64) - center) * inverse
        return xp.astype(xp.clip(scaled, -self.farthest, self.farthest), getattr(xp, self.dtype))


def _squared_deviations(block: Any, weights: Any, center: Any) -> Any:
    xp = array_namespace(block)
    offsets = xp.astype(block, xp.float64) - center
    return xp.sum(weights[:, None] * offsets * offsets, axis=0)


@dataclass(frozen=True, eq=False)
class SoftmaxRegression:
    """Σ wᵢ ℓ(xᵢ, yᵢ) / Σ wᵢ + λ/2 · ‖θ‖²: the mean cross-entropy of a linear layer with weight decay.

    Parameters θ have the shape (C, s + 1): the weights of each class, and its bias last.

    Attributes
    ----------
    rows : Rows
        Standardized rows.
    codes : int64 array of shape (n,)
        The class of each row; a row of weight 0 may have -1.
    shares : array of shape (n,)
        wᵢ / Σ w.
    n_classes : int
    strength : float
        λ.
    scale : Standardize
        How the rows were standardized.
    decay_bias : bool
        Whether λ applies to the biases, too, so that the Hessian has an inverse.
    """

    rows: Rows
    codes: Indices
    shares: Vector
    n_classes: int
    strength: float
    scale: Standardize
    decay_bias: bool = True

    @classmethod
    def of(
        cls, rows: Rows, codes: Indices, weights: Vector, n_classes: int, *, strength: float = 0.01,
        decay_bias: bool = True, farthest: float = FARTHEST, dtype: str = "float64",
    ) -> SoftmaxRegression:  # fmt: skip
        """Standardize the rows."""
        scale = Standardize.fit(rows, weights, farthest=farthest, dtype=dtype)
        shares = weights / weights.sum()
        return cls(rows.map(scale), codes, shares, n_classes, strength, scale, decay_bias)

    def reweight(self, weights: Vector) -> SoftmaxRegression:
        """Return the same regression, on the same scale, with other weights of the rows."""
        return replace(self, shares=weights / weights.sum())

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the parameters."""
        return self.n_classes, self.rows.n_features + 1

    def fit(
        self, start: Matrix | None = None, *, max_iter: int = 1000, loss_tolerance: float = 0.0,
        gradient_tolerance: float = 1e-7,
    ) -> Matrix:  # fmt: skip
        """Return the parameters at the optimum, by L-BFGS from zero or from ``start``.

        It stops when the relative change of the loss, or the largest entry of the gradient, is within its tolerance.
        """
        from scipy.optimize import minimize

        per_row = (self.rows.scatter(self.codes), self.rows.scatter(self.shares))

        def evaluate(values: Vector) -> tuple[float, Vector]:
            loss, gradient = self._evaluate(values.reshape(self.shape), per_row)
            return loss, gradient.ravel()

        options = {"maxiter": max_iter, "maxcor": 20, "ftol": loss_tolerance, "gtol": gradient_tolerance}
        first = np.zeros(self.shape) if start is None else start
        # Blocks run side by side; more threads within one would compete with them.
        with threadpool_limits(1):
            optimum = minimize(evaluate, first.ravel(), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(optimum.x, dtype=np.float64).reshape(self.shape)

    def loss_and_gradient(self, parameters: Matrix) -> tuple[float, Matrix]:
        """Return the loss and its gradient, in one pass over the rows."""
        return self._evaluate(parameters, (self.codes, self.shares))

    def predict(self, parameters: Matrix) -> Indices:
        """Return the most probable class of each row, shape (n,)."""
        predicted: Indices = self.rows.map_blocks(_predict, parameters)
        return predicted

    def _evaluate(self, parameters: Matrix, per_row: tuple[Any, ...]) -> tuple[float, Matrix]:
        sums = self.rows.reduce_blocks(_loss_terms, parameters, per_row=per_row)
        decayed = parameters.copy()
        if not self.decay_bias:
            decayed[:, -1] = 0.0
        gradient: Matrix = sums[:-1].reshape(self.shape) + self.strength * decayed
        return float(sums[-1] + self.strength / 2 * np.sum(decayed**2)), gradient


def _logits(block: Any, parameters: Any) -> Any:
    """Return logits in the precision of the block, the largest of each row at 0."""
    xp = array_namespace(block)
    parameters = xp.astype(parameters, block.dtype)
    logits = block @ parameters[:, :-1].T + parameters[:, -1]
    return logits - xp.max(logits, axis=1, keepdims=True)


def _predict(block: Any, parameters: Any) -> Any:
    return array_namespace(block).argmax(_logits(block, parameters), axis=1)


def probabilities_and_errors(block: Any, codes: Any, parameters: Any) -> tuple[Any, Any, Any]:
    """Return p, p − y and the cross-entropy of each row of a block; rows of class -1 have y = 0."""
    xp = array_namespace(block)
    logits = _logits(block, parameters)
    weights = xp.exp(logits)
    totals = xp.sum(weights, axis=1)
    probabilities = weights / totals[:, None]
    own = codes[:, None] == xp.arange(logits.shape[1], device=device(block))[None, :]
    errors = xp.where(own, probabilities - 1.0, probabilities)
    own_logits = xp.sum(xp.where(own, logits, xp.zeros_like(logits)), axis=1)
    return probabilities, errors, xp.log(totals) - own_logits


def _loss_terms(block: Any, codes: Any, shares: Any, parameters: Any) -> Any:
    """Return the gradient and, last, the loss that a block adds."""
    xp = array_namespace(block)
    _, errors, losses = probabilities_and_errors(block, codes, parameters)
    weighted = errors * xp.astype(shares, block.dtype)[:, None]
    gradient = xp.concat([weighted.T @ block, xp.sum(weighted, axis=0)[:, None]], axis=1)
    loss = xp.sum(shares * xp.astype(losses, xp.float64))
    return xp.concat([xp.astype(xp.reshape(gradient, (-1,)), xp.float64), xp.reshape(loss, (1,))])
