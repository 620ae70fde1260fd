"""The paper's noisy Gaussian: a clean one, and an adversary's in place of a share ψ of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.arrays import Mask, Vector

CLEAN_MEAN = (0.0, 0.0)
CLEAN_COVARIANCE = ((1.0, -0.5), (-0.5, 0.5))
CORRUPT_MEAN = (10.0, 6.0)
CORRUPT_COVARIANCE = ((1.0, 0.5), (0.5, 0.5))


@dataclass(frozen=True)
class NoisyRows:
    """Rows of which some are corrupted; which ones, a method does not know."""

    rows: NDArray[np.float64]
    corrupt: Mask

    @property
    def clean(self) -> NDArray[np.float64]:
        """The clean rows."""
        return self.rows[~self.corrupt]

    @property
    def clean_mean(self) -> Vector:
        """The mean of the clean rows: the paper's μ(D_G), what an oracle would match."""
        mean: Vector = self.clean.mean(axis=0)
        return mean


def noisy_gaussian(n: int, psi: float, seed: int) -> NoisyRows:
    """Draw n rows, a share ψ of them from the adversary's Gaussian (the paper's sec:exp-syn).

    Parameters
    ----------
    n : int
        Rows in all; ψn of them, rounded, are corrupted.
    psi : float
        Share of corrupted rows.
    seed : int
        The same seed gives the same rows.
    """
    random = np.random.default_rng(seed)
    n_corrupt = round(psi * n)
    clean = random.multivariate_normal(CLEAN_MEAN, CLEAN_COVARIANCE, n - n_corrupt)
    corrupt = random.multivariate_normal(CORRUPT_MEAN, CORRUPT_COVARIANCE, n_corrupt)
    # In random order, since nothing should depend on where the corrupted rows stand.
    order = random.permutation(n)
    return NoisyRows(np.vstack([clean, corrupt])[order], (np.arange(n) >= n - n_corrupt)[order])
