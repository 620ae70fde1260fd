"""Strategies of a linear matching: how the best row for θ is found. Both make the same picks.

*direct*: every pick scans all rows. *coded*: one-byte codes of the rows are read instead; they only rule rows out, by
rigorous bounds, and what is left is scored exactly (:mod:`gmmatch.matching.scan`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.matching import loops
from gmmatch.matching.coded import CodedPicks
from gmmatch.matching.walk import Picks, Walk, greedy
from gmmatch.median.passes import distances_to
from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Mask, Vector

# From this many bytes per scan on, a second thread saves more than its start costs.
_THREADED_BYTES = 16 << 20
# Products that a compiled loop makes before Python sees whether the user has pressed Ctrl-C: a tenth of a second.
_UNINTERRUPTED = 1 << 27


def pick_directly(
    rows: Rows, walk: Walk, available: Mask, k: int, *, replacement: bool, coded: bool, threads: int
) -> Picks:
    """Make ``k`` picks and advance ``walk``; ``available`` is updated in place."""
    norms: list[Vector] = []

    def by_rows(count: int) -> Picks:
        if not norms:
            norms.append(distances_to(rows, np.zeros(rows.n_features), threads))
        return _pick_by_rows(rows, walk, available, count, norms[0], replacement, threads)

    if not coded:
        return by_rows(k)
    found = CodedPicks(
        rows, walk, available, k, replacement=replacement, threads=threads, directly=lambda: by_rows(1)
    ).run()
    return found if len(found.order) == k else Picks.join([found, by_rows(k - len(found.order))])


def _pick_by_rows(
    rows: Rows, walk: Walk, available: Mask, k: int, norms: Vector, replacement: bool, threads: int
) -> Picks:
    if not rows.in_place or (threads > 1 and rows.nbytes >= _THREADED_BYTES):
        scanner = _RowScanner(rows, norms, available, replacement, threads)
        return greedy(scanner.best, [walk], [k])[0]
    order, residuals = np.empty(k, dtype=np.int64), np.empty(k)
    step = max(1, _UNINTERRUPTED // (len(rows) * rows.n_features))
    for first in range(0, k, step):
        some = slice(first, first + step)
        picking = loops.Picking(
            rows.source, rows.index, walk.target, walk.theta, walk.drift, walk.count, available, replacement,
            order[some], residuals[some],
        )  # fmt: skip
        loops.pick_by_rows(picking, norms)
        walk.count += len(order[some])
    return Picks(order, residuals)


class _RowScanner:
    """Finds the best row for θ by a scan over threads, then an exact choice among what rounding leaves open."""

    def __init__(self, rows: Rows, norms: Vector, available: Mask, replacement: bool, threads: int) -> None:
        self.rows, self.norms, self.available = rows, norms, available
        self.replacement, self.threads = replacement, threads
        self.scores, self.slack = np.empty(len(rows)), np.empty(len(rows))
        self.found = np.empty(len(rows), dtype=np.int64)

    def best(self, active: Indices, thetas: Sequence[Vector]) -> tuple[Indices, NDArray[Any]]:
        """Take the best row for the one θ there is."""
        floor = self._scan(thetas[0])
        count = loops.candidates(self.scores, self.slack, self.available, floor, self.found)
        rivals = self.rows.gather(self.found[:count])
        best = int(loops.choose(rivals, np.arange(count), thetas[0], np.arange(count), count))
        position = self.found[best : best + 1].copy()
        if not self.replacement:
            self.available[position] = False
        return position, rivals[best : best + 1]

    def _scan(self, theta: Vector) -> float:
        """Fill the scores and how far they may be off; return the best lower bound."""
        norm = float(np.linalg.norm(theta))

        def work(number: int) -> float:
            part = slice(*self.rows.bounds(number))
            best = loops.scan_rows(
                *self.rows.chunk(number), theta, norm, self.norms[part], self.available[part], self.scores[part],
                self.slack[part],
            )  # fmt: skip
            return float(best)

        return max(map_in_order(work, self.rows.n_chunks, self.threads))
