"""What a worker computes with: compiled loops on its processor, or torch on a GPU.

Both pass over the rows of one class in a piece, and name the best row of each group of batches. Scores that decide
are summed from left to right in float64 by the same compiled loop, so for the same θ the picks are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.backends.cluster.pieces import Piece
from gmmatch.errors import InvalidInputError
from gmmatch.matching.loops import exact_score, quick_score, score_slack
from gmmatch.median import loops
from gmmatch.median.passes import distances_of
from gmmatch.rows.rows import read_only
from gmmatch.types import Indices, Vector, is_tensor


@njit(nogil=True, cache=True, boundscheck=False)
def scan_batches(
    block: NDArray[Any],
    numbers: NDArray[np.int64],
    available: NDArray[np.bool_],
    batch: NDArray[np.uint32],
    group_of_batch: NDArray[np.int32],
    thetas: NDArray[np.float64],
    slack: NDArray[np.float64],
    best_score: NDArray[np.float64],
    best_row: NDArray[np.int64],
) -> None:
    """Update the best row of each group of batches by the rows of a block, whose numbers ascend.

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
        # A row is left out only if it is known to be below the best; NaN leaves it in, and never wins.
        if best_row[group] < 0 or not quick_score(row, theta) + slack[group] < best_score[group]:
            score = exact_score(row, theta)
            if best_row[group] < 0 or score > best_score[group]:
                best_score[group] = score if score == score else -np.inf
                best_row[group] = numbers[i]


DEVICES = ("cpu", "cuda", "auto")


def compute_for(device: str, number: int = 0, n_rows: int = 0) -> Compute:
    """Return what computes on a device.

    Examples
    --------
    >>> compute_for("cpu").name
    'cpu'
    """
    if check_device(device) == "cpu":
        return Compute()
    from gmmatch.backends.cluster.on_device import OnDevice, usable_gpus

    count, trouble = usable_gpus()
    if count:
        return OnDevice(f"cuda:{number % count}", n_rows)
    if device == "auto":
        return Compute()
    raise InvalidInputError(f'device="cuda": {trouble}; use device="cpu", or "auto".')


def check_device(device: str) -> str:
    """Return the device if it is one that engines know.

    Examples
    --------
    >>> check_device("gpu")
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: device='gpu': expected "cpu", "cuda" or "auto".
    """
    if device not in DEVICES:
        raise InvalidInputError(f'device={device!r}: expected "cpu", "cuda" or "auto".')
    return device


class Compute:
    """The compiled loops, on one core. A device has its own way to read rows and to score them.

    Attributes
    ----------
    name
        Of the device, as torch spells it.
    """

    name = "cpu"

    def block(self, piece: Piece) -> Any:
        """Return a piece's rows, ready to be read."""
        return piece.block()

    def index(self, piece: Piece, number: int) -> Any:
        """Return where the rows of a class stand in the block."""
        return read_only(piece.of_class(number))

    def put(self, values: NDArray[Any]) -> Any:
        """Return numbers where the rows are read."""
        return np.array(values)

    def scan(
        self, pieces: Sequence[Piece], state: ScanState, table: NDArray[np.int32], thetas: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], Indices]:
        """Return the best score and its row (-1: none) of each group of batches.

        ``table`` has the group of each batch, and a last -1 for rows of no class.
        """
        score, row = np.full(len(thetas), -np.inf), np.full(len(thetas), -1, dtype=np.int64)
        for piece in pieces:
            if len(piece) == 0:
                continue
            block, part = piece.block(), state.part(piece)
            if piece.longest < 0.0:
                every = read_only(np.arange(len(block)))
                piece.longest = float(distances_of(block, every, np.zeros(block.shape[1])).max())
            numbers, slack = np.arange(piece.first_row, piece.stop_row), score_slack(thetas, piece.longest)
            scan_batches(
                block, numbers, state.available[part], state.batch[part], table, thetas, slack, score, row
            )
        return score, row

    def mark(self, positions: Indices) -> None:
        """Take note that rows at these positions are no longer available, beyond what the state says."""


@dataclass(frozen=True)
class ScanState:
    """The batch of each of a worker's rows, and which may be picked; the first of them has the number ``first``."""

    first: int
    batch: NDArray[np.uint32]
    available: NDArray[np.bool_]

    def part(self, piece: Piece) -> slice:
        """Return where the rows of a piece stand."""
        return slice(piece.first_row - self.first, piece.stop_row - self.first)


def pass_over(block: Any, index: Any, point: Vector, delta: float) -> tuple[Vector, Vector, NDArray[Any]]:
    """Return the pull of some rows, their scalar sums (see :mod:`gmmatch.median.loops`), and the nearest row."""
    if is_tensor(block):
        from gmmatch.backends.cluster.on_device import pass_on_device

        return pass_on_device(block[index], point, delta)
    pull, sums = np.zeros(len(point)), np.zeros(loops.N_SUMS)
    weights, distances = np.ones(len(index)), np.empty(len(index))
    loops.weiszfeld_chunk(block, index, weights, point, delta, distances, pull, sums)
    return pull, sums, block[index[int(sums[loops.NEAREST_ROW])]]
