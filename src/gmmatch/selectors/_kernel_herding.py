"""Kernel herding: match the mean in a kernel's space."""

from __future__ import annotations

from dataclasses import dataclass

from gmmatch.kernels.kernels import KernelSpec
from gmmatch.selectors.moment_matching import MomentMatching


@dataclass(kw_only=True, eq=False, repr=False)
class KernelHerding(MomentMatching):
    """Pick rows that follow the whole distribution of their group, not only its mean.

    Herding in the space of a characteristic kernel (Chen, Welling and Smola, 2010), by default the
    Gaussian one with the median bandwidth. It follows corrupted rows as closely as clean
    ones. See :class:`~gmmatch.MomentMatching` for all parameters.

    Examples
    --------
    >>> KernelHerding(k=2).select([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]).indices
    array([2, 4])
    """

    kernel: KernelSpec = "rbf"

    method = "kernel-herding"
