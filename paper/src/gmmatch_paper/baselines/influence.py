"""Influence: how the parameters of a softmax regression would change without a row.

With L(θ) = Σ wᵢ ℓᵢ(θ) / Σ w + λ/2 ‖θ‖² at its minimum and H its Hessian there, leaving row i out changes θ by H⁻¹ gᵢ
to first order, gᵢ being the gradient of its term (Koh and Liang, 2017). Here gᵢ = wᵢ/Σw · (pᵢ − yᵢ) hᵢᵀ, with h the
row and a 1 for the bias. It is never written out: what is kept of H⁻¹ gᵢ is a projection to a few hundred numbers
whose inner products are those of the whole vector, up to a known error.

Up to :data:`EXACT_PARAMETERS` parameters H is computed, factorized and solved exactly. Beyond, it is replaced by a
Kronecker product, mean(diag(p) − p pᵀ) ⊗ mean(h hᵀ) + λ (Martens and Grosse, 2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from gmmatch_paper.arrays import Matrix
from gmmatch_paper.baselines.softmax_regression import SoftmaxRegression, probabilities_and_errors

EXACT_PARAMETERS = 1024
# The inverse of a Kronecker product is a sum of at most this many products, of as few as leave an error below this.
_MAX_TERMS, _TERM_ERROR = 16, 1e-3


@dataclass(frozen=True, eq=False)
class Influence:
    """Influence vectors H⁻¹ gᵢ · m of m labeled rows, shape (n, d), and how they were computed.

    Their sum over all rows is zero; they are zero for rows without a label.
    """

    vectors: NDArray[np.float32]
    hessian: Literal["exact", "kronecker"]
    projected: bool


def influence_vectors(
    regression: SoftmaxRegression,
    parameters: Matrix,
    *,
    dimensions: int = 512,
    random: np.random.Generator,
    hessian: Literal["auto", "exact", "kronecker"] = "auto",
) -> Influence:
    """Return how leaving each row out would change the parameters from their optimum, times the labeled rows.

    At most ``dimensions`` numbers are kept of a vector. Longer ones are projected at random, which keeps inner
    products ⟨u, v⟩ within about ‖u‖‖v‖ · √(2/dimensions), for Kronecker products √(8/dimensions).

    The regularization is shared out evenly: the mean of the vectors is subtracted from each. At the optimum the
    gradients sum to −λθ, so that the vectors of all rows then sum to zero, and those of the rows that are kept to
    minus those of the rows that are left out.
    """
    size = int(np.prod(regression.shape))
    exact = size <= EXACT_PARAMETERS if hessian == "auto" else hessian == "exact"
    prepare = _exact_projection if exact else _kronecker_projection
    # The number of rows times a share is 1 where all rows weigh the same.
    scales = np.count_nonzero(regression.codes >= 0) * regression.shares
    with threadpool_limits(1):
        function, arrays = prepare(regression, parameters, dimensions, random)
        vectors = regression.rows.map_blocks(
            function, parameters, *arrays, per_row=(regression.codes, scales)
        )
    total = vectors.sum(axis=0, dtype=np.float64)
    for first in range(0, len(vectors), 4096):
        shares = regression.shares[first : first + 4096, None]
        vectors[first : first + 4096] -= (total * shares).astype(np.float32)
    return Influence(vectors, "exact" if exact else "kronecker", size > dimensions)


def exact_hessian(regression: SoftmaxRegression, parameters: Matrix) -> Matrix:
    """Return the Hessian at these parameters, of shape (p, p), class by class."""
    per_row = (regression.codes, regression.shares)
    hessian: Matrix = regression.rows.reduce_blocks(_hessian_terms, parameters, per_row=per_row)
    return hessian + regression.strength * np.eye(len(hessian))


def _inputs_and_errors(block: Any, codes: Any, parameters: Any) -> tuple[Any, Any, Any]:
    """Return h, p and p − y of a block in float64."""
    xp = array_namespace(block)
    block = xp.astype(block, xp.float64)
    probabilities, errors, _ = probabilities_and_errors(block, codes, parameters)
    return xp.concat([block, xp.ones_like(block[:, :1])], axis=1), probabilities, errors


def _hessian_terms(block: Any, codes: Any, shares: Any, parameters: Any) -> Any:
    """Return the sum of (diag(p) − p pᵀ) ⊗ h hᵀ over a block."""
    xp = array_namespace(block)
    inputs, probabilities, _ = _inputs_and_errors(block, codes, parameters)
    products = xp.reshape(probabilities[:, :, None] * inputs[:, None, :], (block.shape[0], -1))
    hessian = -((products * shares[:, None]).T @ products)
    columns = inputs.shape[1]
    for number in range(probabilities.shape[1]):
        own = slice(number * columns, (number + 1) * columns)
        hessian[own, own] += (inputs * (probabilities[:, number] * shares)[:, None]).T @ inputs
    return hessian


def _exact_projection(
    regression: SoftmaxRegression, parameters: Matrix, dimensions: int, random: np.random.Generator
) -> tuple[Any, tuple[Matrix, ...]]:
    """Return the function that projects a block, and H⁻¹ times the directions that are kept, shape (C, s + 1, d)."""
    from scipy.linalg import cho_factor, cho_solve

    n_classes, columns = regression.shape
    size = n_classes * columns
    factor = cho_factor(exact_hessian(regression, parameters))
    if size <= dimensions:
        directions = np.eye(size)
    else:
        directions = random.choice([-1.0, 1.0], size=(size, dimensions)) / np.sqrt(dimensions)
    # ⟨direction, H⁻¹ g⟩ = ⟨H⁻¹ direction, g⟩: one solve for all rows.
    return _project_exactly, (cho_solve(factor, directions).reshape(n_classes, columns, -1),)


def _project_exactly(block: Any, codes: Any, scales: Any, parameters: Any, solved: Any) -> Any:
    xp = array_namespace(block)
    inputs, _, errors = _inputs_and_errors(block, codes, parameters)
    projected = sum(errors[:, number, None] * (inputs @ solved[number]) for number in range(solved.shape[0]))
    return xp.astype(projected * scales[:, None], xp.float32)


def _moment_terms(block: Any, codes: Any, shares: Any, parameters: Any) -> Any:
    """Return the sums of diag(p) − p pᵀ and of h hᵀ over a block, both flat."""
    xp = array_namespace(block)
    inputs, probabilities, _ = _inputs_and_errors(block, codes, parameters)
    weighted = probabilities * shares[:, None]
    identity = xp.eye(weighted.shape[1], dtype=xp.float64, device=device(block))
    of_errors = identity * xp.sum(weighted, axis=0) - weighted.T @ probabilities
    of_rows = (inputs * shares[:, None]).T @ inputs
    return xp.concat([xp.reshape(of_errors, (-1,)), xp.reshape(of_rows, (-1,))])


def _kronecker_projection(
    regression: SoftmaxRegression, parameters: Matrix, dimensions: int, random: np.random.Generator
) -> tuple[Any, tuple[Matrix, ...]]:
    """Invert mean(diag(p) − p pᵀ) ⊗ mean(h hᵀ) + λ in the eigenvectors of its factors.

    There H⁻¹ g is (a bᵀ) ⊙ M with Mᵤᵥ = 1 / (σᵤ τᵥ + λ), and M is a sum of a few outer products, since σ and τ enter
    it only by their product. So the projection of a row is a product of two short ones.
    """
    n_classes, columns = regression.shape
    per_row = (regression.codes, regression.shares)
    moments = regression.rows.reduce_blocks(_moment_terms, parameters, per_row=per_row)
    sigma, left = np.linalg.eigh(moments[: n_classes**2].reshape(n_classes, n_classes))
    tau, right = np.linalg.eigh(moments[n_classes**2 :].reshape(columns, columns))
    inverse = 1.0 / (np.maximum(sigma, 0.0)[:, None] * np.maximum(tau, 0.0)[None, :] + regression.strength)
    u, singular, v = np.linalg.svd(inverse, full_matrices=False)
    missing = np.sqrt(np.cumsum(singular[::-1] ** 2)[::-1] / np.sum(singular**2))
    terms = min(_MAX_TERMS, int(np.argmax(np.append(missing, 0.0) < _TERM_ERROR)))
    of_errors = random.choice([-1.0, 1.0], size=(n_classes, dimensions)) / np.sqrt(dimensions)
    of_rows = random.choice([-1.0, 1.0], size=(columns, dimensions))
    for_errors = [left @ (u[:, t, None] * of_errors) * singular[t] for t in range(terms)]
    for_rows = [right @ (v[t, :, None] * of_rows) for t in range(terms)]
    return _project_kronecker, (np.stack(for_errors), np.stack(for_rows))


def _project_kronecker(
    block: Any, codes: Any, scales: Any, parameters: Any, for_errors: Any, for_rows: Any
) -> Any:
    xp = array_namespace(block)
    inputs, _, errors = _inputs_and_errors(block, codes, parameters)
    projected = sum((errors @ for_errors[t]) * (inputs @ for_rows[t]) for t in range(for_errors.shape[0]))
    return xp.astype(projected * scales[:, None], xp.float32)
