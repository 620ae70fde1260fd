"""Influence: how the parameters of the last layer would move if a row were left out.

With L(θ) = Σ wᵢ ℓᵢ(θ) / Σ w + λ/2 ‖θ‖² at its minimum and H its Hessian there, leaving row i out moves
θ by H⁻¹ gᵢ to first order, gᵢ being the gradient of its term (Koh and Liang, 2017). For softmax
regression gᵢ = wᵢ/Σw · (pᵢ − yᵢ) hᵢᵀ, an outer product, and is never written out for all rows: what is
kept of H⁻¹ gᵢ is a projection to a few hundred numbers whose inner products are those of the whole vector,
up to a known error.

Up to :data:`EXACT_PARAMETERS` parameters H is computed, factorized and solved exactly. Beyond, it is
replaced by a Kronecker product, mean(diag(p) − p pᵀ) ⊗ mean(h hᵀ) + λ (Martens and Grosse, 2015).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gmmatch.rows.parallel import map_in_order, one_blas_thread
from gmmatch.scores.softmax_regression import Parameters, SoftmaxRegression

EXACT_PARAMETERS = 1024
# The Kronecker inverse is a sum of this many products at most, and as few as leave an error below this.
_MOST_TERMS = 16
_TERM_ERROR = 1e-3

Project = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
"""From h (m, columns) and p − y (m, classes) to the influence of each row, projected."""


@dataclass(frozen=True)
class Influence:
    """Influence vectors H⁻¹ gᵢ · n (n, m), whose weighted sum over the rows is zero, and how they were made."""

    vectors: NDArray[np.float32]
    hessian: Literal["exact", "kronecker"]
    projected: bool


def influence_vectors(
    problem: SoftmaxRegression,
    parameters: Parameters,
    *,
    dimensions: int = 512,
    random: np.random.Generator,
    hessian: Literal["auto", "exact", "kronecker"] = "auto",
) -> Influence:
    """Return how leaving each row out would move the parameters from their optimum, times n.

    At most ``dimensions`` numbers are kept of a vector. Beyond, vectors are projected at random, which keeps inner
    products ⟨u, v⟩ within about ‖u‖‖v‖ · √(2/dimensions), for Kronecker products √(8/dimensions).

    The regularization is shared out evenly: the mean of the vectors is taken off each. At the optimum
    the gradients sum to −λθ, so that the vectors of all rows sum to zero, and those of the rows that
    are kept to minus those of the rows that are removed.

    Examples
    --------
    >>> problem = SoftmaxRegression.of([[0.0], [1.0], [2.0], [3.0]], np.array([0, 1, 0, 1]), strength=0.1)
    >>> influence = influence_vectors(problem, problem.fit(), random=np.random.default_rng(0))
    >>> influence.vectors.shape, influence.hessian
    ((4, 4), 'exact')
    """
    n = len(problem.rows)
    size = int(np.prod(problem.shape))
    exact = size <= EXACT_PARAMETERS if hessian == "auto" else hessian == "exact"
    make = _exact_projection if exact else _kronecker_projection
    width = min(size, dimensions)
    vectors = np.empty((n, width), dtype=np.float32)

    def work(number: int) -> NDArray[np.float64]:
        block = problem.block(parameters, number)
        # n times the share is 1 where rows weigh the same.
        projected = project(block.inputs, block.errors) * (n * problem.shares[block.part, None])
        vectors[block.part] = projected
        total: NDArray[np.float64] = projected.sum(axis=0)
        return total

    with one_blas_thread():
        project = make(problem, parameters, dimensions, random)
        total = np.sum(map_in_order(work, problem.n_blocks, problem.threads), axis=0)
    for first in range(0, n, 4096):
        shares = problem.shares[first : first + 4096, None]
        vectors[first : first + 4096] -= (total * shares).astype(np.float32)
    return Influence(vectors, "exact" if exact else "kronecker", size > dimensions)


def _exact_projection(
    problem: SoftmaxRegression, parameters: Parameters, dimensions: int, random: np.random.Generator
) -> Project:
    from scipy.linalg import cho_factor, cho_solve

    classes, columns = problem.shape
    size = classes * columns
    factor = cho_factor(exact_hessian(problem, parameters))
    if size <= dimensions:
        onto = np.eye(size)
    else:
        onto = random.choice([-1.0, 1.0], size=(size, dimensions)) / np.sqrt(dimensions)
    # ⟨onto, H⁻¹ g⟩ = ⟨H⁻¹ onto, g⟩: one solve for all rows.
    solved = cho_solve(factor, onto).reshape(classes, columns, -1)

    def project(inputs: NDArray[np.float64], slack: NDArray[np.float64]) -> NDArray[np.float64]:
        projected = np.zeros((len(inputs), solved.shape[2]))
        for number in range(classes):
            projected += slack[:, number : number + 1] * (inputs @ solved[number])
        return projected

    return project


def exact_hessian(problem: SoftmaxRegression, parameters: Parameters) -> NDArray[np.float64]:
    """Return the Hessian at these parameters, of shape (p, p), class by class."""
    classes, columns = problem.shape

    total: NDArray[np.float64] = problem.strength * np.eye(classes * columns)
    for number in range(problem.n_blocks):
        part, inputs, shares, *_ = problem.block(parameters, number)
        products = np.zeros((classes, columns, classes, columns))
        for one in range(classes):
            for other in range(one + 1):
                weight = shares[:, one] * ((one == other) - shares[:, other]) * problem.shares[part]
                products[one, :, other] = products[other, :, one] = (inputs * weight[:, None]).T @ inputs
        total += products.reshape(classes * columns, -1)
    return total


def _kronecker_projection(
    problem: SoftmaxRegression, parameters: Parameters, dimensions: int, random: np.random.Generator
) -> Project:
    """Invert mean(diag(p) − p pᵀ) ⊗ mean(h hᵀ) + λ in the eigenvectors of its factors.

    There (H⁻¹ g) is (a bᵀ) ⊙ M with Mᵤᵥ = 1 / (σᵤ τᵥ + λ), and M is a sum of a few outer products: σ
    and τ enter it only by their product. So the projection of a row is a product of two short ones.
    """
    classes, columns = problem.shape
    errors_moment, rows_moment = np.zeros((classes, classes)), np.zeros((columns, columns))
    for number in range(problem.n_blocks):
        part, inputs, shares, *_ = problem.block(parameters, number)
        weighted = problem.shares[part, None]
        errors_moment += np.diag((shares * weighted).sum(axis=0)) - (shares * weighted).T @ shares
        rows_moment += (inputs * weighted).T @ inputs
    sigma, left = np.linalg.eigh(errors_moment)
    tau, right = np.linalg.eigh(rows_moment)
    inverse = 1.0 / (np.maximum(sigma, 0.0)[:, None] * np.maximum(tau, 0.0)[None, :] + problem.strength)
    if classes * columns <= dimensions:

        def whole(inputs: NDArray[np.float64], slack: NDArray[np.float64]) -> NDArray[np.float64]:
            solved: NDArray[np.float64] = (slack @ left)[:, :, None] * (inputs @ right)[:, None, :] * inverse
            return solved.reshape(len(inputs), -1)

        return whole
    u, singular, v = np.linalg.svd(inverse, full_matrices=False)
    missing = np.sqrt(np.cumsum(singular[::-1] ** 2)[::-1] / np.sum(singular**2))
    terms = min(_MOST_TERMS, int(np.argmax(np.r_[missing, 0.0] < _TERM_ERROR)))
    of_errors = random.choice([-1.0, 1.0], size=(classes, dimensions)) / np.sqrt(dimensions)
    of_rows = random.choice([-1.0, 1.0], size=(columns, dimensions))
    factors = [
        (left @ (u[:, t, None] * of_errors) * singular[t], right @ (v[t, :, None] * of_rows))
        for t in range(terms)
    ]

    def project(inputs: NDArray[np.float64], slack: NDArray[np.float64]) -> NDArray[np.float64]:
        projected = np.zeros((len(inputs), dimensions))
        for one, other in factors:
            projected += (slack @ one) * (inputs @ other)
        return projected

    return project
