"""A reference: rows that the picks should follow in place of the data's own, or beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gmmatch.rows.rows import RowMap, Rows
from gmmatch.targets.moments import GeometricMedianTarget, Moment, Target


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
