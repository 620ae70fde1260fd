"""Picks by one-byte codes of the rows, several at a time where a sketch of the rows lets picks be guessed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.matching import speculation
from gmmatch.matching.codes import (
    PENALTY,
    QUERIES_AT_ONCE,
    STEP,
    TAKEN,
    TILE,
    Codes,
    empty_codes,
    encode_chunk,
    padded,
)
from gmmatch.matching.loops import TINY, Picking
from gmmatch.matching.walk import Picks, Walk
from gmmatch.rows.parallel import map_in_order, one_blas_thread
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Mask, Vector

# Guesses that one pass over the codes verifies: at most, at first, and at least.
_MOST_GUESSES, _FIRST_GUESSES, _LEAST_GUESSES = 32, 8, 2
# A sketch is made from so many codes and picks on; below, a pass for every pick is as quick.
_SKETCHED_BYTES, _SKETCHED_PICKS = 8 << 20, 256
# The rows whose directions of largest variance make a sketch, how many directions, how often they are refined, and
# the share of the variance that they must hold: with less, guesses are seldom right.
_SAMPLE, _DIRECTIONS, _REFINEMENTS, _LEAST_SHARE = 1024, 128, 2, 0.75
# From this many bytes of codes on, a second thread saves more than its start costs.
_THREADED_BYTES = 4 << 20


@dataclass(frozen=True)
class Sketch:
    """One-byte codes of the rows' coordinates in a few directions, from which picks are guessed."""

    codes: NDArray[np.uint8]
    steps: NDArray[np.float32]
    basis: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Rows, center: Vector, threads: int) -> Sketch | None:
        """Project all rows on the directions in which a sample varies most; None where they hold too little of it."""
        sample = rows.gather(np.linspace(0, len(rows) - 1, min(len(rows), _SAMPLE)).astype(np.int64))
        sample = sample - center
        lengths = np.linalg.norm(sample, axis=1, keepdims=True)
        # No row counts for more than a typical one, however far out it is.
        sample = (sample / np.maximum(lengths, np.median(lengths) + TINY)).astype(np.float32)
        basis = np.random.default_rng(0).standard_normal((rows.n_features, _DIRECTIONS))
        # Blocks of rows are spread over threads already.
        with one_blas_thread():
            for _ in range(_REFINEMENTS):
                basis, _ = np.linalg.qr(sample.T @ (sample @ basis.astype(np.float32)))
            narrow = basis.astype(np.float32)
            held = float(np.sum((sample @ narrow) ** 2, dtype=np.float64))
            if not held >= _LEAST_SHARE * float(np.sum(sample**2, dtype=np.float64)):
                return None
            basis = basis.astype(np.float64)
            codes, traits = empty_codes(len(rows), _DIRECTIONS)
            origin, units = center @ basis, np.ones(_DIRECTIONS)

            def work(number: int) -> None:
                start, stop = rows.bounds(number)
                projected = rows.block(number, np.float32) @ narrow
                encode_chunk(projected, np.arange(stop - start), start, origin, units, codes, traits)

            map_in_order(work, rows.n_chunks, threads)
        return cls(codes, traits[STEP].copy(), basis)


class CodedPicks:
    """Makes up to ``k`` picks by codes and advances a walk.

    Parameters
    ----------
    rows, walk, available, k, replacement, threads
        As in :func:`gmmatch.matching.match.match`; ``available`` is updated in place.
    directly
        Makes one pick by the rows themselves, where the codes leave too many of them open.
    """

    def __init__(
        self,
        rows: Rows,
        walk: Walk,
        available: Mask,
        k: int,
        *,
        replacement: bool,
        threads: int,
        directly: Callable[[], Picks],
    ) -> None:
        self.rows, self.walk, self.available = rows, walk, available
        self.replacement, self.threads, self.directly = replacement, threads, directly
        self.order, self.residuals = np.empty(k, dtype=np.int64), np.empty(k)
        self.done = self.scored = 0
        self.before = walk.count
        self.codes = Codes.of(rows, walk.target, threads)
        self.codes.traits[PENALTY, np.flatnonzero(~available)] = TAKEN
        size = self.codes.codes.nbytes
        sketched = size >= _SKETCHED_BYTES and k >= _SKETCHED_PICKS and rows.n_features >= 4 * _DIRECTIONS
        # A sketch is of float32 numbers, which hold whatever can be coded.
        sketched = sketched and rows.in_place and not len(self.codes.outside)
        self.sketch = Sketch.of(rows, walk.target, threads) if sketched else None
        parts = threads if size >= _THREADED_BYTES else 1
        tiles, room = self.codes.traits.shape[1] // TILE, 4096 + len(rows) // 16
        self.edges = np.linspace(0, tiles, parts + 1).astype(int) * TILE
        self.room = [
            (np.empty((room, 2), dtype=np.int64), np.empty(room, dtype=np.float32)) for _ in range(parts)
        ]
        # Where gathered rows stand; only used for rows that are not read in place.
        self.places = np.empty(0 if rows.in_place else len(rows), dtype=np.int64)

    def run(self) -> Picks:
        """Make the picks: fewer where the codes prove too coarse to help."""
        guesses = _FIRST_GUESSES
        while self.done < len(self.order) and not self._too_coarse():
            first = self.done
            if self.sketch is not None:
                self._pick_several(self.sketch, min(guesses, len(self.order) - first))
            elif self.rows.in_place and len(self.room) == 1:
                self._pick_compiled()
            else:
                self._pick_one()
            if self.done == first:
                self._pick_directly()
            guesses = min(_MOST_GUESSES, max(_LEAST_GUESSES, 2 * (self.done - first)))
        return Picks(self.order[: self.done], self.residuals[: self.done])

    def _too_coarse(self) -> bool:
        """Return whether codes leave so many rows open that scoring the rows themselves is quicker."""
        return self.done > 8 and self.scored > self.done * (16 + len(self.rows) // 8)

    def _pick_several(self, sketch: Sketch, count: int) -> None:
        walk = self.walk
        thetas, floors = np.empty((count, len(walk.theta))), np.empty(count)
        guesses = np.empty(count, dtype=np.int64)
        speculation.guess(
            self._picking(), sketch.codes, sketch.steps, self.codes.traits[PENALTY], walk.theta @ sketch.basis,
            thetas, guesses, floors,
        )  # fmt: skip
        self._settle(self._bounded(thetas, floors), guesses)

    def _pick_one(self) -> None:
        self._settle(self._bounded(self.walk.theta[None], np.array([-np.inf])), np.array([-1]))

    def _pick_compiled(self) -> None:
        stop = min(len(self.order), self.done + _MOST_GUESSES)
        self.done, scored = speculation.pick_one_by_one(
            self._picking(), self.codes, *self.room[0], self.done, stop
        )
        self._count(scored)

    def _pick_directly(self) -> None:
        pick = self.directly()
        self.order[self.done], self.residuals[self.done] = pick.order[0], pick.residuals[0]
        if not self.replacement:
            self.codes.traits[PENALTY, pick.order[0]] = TAKEN
        self.done += 1

    def _bounded(self, thetas: NDArray[np.float64], floors: Vector) -> tuple[NDArray[Any], ...] | None:
        """Return the rows that may reach the floors, their bounds and the floors; None if they are too many."""
        codes, steps = self.codes, len(thetas)
        rounded = steps if steps == 1 else -(-steps // QUERIES_AT_ONCE) * QUERIES_AT_ONCE
        queries = np.zeros((rounded, padded(thetas.shape[1])), dtype=np.int8)
        offsets, factors = np.empty(steps, dtype=np.int32), np.empty((steps, 3), dtype=np.float32)
        single = np.empty((len(self.room), steps), dtype=np.float32)
        speculation.prepare(thetas, codes.spread, floors, queries, offsets, factors, single[0])
        single[:] = single[0]

        def work(part: int) -> int:
            return int(
                speculation.bound_scores(
                    codes, self.edges[part], self.edges[part + 1], queries, offsets, factors, single[part],
                    *self.room[part],
                )
            )  # fmt: skip

        counts = map_in_order(work, len(self.room), self.threads)
        if min(counts) < 0:
            return None
        filled = [(rows[:count], tops[:count]) for (rows, tops), count in zip(self.room, counts, strict=True)]
        rivals, tops = (np.concatenate(arrays) for arrays in zip(*filled, strict=True))
        return rivals, tops, single.max(axis=0)

    def _settle(self, bounded: tuple[NDArray[Any], ...] | None, guesses: Indices) -> None:
        if bounded is None:
            return
        open_rows = np.concatenate([bounded[0][:, 0], self.codes.outside])
        picking = self._picking(None if self.rows.in_place else np.unique(open_rows))
        self.done, scored = speculation.settle(picking, self.codes, *bounded, guesses, self.done)
        self._count(scored)

    def _picking(self, gathered: Indices | None = None) -> Picking:
        """Return what compiled loops need: all rows where they lie, or some that are gathered."""
        walk, block, index = self.walk, self.rows.source, self.rows.index
        if gathered is not None:
            block, index = self.rows.gather(gathered), self.places
            index[gathered] = np.arange(len(gathered))
        return Picking(
            block, index, walk.target, walk.theta, walk.drift, self.before, self.available, self.replacement,
            self.order, self.residuals,
        )  # fmt: skip

    def _count(self, scored: int) -> None:
        self.scored += scored
        self.walk.count = self.before + self.done
