"""Picks by one-byte codes of the rows."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from gmmatch.matching import scan
from gmmatch.matching.codes import PENALTY, TAKEN, Codes
from gmmatch.matching.loops import Picking
from gmmatch.matching.team import LAST_STEP, announce
from gmmatch.matching.walk import Picks, Walk
from gmmatch.rows.parallel import available_cores, map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Mask

# A thread reads at least so many bytes of codes per pick.
_BYTES_PER_THREAD = 1 << 20
# Bytes of codes that a compiled loop reads before Python sees whether the user has pressed Ctrl-C: some milliseconds.
_UNINTERRUPTED = 1 << 28


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
        # Helpers wait by looking at a word: more of them than cores would be in each other's way.
        self.parts = max(1, min(threads, available_cores(), self.codes.codes.nbytes // _BYTES_PER_THREAD))
        # Where gathered rows stand; only used for rows that are not read in place.
        self.places = np.empty(0 if rows.in_place else len(rows), dtype=np.int64)

    def run(self) -> Picks:
        """Make the picks: fewer where the codes prove too coarse to help."""
        shared = scan.Shared.among(self.parts, len(self.rows), self.rows.n_features)
        picking = self._picking()

        leader, others = threading.get_ident(), iter(range(1, self.parts))

        def work(_: int) -> None:
            # The caller's thread leads, whoever takes the first piece: it is the one that Ctrl-C interrupts.
            if threading.get_ident() == leader:
                try:
                    self._lead(shared)
                finally:
                    announce(shared.words, LAST_STEP)
            elif (part := next(others, None)) is not None:
                scan.help_picking(picking, self.codes, shared, part)

        # Rows that have to be gathered for every pick are no work for helpers that wait by looking at a word.
        map_in_order(work, self.parts if self.rows.in_place else 1, self.threads)
        return Picks(self.order[: self.done], self.residuals[: self.done])

    def _lead(self, shared: scan.Shared) -> None:
        while self.done < len(self.order) and not self._too_coarse():
            first = self.done
            if self.rows.in_place:
                stop = min(len(self.order), first + max(1, _UNINTERRUPTED // self.codes.codes.nbytes))
                self._count(*scan.pick_one_by_one(self._picking(), self.codes, shared, first, stop))
            else:
                self._pick_gathered(shared)
            if self.done == first:
                self._pick_directly()

    def _too_coarse(self) -> bool:
        """Return whether codes leave so many rows open that scoring the rows themselves is quicker."""
        return self.done > 8 and self.scored > self.done * (16 + len(self.rows) // 8)

    def _pick_gathered(self, shared: scan.Shared) -> None:
        scan.prepare(self.walk.theta, self.codes.spread, shared)
        floor = max(
            map_in_order(lambda part: scan.bound_part(self.codes, shared, 0, part), self.parts, self.threads)
        )
        counts = shared.counts[0].tolist()
        if min(counts) < 0:
            return
        rivals, tops = (
            np.concatenate([array[0, part, :count] for part, count in enumerate(counts)])
            for array in (shared.rivals, shared.tops)
        )
        picking = self._picking(np.union1d(rivals[tops >= floor], self.codes.outside))
        self._count(*scan.settle(picking, self.codes, rivals, tops, floor, shared.norm[0], self.done))

    def _pick_directly(self) -> None:
        pick = self.directly()
        self.order[self.done], self.residuals[self.done] = pick.order[0], pick.residuals[0]
        if not self.replacement:
            self.codes.traits[PENALTY, pick.order[0]] = TAKEN
        self.done += 1

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

    def _count(self, done: int, scored: int) -> None:
        self.done, self.scored = int(done), self.scored + int(scored)
        self.walk.count = self.before + self.done
