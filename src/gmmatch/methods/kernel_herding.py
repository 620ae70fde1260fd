"""Kernel herding: match the mean in the space of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from gmmatch.kernels import RBF, FeatureMap, Kernel
from gmmatch.methods.matching import Matching


@dataclass(kw_only=True, eq=False, repr=False)
class KernelHerding(Matching):
    """Pick rows that follow the whole distribution of their group (Chen, Welling and Smola, 2010).

    It follows corrupted rows as closely as clean ones. Parameters are those of
    :class:`~gmmatch.methods.matching.Matching`.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]
    >>> KernelHerding(k=2, random_state=0).select(X).mask.reshape(2, 3).sum(axis=1)
    array([1, 1])
    """

    kernel: Kernel | FeatureMap | None = RBF()

    name = "kernel-herding"
