"""The compiled loops of picking from many batches at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.matching.loops import exact_score


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, boundscheck=False)
def quick_score(row: NDArray[Any], theta: NDArray[np.float64]) -> float:
    """Return ⟨θ, x⟩ in float64, summed in any order."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += np.float64(row[j]) * theta[j]
    return total


@njit(nogil=True, cache=True, boundscheck=False)
def scan_batches(
    block: NDArray[Any],
    first_row: int,
    available: NDArray[np.bool_],
    batch: NDArray[np.uint32],
    group_of_batch: NDArray[np.int32],
    thetas: NDArray[np.float64],
    slack: NDArray[np.float64],
    best_score: NDArray[np.float64],
    best_row: NDArray[np.int64],
) -> None:
    """Update the best row of each group of batches by the rows of a piece.

    Only a row whose quick score is within ``slack`` of the best is scored exactly, from left to right, and
    that decides. So the outcome is that of the textbook loop, and the same on every machine.
    """
    for i in range(block.shape[0]):
        if not available[i]:
            continue
        group = group_of_batch[batch[i]]
        if group < 0:
            continue
        theta = thetas[group]
        row = block[i]
        if best_row[group] < 0 or quick_score(row, theta) + slack[group] >= best_score[group]:
            score = exact_score(row, theta)
            if best_row[group] < 0 or score > best_score[group]:
                best_score[group] = score
                best_row[group] = first_row + i


@njit(nogil=True, cache=True, boundscheck=False)
def largest_norm(block: NDArray[Any]) -> float:
    """Return the length of the longest row."""
    largest = 0.0
    for i in range(block.shape[0]):
        squared = 0.0
        for j in range(block.shape[1]):
            squared += np.float64(block[i, j]) * np.float64(block[i, j])
        largest = max(largest, squared)
    return float(np.sqrt(largest))


@njit(nogil=True, cache=True, boundscheck=False)
def unit_rows(block: NDArray[Any], out: NDArray[Any]) -> None:
    """Write each row at length 1 to ``out``, a row of zeros as it is; a row's outcome is its own affair."""
    for i in range(block.shape[0]):
        squared = 0.0
        for j in range(block.shape[1]):
            squared += np.float64(block[i, j]) * np.float64(block[i, j])
        length = np.sqrt(squared) if squared > 0.0 else 1.0
        for j in range(block.shape[1]):
            out[i, j] = np.float64(block[i, j]) / length
