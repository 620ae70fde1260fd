"""Moderate: keep the rows whose distance to the center is nearest to the median distance."""

from __future__ import annotations

from dataclasses import dataclass

from gmmatch.methods.ranking import CenterRanking


@dataclass(kw_only=True, eq=False, repr=False)
class Moderate(CenterRanking):
    """Keep the rows whose distance to the center is nearest to the median distance.

    Neither the easiest nor the hardest rows (Xia et al., 2022).

    Parameters
    ----------
    center : Mean, GeometricMedian or CoordinateMedian
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`.

    Examples
    --------
    >>> Moderate(k=2).select([[0.0], [1.0], [1.5], [3.0], [9.0]]).indices
    array([1, 2])
    """

    name = "moderate"
    keep = "middle"
