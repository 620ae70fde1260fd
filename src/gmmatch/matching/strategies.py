"""Strategies of a linear matching: how the best row for θ is found. All make the same picks.

*direct*: every pick scans all rows. *coded*: the scan reads one-byte codes of the rows instead (a quarter of
float32's bytes, and bytes are what a scan waits for); the codes only rule rows out, by rigorous bounds, and what is
left is scored exactly. *gram*: one matrix product up front, then O(n) per pick, because scores obey
s ← s + Φμ − Φφ(x).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.matching import loops
from gmmatch.matching.walk import Picks, Walk
from gmmatch.median.passes import distances_to
from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.types import Mask, Vector

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
    order = np.empty(k, dtype=np.int64)
    residuals = np.empty(k)
    done = 0
    if coded:
        codes = Codes.of(rows, walk.target, threads)
        if rows.in_place and (threads == 1 or codes.codes.nbytes < _THREADED_BYTES):
            done = loops.pick_by_codes(
                rows.source, rows.index, codes.codes, codes.traits, codes.scale, walk.target, walk.theta,
                walk.drift, walk.count, available, replacement, order, residuals,
            )  # fmt: skip
            walk.count += done
        else:
            scanner = _CodeScanner(rows, codes, threads)
            done = _pick_one_by_one(scanner, rows, walk, available, replacement, order, residuals)
        del codes
    if done == k:
        return Picks(order, residuals)
    norms = distances_to(rows, np.zeros(rows.n_features), threads)
    if rows.in_place and (threads == 1 or rows.nbytes < _THREADED_BYTES):
        loops.pick_by_rows(
            rows.source, rows.index, norms, walk.target, walk.theta, walk.drift, walk.count, available,
            replacement, order[done:], residuals[done:],
        )  # fmt: skip
        walk.count += k - done
    else:
        row_scanner = _RowScanner(rows, norms, threads)
        _pick_one_by_one(row_scanner, rows, walk, available, replacement, order[done:], residuals[done:])
    return Picks(order, residuals)


class _RowScanner:
    """Scores all rows in float64, chunk by chunk over threads."""

    gives_up = False

    def __init__(self, rows: Rows, norms: Vector, threads: int) -> None:
        self.rows, self.norms, self.threads = rows, norms, threads
        self.scores, self.slack = np.empty(len(rows)), np.empty(len(rows))

    def scan(self, theta: Vector, available: Mask) -> float:
        norm = float(np.linalg.norm(theta))

        def work(number: int) -> float:
            start, stop = self.rows.bounds(number)
            block, index = self.rows.chunk(number)
            part = slice(start, stop)
            best = loops.scan_rows(
                block,
                index,
                theta,
                norm,
                self.norms[part],
                available[part],
                self.scores[part],
                self.slack[part],
            )
            return float(best)

        return max(map_in_order(work, self.rows.n_chunks, self.threads))


class _CodeScanner:
    """Scores all codes, part by part over threads."""

    gives_up = True

    def __init__(self, rows: Rows, codes: Codes, threads: int) -> None:
        self.codes, self.threads = codes, threads
        self.scores, self.slack = np.empty(len(rows)), np.empty(len(rows))
        self.query = np.empty(rows.n_features, dtype=np.int16)
        self.edges = np.linspace(0, len(rows), threads + 1).astype(int)

    def scan(self, theta: Vector, available: Mask) -> float:
        step, norm, error = loops.quantise_query(theta, self.codes.scale, self.query)
        theta_norm = float(np.linalg.norm(theta))

        def work(number: int) -> float:
            part = slice(self.edges[number], self.edges[number + 1])
            traits = self.codes.traits[part]
            best = loops.scan_codes(
                self.codes.codes[part], self.query, step, norm, error, theta_norm, traits, available[part],
                self.scores[part], self.slack[part],
            )  # fmt: skip
            return float(best)

        return max(map_in_order(work, self.threads, self.threads))


def _pick_one_by_one(
    scanner: _RowScanner | _CodeScanner,
    rows: Rows,
    walk: Walk,
    available: Mask,
    replacement: bool,
    order: NDArray[np.int64],
    residuals: Vector,
) -> int:
    """Fill ``order`` with a scan per pick; return the picks made (fewer where codes do not help)."""
    found = np.empty(len(rows), dtype=np.int64)
    examined = 0
    for t in range(len(order)):
        floor = scanner.scan(walk.theta, available)
        count = loops.candidates(scanner.scores, scanner.slack, available, floor, found)
        examined += count
        rivals = rows.gather(found[:count])
        best = int(loops.choose(rivals, np.arange(count), walk.theta, np.arange(count), count))
        order[t] = found[best]
        if not replacement:
            available[order[t]] = False
        _, drift_norm = loops.advance(rivals[best], walk.target, walk.theta, walk.drift)
        walk.count += 1
        residuals[t] = drift_norm / walk.count
        if scanner.gives_up and t >= 8 and examined > (t + 1) * (16 + len(rows) // 8):
            return t + 1
    return len(order)


def pick_by_gram(rows: Rows, walk: Walk, available: Mask, k: int, *, replacement: bool) -> Picks:
    """Make ``k`` picks with a float64 Gram matrix and advance ``walk``."""
    block = rows.gather(np.arange(len(rows)))
    gram = block @ block.T
    order = np.empty(k, dtype=np.int64)
    residuals = np.empty(k)
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    _pick(
        block, gram, norms, block @ walk.theta, block @ walk.target, walk.target, walk.theta, walk.drift,
        walk.count, available, replacement, order, residuals,
    )  # fmt: skip
    walk.count += k
    return Picks(order, residuals)


@njit(nogil=True, cache=True, boundscheck=False)
def _pick(
    block: NDArray[np.float64],
    gram: NDArray[np.float64],
    norms: NDArray[np.float64],
    scores: NDArray[np.float64],
    target_scores: NDArray[np.float64],
    target: NDArray[np.float64],
    theta: NDArray[np.float64],
    drift: NDArray[np.float64],
    picked_before: int,
    available: NDArray[np.bool_],
    replacement: bool,
    order: NDArray[np.int64],
    residuals: NDArray[np.float64],
) -> None:
    n, s = block.shape
    slack = np.empty(n)
    found = np.empty(n, dtype=np.int64)
    every = np.arange(n)
    rounding = 4.0 * s * 2.0**-52
    least = 4.0 * s * 2.0**-1074
    # Σ of the norms of everything added to a score so far bounds its rounding, per unit of ‖x‖.
    added = np.sqrt(np.sum(theta * theta)) + loops.TINY
    target_norm = np.sqrt(np.sum(target * target))
    for t in range(order.shape[0]):
        floor = -np.inf
        for i in range(n):
            if available[i]:
                slack[i] = rounding * added * (norms[i] + loops.TINY) + least * (t + 1)
                floor = max(floor, scores[i] - slack[i])
        count = loops.candidates(scores, slack, available, floor, found)
        best = loops.choose(block, every, theta, found, count)
        order[t] = best
        if not replacement:
            available[best] = False
        _, drift_norm = loops.advance(block[best], target, theta, drift)
        residuals[t] = drift_norm / (picked_before + t + 1)
        for i in range(n):
            scores[i] += target_scores[i] - gram[best, i]
        added += target_norm + norms[best] + 2.0 * added * 2.0**-52
