"""The geometric median in a kernel's feature space, through the Gram matrix.

The median is Σ αᵢφ(xᵢ), and every distance to it comes from the Gram matrix K:
‖φ(xᵢ) − Σ αⱼφ(xⱼ)‖² = Kᵢᵢ − 2(Kα)ᵢ + αᵀKα.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.median.acceleration import AndersonMixer
from gmmatch.median.passes import ROUNDOFF
from gmmatch.median.result import KernelMedianResult
from gmmatch.types import Vector

Gram = NDArray[np.float64]


def kernel_geometric_median(
    gram: Gram, weights: Vector | None = None, *, eps: float = 1e-8, max_iter: int = 1000
) -> KernelMedianResult:
    """Return the geometric median of φ(x₁), …, φ(xₙ) as coefficients α on the rows.

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
    >>> kernel_geometric_median(X @ X.T).coefficients.round(6)
    array([0., 1., 0.])
    """
    problem = _Problem(gram, np.ones(len(gram)) if weights is None else weights)
    best = problem.at(problem.weights / problem.weights.sum())
    mixer = AndersonMixer(6)
    tried: set[int] = set()
    passes = 1
    while best.gap > eps and passes < max_iter:
        passes += 1
        nearest = best.nearest
        if (
            nearest not in tried
            and best.coincident == 0.0
            and best.pull_norm <= 3.0 * problem.weights[nearest]
        ):
            # The iteration never arrives at a row that is the median: try the row itself.
            tried.add(nearest)
            there = problem.at(np.eye(1, len(gram), nearest)[0])
            if there.objective <= best.objective or there.gap <= eps:
                best = there
                mixer.forget()
            continue
        there = problem.at(mixer.propose(best.coefficients, best.coefficients + best.step))
        if there.objective > best.objective * (1.0 + 1e-14):
            mixer.forget()
            there = problem.at(best.coefficients + best.step)
            passes += 1
        if not np.any(there.coefficients != best.coefficients):
            break
        best = there
    return KernelMedianResult(
        coefficients=best.coefficients,
        objective=best.objective,
        gap=best.gap,
        iterations=passes,
        converged=best.gap <= eps,
        n_rows=len(gram),
        distances=best.distances,
    )


@dataclass(frozen=True)
class _Point:
    coefficients: Vector
    step: Vector
    objective: float
    gap: float
    pull_norm: float
    coincident: float
    nearest: int
    distances: Vector


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
        """Return the centred Gram matrix times ``vector``."""
        total = float(vector.sum())
        plain = self.gram @ vector
        centered: Vector = (
            plain - self.row_means * total - float(self.row_means @ vector) + self.mean_norm * total
        )
        return centered

    def at(self, coefficients: Vector) -> _Point:
        along = self.product(coefficients)
        squared = self.diagonal - 2.0 * along + float(coefficients @ along)
        here = squared <= self.tiny
        distances = np.sqrt(np.where(here, 0.0, squared))
        inverse = np.zeros_like(distances)
        np.divide(self.weights, distances, out=inverse, where=~here)
        total = float(inverse.sum())
        coincident = float(self.weights[here].sum())
        # The pull Σ (w/d)(φ − z) in coefficients; small near the median, so its norm keeps its digits.
        pull = inverse - total * coefficients
        pull_norm = float(np.sqrt(max(0.0, float(pull @ self.product(pull)))))
        excess = max(0.0, pull_norm - coincident)
        q = excess / float(self.weights.sum()) + ROUNDOFF * (16.0 + 8.0 * np.sqrt(len(distances)))
        objective = float(self.weights @ distances)
        freedom = excess / pull_norm if pull_norm > 0.0 else 0.0
        return _Point(
            coefficients=coefficients,
            step=pull * (freedom / total if total > 0.0 else 0.0),
            objective=objective,
            gap=0.0 if objective == 0.0 else (2.0 * q / (1.0 - q) if q < 1.0 else np.inf),
            pull_norm=pull_norm,
            coincident=coincident,
            nearest=int(np.argmin(np.where(here | (self.weights == 0.0), np.inf, squared))),
            distances=distances,
        )
