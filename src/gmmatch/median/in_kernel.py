"""The geometric median in a kernel's feature space, through the Gram matrix.

The median is Σ αᵢφ(xᵢ), and every distance to it comes from the Gram matrix K:
‖φ(xᵢ) − Σ αⱼφ(xⱼ)‖² = Kᵢᵢ − 2(Kα)ᵢ + αᵀKα.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gmmatch.median.passes import ROUNDOFF, Evaluation
from gmmatch.median.result import MedianResult
from gmmatch.median.search import run_search, search_median
from gmmatch.types import Vector

Gram = NDArray[np.float64]


def kernel_geometric_median(
    gram: Gram, weights: Vector | None = None, *, eps: float = 1e-8, max_iter: int = 1000
) -> MedianResult:
    """Return the geometric median of φ(x₁), …, φ(xₙ) as coefficients α on the rows, its ``point``.

    Distances are square roots of differences, so the ones that are tiny beside the largest norm (by a
    factor of 1e7 or so) have few right digits, and neither has the certificate then.

    Parameters
    ----------
    gram : float64 array of shape (n, n)
        K, symmetric and positive semidefinite. Not modified.
    weights : float64 array of shape (n,), optional
        Non-negative row weights.
    eps : float
        Stop at a point certified within a factor 1 + eps of the best.
    max_iter : int
        Most evaluations; each is one product with K.

    Examples
    --------
    In the linear kernel it is the ordinary geometric median:

    >>> X = np.array([[0.0], [1.0], [10.0]])
    >>> kernel_geometric_median(X @ X.T).point.round(6)
    array([0., 1., 0.])
    """
    problem = _Problem(gram, np.ones(len(gram)) if weights is None else weights)
    # Without the exact treatment of the nearest row, whose lengths would each be a product with K.
    search = search_median(problem.share, eps=eps, max_iter=max_iter, least_share=np.inf)
    return run_search(search, problem.at, lambda row: np.eye(1, len(gram), row)[0])


class _Problem:
    def __init__(self, gram: Gram, weights: Vector) -> None:
        # Distances do not depend on the origin. Seen from the mean, norms are of the size of the
        # distances, so that little is lost in their differences.
        share = weights / weights.sum()
        self.row_means = gram @ share
        self.mean_norm = float(share @ self.row_means)
        self.gram, self.weights, self.share = gram, weights, share
        self.diagonal = np.maximum(0.0, np.diagonal(gram) - 2.0 * self.row_means + self.mean_norm)
        self.tiny = 1e-14 * float(self.diagonal.max(initial=0.0))

    def product(self, vector: Vector) -> Vector:
        """Return the centered Gram matrix times ``vector``."""
        total = float(vector.sum())
        plain = self.gram @ vector
        centered: Vector = (
            plain - self.row_means * total - float(self.row_means @ vector) + self.mean_norm * total
        )
        return centered

    def at(self, coefficients: Vector) -> Evaluation:
        along = self.product(coefficients)
        squared = self.diagonal - 2.0 * along + float(coefficients @ along)
        here = squared <= self.tiny
        distances = np.sqrt(np.where(here, 0.0, squared))
        inverse = np.zeros_like(distances)
        np.divide(self.weights, distances, out=inverse, where=~here)
        total = float(inverse.sum())
        # The pull Σ (w/d)(φ − z) in coefficients; small near the median, so its norm keeps its digits.
        pull = inverse - total * coefficients
        others = np.where(here | (self.weights == 0.0), np.inf, squared)
        nearest = int(np.argmin(others))
        return Evaluation(
            point=coefficients,
            pull=pull,
            inverse_distances=total,
            objective=float(self.weights @ distances),
            coincident_weight=float(self.weights[here].sum()),
            nearest_row=nearest if others[nearest] < np.inf else -1,
            nearest_distance=float(distances[nearest]),
            nearest_weight=float(self.weights[nearest]),
            total_weight=float(self.weights.sum()),
            distances=distances,
            rounding=ROUNDOFF * (16.0 + 8.0 * float(np.sqrt(len(distances)))),
            length=float(np.sqrt(max(0.0, float(pull @ self.product(pull))))),
        )
