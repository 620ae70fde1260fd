"""Moderate: keep the rows at a medium distance from the center of their class."""

from __future__ import annotations

from dataclasses import dataclass

from gmmatch.selectors.ranking import CenterRanking


@dataclass(kw_only=True, eq=False, repr=False)
class Moderate(CenterRanking):
    """Keep the rows whose distance to the center is nearest to the median distance.

    Neither the easiest nor the hardest rows (Xia et al., 2022). The default center is the class mean, as
    in the paper; the authors of the method use ``center="coordinate-median"``.

    Parameters
    ----------
    center : "mean", "coordinate-median" or "geometric-median"
        The point that distances are measured from.
    k, per_class, unlabeled, preprocess, random_state, n_jobs
        As in :class:`~gmmatch.MomentMatching`.

    Examples
    --------
    >>> Moderate(k=2).select([[0.0], [1.0], [1.5], [3.0], [9.0]]).indices
    array([1, 2])
    """

    method = "moderate"
    keep = "middle"
