"""Yardsticks: the figures of many subsets of the same rows, class by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.metrics import BLOCK_ELEMENTS, coverage, mmd, parts
from gmmatch.rows.parallel import blas_threads_for
from gmmatch.rows.rows import Rows, as_rows
from gmmatch.types import Indices, Mask, Vector


@dataclass(frozen=True)
class Figures:
    """The metrics of a subset; less is better for all.

    Examples
    --------
    >>> Yardsticks([[0.0], [1.0], [2.0]]).measure(np.array([1])).coverage_max
    1.0
    """

    moment_error: float
    """Distance between the means of the picks and of the reference, averaged over the classes."""
    mmd: float
    """Their distance as distributions, averaged over the classes. Of a sample if there are many rows."""
    coverage_mean: float
    """The mean distance from a row to its nearest pick. Of a sample if there are many rows."""
    coverage_max: float
    """The largest such distance."""


class Yardsticks:
    """Measures subsets of the same rows, class by class, in memory that does not grow with the rows.

    Moment error and MMD are averaged over the classes that have picks. Means are those of all rows; MMD and
    coverage, which compare rows with rows, take a sample of large inputs.

    Parameters
    ----------
    X : array of shape (n, s)
        All rows.
    classes : int array of shape (n,), optional
        The class number of each row, -1 where it is of none; without, all rows are one class.
    reference : boolean mask, optional
        Which rows the picks should represent; all by default.
    sampled_rows, covered_rows : int
        The most rows that MMD and coverage are measured on.
    seed : int
        Of the samples.

    Examples
    --------
    >>> yardsticks = Yardsticks([[0.0], [2.0], [4.0]])
    >>> yardsticks.measure(np.array([0, 1])).moment_error
    1.0
    """

    def __init__(
        self,
        X: Any,
        classes: Indices | None = None,
        *,
        reference: Mask | None = None,
        sampled_rows: int = 10_000,
        covered_rows: int = 10_000,
        seed: int = 0,
    ) -> None:
        self.rows = as_rows(X)
        self.seed = seed
        n = len(self.rows)
        self.class_of_row = np.zeros(n, dtype=np.int64) if classes is None else classes
        self.n_classes = int(self.class_of_row.max()) + 1
        reference_rows = np.arange(n) if reference is None else np.flatnonzero(reference)
        self.n_reference = len(reference_rows)
        self.means = self._means(reference_rows)
        random = np.random.default_rng(seed)
        self.sampled_rows = sampled_rows
        self.sampled = _sample(reference_rows, sampled_rows, random)
        self.covered = _sample(reference_rows, covered_rows, random)

    def measure(self, picks: Indices) -> Figures:
        """Return the figures of these rows, of which there is at least one."""
        with blas_threads_for(len(self.rows) * self.rows.n_features):
            nearest = coverage(self.rows, picks, of=self.covered)
            distance = self.mmd(picks)
        return Figures(self._moment_error(self._means(picks)), distance, nearest.mean, nearest.largest)

    def mmd(self, picks: Indices) -> float:
        """Return the distance of these rows to the reference as distributions, averaged over the classes."""
        chosen = _sample(picks, self.sampled_rows, np.random.default_rng([self.seed, 2]))
        values = []
        for number in range(self.n_classes):
            picked, reference = (rows[self.class_of_row[rows] == number] for rows in (chosen, self.sampled))
            if len(picked) and len(reference):
                values.append(mmd(self.rows.subset(picked), self.rows.subset(reference)))
        return float(np.mean(values)) if values else float("nan")

    def moment_errors(self, order: Indices, steps: Indices) -> Vector:
        """Return the moment error of the first picks, as many as each of the ascending ``steps`` says."""
        sums, counts = np.zeros_like(self.means), np.zeros(self.n_classes)
        errors = []
        for part in np.split(order, steps)[: len(steps)]:
            more = _class_sums(self.rows, part, self.class_of_row, self.n_classes)
            sums, counts = sums + more[0], counts + more[1]
            errors.append(self._moment_error(_divided(sums, counts)))
        return np.array(errors)

    def _means(self, positions: Indices) -> NDArray[np.float64]:
        return class_means(self.rows, positions, self.class_of_row, self.n_classes)

    def _moment_error(self, means: NDArray[np.float64]) -> float:
        gaps = np.linalg.norm(means - self.means, axis=1)
        gaps = gaps[~np.isnan(gaps)]  # of a class without picks
        return float(gaps.mean()) if len(gaps) else float("nan")


def class_means(rows: Rows, positions: Indices, class_of_row: Indices, n_classes: int) -> NDArray[np.float64]:
    """Return the mean of these rows in each class, shape (classes, s); NaN where a class has none."""
    return _divided(*_class_sums(rows, positions, class_of_row, n_classes))


def _sample(positions: Indices, limit: int, random: np.random.Generator) -> Indices:
    if len(positions) > limit:
        positions = random.choice(positions, limit, replace=False)
    return np.sort(positions)


def _class_sums(
    rows: Rows, positions: Indices, class_of_row: Indices, n_classes: int
) -> tuple[NDArray[np.float64], Vector]:
    """Return the sum and the number of these rows in each class."""
    from scipy.sparse import csr_matrix

    positions = positions[class_of_row[positions] >= 0]
    sums = np.zeros((n_classes, rows.n_features))
    for part in parts(positions, max(1, BLOCK_ELEMENTS // rows.n_features)):
        members = csr_matrix(
            (np.ones(len(part)), (class_of_row[part], np.arange(len(part)))), (n_classes, len(part))
        )
        sums += members @ rows.gather(part)  # several times as fast as np.add.reduceat
    return sums, np.bincount(class_of_row[positions], minlength=n_classes).astype(np.float64)


def _divided(sums: NDArray[np.float64], counts: Vector) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums / counts[:, None])
