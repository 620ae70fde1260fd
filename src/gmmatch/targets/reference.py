"""A reference: rows that the picks should follow instead of the data, or mixed with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gmmatch.rows.rows import RowMap, Rows
from gmmatch.targets.moments import GeometricMedianTarget, Moment, Target
from gmmatch.types import Vector


@dataclass(frozen=True, eq=False)
class Reference:
    """The rows that a group of picks follows, and how much they count beside the group's own.

    Examples
    --------
    >>> from gmmatch.targets.moments import MeanTarget
    >>> half = Reference(Rows(np.array([[1.0], [3.0]])), weight=0.5)
    >>> half.aim(Moment(np.array([0.0])), MeanTarget(), np.random.default_rng(0), 1).point
    array([1.])
    """

    rows: Rows
    weight: float = 1.0

    @property
    def alone(self) -> bool:
        """Whether the group's own rows do not count at all."""
        return self.weight == 1.0

    def mapped(self, row_map: RowMap) -> Reference:
        """Return the same reference in another space."""
        return replace(self, rows=self.rows.mapped(row_map).made())

    def aim(self, own: Moment | None, target: Target, random: np.random.Generator, threads: int) -> Moment:
        """Return the moment to match: the reference's, mixed with the group's own."""
        if isinstance(target, GeometricMedianTarget):
            target = replace(target, fraction=1.0)  # a reference has few rows
        theirs = target.of(self.rows, np.ones(len(self.rows)), random, threads)
        details = {**theirs.details, "reference_rows": len(self.rows)}
        if own is None or self.alone:
            return Moment(theirs.point, details)
        if "median_gap" in details:
            details["median_gap"] = max(details["median_gap"], own.details["median_gap"])
            details["median_iterations"] += own.details["median_iterations"]
            details["median_converged"] &= own.details["median_converged"]
        point = (1.0 - self.weight) * own.point + self.weight * theirs.point
        return Moment(point, {**own.details, **details})


@dataclass(frozen=True, eq=False)
class PastMoment:
    """The moment of rows that are no longer at hand, in the space it was matched in, and how much they weigh.

    Examples
    --------
    >>> PastMoment(np.array([1.0]), mass=3.0).joined(Moment(np.array([5.0])), mass=1.0).point
    array([2.])
    """

    point: Vector
    mass: float
    alone: bool = False

    def mapped(self, row_map: RowMap) -> PastMoment:
        """Return itself: it is in that space already."""
        return self

    def joined(self, own: Moment | None, mass: float) -> Moment:
        """Return the moment of the earlier rows and a group's own, of which ``mass`` weighs."""
        total = self.mass + mass
        if own is None:
            return Moment(self.point, mass=self.mass)
        point = (self.mass * self.point + mass * own.point) / total
        return Moment(point, own.details, mass=total)
