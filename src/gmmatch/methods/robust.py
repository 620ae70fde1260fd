"""Robust: screen the rows, then match the distribution of those that are kept."""

from __future__ import annotations

from dataclasses import dataclass

from gmmatch.kernels import RandomFeatures
from gmmatch.methods.matching import Matching
from gmmatch.problem import Screen
from gmmatch.screening.screening import Screening


@dataclass(kw_only=True, eq=False, repr=False)
class Robust(Matching):
    """Kernel herding with a screening: two options of every matching, chosen for corrupted data.

    Parameters are those of :class:`~gmmatch.methods.matching.Matching`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((400, 2))
    >>> X[:100] += 15.0
    >>> int(Robust(k=20, random_state=0).select(X).mask[:100].sum())
    0
    """

    screening: Screen | None = Screening()
    kernel: RandomFeatures | None = RandomFeatures()

    name = "robust"
