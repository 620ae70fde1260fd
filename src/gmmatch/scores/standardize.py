"""Rows on a common scale, block by block, for the small models that score them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.median.passes import weighted_mean
from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Vector

# A row that lies farther out than so many deviations would dominate a small model's every step.
FARTHEST = 10.0


@dataclass(frozen=True)
class Standardization:
    """The centre and the scale of each column.

    Examples
    --------
    >>> rows = Rows(np.array([[1.0, 7.0], [3.0, 7.0]]))
    >>> Standardization.of(rows, np.ones(2)).take(rows, np.array([0, 1]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    center: Vector
    inverse: Vector

    @classmethod
    def of(cls, rows: Rows, weights: Vector, threads: int = 1) -> Standardization:
        """Return the weighted mean of each column and one over its deviation, 0 for a constant one."""
        center = weighted_mean(rows, weights, threads)

        def squares(number: int) -> Vector:
            start, stop = rows.bounds(number)
            block = rows.block(number, np.float64) - center
            found: Vector = np.einsum("i,ij,ij->j", weights[start:stop], block, block)
            return found

        parts = map_in_order(squares, rows.n_chunks, threads)
        deviation = np.sqrt(np.sum(parts, axis=0) / weights.sum())
        # The mean of equal numbers may be off by rounding; dividing by that would make noise of it.
        constant = deviation <= 1e-10 * np.abs(center)
        with np.errstate(divide="ignore"):
            inverse = np.where(constant, 0.0, 1.0 / deviation)
        return cls(center, np.where(np.isfinite(inverse), inverse, 0.0))

    def take(self, rows: Rows, positions: Indices) -> NDArray[np.float64]:
        """Return the rows at these positions, standardised, no number beyond 10 deviations."""
        block = (rows.gather(positions) - self.center) * self.inverse
        return np.clip(block, -FARTHEST, FARTHEST, out=block)
