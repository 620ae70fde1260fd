"""Strategies of a linear matching: how the best row for θ is found. All make the same picks.

*direct*: every pick scans all rows. *coded*: the scan reads one-byte codes of the rows instead (a quarter of
float32's bytes, and bytes are what a scan waits for); the codes only rule rows out, by rigorous bounds, and what is
left is scored exactly. *gram*: one matrix product up front, then O(n) per pick, because scores obey
s ← s + Φμ − Φφ(x).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.matching import loops
from gmmatch.matching.walk import Picks, Walk, greedy
from gmmatch.median.passes import distances_to
from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Mask, Vector

# From this many bytes per scan on, a second thread saves more than its start costs.
_THREADED_BYTES = 16 << 20


@dataclass(frozen=True)
class Codes:
    """One-byte codes of centred, column-scaled rows, with what bounds their error."""

    codes: NDArray[np.int8]
    traits: NDArray[np.float64]
    scale: Vector

    @classmethod
    def of(cls, rows: Rows, center: Vector, threads: int) -> Codes:
        """Encode every row."""
        sample = rows.gather(np.linspace(0, len(rows) - 1, min(len(rows), 512)).astype(np.int64))
        spread = np.abs(sample - center).mean(axis=0)
        typical = float(spread.mean())
        # A column that hardly varies must not be blown up by its scale, and no row beyond what float64 holds.
        scale = (
            1.0 / np.maximum(spread, max(typical * 1e-3, loops.TINY))
            if typical > 0.0
            else np.ones_like(center)
        )
        codes = np.empty((len(rows), rows.n_features), dtype=np.int8)
        traits = np.empty((len(rows), 4))

        def work(number: int) -> None:
            start, stop = rows.bounds(number)
            block, index = rows.chunk(number)
            loops.encode_chunk(block, index, center, scale, codes[start:stop], traits[start:stop])

        map_in_order(work, rows.n_chunks, threads)
        return cls(codes, traits, scale)


def pick_directly(
    rows: Rows, walk: Walk, available: Mask, k: int, *, replacement: bool, coded: bool, threads: int
) -> Picks:
    """Make ``k`` picks and advance ``walk``; ``available`` is updated in place."""
    parts = []
    if coded:
        parts.append(_pick_by_codes(rows, walk, available, k, replacement, threads))
        k -= len(parts[0].order)
    if k:
        norms = distances_to(rows, np.zeros(rows.n_features), threads)
        if rows.in_place and (threads == 1 or rows.nbytes < _THREADED_BYTES):
            order, residuals = np.empty(k, dtype=np.int64), np.empty(k)
            loops.pick_by_rows(
                rows.source, rows.index, norms, walk.target, walk.theta, walk.drift, walk.count, available,
                replacement, order, residuals,
            )  # fmt: skip
            walk.count += k
            parts.append(Picks(order, residuals))
        else:
            scanner = _RowScanner(rows, norms, available, replacement, threads)
            parts += greedy(scanner.best, [walk], [k])
    return Picks.join(parts)


def _pick_by_codes(rows: Rows, walk: Walk, available: Mask, k: int, replacement: bool, threads: int) -> Picks:
    """Make up to ``k`` picks: fewer where the codes are too coarse to help."""
    codes = Codes.of(rows, walk.target, threads)
    if not rows.in_place or (threads > 1 and codes.codes.nbytes >= _THREADED_BYTES):
        scanner = _CodeScanner(rows, codes, available, replacement, threads)
        return greedy(scanner.best, [walk], [k])[0]
    order, residuals = np.empty(k, dtype=np.int64), np.empty(k)
    done = loops.pick_by_codes(
        rows.source, rows.index, codes.codes, codes.traits, codes.scale, walk.target, walk.theta, walk.drift,
        walk.count, available, replacement, order, residuals,
    )  # fmt: skip
    walk.count += done
    return Picks(order[:done], residuals[:done])


def pick_by_gram(rows: Rows, walk: Walk, available: Mask, k: int, *, replacement: bool) -> Picks:
    """Make ``k`` picks with a float64 Gram matrix and advance ``walk``."""
    block = rows.gather(np.arange(len(rows)))
    gram = block @ block.T
    order, residuals = np.empty(k, dtype=np.int64), np.empty(k)
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    loops.pick_by_gram(
        block, gram, norms, block @ walk.theta, block @ walk.target, walk.target, walk.theta, walk.drift,
        walk.count, available, replacement, order, residuals,
    )  # fmt: skip
    walk.count += k
    return Picks(order, residuals)


class _Scanner(ABC):
    """Finds the best row for θ by a scan over threads, then an exact choice among what the bounds leave open."""

    def __init__(self, rows: Rows, available: Mask, replacement: bool, threads: int) -> None:
        self.rows, self.available, self.replacement, self.threads = rows, available, replacement, threads
        self.scores, self.slack = np.empty(len(rows)), np.empty(len(rows))
        self.found = np.empty(len(rows), dtype=np.int64)
        self.examined = self.picked = 0

    @abstractmethod
    def scan(self, theta: Vector) -> float:
        """Fill the scores and how far they may be off; return the best lower bound."""

    def best(self, active: Indices, thetas: Sequence[Vector]) -> tuple[Indices, NDArray[Any]]:
        """Take the best row for the one θ there is."""
        floor = self.scan(thetas[0])
        count = loops.candidates(self.scores, self.slack, self.available, floor, self.found)
        rivals = self.rows.gather(self.found[:count])
        best = int(loops.choose(rivals, np.arange(count), thetas[0], np.arange(count), count))
        position = self.found[best : best + 1].copy()
        if not self.replacement:
            self.available[position] = False
        self.examined += count
        self.picked += 1
        return position, rivals[best : best + 1]


class _RowScanner(_Scanner):
    """Scores all rows in float64."""

    def __init__(self, rows: Rows, norms: Vector, available: Mask, replacement: bool, threads: int) -> None:
        super().__init__(rows, available, replacement, threads)
        self.norms = norms

    def scan(self, theta: Vector) -> float:
        """Score chunk by chunk."""
        norm = float(np.linalg.norm(theta))

        def work(number: int) -> float:
            part = slice(*self.rows.bounds(number))
            best = loops.scan_rows(
                *self.rows.chunk(number), theta, norm, self.norms[part], self.available[part], self.scores[part],
                self.slack[part],
            )  # fmt: skip
            return float(best)

        return max(map_in_order(work, self.rows.n_chunks, self.threads))


class _CodeScanner(_Scanner):
    """Scores all codes; finds no row once they prove too coarse to help."""

    def __init__(self, rows: Rows, codes: Codes, available: Mask, replacement: bool, threads: int) -> None:
        super().__init__(rows, available, replacement, threads)
        self.codes = codes
        self.query = np.empty(rows.n_features, dtype=np.int16)
        self.edges = np.linspace(0, len(rows), threads + 1).astype(int)

    def best(self, active: Indices, thetas: Sequence[Vector]) -> tuple[Indices, NDArray[Any]]:
        """Take the best row, unless scoring the rows themselves is quicker."""
        if self.picked and loops.too_coarse(self.picked - 1, self.examined, len(self.rows)):
            return np.array([-1]), np.empty((1, self.rows.n_features))
        return super().best(active, thetas)

    def scan(self, theta: Vector) -> float:
        """Score part by part."""
        step, norm, error = loops.quantise_query(theta, self.codes.scale, self.query)
        theta_norm = float(np.linalg.norm(theta))

        def work(number: int) -> float:
            part = slice(self.edges[number], self.edges[number + 1])
            best = loops.scan_codes(
                self.codes.codes[part], self.query, step, norm, error, theta_norm, self.codes.traits[part],
                self.available[part], self.scores[part], self.slack[part],
            )  # fmt: skip
            return float(best)

        return max(map_in_order(work, self.threads, self.threads))
