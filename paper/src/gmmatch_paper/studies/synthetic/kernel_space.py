"""Plain float64 references in the space of a kernel: points are Σ αᵢ φ(xᵢ), given by their coefficients α."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import gmmatch as gm
from gmmatch_paper.arrays import Indices, Matrix, Vector


def gram_matrix(kernel: gm.RBF | gm.Polynomial, rows: Matrix) -> Matrix:
    """Return the kernel of all pairs of rows; the bandwidth "median" is the median distance of all pairs."""
    if isinstance(kernel, gm.RBF) and kernel.bandwidth == "median":
        from scipy.spatial.distance import pdist

        kernel = replace(kernel, bandwidth=float(np.median(pdist(rows))))
    gram: Matrix = kernel.gram(rows, rows)
    return gram


def median_coefficients(gram: Any, *, eps: float = 1e-8, max_iter: int = 5000) -> Vector:
    """Return the coefficients of the geometric median, by Weiszfeld's iteration with a certified gap of ``eps``."""
    n, norms = len(gram), np.diag(gram)
    coefficients = np.full(n, 1.0 / n)
    products = gram @ coefficients
    for _ in range(max_iter):
        squares = norms - 2.0 * products + coefficients @ products
        inverse = 1.0 / np.sqrt(np.maximum(squares, np.finfo(float).tiny))
        step = inverse / inverse.sum() - coefficients
        change = gram @ step
        # The gradient of the mean distance is minus the step, times the mean of the inverse distances.
        slope = inverse.mean() * np.sqrt(max(0.0, float(step @ change)))
        coefficients, products = coefficients + step, products + change
        if 2.0 * slope <= eps * (1.0 - slope):
            break
    return coefficients


def greedy_picks(gram: Any, coefficients: Vector, k: int) -> Indices:
    """Return the picks of the paper's loop in a kernel's space, in plain float64.

    Parameters
    ----------
    gram : array of shape (n, n)
        Kernel values.
    coefficients : array of shape (n,)
        The target Σ αᵢφ(xᵢ).
    k : int
    """
    target_scores = gram @ coefficients
    scores = target_scores.copy()
    order = np.empty(k, dtype=np.int64)
    free = np.ones(len(gram), dtype=bool)
    for t in range(k):
        order[t] = int(np.argmax(np.where(free, scores, -np.inf)))
        free[order[t]] = False
        scores += target_scores - gram[order[t]]
    return order
