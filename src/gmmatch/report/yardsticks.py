"""How good selections from the same rows are, each beside random subsets of the same size.

What is measured class by class is averaged over the classes, as `gmmatch compare` does. Means are those of
all rows; MMD and coverage, which compare rows with rows, take a sample of large inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.metrics import imbalance, mmd
from gmmatch.report.classes import Classes
from gmmatch.report.residuals import growing_steps
from gmmatch.rows.rows import Rows
from gmmatch.selection.selection import Selection
from gmmatch.types import Indices, Mask

# MMD takes as many rows per class as keep its cost the same however many classes there are.
_MMD_ROWS = 1_500
_MOST_MMD_ROWS = 20_000
_COVERED_ROWS = 2_500
_BLOCK_ELEMENTS = 1 << 22
_DRAWS = 5
_DRAWN_ELEMENTS = 1 << 27
_STEPS = 48


@dataclass(frozen=True)
class Figures:
    """What is measured of a subset; less is better everywhere.

    Attributes
    ----------
    moment_error
        Distance between the means of the picks and of the reference; averaged over classes.
    mmd
        Their distance as distributions; averaged over classes. Of a sample if there are many rows.
    coverage_mean, coverage_max
        The distance from a row of the reference to its nearest pick. Of a sample if there are many rows.
    imbalance
        The share of picks that would have to change class to have the classes' shares in the data.
    """

    moment_error: float
    mmd: float
    coverage_mean: float
    coverage_max: float
    imbalance: float


@dataclass(frozen=True, eq=False)
class Path:
    """The moment error after the first k picks, for some k.

    Attributes
    ----------
    k, error
        Of the same length, ascending in k; the last is the whole selection.
    """

    k: Indices
    error: NDArray[np.float64]


class Yardsticks:
    """Measures selections from the same rows.

    Parameters
    ----------
    rows
        All of them.
    classes
        Their classes.
    reference
        Which rows count as what the picks should stand for; all by default.
    per_class
        Whether moment error and MMD are taken class by class.
    seed
        Of the samples and of the random subsets.

    Attributes
    ----------
    sampled, covered
        How many rows MMD and coverage are measured on.

    Examples
    --------
    >>> from gmmatch.report.classes import classes_of
    >>> X = np.array([[0.0], [2.0], [4.0]])
    >>> yardsticks = Yardsticks(Rows(X), classes_of(None, 3))
    >>> yardsticks.measure(np.array([0, 1])).moment_error
    1.0
    """

    def __init__(
        self,
        rows: Rows,
        classes: Classes,
        *,
        reference: Mask | None = None,
        per_class: bool = True,
        seed: int = 0,
    ) -> None:
        self.rows, self.classes, self.seed = rows, classes, seed
        self.group_of_row = classes.of_row if per_class else np.zeros(len(rows), dtype=np.int64)
        self.n_groups = len(classes) if per_class else 1
        trusted = np.arange(len(rows)) if reference is None else np.flatnonzero(reference)
        self.n_reference = len(trusted)
        self.means = self._means(trusted)
        random = np.random.default_rng(seed)
        limit = min(_MOST_MMD_ROWS, int(_MMD_ROWS * np.sqrt(self.n_groups)))
        self._compared = _sample(trusted, limit, random)
        self._covered = _sample(trusted, _COVERED_ROWS, random)
        self.sampled, self.covered = len(self._compared), len(self._covered)
        self._limit = limit

    def measure(self, picks: Indices) -> Figures:
        """Return the figures of these rows, of which there is at least one."""
        nearest = self._nearest(picks)
        return Figures(
            moment_error=self._mean_gap(self._means(picks)),
            mmd=self._mmd(picks),
            coverage_mean=float(nearest.mean()),
            coverage_max=float(nearest.max()),
            imbalance=imbalance(self.classes.of_row, picks),
        )

    def random_orders(self, selection: Selection) -> list[Indices]:
        """Draw random picks, as many of each class as the selection has, and in the same sequence of classes."""
        random = np.random.default_rng([self.seed, 1])
        cost = selection.k * self.rows.n_features
        groups = self.group_of_row[selection.order]
        by_group = np.argsort(groups, kind="stable")
        counts = np.bincount(groups, minlength=self.n_groups)
        members = [np.flatnonzero(self.group_of_row == group) for group in range(self.n_groups)]
        orders = []
        for _ in range(_DRAWS if cost <= _DRAWN_ELEMENTS else 2):
            drawn = [
                random.choice(mine, count, replace=count > len(mine))
                for mine, count in zip(members, counts.tolist(), strict=True)
            ]
            order = np.empty(selection.k, dtype=np.int64)
            order[by_group] = np.concatenate(drawn)
            orders.append(order)
        return orders

    def path(self, order: Indices) -> Path:
        """Return the moment error after the first picks, the second, ... at steps that grow with k."""
        steps = growing_steps(len(order), _STEPS)
        sums = np.zeros_like(self.means)
        counts = np.zeros(self.n_groups)
        errors = []
        for first, last in zip([0, *steps[:-1].tolist()], steps.tolist(), strict=True):
            more, count = self._summed(order[first:last], self.group_of_row, self.n_groups)
            sums, counts = sums + more, counts + count
            errors.append(self._mean_gap(_divided(sums, counts)))
        return Path(steps, np.array(errors))

    def class_means(self, picks: Indices) -> NDArray[np.float64]:
        """Return the mean of these rows in each class, shape (classes, s); NaN where a class has none."""
        return _divided(*self._summed(picks, self.classes.of_row, len(self.classes)))

    def _means(self, positions: Indices) -> NDArray[np.float64]:
        return _divided(*self._summed(positions, self.group_of_row, self.n_groups))

    def _summed(
        self, positions: Indices, group_of_row: Indices, n_groups: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The sum and the number of these rows in each group."""
        sums = np.zeros((n_groups, self.rows.n_features))
        step = max(1, _BLOCK_ELEMENTS // self.rows.n_features)
        for start in range(0, len(positions), step):
            part = positions[start : start + step]
            groups = group_of_row[part]
            order = np.argsort(groups, kind="stable")
            present, starts = np.unique(groups[order], return_index=True)
            sums[present] += np.add.reduceat(self.rows.gather(part[order]), starts, axis=0)
        return sums, np.bincount(group_of_row[positions], minlength=n_groups).astype(np.float64)

    def _mean_gap(self, means: NDArray[np.float64]) -> float:
        gaps = np.linalg.norm(means - self.means, axis=1)
        gaps = gaps[~np.isnan(gaps)]  # of a class without picks
        return float(gaps.mean()) if len(gaps) else float("nan")

    def _mmd(self, picks: Indices) -> float:
        chosen = _sample(picks, self._limit, np.random.default_rng([self.seed, 2]))
        values = []
        for group in range(self.n_groups):
            mine = chosen[self.group_of_row[chosen] == group]
            theirs = self._compared[self.group_of_row[self._compared] == group]
            if len(mine) and len(theirs):
                values.append(mmd(self.rows.gather(mine), self.rows.gather(theirs)))
        return float(np.mean(values)) if values else float("nan")

    def _nearest(self, picks: Indices) -> NDArray[np.float64]:
        """The distance from each row of the sample to its nearest pick."""
        from sklearn.metrics import pairwise_distances_argmin_min

        centre = self.rows.gather(self._covered).mean(axis=0)
        sample = self.rows.gather(self._covered) - centre
        nearest = np.full(len(sample), np.inf)
        chosen = np.unique(picks)
        step = max(1, _BLOCK_ELEMENTS // self.rows.n_features)
        for start in range(0, len(chosen), step):
            part = self.rows.gather(chosen[start : start + step]) - centre
            _, distances = pairwise_distances_argmin_min(sample, part)
            np.minimum(nearest, distances, out=nearest)
        nearest[np.isin(self._covered, picks)] = 0.0  # which rounding would miss
        return nearest


def _sample(positions: Indices, limit: int, random: np.random.Generator) -> Indices:
    if len(positions) <= limit:
        return np.sort(positions)
    return np.sort(random.choice(positions, limit, replace=False))


def _divided(sums: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums / counts[:, None])
