"""Swap refinement: exchange picks for other rows while that brings their mean nearer to the target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.kernels.kernels import Kernel
from gmmatch.matching.in_kernel import first_best
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Mask, Vector

# Kernel values of picks with all rows that are held at a time: 64 MB.
_BLOCK_ELEMENTS = 1 << 23
# What is gained must exceed rounding, or two rows could be exchanged for ever.
_LEAST_GAIN = 1e-10


@dataclass(frozen=True)
class Refined:
    """Picks after swaps, each in the place of the one it replaced, and how many swaps and sweeps it took."""

    order: Indices
    swaps: int
    sweeps: int


def refine(
    kernel: Kernel,
    rows: Rows,
    target_scores: Vector,
    order: Indices,
    *,
    available: Mask,
    already: Indices,
    sweeps: int,
    replacement: bool = False,
) -> Refined:
    """Take each pick out in turn, and put in the row that brings the mean of all picks nearest to the target.

    With q picks in all, ‖Σφ − qμ‖² changes by k(x, x) + 2⟨Σφ − qμ, φ(x)⟩ as x joins the others: the row with the
    least of it comes in. A sweep costs as many kernel rows as there are picks, and one more for each swap.

    Parameters
    ----------
    kernel : Kernel
        With its bandwidth fitted.
    target_scores : array of shape (n,)
        ⟨μ, φ(xᵢ)⟩.
    order, already : int64 arrays
        The picks that may be exchanged, and those that may not.
    available : boolean array of shape (n,)
        Which rows may come in, picks among them or not.
    sweeps : int
        How often to go over the picks at most.

    Examples
    --------
    >>> from gmmatch.kernels.kernels import Linear
    >>> X = np.array([[-1.0], [0.4], [1.0], [3.0]])
    >>> refine(Linear(), Rows(X), np.zeros(4), np.array([0, 3]), available=np.ones(4, bool),
    ...        already=np.array([], int), sweeps=5).order
    array([0, 2])
    """
    picks = order.copy()
    count = len(picks) + len(already)
    diagonal = np.concatenate([kernel.diagonal(rows.block(i, np.float64)) for i in range(rows.n_chunks)])
    totals = np.zeros(len(rows))
    for _, products in _products(kernel, rows, np.concatenate([already, picks])):
        totals += products.sum(axis=0)
    free = available.copy()
    if not replacement:
        free[picks] = False
    swaps = done = 0
    while done < sweeps:
        before, done = swaps, done + 1
        for places, products in _products(kernel, rows, picks):
            for place, own in zip(places, products, strict=True):
                pick = int(picks[place])
                costs = diagonal + 2.0 * (totals - own - count * target_scores)
                rounding = _LEAST_GAIN * (float(diagonal[pick]) + 2.0 * abs(float(totals[pick])))
                best = first_best(np.where(free, -costs, -np.inf), lambda _, tie=rounding: tie)  # type: ignore[misc]
                if not free[best] or costs[best] >= costs[pick] - rounding:
                    continue
                ((_, [new]),) = _products(kernel, rows, np.array([best]))
                totals += new - own
                free[pick], free[best] = available[pick], replacement
                picks[place], swaps = best, swaps + 1
        if swaps == before:
            break
    return Refined(picks, swaps, done)


def _products(kernel: Kernel, rows: Rows, positions: Indices) -> Iterator[tuple[range, NDArray[np.float64]]]:
    """Yield the kernel of some rows with all rows, (some, n), and which of the positions they are."""
    step = max(1, _BLOCK_ELEMENTS // len(rows))
    for first in range(0, len(positions), step):
        some = rows.gather(positions[first : first + step])
        parts = [kernel(some, rows.block(number, np.float64)) for number in range(rows.n_chunks)]
        yield range(first, first + len(some)), np.concatenate(parts, axis=1)
