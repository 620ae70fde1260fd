"""One pass over the rows: everything the geometric median needs to know about a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.median import loops
from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Matrix, Vector, is_tensor

# Unit roundoff of float64.
ROUNDOFF = 2.0**-53


@dataclass(frozen=True)
class Evaluation:
    """What one pass at ``point`` found.

    ``pull`` is Σ wᵢ(xᵢ − z)/dᵢ over the rows that are not at z: minus the gradient of the objective. In a
    kernel's space, point and pull are coefficients on the rows, and ``length`` is the pull's. With the paper's δ it
    is Σ wᵢ(xᵢ − z)/(dᵢ + δ), and ``smoothing`` is what that adds to the bound on the subgradient.
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
    rounding: float
    length: float | None = None
    smoothing: float = 0.0

    @property
    def pull_norm(self) -> float:
        """‖pull‖."""
        return float(np.linalg.norm(self.pull)) if self.length is None else self.length

    @property
    def gap(self) -> float:
        """Certified relative gap: ρ(z) ≤ (1 + gap) ρ(z*)."""
        return self._gap(self.smoothing)

    @property
    def gap_without_delta(self) -> float:
        """The gap but for what δ adds to it, which no step can lower."""
        return self._gap(min(self.smoothing, 0.0))

    def _gap(self, smoothing: float) -> float:
        """Return the gap for what δ adds.

        With q = ‖subgradient of least norm‖ / Σw: ρ is convex, so ρ(z) − ρ* ≤ qW‖z − z*‖, and W‖z − z*‖ ≤ ρ(z) + ρ*
        by the triangle inequality; together ρ(z)/ρ* ≤ (1 + q)/(1 − q). ``rounding`` is added to q, so that
        the certificate holds for the exact sums and not only for the computed ones.
        """
        if self.objective == 0.0:
            return 0.0
        q = max(0.0, self.pull_norm + smoothing - self.coincident_weight) / self.total_weight + self.rounding
        return float(2.0 * q / (1.0 - q)) if q < 1.0 else np.inf

    def weiszfeld_step(self) -> Vector:
        """Return the step to the next point by Vardi and Zhang's rule (2000).

        Away from the rows it is Weiszfeld's; at a row, the row's own weight holds it back, and wins
        where the row is the median.
        """
        norm = self.pull_norm
        if norm == 0.0 or self.inverse_distances == 0.0:
            return np.zeros_like(self.pull)
        freedom = max(0.0, 1.0 - self.coincident_weight / norm)
        return self.pull * (freedom / self.inverse_distances)

    def proximal_point(self, nearest: Vector) -> Vector:
        """Return Weiszfeld's next point with the nearest row treated exactly.

        Weiszfeld replaces every ‖z − xᵢ‖ by a parabola through the current point. For a row very close
        by, that parabola is so steep that the iteration hardly moves. Here the nearest row, with its
        copies, keeps its cone: z⁺ minimizes w‖z − x‖ + (a/2)‖z − t‖² with t the Weiszfeld point of the
        other rows and a = Σ w/d over them. It descends like Weiszfeld's step, lands exactly on a row
        that is the median, and at a row it is Vardi and Zhang's rule.
        """
        if self.coincident_weight > 0.0 or self.nearest_row < 0:
            return self.point + self.weiszfeld_step()
        w, offset = self.nearest_weight, nearest - self.point
        curvature = self.inverse_distances - w / self.nearest_distance
        if curvature <= 1e-12 * self.inverse_distances:
            return nearest
        others = self.pull - offset * (w / self.nearest_distance)
        from_row = others / curvature - offset
        length = float(np.linalg.norm(from_row))
        if length * curvature <= w:
            return nearest
        moved: Vector = nearest + from_row * (1.0 - w / (curvature * length))
        return moved

    @classmethod
    def of_sums(
        cls,
        point: Vector,
        pull: Vector,
        sums: Vector,
        total_weight: float,
        n_rows: int,
        distances: Vector,
        delta: float,
    ) -> Evaluation:
        """Return what the scalar sums of :mod:`gmmatch.median.loops` over all rows say."""
        inverse, coincident = float(sums[loops.INVERSE_DISTANCES]), float(sums[loops.COINCIDENT])
        smoothing = 0.0
        if delta > 0.0:
            # What is smoothed has no corners: a row at the point is like any other, and none is the median.
            smoothing = delta * inverse - coincident
            inverse, coincident, sums = inverse + coincident / delta, 0.0, sums.copy()
            sums[loops.NEAREST_ROW] = -1
        return cls(
            point=point,
            pull=pull,
            inverse_distances=inverse,
            objective=float(sums[loops.OBJECTIVE]),
            coincident_weight=coincident,
            nearest_row=int(sums[loops.NEAREST_ROW]),
            nearest_distance=float(sums[loops.NEAREST_DISTANCE]),
            nearest_weight=float(sums[loops.NEAREST_WEIGHT]),
            total_weight=total_weight,
            distances=distances,
            rounding=rounding_of_pull(n_rows, len(point)),
            smoothing=smoothing,
        )

    def nearest_row_may_be_median(self) -> bool:
        """Whether the nearest row, with its duplicates, may satisfy the optimality condition.

        Judged from here, without a pass: the pull of the other rows changes little on the short way
        to the nearest one, and there it must not exceed that row's weight.
        """
        if self.nearest_row < 0 or self.coincident_weight > 0.0:
            return False
        # So close to a row, differences lose their digits; at the row itself there are none to lose.
        touching = self.nearest_distance * self.total_weight < 1e-9 * self.objective
        return touching or self.pull_norm <= 3.0 * self.nearest_weight


def evaluate(
    rows: Rows, weights: Vector, point: Vector, delta: float, threads: int, total_weight: float | None = None
) -> Evaluation:
    """Read every row once and return what there is to know about ``point``; the sum of the weights may be known."""
    if hasattr(rows.source, "tensor"):
        from gmmatch.backends.cuda.blocks import TensorRows

        starts, pulls, sums, distances = TensorRows(rows).weiszfeld(weights, point, delta)
    else:
        starts, pulls, sums, distances = _pass(rows, weights, point, delta, threads)
    best = int(np.argmin(sums[:, loops.NEAREST_DISTANCE]))
    row, weight = _nearest(rows, starts, sums, best)
    totals = sums.sum(axis=0)
    totals[[loops.NEAREST_DISTANCE, loops.NEAREST_ROW, loops.NEAREST_WEIGHT]] = (
        sums[best, loops.NEAREST_DISTANCE], row, weight,
    )  # fmt: skip
    total_weight = float(weights.sum()) if total_weight is None else total_weight
    return Evaluation.of_sums(point, pulls.sum(axis=0), totals, total_weight, len(rows), distances, delta)


def _pass(
    rows: Rows, weights: Vector, point: Vector, delta: float, threads: int
) -> tuple[Indices, NDArray[np.float64], NDArray[np.float64], Vector]:
    """Return where each chunk begins, its pull and its scalar sums, and the distance of every row."""
    starts = rows.rows_per_chunk * np.arange(rows.n_chunks)
    pulls = np.zeros((rows.n_chunks, rows.n_features))
    sums = np.zeros((rows.n_chunks, loops.N_SUMS))
    distances = np.empty(len(rows))

    def work(number: int) -> None:
        part = slice(*rows.bounds(number))
        loops.weiszfeld_chunk(
            *rows.chunk(number), weights[part], point, delta, distances[part], pulls[number],
            sums[number],
        )  # fmt: skip

    map_in_order(work, rows.n_chunks, threads)
    return starts, pulls, sums, distances


def rounding_of_pull(n: int, s: int) -> float:
    """Return how far rounding may have moved Σ w(x−z)/d, per unit of weight."""
    return float(ROUNDOFF * (16.0 + s + 4.0 * np.sqrt(n)))


def _nearest(rows: Rows, starts: Indices, sums: NDArray[np.float64], best: int) -> tuple[int, float]:
    """Return the position of the nearest row and the weight of it and its copies in all chunks."""
    if sums[best, loops.NEAREST_ROW] < 0:
        return -1, 0.0
    at = starts + sums[:, loops.NEAREST_ROW].astype(np.int64)
    tied = np.flatnonzero(sums[:, loops.NEAREST_DISTANCE] == sums[best, loops.NEAREST_DISTANCE])
    row = rows.row(int(at[best]))
    copies = [n for n in tied if n == best or np.array_equal(rows.row(int(at[n])), row)]
    return int(at[best]), float(sums[copies, loops.NEAREST_WEIGHT].sum())


def distances_to(rows: Rows, point: Vector, threads: int = 1) -> Vector:
    """Return the Euclidean distance of every row to ``point``."""
    return rows.each(distances_of, point, threads=threads)


def distances_of(block: Matrix, index: Indices, point: Vector) -> Vector:
    """Return the distance of some rows of a block to a point; of tensors, a tensor."""
    if is_tensor(block):
        apart: Any = block[index] - point
        norms: Vector = apart.norm(dim=1)
        return norms
    out = np.empty(len(index))
    loops.distances_chunk(block, index, point, out)
    return out


def weighted_mean(rows: Rows, weights: Vector, threads: int = 1) -> Vector:
    """Return Σ wᵢxᵢ / Σ wᵢ, with the same bits wherever the rows lie, except on a GPU."""
    return mean_of_sums(rows.total(weighted_sums, weights, threads=threads, add=add_sums))


def weighted_sums(block: Any, index: Indices, weights: Vector) -> NDArray[np.float64]:
    """Return Σ wᵢxᵢ and Σ wᵢ of a block as :func:`~gmmatch.median.loops.sum_chunk` has them, (2, s + 1)."""
    if is_tensor(block):
        found: Any = block.new_zeros((2, block.shape[1] + 1), dtype=weights.dtype)
        found[0, :-1], found[0, -1] = weights @ block[index].double(), weights.sum()
        return found  # type: ignore[no-any-return]
    out = np.zeros((2, block.shape[1] + 1))
    loops.sum_chunk(block, index, weights, out)
    return out


def add_sums(one: Any, other: Any) -> Any:
    """Return two sums of :func:`weighted_sums` as one.

    Examples
    --------
    >>> add_sums(np.array([[1.0], [0.0]]), np.array([[1e-20], [0.0]]))
    array([[1.e+00],
           [1.e-20]])
    """
    total = one + other
    added = total[0] - one[0]
    total[1] += (one[0] - (total[0] - added)) + (other[0] - added)
    return total


def mean_of_sums(sums: NDArray[np.float64]) -> Vector:
    """Return Σ wᵢxᵢ / Σ wᵢ of sums that :func:`add_sums` has added."""
    total = sums[0] + sums[1]
    mean: Vector = total[..., :-1] / total[..., -1:]
    return mean
