"""The Fréchet distance between two sets of rows: how far apart two Gaussians with their moments are.

On features of generated and of real images it is the number by which generators are compared; on those of
the Inception network of 2015 it is the FID (Heusel et al., 2017). See
:mod:`gmmatch_paper.studies.generation.features` for feature spaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch_paper.arrays import Matrix, Vector, float_blocks, mean_of
from gmmatch_paper.checks import check_matrix

__all__ = ["Moments", "frechet_distance", "moments_of", "squared_distance"]


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and covariance of some rows, in float64.

    Attributes
    ----------
    mean : array of shape (s,)
    covariance : array of shape (s, s)
        With n − 1 in the denominator.
    n : int
        Rows that they are of.
    """

    mean: Vector
    covariance: NDArray[np.float64]
    n: int


def moments_of(X: Any) -> Moments:
    """Return mean and covariance of rows, read block by block.

    Parameters
    ----------
    X : array of shape (n, s)
        Two rows or more.
    """
    rows = check_matrix(X)
    if len(rows) < 2:
        raise InvalidInputError(f"X has {len(rows)} row: a covariance needs two or more.")
    mean = mean_of(rows)
    products = np.zeros((rows.shape[1], rows.shape[1]))
    for block in float_blocks(rows):
        centered = block - mean
        products += centered.T @ centered
    return Moments(mean, products / (len(rows) - 1), len(rows))


def frechet_distance(A: Matrix, B: Matrix) -> float:
    """Return the squared Fréchet distance between two sets of rows, the number that FIDs are.

    ‖μ_A − μ_B‖² + tr(Σ_A + Σ_B − 2 (Σ_A Σ_B)^½), the squared 2-Wasserstein distance between Gaussians with
    these means and covariances. It is 0 for equal moments, and biased upwards where there are few rows: compare
    only numbers of as many rows.

    Parameters
    ----------
    A, B : arrays of shape (n, s) and (m, s)
        Features, such as those of generated and of real images.

    References
    ----------
    Heusel et al., "GANs trained by a two time-scale update rule converge to a local Nash equilibrium", NeurIPS
    2017.

    Examples
    --------
    >>> frechet_distance([[0.0], [2.0]], [[3.0], [5.0]])
    9.0
    """
    return squared_distance(moments_of(A), moments_of(B))


def squared_distance(first: Moments, second: Moments) -> float:
    """Return the squared Fréchet distance of two Gaussians given by their moments.

    The trace of (Σ₁Σ₂)^½ is the sum of the singular values of Σ₁^½ Σ₂^½. Both roots come from symmetric
    eigendecompositions, in which rounding can only make eigenvalues slightly negative, and these are zero: so
    singular covariances are no special case, and nothing turns complex.
    """
    if first.mean.shape != second.mean.shape:
        raise InvalidInputError(
            f"A and B have rows of {len(first.mean)} and {len(second.mean)} columns: expected one feature space."
        )
    roots = [_root(moments.covariance) for moments in (first, second)]
    cross = float(np.linalg.svd(roots[0].T @ roots[1], compute_uv=False).sum())
    gap = first.mean - second.mean
    traces = float(np.trace(first.covariance) + np.trace(second.covariance))
    return max(0.0, float(gap @ gap) + traces - 2.0 * cross)


def _root(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a matrix R with R Rᵀ = Σ."""
    values, vectors = np.linalg.eigh(covariance)
    found: NDArray[np.float64] = vectors * np.sqrt(np.maximum(values, 0.0))
    return found
