"""Easy: keep the rows nearest to the center of their class."""

from __future__ import annotations

from dataclasses import dataclass

from gmmatch.selectors.ranking import CenterRanking


@dataclass(kw_only=True, eq=False, repr=False)
class Easy(CenterRanking):
    """Keep the rows nearest to their group's center.

    The most typical rows (Shah et al., 2020). Scattered outliers are avoided, but the picks are not diverse, and
    they are only as robust as the center, which is the mean by default.

    Parameters
    ----------
    center : "mean", "coordinate-median" or "geometric-median"
        The point that distances are measured from.
    k, per_class, unlabeled, preprocess, random_state, n_jobs
        As in :class:`~gmmatch.MomentMatching`.

    Examples
    --------
    >>> Easy(k=2).select([[0.0], [1.0], [1.2], [3.0]]).indices
    array([1, 2])
    """

    method = "easy"
    keep = "lowest"
