"""One pass over the rows: everything the geometric median needs to know about a point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmmatch.median import loops
from gmmatch.parallel import map_in_order
from gmmatch.rows import Rows
from gmmatch.types import Vector

# Unit roundoff of float64.
ROUNDOFF = 2.0**-53


@dataclass(frozen=True)
class Evaluation:
    """What one pass at ``point`` found.

    ``pull`` is Σ wᵢ(xᵢ − z)/dᵢ over the rows that are not at z: minus the gradient of the objective.
    """

    point: Vector
    pull: Vector
    inverse_distances: float
    objective: float
    coincident_weight: float
    nearest_row: int
    nearest_distance: float
    nearest_weight: float
    total_weight: float
    distances: Vector

    @property
    def excess(self) -> float:
        """‖subgradient of least norm‖: 0 exactly where the point is a median."""
        return max(0.0, float(np.linalg.norm(self.pull)) - self.coincident_weight)

    @property
    def gap(self) -> float:
        """Certified relative gap: ρ(z) ≤ (1 + gap) ρ(z*).

        With q = excess / Σw: ρ is convex, so ρ(z) − ρ* ≤ qW‖z − z*‖, and W‖z − z*‖ ≤ ρ(z) + ρ* by
        the triangle inequality; together ρ(z)/ρ* ≤ (1 + q)/(1 − q). A few units of rounding are added
        to q, so that the certificate holds for the exact sums and not only for the computed ones.
        """
        if self.objective == 0.0:
            return 0.0
        n, s = len(self.distances), len(self.point)
        q = self.excess / self.total_weight + ROUNDOFF * (16.0 + s + 4.0 * np.sqrt(n))
        return float(2.0 * q / (1.0 - q)) if q < 1.0 else np.inf

    def weiszfeld_step(self) -> Vector:
        """Return the step to the next point by Vardi and Zhang's rule (2000).

        Away from the rows it is Weiszfeld's; at a row, the row's own weight holds it back, and wins
        where the row is the median.
        """
        norm = float(np.linalg.norm(self.pull))
        if norm == 0.0 or self.inverse_distances == 0.0:
            return np.zeros_like(self.pull)
        freedom = max(0.0, 1.0 - self.coincident_weight / norm)
        return self.pull * (freedom / self.inverse_distances)

    def nearest_row_may_be_median(self) -> bool:
        """Whether the nearest row, with its duplicates, may satisfy the optimality condition.

        Judged from here, without a pass: the pull of the other rows changes little on the short way
        to the nearest one, and there it must not exceed that row's weight.
        """
        if self.nearest_row < 0 or self.coincident_weight > 0.0:
            return False
        return float(np.linalg.norm(self.pull)) <= 3.0 * self.nearest_weight


def evaluate(rows: Rows, weights: Vector, point: Vector, delta: float, threads: int) -> Evaluation:
    """Read every row once and return what there is to know about ``point``."""
    n_chunks = rows.n_chunks
    pulls = np.zeros((n_chunks, rows.n_features))
    sums = np.zeros((n_chunks, loops.N_SUMS))
    distances = np.empty(len(rows))

    def work(number: int) -> None:
        start, stop = rows.bounds(number)
        block, index = rows.chunk(number)
        loops.weiszfeld_chunk(
            block,
            index,
            weights[start:stop],
            point,
            delta,
            distances[start:stop],
            pulls[number],
            sums[number],
        )

    map_in_order(work, n_chunks, threads)
    totals = sums.sum(axis=0)
    best = int(np.argmin(sums[:, loops.NEAREST_DISTANCE]))
    nearest = float(sums[best, loops.NEAREST_DISTANCE])
    same = sums[:, loops.NEAREST_DISTANCE] == nearest
    row = int(sums[best, loops.NEAREST_ROW])
    return Evaluation(
        point=point,
        pull=pulls.sum(axis=0),
        inverse_distances=float(totals[loops.INVERSE_DISTANCES]),
        objective=float(totals[loops.OBJECTIVE]),
        coincident_weight=float(totals[loops.COINCIDENT]),
        nearest_row=row + rows.bounds(best)[0] if row >= 0 else -1,
        nearest_distance=nearest,
        nearest_weight=float(sums[same, loops.NEAREST_WEIGHT].sum()),
        total_weight=float(weights.sum()),
        distances=distances,
    )


def distances_to(rows: Rows, point: Vector, threads: int = 1) -> Vector:
    """Return the Euclidean distance of every row to ``point``."""
    out = np.empty(len(rows))

    def work(number: int) -> None:
        start, stop = rows.bounds(number)
        block, index = rows.chunk(number)
        loops.distances_chunk(block, index, point, out[start:stop])

    map_in_order(work, rows.n_chunks, threads)
    return out


def weighted_mean(rows: Rows, weights: Vector, threads: int = 1) -> Vector:
    """Return Σ wᵢxᵢ / Σ wᵢ, summed in float64."""
    totals = np.zeros((rows.n_chunks, rows.n_features))

    def work(number: int) -> None:
        start, stop = rows.bounds(number)
        block, index = rows.chunk(number)
        loops.sum_chunk(block, index, weights[start:stop], totals[number])

    map_in_order(work, rows.n_chunks, threads)
    mean: Vector = totals.sum(axis=0) / weights.sum()
    return mean
