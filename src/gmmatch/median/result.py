"""What the geometric median returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gmmatch.types import Mask, Vector

# A Gaussian's farthest row is a few median distances out. At 30, one pick of such a row outweighs
# dozens of others.
FAR = 30.0


@dataclass(frozen=True)
class MedianResult:
    """A geometric median, with a certificate of its accuracy.

    Attributes
    ----------
    point : float64 array of shape (s,)
        The (approximate) geometric median; in a kernel's space its coefficients on the rows, which sum to 1.
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
class Spread:
    """How far rows lie from a point.

    Attributes
    ----------
    farthest, position
        The largest distance of a row that may be picked, and where that row stands.
    typical
        The median distance of all rows.
    far
        How many rows that may be picked lie more than 30 times as far; -1 where they were not counted.
    """

    farthest: float
    position: int
    typical: float
    far: int = -1

    @classmethod
    def of(cls, distances: Vector, available: Mask) -> Spread:
        """Return the spread of rows by their distances."""
        typical = float(np.median(distances))
        reachable = np.where(available, distances, 0.0)
        position = int(np.argmax(reachable))
        return cls(float(reachable[position]), position, typical, int((reachable > FAR * typical).sum()))
