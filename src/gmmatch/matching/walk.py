"""Where a matching stands (θ, and how far the mean of the picks is from the target), and the loop that moves it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gmmatch.types import Indices, Start, Vector

# Picks whose rows are read together.
_BLOCK = 1024


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
        theta = target.copy() if start == "target" else np.zeros_like(target)
        walk = cls(target, theta, np.zeros_like(target))
        if already is not None:
            walk.follow(already)
        return walk

    def follow(self, rows: NDArray[Any]) -> Vector:
        """Pick rows one after another; return the residual after each."""
        if len(rows) == 0:
            return np.empty(0)
        changes = self.target - rows
        self.theta = np.cumsum(np.concatenate([self.theta[None], changes]), axis=0)[-1]
        along = np.cumsum(np.concatenate([self.drift[None], changes]), axis=0)[1:]
        self.drift = along[-1].copy()
        counts = self.count + 1 + np.arange(len(rows))
        self.count += len(rows)
        # Summed from left to right, as the compiled loops do: the same bits on every path.
        residuals: Vector = np.sqrt(np.cumsum(along * along, axis=1)[:, -1]) / counts
        return residuals


def replay(rows: Any, walk: Walk, order: Indices) -> Vector:
    """Follow picks that are known, a block of rows at a time; return the residual after each."""
    blocks = [order[first : first + _BLOCK] for first in range(0, len(order), _BLOCK)]
    return np.concatenate([np.empty(0), *(walk.follow(rows.gather(block)) for block in blocks)])


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


class Direction(Protocol):
    """What :func:`greedy` moves: a :class:`Walk`, or its like in a kernel's space."""

    theta: Vector

    def follow(self, rows: NDArray[Any]) -> Vector:
        """Take picks into account; return the residual after each."""
        ...


Scan = Callable[[Indices, Sequence[Vector]], "tuple[Indices, NDArray[Any]]"]
"""Given the walks that make a pick, and their θ: the best row of each, which is taken by that (−1 where none is
left; the lowest of equals), and what the walk follows."""


def greedy(scan: Scan, walks: Sequence[Direction], quotas: Sequence[int] | Indices) -> list[Picks]:
    """Make the picks of several walks side by side, one each per round, wherever their rows lie.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [9.0]])
    >>> def scan(active, thetas):
    ...     best = np.array([np.argmax(X @ thetas[0])])
    ...     return best, X[best]
    >>> greedy(scan, [Walk.begin(np.array([1.0]), "zero")], [2])[0].order
    array([0, 3])
    """
    orders: list[list[int]] = [[] for _ in walks]
    residuals: list[list[float]] = [[] for _ in walks]
    left = np.array(quotas, dtype=np.int64)
    while left.any():
        active = np.flatnonzero(left)
        rows, followed = scan(active, [walks[number].theta for number in active.tolist()])
        for number, row, vector in zip(active.tolist(), rows.tolist(), followed, strict=True):
            if row < 0:
                left[number] = 0
                continue
            orders[number].append(row)
            residuals[number].append(float(walks[number].follow(vector[None])[0]))
            left[number] -= 1
    return [
        Picks(np.array(order, dtype=np.int64), np.array(path))
        for order, path in zip(orders, residuals, strict=True)
    ]
