"""Where a matching stands: the direction θ, and how far the mean of the picks is from the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.types import Indices, Start, Vector


@dataclass
class Walk:
    """The state of θ ← θ + (μ − x), which batches hand on to each other.

    ``drift`` is θ minus its start, that is Σ (μ − x) over the picks, so ‖drift‖ / count is the residual
    ‖μ − mean of picks‖.
    """

    target: Vector
    theta: Vector
    drift: Vector
    count: int = 0

    @classmethod
    def begin(cls, target: Vector, start: Start, already: NDArray[np.float64] | None = None) -> Walk:
        """Start at θ₀ = μ or 0, then account for the rows that are picked already."""
        walk = cls(
            target, target.copy() if start == "target" else np.zeros_like(target), np.zeros_like(target)
        )
        for row in () if already is None else already:
            walk.theta += target - row
            walk.drift += target - row
            walk.count += 1
        return walk

    def copy(self) -> Walk:
        """Return an independent copy."""
        return Walk(self.target, self.theta.copy(), self.drift.copy(), self.count)

    def residual(self) -> float:
        """‖μ − mean of the picks so far‖."""
        return float(np.linalg.norm(self.drift)) / max(1, self.count)


@dataclass(frozen=True)
class Picks:
    """Positions in the order they were picked, and the residual after each."""

    order: Indices
    residuals: Vector

    @classmethod
    def join(cls, parts: list[Picks]) -> Picks:
        """Return several runs as one."""
        if not parts:
            return cls(np.empty(0, dtype=np.int64), np.empty(0))
        return cls(
            np.concatenate([part.order for part in parts]), np.concatenate([part.residuals for part in parts])
        )
