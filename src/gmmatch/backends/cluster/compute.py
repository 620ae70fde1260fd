"""What a worker computes with: compiled loops on its processor, or torch on a GPU.

Both answer the same questions about the rows of one class in a piece (their sum, their part of a Weiszfeld pass,
their distances to a point), and name the best row of each group of batches. Scores that decide are summed from
left to right in float64 by the same compiled loop, so for the same θ the picks are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.backends.cluster.pieces import Piece
from gmmatch.errors import InvalidInputError
from gmmatch.matching.loops import TINY, exact_score, quick_score, rounding_of_scores
from gmmatch.median import loops
from gmmatch.median.passes import weighted_sums
from gmmatch.rows.rows import read_only
from gmmatch.types import Indices, Matrix, Vector


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
        # A row is left out only if it is known to be below the best; NaN leaves it in, and never wins.
        if best_row[group] < 0 or not quick_score(row, theta) + slack[group] < best_score[group]:
            score = exact_score(row, theta)
            if best_row[group] < 0 or score > best_score[group]:
                best_score[group] = score if score == score else -np.inf
                best_row[group] = first_row + i


DEVICES = ("cpu", "cuda", "auto")


@dataclass(frozen=True)
class PassPart:
    """What the rows of one class in one piece add to a Weiszfeld pass.

    Attributes
    ----------
    pull, inverse, objective, coincident
        Σ (x − z)/(d + δ), Σ 1/(d + δ), Σ d, and the number of rows with x = z.
    nearest
        The position in the piece of the nearest other row, -1 if there is none; of copies, the first.
    distance, weight
        Of that row, and how many copies of it there are.
    row
        The row itself.
    """

    pull: Vector
    inverse: float
    objective: float
    coincident: float
    nearest: int = -1
    distance: float = np.inf
    weight: float = 0.0
    row: NDArray[Any] | None = None


class PieceRows(Protocol):
    """The rows of a piece, where the loops read them."""

    def total(self, number: int) -> NDArray[np.float64]:
        """Return Σ x over a class, as :func:`~gmmatch.median.passes.weighted_sums` does."""
        ...

    def evaluate(self, number: int, point: Any, delta: float, near_origin: bool) -> PassPart:
        """Return the class's part of a pass; ``point`` is what :meth:`Compute.point` made of it."""
        ...

    def distances(self, number: int, point: Any) -> Vector:
        """Return the distance of each row of a class to a point."""
        ...


class Compute(Protocol):
    """Where a worker's sums are made.

    Attributes
    ----------
    name
        Of the device, as torch spells it.
    """

    name: str

    def rows_of(self, piece: Piece) -> PieceRows:
        """Return a piece's rows, ready to be read."""
        ...

    def point(self, point: Vector) -> Any:
        """Return a point where the loops read it."""
        ...

    def scan(
        self, pieces: Sequence[Piece], table: NDArray[np.int32], thetas: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], Indices]:
        """Return the best score and its row (-1: none) of each group of batches.

        ``table`` has the group of each batch, and a last -1 for rows of no class. The pieces know the batch of each
        row, and which rows are available.
        """
        ...

    def mark(self, rows: Indices) -> None:
        """Take note that these rows are no longer available, beyond what the pieces say."""
        ...


def compute_for(device: str, number: int = 0, n_rows: int = 0) -> Compute:
    """Return what computes on a device.

    Examples
    --------
    >>> compute_for("cpu").name
    'cpu'
    """
    if check_device(device) == "cpu":
        return Compiled()
    from gmmatch.backends.cluster.on_device import OnDevice, usable_gpus

    count, trouble = usable_gpus()
    if count:
        return OnDevice(f"cuda:{number % count}", n_rows)
    if device == "auto":
        return Compiled()
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


def score_slack(thetas: NDArray[np.float64], longest: float) -> Vector:
    """Return how far a score in float64, summed in any order, may be off for rows up to some length.

    Examples
    --------
    >>> bool(score_slack(np.array([[3.0, 4.0]]), 2.0)[0] < 1e-13)
    True
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", thetas, thetas))
    relative, least = rounding_of_scores(thetas.shape[1], lengths)
    slack: Vector = 2.0 * (relative * (longest + TINY) + least)
    return slack


class Compiled:
    """The compiled loops, on one core."""

    name = "cpu"

    def rows_of(self, piece: Piece) -> CompiledRows:
        """Return a piece's rows as the loops read them."""
        return CompiledRows(piece)

    def point(self, point: Vector) -> Vector:
        """Return the point as an array of its own."""
        return np.array(point)

    def scan(
        self, pieces: Sequence[Piece], table: NDArray[np.int32], thetas: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], Indices]:
        """Go through the pieces one after another."""
        score, row = np.full(len(thetas), -np.inf), np.full(len(thetas), -1, dtype=np.int64)
        for piece in pieces:
            if len(piece) == 0:
                continue
            block = piece.block()
            if piece.longest < 0.0:
                lengths = np.empty(len(block))
                loops.distances_chunk(
                    block, read_only(np.arange(len(block))), np.zeros(block.shape[1]), lengths
                )
                piece.longest = float(lengths.max())
            slack = score_slack(thetas, piece.longest)
            scan_batches(
                block, piece.first_row, piece.available, piece.batch, table, thetas, slack, score, row
            )
        return score, row

    def mark(self, rows: Indices) -> None:
        """Nothing is kept here."""


class CompiledRows:
    """A piece as float32 or float64 in memory, for as long as it is looked at."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._block: Matrix = piece.block()

    def total(self, number: int) -> NDArray[np.float64]:
        """Return Σ x over a class."""
        index = self._piece.of_class(number)
        return weighted_sums(self._block, read_only(index), np.ones(len(index)))

    def evaluate(self, number: int, point: Vector, delta: float, near_origin: bool) -> PassPart:
        """Return the class's part of a pass."""
        index = self._piece.of_class(number)
        ones, distances = np.ones(len(index)), np.empty(len(index))
        pull, found = np.zeros(len(point)), np.zeros(loops.N_SUMS)
        loops.weiszfeld_chunk(
            self._block, read_only(index), ones, point, delta, near_origin, distances, pull, found
        )
        sums = (
            float(found[loops.INVERSE_DISTANCES]),
            float(found[loops.OBJECTIVE]),
            float(found[loops.COINCIDENT]),
        )
        if found[loops.NEAREST_ROW] < 0:
            return PassPart(pull, *sums)
        nearest = int(index[int(found[loops.NEAREST_ROW])])
        distance, weight = float(found[loops.NEAREST_DISTANCE]), float(found[loops.NEAREST_WEIGHT])
        return PassPart(pull, *sums, nearest, distance, weight, self._block[nearest])

    def distances(self, number: int, point: Vector) -> Vector:
        """Return the distance of each row of a class to a point."""
        index = self._piece.of_class(number)
        out = np.empty(len(index))
        loops.distances_chunk(self._block, read_only(index), point, out)
        return out
