"""What is measured of the first picks, at several sizes."""

from __future__ import annotations

import numpy as np

from gmmatch.kernels.feature_maps import FourierFeatures
from gmmatch.kernels.kernels import RBF
from gmmatch.metrics import coverage
from gmmatch.rows.parallel import blas_threads_for
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Vector, evenly_spaced
from gmmatch.yardsticks import Yardsticks

# Rows whose nearest pick is sought, and classes and rows whose distances set the scale of the MMD.
_COVERED = 500
_SCALE_CLASSES, _SCALE_ROWS = 20, 200
# The MMD of this many random features; the same for all sizes and methods, so that these can be compared.
_FEATURES = 256


class Measures:
    """Measures the first picks of selections from the same rows.

    Examples
    --------
    >>> measures = Measures(Rows(np.array([[0.0], [2.0], [4.0]])), np.zeros(3, dtype=np.int64))
    >>> measures.along(np.array([0, 1, 2]), np.array([1, 3]))["moment_error"]
    array([2., 0.])
    """

    def __init__(self, rows: Rows, classes: Indices, seed: int = 0) -> None:
        self.rows = rows
        self.plain = Yardsticks(rows, classes, sampled_rows=0, covered_rows=_COVERED, seed=seed)
        features = FourierFeatures(RBF(_scale(rows, classes)), _FEATURES, random_state=seed)
        seen = rows.mapped(features.fit(rows.subset(np.arange(min(len(rows), _SCALE_ROWS)))))
        self.in_features = Yardsticks(seen, classes, sampled_rows=0, covered_rows=0, seed=seed)

    def along(self, order: Indices, sizes: Indices) -> dict[str, Vector]:
        """Return the figures of the first picks by name, as many as each of the ascending ``sizes`` says."""
        with blas_threads_for(len(self.rows) * self.rows.n_features):
            nearest = [coverage(self.rows, order[:size], of=self.plain.covered) for size in sizes.tolist()]
            return {
                "moment_error": self.plain.moment_errors(order, sizes),
                "mmd": self.in_features.moment_errors(order, sizes),
                "coverage_mean": np.array([one.mean for one in nearest]),
                "coverage_max": np.array([one.largest for one in nearest]),
            }


def _scale(rows: Rows, classes: Indices) -> float:
    """Return the typical distance between rows of a class."""
    scales = []
    for number in range(min(int(classes.max()) + 1, _SCALE_CLASSES)):
        own = np.flatnonzero(classes == number)
        if len(own) > 1:
            some = own[evenly_spaced(len(own), _SCALE_ROWS)]
            scales.append(RBF().fit(rows.gather(some)).scale)
    return float(np.median(scales)) if scales else 1.0
