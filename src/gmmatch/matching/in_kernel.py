"""Greedy matching in a kernel's space, where θ is known only through its scores.

s ← s + m − k(x, ·)   with   mᵢ = ⟨μ, φ(xᵢ)⟩
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.kernels.distances import typical_row
from gmmatch.kernels.kernels import RBF, Kernel
from gmmatch.kernels.means import prepared
from gmmatch.matching.batches import partition, shares
from gmmatch.matching.walk import Picks, greedy
from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Mask, RandomState, Start, Vector


class KernelRows(Protocol):
    """A source of kernel-matrix rows."""

    def row(self, position: int) -> Vector:
        """Return k(x, xᵢ) for all i, where x stands at ``position``."""
        ...


class StoredGram:
    """A Gram matrix that fits in memory."""

    def __init__(self, gram: NDArray[np.float64]) -> None:
        self.gram = gram

    def row(self, position: int) -> Vector:
        """Return a row of the matrix."""
        values: Vector = self.gram[position]
        return values


class ComputedRows:
    """Kernel rows computed when they are asked for; memory stays linear in the number of rows."""

    def __init__(self, kernel: Kernel, rows: Rows, threads: int) -> None:
        self.kernel, self.rows, self.threads = kernel, rows, threads
        self._values = np.empty(len(rows))
        # Few rows are held as the kernel compares them.
        self._held = None
        if rows.n_chunks == 1:
            self._held = prepared(kernel, rows.block(0, np.float64), typical_row(rows))

    def row(self, position: int) -> Vector:
        """Return the kernel of one row with all rows; overwritten by the next call."""
        if self._held is not None:
            values: Vector = self.kernel(
                self._held, self._held[position : position + 1], self._values[:, None]
            )[:, 0]
            return values
        point = self.rows.row(position)

        def work(number: int) -> None:
            start, stop = self.rows.bounds(number)
            part = self._values[start:stop]
            if isinstance(self.kernel, RBF):
                block, index = self.rows.chunk(number)
                negative_half_squared(block, index, point, 1.0 / self.kernel.scale, part)
                np.exp(part, out=part)
            else:
                part[:] = self.kernel(self.rows.block(number, np.float64), point[None, :])[:, 0]

        map_in_order(work, self.rows.n_chunks, self.threads)
        return self._values


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, boundscheck=False)
def negative_half_squared(
    block: NDArray[Any],
    index: NDArray[np.int64],
    point: NDArray[np.float64],
    inverse: float,
    out: NDArray[np.float64],
) -> None:
    """Write −‖(x − point) · inverse‖² / 2, the exponent of the Gaussian kernel."""
    s = point.shape[0]
    for i in range(index.shape[0]):
        row = block[index[i]]
        squared = 0.0
        for j in range(s):
            # Scaled before it is squared: squares of bandwidths overflow and vanish.
            difference = (np.float64(row[j]) - point[j]) * inverse
            squared += difference * difference
        out[i] = -0.5 * squared


# Scores this close, relative to what went into them, are the same number: kernel values of equal rows may
# differ in their last bits.
_TIE = 2.0**-49


@dataclass(frozen=True, eq=False)
class KernelTarget:
    """A target μ in a kernel's space, as n rows see it.

    Attributes
    ----------
    rows : KernelRows
        Where rows of the kernel matrix come from.
    scores : float64 array of shape (n,)
        ⟨μ, φ(xᵢ)⟩ for every row.
    norm : float
        ‖μ‖².
    diagonal : float64 array of shape (n,)
        k(xᵢ, xᵢ).
    """

    rows: KernelRows
    scores: Vector
    norm: float
    diagonal: Vector


def match_in_kernel(
    target: KernelTarget,
    k: int,
    *,
    available: Mask | None = None,
    already: Indices | None = None,
    start: Start = "target",
    replacement: bool = False,
    batches: int = 1,
    random_state: RandomState = None,
) -> Picks:
    """Return ``k`` positions whose mean in the kernel's space approaches the target μ.

    ``available`` and what follows is as in :func:`gmmatch.matching.match.match`; θ is carried from batch to batch.
    """
    free = np.ones(len(target.scores), dtype=bool) if available is None else np.array(available, dtype=bool)
    left = int(free.sum())
    if k and (left == 0 or (k > left and not replacement)):
        raise InvalidInputError(f"k={k} picks were asked for, but only {left} rows may be picked.")
    state = _State(target, start)
    if already is not None:
        state.follow(already)
    if batches == 1:
        parts = [free]
        quota = np.array([k])
    else:
        chosen = partition(np.flatnonzero(free), batches, random_state)
        quota = shares(k, chosen)
        parts = [np.isin(np.arange(len(free)), part) for part in chosen]
    found = []
    for part, count in zip(parts, quota, strict=True):

        def best(active: Indices, thetas: Sequence[Vector], part: Mask = part) -> tuple[Indices, Indices]:
            position = first_best(np.where(part, thetas[0], -np.inf), state.tie)
            part[position] = replacement
            return np.array([position]), np.array([position])

        found += greedy(best, [state], [int(count)])
    return Picks.join(found)


def residuals_in_kernel(target: KernelTarget, order: Indices, already: Indices) -> Vector:
    """Return the residual after each of some picks that are known."""
    state = _State(target, "zero")
    state.follow(already)
    return state.follow(order)


class _State:
    """A walk in a kernel's space: θ by its scores ⟨θ, φ(xᵢ)⟩, and the norm of the drift Σ (μ − φ(x))."""

    def __init__(self, target: KernelTarget, start: Start) -> None:
        self.target = target
        self.start = target.scores.copy() if start == "target" else np.zeros_like(target.scores)
        self.theta = self.start.copy()
        self.roots = np.sqrt(np.abs(target.diagonal))
        self.added = 0.0
        self.count = 0
        self.picked_target_scores = 0.0
        self.drift_squared = 0.0

    def tie(self, position: int) -> float:
        """Return how far rounding may have moved the score of a row (by Cauchy and Schwarz)."""
        along_target = (self.count + 1) * abs(float(self.target.scores[position]))
        return _TIE * (along_target + float(self.roots[position]) * self.added)

    def follow(self, positions: Indices) -> Vector:
        """Pick rows one after another; return the residual ‖μ − mean of picks‖ after each."""
        return np.array([self._take(int(position)) for position in positions])

    def _take(self, position: int) -> float:
        target = self.target
        m = float(target.scores[position])
        along_row = float(self.theta[position] - self.start[position])
        along_target = self.count * target.norm - self.picked_target_scores
        change = target.norm - 2.0 * m + float(target.diagonal[position])
        self.drift_squared = max(0.0, self.drift_squared + change + 2.0 * (along_target - along_row))
        self.picked_target_scores += m
        self.count += 1
        self.theta += target.scores
        self.theta -= target.rows.row(position)
        self.added += float(self.roots[position])
        return float(np.sqrt(self.drift_squared)) / self.count


def first_best(scores: Vector, tie: Callable[[int], float]) -> int:
    """Return the lowest position whose score is the highest, but for what rounding may have moved.

    Examples
    --------
    >>> first_best(np.array([1.0, 3.0 - 1e-12, 3.0]), lambda position: 1e-10)
    1
    """
    best = int(np.argmax(scores))
    close = scores[:best] >= scores[best] - 2.0 * tie(best)
    lower = int(np.argmax(close)) if best else 0
    return lower if best and close[lower] else best
