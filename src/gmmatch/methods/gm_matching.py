"""GM Matching: match the geometric median (the method of the paper)."""

from __future__ import annotations

from dataclasses import dataclass

from gmmatch.methods.matching import Matching
from gmmatch.targets import GeometricMedian, Target


@dataclass(kw_only=True, eq=False, repr=False)
class GMMatching(Matching):
    """Pick rows whose mean approaches the geometric median of their group.

    While less than half of the rows are corrupted, outliers cannot move the *target* far; a distant outlier can
    still be *picked*. Parameters are those of :class:`~gmmatch.methods.matching.Matching`.

    References
    ----------
    Geometric Median Matching for Robust k-Subset Selection from Noisy Data, listing 1.

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0], [8.0, 8.0]]
    >>> GMMatching(k=2, start="zero").select(X).indices
    array([0, 2])
    """

    target: Target = GeometricMedian()

    name = "gm-matching"
