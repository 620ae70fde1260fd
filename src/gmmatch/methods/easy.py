"""Easy: keep the rows nearest to the center of their group."""

from __future__ import annotations

from dataclasses import dataclass

from gmmatch.methods.ranking import CenterRanking


@dataclass(kw_only=True, eq=False, repr=False)
class Easy(CenterRanking):
    """Keep the rows nearest to the center of their group.

    The most typical rows (Shah et al., 2020): safe among scattered outliers, poor in diversity, and only as robust
    as the center.

    Parameters
    ----------
    center : Mean, GeometricMedian or CoordinateMedian
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`.

    Examples
    --------
    >>> Easy(k=2).select([[0.0], [1.0], [1.2], [3.0]]).indices
    array([1, 2])
    """

    name = "easy"
    keep = "lowest"
