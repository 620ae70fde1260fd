"""Softmax regression to the optimum: the last layer of a network, and the one classifier of the library.

Rows are read block by block and standardized as they are read, in float64; or held in memory as float32, or on
a GPU, where a fit is repeated many times. One code does all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gmmatch.median.passes import weighted_mean
from gmmatch.rows.parallel import map_in_order, one_blas_thread
from gmmatch.rows.rows import Rows, as_rows
from gmmatch.scores.logits import own_class
from gmmatch.types import Indices, Matrix, Vector, is_tensor, namespace, on_host

_BLOCK_ELEMENTS = 1 << 21
# A row that lies farther out than so many deviations would dominate a small model's every step.
FARTHEST = 10.0

Parameters = NDArray[np.float64]
"""One row per class: its weights, and its bias last."""


@dataclass(frozen=True)
class Standardization:
    """The center of each column, one over its deviation, and the most deviations that a number may have.

    Examples
    --------
    >>> rows = Rows(np.array([[1.0, 7.0], [3.0, 7.0]]))
    >>> Standardization.of(rows, np.ones(2)).take(rows, np.array([0, 1]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    center: Vector
    inverse: Vector
    farthest: float = FARTHEST

    @classmethod
    def of(cls, rows: Rows, weights: Vector, threads: int = 1, farthest: float = FARTHEST) -> Standardization:
        """Return the weighted mean of each column and one over its deviation, 0 for a constant one."""
        center = weighted_mean(rows, weights, threads)

        deviation = np.sqrt(rows.total(_squares, weights, center, threads=threads) / weights.sum())
        # The mean of equal numbers may be off by rounding; dividing by that would make noise of it.
        constant = deviation <= 1e-10 * np.abs(center)
        with np.errstate(divide="ignore"):
            inverse = np.where(constant, 0.0, 1.0 / deviation)
        return cls(center, np.where(np.isfinite(inverse), inverse, 0.0), farthest)

    def take(self, rows: Rows, positions: Indices) -> NDArray[np.float64]:
        """Return the rows at these positions, standardized."""
        block = (rows.gather(positions) - self.center) * self.inverse
        return np.clip(block, -self.farthest, self.farthest, out=block)


def _squares(block: Matrix, index: Indices, weights: Vector, center: Vector) -> Vector:
    apart = block[index] - center
    squared: Vector = namespace(block).einsum("i,ij,ij->j", weights, apart, apart)
    return squared


class Block(NamedTuple):
    """Some rows under a model: standardized with a 1 added, p, p − y and −Σ y log p, NumPy's or torch's."""

    part: slice
    inputs: Any
    probabilities: Any
    errors: Any
    losses: Any


@dataclass(frozen=True)
class SoftmaxRegression:
    """Σ wᵢ ℓ(xᵢ, yᵢ) / Σ wᵢ + λ/2 · ‖θ‖², the mean cross-entropy of a linear layer with weight decay.

    Parameters
    ----------
    rows : Rows, or array or tensor of shape (n, s + 1)
        The rows as they are; or held: standardized, with a column of ones.
    targets : array or tensor of shape (n,) or (n, classes)
        Class numbers, or probabilities.
    shares : array or tensor of shape (n,)
        wᵢ / Σ w.
    n_classes
        How many classes there are.
    strength
        λ.
    scale
        How rows are standardized.
    threads
        How many blocks to work on at a time; sums do not depend on it.
    decay_bias
        Whether λ is on the biases as well, so that the Hessian has an inverse.

    Examples
    --------
    >>> problem = SoftmaxRegression.of([[0.0], [1.0], [2.0], [3.0]], np.array([0, 1, 0, 1]), strength=0.1)
    >>> bool(np.abs(problem.loss_and_gradient(problem.fit())[1]).max() < 1e-6)
    True
    """

    rows: Any
    targets: Any
    shares: Any
    n_classes: int
    strength: float
    scale: Standardization
    threads: int = 1
    decay_bias: bool = True

    @classmethod
    def of(
        cls,
        X: Any,
        targets: Any,
        weights: Vector | None = None,
        n_classes: int | None = None,
        strength: float = 0.01,
        threads: int = 1,
        *,
        decay_bias: bool = True,
        farthest: float = FARTHEST,
        hold: bool = False,
    ) -> SoftmaxRegression:
        """Standardize the rows; keep no number beyond ``farthest`` deviations.

        ``targets`` are class numbers or probabilities, as of the class; ``n_classes`` is theirs by default.
        With ``hold`` the standardized rows are kept as float32, a CUDA tensor's where they are.
        """
        on_device = is_tensor(X) and X.is_cuda
        values = as_rows(X)
        weights = np.ones(len(values)) if weights is None else weights
        if n_classes is None:
            n_classes = int(targets.max()) + 1 if targets.ndim == 1 else targets.shape[1]
        scale = Standardization.of(values, weights, threads, farthest)
        shares: Any = weights / weights.sum()
        rows: Any = values
        if hold and on_device:
            import torch

            center, inverse = (torch.as_tensor(one, device=X.device) for one in (scale.center, scale.inverse))
            rows = torch.ones((len(X), X.shape[1] + 1), device=X.device)
            rows[:, :-1] = ((X - center) * inverse).clamp(-farthest, farthest)
            targets, shares = (torch.as_tensor(one, device=X.device) for one in (targets, shares))
        elif hold:
            rows = np.ones((len(values), values.n_features + 1), dtype=np.float32)
            for number in range(values.n_chunks):
                first, last = values.bounds(number)
                rows[first:last, :-1] = scale.take(values, np.arange(first, last))
        return cls(rows, targets, shares, n_classes, strength, scale, threads, decay_bias)

    def subset(self, positions: Indices) -> SoftmaxRegression:
        """Return the same regression, on the same scale, on some of the rows."""
        rows = self.rows.subset(positions) if isinstance(self.rows, Rows) else self.rows[positions]
        shares = self.shares[positions]
        return replace(self, rows=rows, targets=self.targets[positions], shares=shares / shares.sum())

    @property
    def shape(self) -> tuple[int, int]:
        """Of the parameters: classes, and columns with a 1 for the bias."""
        return self.n_classes, len(self.scale.center) + 1

    def fit(
        self,
        start: Parameters | None = None,
        *,
        max_iter: int = 1000,
        loss_tolerance: float = 0.0,
        gradient_tolerance: float = 1e-7,
    ) -> Parameters:
        """Return the parameters at the optimum, by L-BFGS from zero or from ``start``.

        It stops when no number of the gradient, or no step relative to the loss, exceeds its tolerance.
        """
        from scipy.optimize import minimize

        def flat(values: Vector) -> tuple[float, Vector]:
            loss, gradient = self.loss_and_gradient(values.reshape(self.shape))
            return loss, gradient.ravel()

        options = {"maxiter": max_iter, "maxcor": 20, "ftol": loss_tolerance, "gtol": gradient_tolerance}
        begin = np.zeros(self.shape) if start is None else start
        with one_blas_thread():
            optimum = minimize(flat, begin.ravel(), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(optimum.x, dtype=np.float64).reshape(self.shape)

    def loss_and_gradient(self, parameters: Parameters) -> tuple[float, Parameters]:
        """Return the loss and its gradient, in one pass over the rows."""

        def work(number: int) -> tuple[float, Parameters]:
            block = self.block(parameters, number)
            shares = self.shares[block.part]
            slope = (block.errors * _like(shares, block.errors)[:, None]).T @ block.inputs
            return float((shares * block.losses).sum()), on_host(slope).astype(np.float64, copy=False)

        parts = map_in_order(work, self.n_blocks, self.threads)
        decayed = parameters
        if not self.decay_bias:
            decayed = parameters.copy()
            decayed[:, -1] = 0.0
        slope: Parameters = np.sum([gradient for _, gradient in parts], axis=0) + self.strength * decayed
        return sum(loss for loss, _ in parts) + self.strength / 2 * float(np.sum(decayed**2)), slope

    @property
    def _rows_per_block(self) -> int:
        if is_tensor(self.rows):
            return len(self.rows)
        # A row becomes as many numbers as it has columns, classes or, later, projections.
        return max(32, _BLOCK_ELEMENTS // max(*self.shape, 1024))

    @property
    def n_blocks(self) -> int:
        """Into how many blocks the rows are cut; one on a GPU."""
        return -(-len(self.rows) // self._rows_per_block)

    def block(self, parameters: Parameters, number: int) -> Block:
        """Return a block of rows, and what the model makes of them."""
        first = number * self._rows_per_block
        part = slice(first, min(len(self.rows), first + self._rows_per_block))
        inputs: Any
        if isinstance(self.rows, Rows):
            inputs = np.ones((part.stop - first, self.shape[1]))
            inputs[:, :-1] = self.scale.take(self.rows, np.arange(first, part.stop))
        else:
            inputs = self.rows[part]
        xp, targets = namespace(inputs), self.targets[part]
        logits = inputs @ _like(parameters, inputs).T
        logits = logits - xp.amax(logits, axis=1, keepdims=True)
        weights = xp.exp(logits)
        total = xp.sum(weights, axis=1)
        probabilities = weights / total[:, None]
        if targets.ndim == 1:
            own = own_class(logits, targets)
            errors = xp.where(own, probabilities - 1.0, probabilities)
            agreement = xp.sum(xp.where(own, logits, 0.0), axis=1)
        else:
            wanted = _like(targets, logits)
            errors, agreement = probabilities - wanted, xp.sum(wanted * logits, axis=1)
        return Block(part, inputs, probabilities, errors, xp.log(total) - agreement)


def _like(values: Any, other: Any) -> Any:
    """Return numbers in the type of others, and where these are."""
    if is_tensor(other):
        import torch

        return torch.as_tensor(values, dtype=other.dtype, device=other.device)
    return np.asarray(values, dtype=other.dtype)
