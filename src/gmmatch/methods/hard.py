"""Hard: keep the rows farthest from the center of their group."""

from __future__ import annotations

from dataclasses import dataclass

from gmmatch.methods.ranking import CenterRanking


@dataclass(kw_only=True, eq=False, repr=False)
class Hard(CenterRanking):
    """Keep the rows farthest from the center of their group.

    On clean data these are edge cases (Joshi et al., 2009), otherwise mostly corrupted or mislabeled rows.

    Parameters
    ----------
    center : Mean, GeometricMedian or CoordinateMedian
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`.

    Examples
    --------
    >>> Hard(k=2).select([[0.0], [1.0], [1.2], [3.0]]).indices
    array([0, 3])
    """

    name = "hard"
    keep = "highest"
