"""The paper's guarantees as functions: numbers in, numbers out.

Use them to see what the theory promises for your counts, or to hold a measured error against it. The
citations are to the paper's Theorem 1 (``th:gm_match_cvg``), Lemma 1 (``lemma:bound_mmd``) and their
proofs. In all of them |G| is the number of clean rows, |B| that of corrupted ones and |B| < |G|.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gmmatch.errors import InvalidInputError
from gmmatch_paper.arrays import Matrix, float_blocks, mean_of
from gmmatch_paper.checks import check_fraction, check_matrix, check_number, check_whole_number


class BatchErrorRate(NamedTuple):
    """The two terms of the error of matching in batches, each up to a constant.

    Examples
    --------
    >>> sum(BatchErrorRate(matching=0.1, averaging=0.5))
    0.6
    """

    matching: float
    """B/k: each batch makes only k/B picks."""
    averaging: float
    """1/√B: the batches' errors are averaged as if independent."""


def clean_variance(rows: Matrix) -> float:
    """Return σ²(G) = (1/|G|) Σ ‖x − μ(G)‖², the variance the bounds speak of.

    Parameters
    ----------
    rows : array of shape (n, s)
        The clean rows alone. Sums are in float64.

    Examples
    --------
    >>> clean_variance([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    2.0
    """
    checked = check_matrix(rows, "rows")
    mean = mean_of(checked)
    return sum(float(((block - mean) ** 2).sum()) for block in float_blocks(checked)) / len(checked)


def median_error_bound(
    n_clean: int,
    n_corrupt: int,
    clean_variance: float,
    eps: float = 0.0,
    optimal_objective: float | None = None,
) -> float:
    """Return Theorem 1's bound on the squared error of the geometric median.

    ‖μ_GM − μ(G)‖² ≤ 8|G|² σ²(G) / (|G| − |B|)² + 2 ε_add² / (|G| − |B|)²

    Two things are called ε in the paper. Its definition of an approximate median is relative,
    ρ(z) ≤ (1 + ε) ρ(z*), and so is ``eps`` here and the gap that this package certifies. Its proof
    uses an additive one, ρ(z) ≤ ρ(z*) + ε_add. The two agree when ε_add = ε·ρ(z*), which the
    bound uses; hence ``optimal_objective``.

    Parameters
    ----------
    n_clean, n_corrupt : int
        |G| and |B|; fewer corrupted rows than clean ones.
    clean_variance : float
        σ²(G); see :func:`clean_variance`.
    eps : float
        Relative accuracy of the median, 0 when it is exact.
    optimal_objective : float, optional
        ρ(z*) = Σ ‖z* − xᵢ‖ over all rows, clean and corrupt. Needed when ``eps`` is above 0; ρ at the
        approximate median is an upper bound of it and keeps the result valid.

    Examples
    --------
    >>> median_error_bound(75, 25, clean_variance=1.0)
    18.0
    >>> median_error_bound(75, 25, clean_variance=1.0, eps=0.1, optimal_objective=500.0)
    20.0
    """
    lead = _lead(n_clean, n_corrupt)
    check_number(clean_variance, "clean_variance")
    additive = _additive_accuracy(eps, optimal_objective)
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

    The last two terms are twice :func:`median_error_bound`, where ε_add is explained.

    Parameters
    ----------
    k : int
        Number of picks.
    n_clean, n_corrupt, clean_variance, eps, optimal_objective
        As in :func:`median_error_bound`.
    herding_constant : float
        C₁ with ‖μ(S) − μ_GM‖² ≤ C₁/k². The proof's is ``matching_residual_bound(1, ...) ** 2``; a
        measured residual r after k picks gives (k·r)². There is no default because no number is safe
        for all data.

    Examples
    --------
    >>> moment_error_bound(10, 75, 25, clean_variance=1.0, herding_constant=50.0)
    37.0
    """
    check_whole_number(k, "k")
    check_number(herding_constant, "herding_constant")
    median = median_error_bound(n_clean, n_corrupt, clean_variance, eps, optimal_objective)
    return 2.0 * herding_constant / k**2 + 2.0 * median


def matching_residual_bound(k: int, start_norm: float, radius: float, kappa: float) -> float:
    """Return the proof's bound on the distance from the picks' mean to the target.

    ‖μ_GM − (1/k) Σ xᵢ‖ ≤ (‖θ₀‖ + r/κ) / k

    The proof follows Chen, Welling and Smola (Super-samples from kernel herding, UAI 2010): once
    ‖θ‖ exceeds r/κ, every pick shortens it. It needs picks with replacement, ‖θ₀‖ ≤ r/κ, and κ ≤ 1/2
    (a single step can make ‖θ‖ as large as 2r; where the cosine is larger, pass 1/2).

    Parameters
    ----------
    k : int
        Number of picks.
    start_norm : float
        ‖θ₀‖: that of the target for the paper's start, 0 for a start at 0.
    radius : float
        r with ‖x‖ ≤ r for every row (and so for the target).
    kappa : float
        κ in (0, 1]: the least cosine between θ and the pick seen from the target. The paper also calls
        it the radius of a ball around the target; such a ball of radius R gives the cosine R/(2r).

    Examples
    --------
    >>> matching_residual_bound(100, start_norm=1.0, radius=2.0, kappa=0.5)
    0.05
    """
    check_whole_number(k, "k")
    check_number(start_norm, "start_norm")
    check_number(radius, "radius")
    check_fraction(kappa, "kappa")
    return (start_norm + radius / kappa) / k


def batch_error_rate(k: int, batches: int) -> BatchErrorRate:
    """Return the two terms the paper predicts for matching in B batches: B/k and 1/√B.

    ‖μ(S) − μ_GM‖ ≤ O(B/k) + O(1/√B). Their constants differ and are not known; compare each term with
    itself at another number of batches, not one with the other.

    Parameters
    ----------
    k : int
        Number of picks over all batches.
    batches : int
        B, at most ``k``.

    Examples
    --------
    >>> batch_error_rate(1000, 100)
    BatchErrorRate(matching=0.1, averaging=0.1)
    """
    check_whole_number(k, "k")
    check_whole_number(batches, "batches")
    if batches > k:
        raise InvalidInputError(f"batches={batches} is more than k={k}; every batch needs at least one pick.")
    return BatchErrorRate(batches / k, 1.0 / math.sqrt(batches))


def subsampling_variance(fraction: float, clean_variance: float, n: int) -> float:
    """Return the variance added by taking the median of a fraction of the rows, up to a constant.

    (1 − γ)/γ · σ²(G)/n, which for a mean of γn rows drawn without replacement is exact up to n/(n − 1).

    Parameters
    ----------
    fraction : float
        γ in (0, 1]; the paper's image studies use 0.5.
    clean_variance : float
        σ²(G); see :func:`clean_variance`.
    n : int
        Number of rows before sampling.

    Examples
    --------
    >>> subsampling_variance(0.5, clean_variance=2.0, n=100)
    0.02
    """
    check_fraction(fraction, "fraction")
    check_number(clean_variance, "clean_variance")
    check_whole_number(n, "n")
    return (1.0 - fraction) / fraction * clean_variance / n


def _lead(n_clean: int, n_corrupt: int) -> int:
    """Return |G| − |B|, the majority that every bound divides by."""
    check_whole_number(n_clean, "n_clean")
    check_whole_number(n_corrupt, "n_corrupt", least=0)
    if n_corrupt >= n_clean:
        raise InvalidInputError(
            f"n_corrupt={n_corrupt} is not below n_clean={n_clean}: the bound needs fewer corrupted rows than "
            "clean ones."
        )
    return int(n_clean) - int(n_corrupt)


def _additive_accuracy(eps: float, optimal_objective: float | None) -> float:
    check_number(eps, "eps")
    if optimal_objective is None:
        if eps > 0.0:
            raise InvalidInputError(
                f"optimal_objective is missing: eps={eps} is relative to ρ(z*), the sum of all rows' "
                "distances to the median; give that sum."
            )
        return 0.0
    check_number(optimal_objective, "optimal_objective")
    return eps * optimal_objective
