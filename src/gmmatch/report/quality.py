"""How well picks stand for the rows: figures and a curve against k, of selections and of random subsets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask, Matrix, Vector, sum_groups
from gmmatch.metrics import imbalance, mmd
from gmmatch.report.chart import Chart, Curve, line_chart
from gmmatch.report.subject import Subject
from gmmatch.rows import Rows
from gmmatch.selection.selection import Selection

# MMD takes as many rows per class as keep its cost the same however many classes there are.
_MMD_ROWS = 1_500
_MAX_MMD_ROWS = 20_000
_COVERED_ROWS = 2_500
_DRAWS = 5
_STEPS = 48
_BLOCK_ELEMENTS = 1 << 22
# Okabe and Ito's colors, as the page's style names them.
_STYLES = ("picked", "c1", "c2", "c3", "c5", "c4", "ink")
_COLUMNS = (
    ("moment error", "distance from the mean of the picks to the mean of the rows"),
    ("MMD", "distance between picks and rows as distributions"),
    ("mean coverage", "distance from a row to its nearest pick, on average"),
    ("largest coverage", "the same for the row that is worst off"),
    ("imbalance", "share of picks that would have to change class for the shares of the rows"),
)


@dataclass(frozen=True)
class Column:
    """A figure."""

    name: str
    meaning: str


@dataclass(frozen=True)
class Quality:
    """The section of the page.

    Attributes
    ----------
    columns : list of Column
    lines : list of (name, cells)
        A cell is a value, and whether it is the least of its column.
    chart : Chart
        Moment error against k.
    notes : list of str
        What the figures were measured on.
    """

    columns: list[Column]
    lines: list[tuple[str, list[tuple[float, bool]]]]
    chart: Chart
    notes: list[str]


def measure_quality(subject: Subject) -> Quality:
    """Measure all selections, and a few random subsets with as many picks of each class as the first."""
    by_class = any(
        label is not None for selection in subject.selections.values() for label in selection.classes
    )
    codes = subject.classes.codes if by_class else np.zeros(len(subject.rows), dtype=np.int64)
    trusted = (
        None
        if subject.screening is None or not subject.screening.trusted.any()
        else subject.screening.trusted
    )
    reference = _Reference(subject.rows, codes, trusted, subject.seed)
    first = next(iter(subject.selections.values()))
    draws = _random_orders(first, codes, subject.seed)
    orders = {name: [selection.order] for name, selection in subject.selections.items()} | {
        "random subsets": draws
    }
    values_by_name = {
        name: np.mean([[*reference.measure(order), imbalance(codes, order)] for order in group], axis=0)
        for name, group in orders.items()
    }
    shown = [i for i in range(len(_COLUMNS)) if i < 4 or by_class]
    least, greatest = (reduce(list(values_by_name.values()), axis=0) for reduce in (np.nanmin, np.nanmax))
    lines = [
        (name, [(float(values[i]), bool(values[i] == least[i] < greatest[i])) for i in shown])
        for name, values in values_by_name.items()
    ]
    curves = []
    for number, (name, group) in enumerate(orders.items()):
        steps = growing_steps(len(group[0]), _STEPS)
        paths = np.array([reference.moment_path(order, steps) for order in group])
        style = "muted" if name == "random subsets" else _STYLES[number % len(_STYLES)]
        band = None if len(paths) == 1 else (paths.min(axis=0), paths.max(axis=0))
        curves.append(Curve(name, style, steps, paths.mean(axis=0), band))
    chart = line_chart("Moment error against k", curves)
    return Quality([Column(*_COLUMNS[i]) for i in shown], lines, chart, reference.notes)


def _random_orders(selection: Selection, codes: Indices, seed: int) -> list[Indices]:
    """Draw random picks, as many of each class as the selection has, and in the same sequence of classes."""
    random = np.random.default_rng([seed, 1])
    owners = codes[selection.order]
    by_class = np.argsort(owners, kind="stable")
    orders = []
    for _ in range(_DRAWS):
        order = np.empty(selection.k, dtype=np.int64)
        order[by_class] = np.concatenate(
            [
                random.choice(rows, count, replace=count > len(rows))
                for code, count in zip(*np.unique(owners, return_counts=True), strict=True)
                for rows in [np.flatnonzero(codes == code)]
            ]
        )
        orders.append(order)
    return orders


def growing_steps(k: int, size: int) -> Indices:
    """Return numbers of picks: every one from 1 to k, or up to ``size`` that grow by a factor.

    Examples
    --------
    >>> growing_steps(4, 10), growing_steps(1000, 4)
    (array([1, 2, 3, 4]), array([   1,   10,  100, 1000]))
    """
    if k <= size:
        return np.arange(1, k + 1, dtype=np.int64)
    return np.unique(np.geomspace(1, k, size).round().astype(np.int64))


class _Reference:
    """The rows that picks are compared with, class by class: means of all of them, the rest of a sample."""

    def __init__(self, rows: Rows, codes: Indices, trusted: Mask | None, seed: int) -> None:
        self._rows, self._codes, self._n_classes = rows, codes, int(codes.max()) + 1
        weights = np.ones(len(rows)) if trusted is None else trusted.astype(np.float64)
        self._means = rows.group_means(codes, weights, self._n_classes)
        self._counts = np.bincount(codes, weights, minlength=self._n_classes)
        self._random = np.random.default_rng(seed)
        members = np.flatnonzero(weights)
        self._mmd_rows = min(_MAX_MMD_ROWS, int(_MMD_ROWS * np.sqrt(self._n_classes)))
        sampled = self._sample(members, self._mmd_rows)
        self._sampled_codes, self._sampled = codes[sampled], rows.take(sampled) - self._means[0]
        covered = self._sample(members, _COVERED_ROWS)
        self._covered = rows.take(covered) - self._means[0]
        which = "all" if trusted is None else "the trusted"
        self.notes = [f"Compared with {which} rows ({len(members):,})."]
        if self._n_classes > 1:
            self.notes.append(f"Moment error and MMD are averages over the {self._n_classes:,} classes.")
        if len(covered) < len(members):
            self.notes.append(f"MMD is of {len(sampled):,} of them, coverage of {len(covered):,}.")

    def measure(self, order: Indices) -> list[float]:
        """Return moment error, MMD, mean and largest coverage of these picks."""
        from sklearn.metrics import pairwise_distances_argmin_min

        picks = np.unique(order)
        nearest = np.full(len(self._covered), np.inf)
        step = max(1, _BLOCK_ELEMENTS // self._rows.n_features)
        for first in range(0, len(picks), step):
            values = self._rows.take(picks[first : first + step]) - self._means[0]
            nearest = np.minimum(nearest, pairwise_distances_argmin_min(self._covered, values)[1])
        sample = self._sample(order, self._mmd_rows)
        values, owners = self._rows.take(sample) - self._means[0], self._codes[sample]
        distances = [
            mmd(values[owners == code], self._sampled[self._sampled_codes == code])
            for code in np.intersect1d(owners, self._sampled_codes).tolist()
        ]
        error = float(self.moment_path(order, np.array([len(order)]))[0])
        return [error, float(np.mean(distances or [np.nan])), float(nearest.mean()), float(nearest.max())]

    def moment_path(self, order: Indices, steps: Indices) -> Vector:
        """Return the moment error of the first picks, as many as each of the ascending ``steps`` says."""
        sums, counts = np.zeros_like(self._means), np.zeros(self._n_classes)
        errors = []
        for picks in np.split(order, steps)[: len(steps)]:
            sums, counts = (
                self._add(picks, sums),
                counts + np.bincount(self._codes[picks], minlength=self._n_classes),
            )
            known = (counts > 0) & (self._counts > 0)
            gaps = sums[known] / counts[known, None] - self._means[known]
            errors.append(float(np.linalg.norm(gaps, axis=1).mean()) if known.any() else np.nan)
        return np.array(errors)

    def _add(self, picks: Indices, sums: Matrix) -> Matrix:
        step = max(1, _BLOCK_ELEMENTS // self._rows.n_features)
        for first in range(0, len(picks), step):
            block = picks[first : first + step]
            sums = sums + sum_groups(self._rows.take(block), self._codes[block], self._n_classes)
        return sums

    def _sample(self, rows: Indices, size: int) -> NDArray[np.int64]:
        return rows if len(rows) <= size else np.sort(self._random.choice(rows, size, replace=False))
