"""What an updatable selection keeps: its picks' rows, and sums over all rows so far."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.types import Indices, Vector


@dataclass(frozen=True, eq=False)
class Past:
    """What is known of the rows that a selection was made from, without them.

    Attributes
    ----------
    rows : array of shape (k, s)
        The picks' rows, in pick order.
    counts : int64 array of shape (groups,)
        How many rows each group has had, screened out or not.
    points, masses : float64 arrays of shape (groups, d) and (groups,)
        The target of each group, in the space it was matched in, and how much the rows behind it weigh.
    features : dict, optional
        What makes the features of that space, where it is a kernel's.

    Examples
    --------
    >>> past = Past(np.zeros((1, 2)), np.array([5]), np.array([[0.5, 0.1]]), np.array([5.0]))
    >>> Past.from_json(past.as_json(), past.rows) == past
    True
    """

    rows: NDArray[Any]
    counts: Indices
    points: NDArray[np.float64]
    masses: Vector
    features: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if len(self.points) != len(self.counts) or self.masses.shape != self.counts.shape:
            raise InvalidInputError("past: points, masses and counts must be of the same groups.")

    def and_of(self, earlier: Past, groups: list[int]) -> Past:
        """Return the same, followed by what was known earlier of groups that it does not have."""
        return replace(
            self,
            counts=np.concatenate([self.counts, earlier.counts[groups]]),
            points=np.concatenate([self.points, earlier.points[groups]]),
            masses=np.concatenate([self.masses, earlier.masses[groups]]),
        )

    def as_json(self) -> dict[str, Any]:
        """Return all but the rows."""
        packed = base64.b64encode(np.ascontiguousarray(self.points, dtype="<f8").tobytes()).decode("ascii")
        return {
            "counts": self.counts.tolist(),
            "masses": self.masses.tolist(),
            "points": packed,
            "features": self.features,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any], rows: NDArray[Any]) -> Past:
        """Return what :meth:`as_json` wrote."""
        counts = np.array(document["counts"], dtype=np.int64)
        points = np.frombuffer(base64.b64decode(document["points"], validate=True), dtype="<f8")
        masses = np.array(document["masses"], dtype=np.float64)
        return cls(rows, counts, points.reshape(len(counts), -1), masses, document["features"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Past):
            return NotImplemented
        return self.as_json() == other.as_json() and np.array_equal(self.rows, other.rows)

    __hash__ = None  # type: ignore[assignment]
