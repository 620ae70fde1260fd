"""Softmax regression to the optimum in float64, rows read block by block: the last layer of a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.scores.blas import one_blas_thread
from gmmatch.scores.logits import errors
from gmmatch.scores.standardize import Standardization
from gmmatch.types import Indices, Vector

_BLOCK_ELEMENTS = 1 << 21

Parameters = NDArray[np.float64]
"""One row per class: its weights, and its bias last."""


@dataclass(frozen=True)
class SoftmaxRegression:
    """Σ wᵢ ℓ(xᵢ, yᵢ) / Σ wᵢ + λ/2 · ‖θ‖², the mean cross-entropy of a linear layer with weight decay.

    λ is on all parameters, biases as well, so that the Hessian has an inverse.

    Parameters
    ----------
    rows, codes
        The n rows and their class numbers.
    shares
        wᵢ / Σ w.
    n_classes
        How many classes there are.
    strength
        λ.
    scale
        How rows are standardised.
    threads
        How many blocks to work on at a time; sums do not depend on it.
    """

    rows: Rows
    codes: Indices
    shares: Vector
    n_classes: int
    strength: float
    scale: Standardization
    threads: int = 1

    @classmethod
    def of(
        cls, rows: Rows, codes: Indices, weights: Vector, n_classes: int, strength: float, threads: int = 1
    ) -> SoftmaxRegression:
        """Standardise the rows."""
        scale = Standardization.of(rows, weights, threads)
        return cls(rows, codes, weights / weights.sum(), n_classes, strength, scale, threads)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the parameters: classes, and columns with a 1 for the bias."""
        return self.n_classes, self.rows.n_features + 1

    def fit(self, max_iter: int = 1000) -> Parameters:
        """Return the parameters at the optimum, by L-BFGS from zero.

        Examples
        --------
        >>> rows = Rows(np.array([[0.0], [1.0], [2.0], [3.0]]))
        >>> problem = SoftmaxRegression.of(rows, np.array([0, 1, 0, 1]), np.ones(4), 2, 0.1)
        >>> bool(np.abs(problem.loss_and_gradient(problem.fit())[1]).max() < 1e-6)
        True
        """
        from scipy.optimize import minimize

        def flat(values: Vector) -> tuple[float, Vector]:
            loss, gradient = self.loss_and_gradient(values.reshape(self.shape))
            return loss, gradient.ravel()

        options = {"maxiter": max_iter, "maxcor": 20, "ftol": 0.0, "gtol": 1e-7}
        start = np.zeros(self.shape).ravel()
        with one_blas_thread():
            found = minimize(flat, start, jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x, dtype=np.float64).reshape(self.shape)

    def loss_and_gradient(self, parameters: Parameters) -> tuple[float, Parameters]:
        """Return the loss and its gradient, in one pass over the rows."""

        def work(number: int) -> tuple[float, Parameters]:
            inputs, slack, part = self.block(parameters, number)
            shares = self.shares[part]
            own = slack[np.arange(len(slack)), self.codes[part]] + 1.0
            loss = -float(shares @ np.log(np.maximum(own, np.finfo(float).tiny)))
            return loss, (slack * shares[:, None]).T @ inputs

        parts = map_in_order(work, self.n_blocks, self.threads)
        decay = self.strength / 2 * float(np.sum(parameters**2))
        slope: Parameters = np.sum([gradient for _, gradient in parts], axis=0) + self.strength * parameters
        return sum(loss for loss, _ in parts) + decay, slope

    @property
    def _rows_per_block(self) -> int:
        # A row becomes as many numbers as it has columns, classes or, later, projections.
        return max(32, _BLOCK_ELEMENTS // max(*self.shape, 1024))

    @property
    def n_blocks(self) -> int:
        """Into how many blocks the rows are cut."""
        return -(-len(self.rows) // self._rows_per_block)

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the first row of a block and the one after its last."""
        first = number * self._rows_per_block
        return first, min(len(self.rows), first + self._rows_per_block)

    def block(
        self, parameters: Parameters, number: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], slice]:
        """Return (h, p − y, which rows): standardised rows with a 1 added, and the error on each."""
        first, last = self.bounds(number)
        inputs = np.ones((last - first, self.shape[1]))
        inputs[:, :-1] = self.scale.take(self.rows, np.arange(first, last))
        return inputs, errors(inputs @ parameters.T, self.codes[first:last]), slice(first, last)

    def blocks(
        self, parameters: Parameters
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], slice]]:
        """Yield every block."""
        for number in range(self.n_blocks):
            yield self.block(parameters, number)
