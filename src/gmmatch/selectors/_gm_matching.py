"""GM Matching: match the geometric median (the paper's method)."""

from __future__ import annotations

from dataclasses import dataclass

from gmmatch.selectors.moment_matching import MomentMatching, TargetName


@dataclass(kw_only=True, eq=False, repr=False)
class GMMatching(MomentMatching):
    """Pick rows whose mean approaches the geometric median of their group (the paper's method).

    The geometric median is bounded while less than half of the rows are corrupted, so outliers cannot move the
    *target* far. A distant outlier can still be *picked*; a warning says so if there is one.

    ``normalize=True, unit_target=True`` is what the code of the paper's authors does, which
    differs from the paper's text. See :class:`~gmmatch.MomentMatching` for all parameters.

    References
    ----------
    Geometric Median Matching for Robust k-Subset Selection from Noisy Data, listing 1.

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0], [8.0, 8.0]]
    >>> GMMatching(k=2, start="zero").select(X).indices
    array([0, 2])
    """

    target: TargetName = "geometric-median"

    method = "gm-matching"
