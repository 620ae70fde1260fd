"""Hard: keep the rows farthest from the center of their class."""

from __future__ import annotations

from dataclasses import dataclass

from gmmatch.selectors.ranking import CenterRanking


@dataclass(kw_only=True, eq=False, repr=False)
class Hard(CenterRanking):
    """Keep the rows farthest from their group's center.

    On clean data these are edge cases (Joshi et al., 2009); otherwise mostly corrupted or mislabeled rows.

    Parameters
    ----------
    center : "mean", "coordinate-median" or "geometric-median"
        The point that distances are measured from.
    k, per_class, unlabeled, preprocess, random_state, n_jobs
        As in :class:`~gmmatch.MomentMatching`.

    Examples
    --------
    >>> Hard(k=2).select([[0.0], [1.0], [1.2], [3.0]]).indices
    array([0, 3])
    """

    method = "hard"
    keep = "highest"
