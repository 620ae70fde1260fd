"""What a study measured, and questions to ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch_paper.arrays import Vector


class Curve(NamedTuple):
    """A measurement along one parameter: the middle over the seeds, and where half of them lie."""

    x: Vector
    y: Vector
    low: Vector
    high: Vector


class Cells:
    """The measured cells of one part: parameters, seed and results of each in one mapping."""

    def __init__(self, cells: Iterable[Mapping[str, Any]]) -> None:
        self._cells = list(cells)

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._cells)

    def where(self, **conditions: Any) -> Cells:
        """Return the cells whose parameters have these values."""
        return Cells(
            cell for cell in self._cells if all(cell[name] == value for name, value in conditions.items())
        )

    def one(self, **conditions: Any) -> Mapping[str, Any]:
        """Return the first cell with these parameters."""
        return next(iter(self._matching(conditions)))

    def distinct(self, name: str) -> list[Any]:
        """Return the values of a parameter, in the order they first appear."""
        return list(dict.fromkeys(cell[name] for cell in self._cells))

    def values(self, name: str, **conditions: Any) -> Vector:
        """Return a measurement, one number (or list of numbers) per cell."""
        return np.array([cell[name] for cell in self._matching(conditions)], dtype=np.float64)

    def mean(self, name: str, **conditions: Any) -> float:
        """Return the mean of a measurement over the cells."""
        return float(self.values(name, **conditions).mean())

    def median(self, name: str, **conditions: Any) -> float:
        """Return the median of a measurement over the cells."""
        return float(np.median(self.values(name, **conditions)))

    def curve(self, x: str, y: str | Callable[[Mapping[str, Any]], float], **conditions: Any) -> Curve:
        """Return ``y`` against the parameter ``x``: median and quartiles over everything else."""
        chosen = self._matching(conditions)
        read = (lambda cell: cell[y]) if isinstance(y, str) else y
        xs = sorted(chosen.distinct(x))
        groups = [np.array([read(cell) for cell in chosen.where(**{x: value})], float) for value in xs]
        quartiles = np.array([np.percentile(group, [25, 50, 75]) for group in groups])
        return Curve(np.array(xs, float), quartiles[:, 1], quartiles[:, 0], quartiles[:, 2])

    def _matching(self, conditions: Mapping[str, Any]) -> Cells:
        found = self.where(**conditions)
        if not len(found):
            raise InvalidInputError(f"No cell has {dict(conditions)}; there are {len(self)} others.")
        return found


@dataclass(frozen=True)
class Results:
    """Everything a study measured at one size.

    ``fixed`` holds, per part, the parameters that are the same in every cell.
    """

    study: str
    size: str
    parts: Mapping[str, Cells]
    fixed: Mapping[str, Mapping[str, Any]]
    provenance: Mapping[str, Any]

    def __getitem__(self, part: str) -> Cells:
        return self.parts[part]


def log_slope(x: Any, y: Any) -> float:
    """Return the slope of the straight line through (log x, log y) that fits best."""
    positive = (np.asarray(x, float) > 0) & (np.asarray(y, float) > 0)
    if positive.sum() < 2:
        raise InvalidInputError("A slope needs two or more points with positive x and y.")
    logs = np.log(np.asarray(x, float)[positive]), np.log(np.asarray(y, float)[positive])
    return float(np.polyfit(*logs, 1)[0])
