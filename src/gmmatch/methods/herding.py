"""Herding: match the mean."""

from __future__ import annotations

from dataclasses import dataclass

from gmmatch.methods.matching import Matching


@dataclass(kw_only=True, eq=False, repr=False)
class Herding(Matching):
    """Pick rows whose mean approaches the mean of their group (Welling, 2009).

    Good on clean data; a single corrupted row can mislead it. Parameters are those of
    :class:`~gmmatch.methods.matching.Matching`.

    Examples
    --------
    >>> Herding(k=2, start="zero").select([[0.0], [1.0], [2.0], [3.0]]).indices
    array([0, 3])
    """

    name = "herding"
