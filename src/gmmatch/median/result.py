"""What the geometric median returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from gmmatch.types import Vector


@dataclass(frozen=True)
class MedianResult:
    """A point and the proof of how good it is.

    Attributes
    ----------
    point : float64 array of shape (s,)
        The (approximate) geometric median.
    objective : float
        ρ(point) = Σ wᵢ‖point − xᵢ‖ over the rows that were used.
    gap : float
        Certified: ``objective <= (1 + gap) * (smallest possible objective)``.
    iterations : int
        Points evaluated; each cost one pass over the rows.
    converged : bool
        Whether the stopping rule was met before ``max_iter``.
    n_rows : int
        Rows that were used (fewer than given when ``fraction`` is below 1).
    distances : float64 array of shape (n_rows,)
        Distance of each used row to ``point``.
    """

    point: Vector
    objective: float
    gap: float
    iterations: int
    converged: bool
    n_rows: int
    distances: Vector = field(repr=False)


@dataclass(frozen=True)
class KernelMedianResult:
    """A geometric median Σ αᵢφ(xᵢ) in a kernel's feature space; the fields mean what they say above.

    Attributes
    ----------
    coefficients : float64 array of shape (n,)
        The αᵢ; non-negative, summing to 1.
    """

    coefficients: Vector
    objective: float
    gap: float
    iterations: int
    converged: bool
    n_rows: int
    distances: Vector = field(repr=False)
