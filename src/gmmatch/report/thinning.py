"""Which rows are drawn: all of them, or as many as a map can show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.selection.selection import Selection
from gmmatch.types import Indices

LEFT_OUT, KEPT, SCREENED_OUT = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Drawn:
    """The rows on the map.

    Attributes
    ----------
    rows
        Row numbers, ascending.
    counts
        How many rows of each state are drawn, and how many there are: left out, kept, screened out.
    """

    rows: Indices
    counts: tuple[tuple[int, int], ...]

    @property
    def is_everything(self) -> bool:
        """Whether no row was left away."""
        return all(drawn == total for drawn, total in self.counts)


def row_states(selections: list[Selection]) -> NDArray[np.uint8]:
    """Return what became of each row: kept (by any of the selections), screened out, or left out.

    Examples
    --------
    >>> row_states([Selection([1], n_rows=3), Selection([2], n_rows=3)])
    array([0, 1, 1], dtype=uint8)
    """
    states = np.full(selections[0].n_rows, LEFT_OUT, dtype=np.uint8)
    for selection in selections:
        if selection.screening is not None:
            states[~selection.screening.kept] = SCREENED_OUT
    for selection in selections:
        states[selection.order] = KEPT
    return states


def choose_rows(states: NDArray[np.uint8], limit: int, random: np.random.Generator) -> Drawn:
    """Choose the rows to draw: all if they are at most ``limit``, else a random part of each state.

    The picks get up to half of the places and what was screened out up to a quarter, so that neither
    drowns among the rows that were left out.

    Parameters
    ----------
    states
        As :func:`row_states` gives them.
    limit
        How many rows can be drawn.
    random
        Draws the rows.

    Returns
    -------
    Drawn

    Examples
    --------
    >>> states = np.array([0] * 90 + [1] * 10, dtype=np.uint8)
    >>> choose_rows(states, 15, np.random.default_rng(0)).counts
    ((8, 90), (7, 10), (0, 0))
    """
    totals = [int((states == state).sum()) for state in (LEFT_OUT, KEPT, SCREENED_OUT)]
    if len(states) <= limit:
        return Drawn(np.arange(len(states), dtype=np.int64), tuple((total, total) for total in totals))
    taken = [0, min(totals[KEPT], limit // 2), min(totals[SCREENED_OUT], limit // 4)]
    for state in (LEFT_OUT, KEPT, SCREENED_OUT):
        taken[state] += min(totals[state] - taken[state], limit - sum(taken))
    parts = [
        random.choice(np.flatnonzero(states == state), count, replace=False)
        for state, count in enumerate(taken)
    ]
    rows = np.sort(np.concatenate(parts)).astype(np.int64)
    return Drawn(rows, tuple(zip(taken, totals, strict=True)))
