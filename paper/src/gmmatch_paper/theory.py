"""The paper's guarantees as functions: Theorem 1 (``th:gm_match_cvg``), Lemma 1 (``lemma:bound_mmd``), Section 5.4.

|G| is the number of clean rows, |B| that of corrupted ones, and |B| < |G|.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gmmatch.errors import InvalidInputError
from gmmatch_paper.arrays import Matrix, float_blocks, mean_of
from gmmatch_paper.checks import check_matrix


class BatchErrorRate(NamedTuple):
    """The two terms of the error of matching in batches, each up to a constant: B/k, and 1/√B."""

    matching: float
    averaging: float


def clean_variance(rows: Matrix) -> float:
    """Return σ²(G) = (1/|G|) Σ ‖x − μ(G)‖², the variance the bounds speak of; ``rows`` are the clean ones alone.

    Examples
    --------
    >>> clean_variance([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    2.0
    """
    checked = check_matrix(rows, "rows")
    mean = mean_of(checked)
    return sum(float(((block - mean) ** 2).sum()) for block in float_blocks(checked)) / len(checked)


def median_error_bound(
    n_clean: int, n_corrupt: int, clean_variance: float, eps: float = 0.0, optimal_objective: float | None = None
) -> float:  # fmt: skip
    """Return Theorem 1's bound on the squared error of the geometric median.

    ‖μ_GM − μ(G)‖² ≤ 8|G|² σ²(G) / (|G| − |B|)² + 2 ε_add² / (|G| − |B|)²

    Two things are called ε in the paper. Its definition of an approximate median is relative, ρ(z) ≤ (1 + ε) ρ(z*),
    and so is ``eps`` here and the gap that gmmatch certifies. Its proof uses an additive one, ρ(z) ≤ ρ(z*) + ε_add.
    The two agree when ε_add = ε·ρ(z*), hence ``optimal_objective``: ρ(z*) = Σ ‖z* − xᵢ‖ over all rows, or ρ at the
    approximate median, which keeps the bound valid.

    Examples
    --------
    >>> median_error_bound(75, 25, clean_variance=1.0)
    18.0
    >>> median_error_bound(75, 25, clean_variance=1.0, eps=0.1, optimal_objective=500.0)
    20.0
    """
    if n_corrupt >= n_clean:
        raise InvalidInputError(
            f"n_corrupt={n_corrupt} is not below n_clean={n_clean}: the bound needs fewer corrupted rows than "
            "clean ones."
        )
    if eps > 0.0 and optimal_objective is None:
        raise InvalidInputError(
            f"optimal_objective is missing: eps={eps} is relative to the sum of all distances."
        )
    additive, lead = eps * (optimal_objective or 0.0), n_clean - n_corrupt
    return 8.0 * (n_clean / lead) ** 2 * clean_variance + 2.0 * (additive / lead) ** 2


def moment_error_bound(
    k: int,
    n_clean: int,
    n_corrupt: int,
    clean_variance: float,
    eps: float = 0.0,
    optimal_objective: float | None = None,
    *,
    herding_constant: float,
) -> float:
    """Return Lemma 1's bound on the squared moment error of the k picks.

    Δ² = ‖μ(S) − μ(G)‖² ≤ 2 C₁/k² + 16 σ²(G) / (1 − α)² + 4 ε_add² / (|G|² (1 − α)²),  α = |B| / |G|

    The last two terms are twice :func:`median_error_bound`. C₁, the ``herding_constant``, has
    ‖μ(S) − μ_GM‖² ≤ C₁/k²: the proof's is ``matching_residual_bound(1, ...) ** 2``; a measured residual r after k
    picks gives (k·r)².

    Examples
    --------
    >>> moment_error_bound(10, 75, 25, clean_variance=1.0, herding_constant=50.0)
    37.0
    """
    median = median_error_bound(n_clean, n_corrupt, clean_variance, eps, optimal_objective)
    return 2.0 * herding_constant / k**2 + 2.0 * median


def matching_residual_bound(k: int, start_norm: float, radius: float, kappa: float) -> float:
    """Return the proof's bound on the distance from the picks' mean to the target.

    ‖μ_GM − (1/k) Σ xᵢ‖ ≤ (‖θ₀‖ + r/κ) / k, with ‖x‖ ≤ r for every row and κ the least cosine between θ and the pick
    seen from the target; a ball of radius R around the target gives the cosine R/(2r).

    The proof follows Chen, Welling and Smola (Super-samples from kernel herding, UAI 2010): once ‖θ‖ exceeds r/κ,
    every pick shortens it. It needs picks with replacement, ‖θ₀‖ ≤ r/κ, and κ ≤ 1/2 (a single step can make ‖θ‖ as
    large as 2r; where the cosine is larger, pass 1/2).

    Examples
    --------
    >>> matching_residual_bound(100, start_norm=1.0, radius=2.0, kappa=0.5)
    0.05
    """
    return (start_norm + radius / kappa) / k


def batch_error_rate(k: int, batches: int) -> BatchErrorRate:
    """Return the two terms the paper predicts for k picks in B batches: ‖μ(S) − μ_GM‖ ≤ O(B/k) + O(1/√B).

    Their constants differ and are not known: compare each term with itself at another number of batches.

    Examples
    --------
    >>> batch_error_rate(1000, 100)
    BatchErrorRate(matching=0.1, averaging=0.1)
    """
    return BatchErrorRate(batches / k, 1.0 / math.sqrt(batches))


def subsampling_variance(fraction: float, clean_variance: float, n: int) -> float:
    """Return the variance added by the median of a fraction γ of n rows, up to a constant: (1 − γ)/γ · σ²(G)/n.

    For a mean of γn rows drawn without replacement it is exact up to n/(n − 1).

    Examples
    --------
    >>> subsampling_variance(0.5, clean_variance=2.0, n=100)
    0.02
    """
    return (1.0 - fraction) / fraction * clean_variance / n
