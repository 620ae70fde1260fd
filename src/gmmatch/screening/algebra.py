"""Square matrices of the screening, as NumPy arrays or as tensors on the device that computed them.

What comes from all columns of the rows is large enough for a device; results with a column per class are not, and
come as NumPy arrays from either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import tensor_beside

Square = Any  # an (s, s) array or tensor


def trace(matrix: Square) -> float:
    """Return the sum of the diagonal.

    Examples
    --------
    >>> trace(np.eye(3))
    3.0
    """
    return float(matrix.trace())


def narrowed(matrix: Square) -> Square:
    """Return the matrix as float32.

    Examples
    --------
    >>> narrowed(np.eye(1)).dtype
    dtype('float32')
    """
    return matrix.astype(np.float32, copy=False) if isinstance(matrix, np.ndarray) else matrix.float()


def combined(matrices: Sequence[Square], left: NDArray[Any], right: NDArray[Any], divisor: float) -> Square:
    """Return (Σ matrices + leftᵀ right) / divisor.

    Examples
    --------
    >>> combined([np.eye(2), np.eye(2)], np.ones((1, 2)), np.ones((1, 2)), 2.0)
    array([[1.5, 0.5],
           [0.5, 1.5]])
    """
    first = matrices[0]
    if isinstance(first, np.ndarray):
        found = left.T.astype(first.dtype, copy=False) @ right.astype(first.dtype, copy=False)
    else:
        found = tensor_beside(first, left, first.dtype).T @ tensor_beside(first, right, first.dtype)
    for matrix in matrices:
        found += matrix
    found /= divisor
    return found


def shrunk_solutions(
    matrix: Square, shrinkages: Sequence[float], sphere: float, ridge: float, right: NDArray[Any]
) -> list[NDArray[np.float32]]:
    """Return the solution of ((1 − h) M + (h · sphere + ridge) I) X = right for each shrinkage h.

    Examples
    --------
    >>> shrunk_solutions(np.diag([1.0, 3.0]), [0.0, 0.5], 1.0, 0.0, np.ones((2, 1)))[1].ravel().tolist()
    [1.0, 0.5]
    """
    if not isinstance(matrix, np.ndarray):
        return _solutions_on_device(matrix, shrinkages, sphere, ridge, right)
    from scipy.linalg import cho_factor, cho_solve

    found = []
    for shrinkage in shrinkages:
        shrunk = (1.0 - shrinkage) * matrix
        shrunk[np.diag_indices(len(shrunk))] += shrinkage * sphere + ridge
        # Transposed it is the same matrix in the order of LAPACK, which would copy it otherwise.
        factor = cho_factor(shrunk.T, lower=True, overwrite_a=True, check_finite=False)
        solution = cho_solve(factor, right.astype(shrunk.dtype), check_finite=False)
        found.append(solution.astype(np.float32))
    return found


def _solutions_on_device(
    matrix: Any, shrinkages: Sequence[float], sphere: float, ridge: float, right: NDArray[Any]
) -> list[NDArray[np.float32]]:
    import torch

    scale = torch.tensor(
        [1.0 - shrinkage for shrinkage in shrinkages], dtype=matrix.dtype, device=matrix.device
    )
    added = torch.tensor(
        [shrinkage * sphere + ridge for shrinkage in shrinkages], dtype=matrix.dtype, device=matrix.device
    )
    shrunk = scale[:, None, None] * matrix
    shrunk.diagonal(dim1=1, dim2=2).add_(added[:, None])
    # All shrinkages side by side: one factorisation alone does not fill a device.
    solutions = torch.cholesky_solve(
        tensor_beside(matrix, right, matrix.dtype)[None], torch.linalg.cholesky(shrunk)
    )
    return list(solutions.float().cpu().numpy())


def leading_directions(scatter: Square, width: int) -> NDArray[Any]:
    """Return the eigenvectors of the largest eigenvalues, largest first.

    Examples
    --------
    >>> np.abs(leading_directions(np.diag([1.0, 3.0]), 1)).tolist()
    [[0.0], [1.0]]
    """
    s = len(scatter)
    if not isinstance(scatter, np.ndarray):
        import torch

        found: NDArray[Any] = torch.linalg.eigh(scatter)[1][:, s - width :].flip(1).cpu().numpy()
        return found
    from scipy.linalg import eigh

    if 4 * width >= s:  # all of them take no longer
        every: NDArray[Any] = eigh(scatter, driver="evd", check_finite=False)[1]
        return every[:, : s - width - 1 if s > width else None : -1]
    some: NDArray[Any] = eigh(scatter, subset_by_index=(s - width, s - 1))[1]
    return some[:, ::-1]


def roughly_leading(scatter: Square, width: int) -> NDArray[Any]:
    """Return orthogonal directions that hold all but a hundredth of what the leading ones do, far sooner.

    Where all directions are asked for, or there are few, they are exact. The few products are made on the host.

    Examples
    --------
    >>> scatter = np.diag(1.0 / np.arange(1.0, 201.0))
    >>> axes = roughly_leading(scatter, 10)
    >>> bool(np.trace(axes.T @ scatter @ axes) > 0.99 * np.sum(1.0 / np.arange(1.0, 11.0)))
    True
    """
    s = len(scatter)
    wider = width + max(width // 4, 8)
    if 4 * wider >= s:
        return leading_directions(scatter, width)
    scatter = scatter if isinstance(scatter, np.ndarray) else scatter.cpu().numpy()
    axes = np.random.default_rng(0).standard_normal((s, wider)).astype(scatter.dtype)
    for _ in range(4):
        axes = np.linalg.qr(scatter @ axes)[0]
    found: NDArray[Any] = axes @ np.linalg.eigh(axes.T @ scatter @ axes)[1][:, : -width - 1 : -1]
    return found
