"""How well picks stand for the rows: figures and a chart against k, of selections and of random subsets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Vector, sample_indices
from gmmatch.metrics import SubsetMetrics, imbalance
from gmmatch.report.subject import Subject
from gmmatch.selection.selection import Selection

# Rows that MMD and coverage are measured on, random subsets, and sizes that the chart draws.
_SAMPLE_ROWS, _DRAWS, _SIZES = 4_000, 5, 48
_RANDOM = "random subsets"
# Okabe and Ito's colors, as the page's style names them.
_STYLES = ("picked", "c1", "c2", "c3", "c5", "c4", "ink")
_COLUMNS = (
    ("moment error", "distance from the mean of the picks to the mean of the rows"),
    ("MMD", "distance between picks and rows as distributions"),
    ("mean coverage", "distance from a row to its nearest pick, on average"),
    ("largest coverage", "the same for the row that is worst off"),
    ("imbalance", "share of picks that would have to change class for the shares of the rows"),
)
_WIDTH, _HEIGHT = 460, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 44
# From this ratio on, a linear axis would hide the small values.
_LOG_RATIO = 20.0
_TABLE_LINES = 12


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean values of one or several orders of picks against k, and the least and the greatest of them."""

    name: str
    style: str
    k: Indices
    values: Vector
    low: Vector
    high: Vector


@dataclass(frozen=True)
class DrawnCurve:
    """A curve and its band as points of SVG; the band is empty where there is one order."""

    name: str
    style: str
    line: str
    band: str


@dataclass(frozen=True)
class Chart:
    """What the template needs to draw a line chart and its table."""

    title: str
    curves: list[DrawnCurve]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    table: list[tuple[int, list[float]]]
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _WIDTH - _RIGHT
    bottom: int = _HEIGHT - _BOTTOM


@dataclass(frozen=True)
class Quality:
    """The section of the page.

    Attributes
    ----------
    columns : list of (name, meaning)
    lines : list of (name, cells)
        A cell is a value, and whether it is the least of its column.
    chart : Chart
        Moment error against k.
    notes : list of str
        What the figures were measured on.
    """

    columns: list[tuple[str, str]]
    lines: list[tuple[str, list[tuple[float, bool]]]]
    chart: Chart
    notes: list[str]


def measure_quality(subject: Subject) -> Quality:
    """Measure all selections, and a few random subsets with as many picks of each class as the first."""
    selections, screening = subject.selections, subject.screening
    by_class = any(label is not None for selection in selections.values() for label in selection.classes)
    codes = subject.classes.codes if by_class else np.zeros(len(subject.rows), dtype=np.int64)
    reference = np.ones(len(codes), dtype=np.bool_)
    if screening is not None and screening.trusted.any():
        reference = screening.trusted
    orders = {name: [selection.order] for name, selection in selections.items()}
    orders[_RANDOM] = _draw_orders(next(iter(selections.values())), codes, subject.seed)
    metrics = SubsetMetrics(
        subject.rows, codes, reference=reference, mmd_rows=_SAMPLE_ROWS, coverage_rows=_SAMPLE_ROWS,
        seed=subject.seed,
    )  # fmt: skip
    figures = {
        name: np.mean(
            [[*astuple(metrics.measure(order)), imbalance(codes, order)] for order in group], axis=0
        )
        for name, group in orders.items()
    }
    columns = _COLUMNS if by_class else _COLUMNS[:-1]
    least, greatest = (reduce(list(figures.values()), axis=0) for reduce in (np.nanmin, np.nanmax))
    lines = [
        (name, [(float(values[i]), bool(values[i] == least[i] < greatest[i])) for i in range(len(columns))])
        for name, values in figures.items()
    ]
    curves = []
    for (name, group), style in zip(orders.items(), _styles(len(selections)), strict=True):
        sizes = _sizes(len(group[0]))
        paths = np.array([metrics.moment_errors(order, sizes) for order in group])
        curves.append(Curve(name, style, sizes, paths.mean(axis=0), paths.min(axis=0), paths.max(axis=0)))
    notes = _describe(reference, int(codes.max()) + 1, screening is not None)
    return Quality(list(columns), lines, draw_chart("Moment error against k", curves), notes)


def _describe(reference: NDArray[np.bool_], n_classes: int, is_screened: bool) -> list[str]:
    count = int(reference.sum())
    notes = [f"Compared with {'the trusted' if is_screened else 'all'} rows ({count:,})."]
    if n_classes > 1:
        notes.append(f"Moment error and MMD are averages over the {n_classes:,} classes.")
    if count > _SAMPLE_ROWS:
        notes.append(f"MMD and coverage are of a sample of {_SAMPLE_ROWS:,} of them.")
    return notes


def _draw_orders(selection: Selection, codes: Indices, seed: int) -> list[Indices]:
    """Draw random picks, as many of each class as the selection has, and in the same sequence of classes."""
    random, owners, orders = np.random.default_rng([seed, 1]), codes[selection.order], []
    for _ in range(_DRAWS):
        order = np.empty(selection.k, dtype=np.int64)
        for code in np.unique(owners):
            positions, rows = np.flatnonzero(owners == code), np.flatnonzero(codes == code)
            order[positions] = random.choice(rows, len(positions), replace=len(positions) > len(rows))
        orders.append(order)
    return orders


def _styles(n_selections: int) -> list[str]:
    return [*(_STYLES[i % len(_STYLES)] for i in range(n_selections)), "muted"]


def _sizes(k: int) -> Indices:
    """Return the numbers of picks to draw: up to k, growing by a factor where those are many."""
    return np.unique(np.geomspace(1, k, min(k, _SIZES)).round().astype(np.int64))


class _Axis:
    """From values to coordinates; logarithmic where values of several sizes occur."""

    def __init__(self, values: Vector, first: float, last: float) -> None:
        values = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
        positive = values[values > 0.0]
        self._is_log = len(positive) > 0 and values.max() / positive.min() >= _LOG_RATIO
        self._low = float(positive.min()) if self._is_log else 0.0
        self._high = max(float(values.max()), self._low + 1e-12)
        self._first, self._last = first, last

    def scale(self, values: NDArray[Any]) -> NDArray[Any]:
        low, high = self._low, self._high
        if self._is_log:
            # An exact 0 is drawn at the bottom.
            values, low, high = np.log(np.maximum(values, low)), math.log(low), math.log(high)
        return self._first + (values - low) / (high - low) * (self._last - self._first)

    def ticks(self) -> list[tuple[float, str]]:
        from matplotlib.ticker import LogLocator, MaxNLocator

        factors = (1.0,) if self._high > 1e4 * self._low else (1.0, 2.0, 5.0)
        locator = LogLocator(subs=factors, numticks=100) if self._is_log else MaxNLocator(5)
        values = np.asarray(locator.tick_values(self._low, self._high))
        shown = values[(values >= 0.999 * self._low) & (values <= 1.001 * self._high)]
        texts = [f"{value:,.0f}" if value == int(value) else f"{value:.3g}" for value in shown.tolist()]
        return list(zip(self.scale(shown).round(1).tolist(), texts, strict=True))


def draw_chart(title: str, curves: Sequence[Curve]) -> Chart:
    """Lay out a chart of some curves.

    Examples
    --------
    >>> k, values = np.array([1, 2]), np.array([4.0, 2.0])
    >>> chart = draw_chart("Error", [Curve("a", "picked", k, values, values, values)])
    >>> chart.table, chart.y_ticks[0]
    ([(1, [4.0]), (2, [2.0])], (226.0, '0'))
    """
    x_axis = _Axis(np.concatenate([curve.k for curve in curves]) + 0.0, _LEFT, _WIDTH - _RIGHT)
    y_axis = _Axis(
        np.concatenate([edge for c in curves for edge in (c.low, c.high)]), _HEIGHT - _BOTTOM, _TOP
    )
    drawn = []
    for curve in curves:
        x, band = x_axis.scale(curve.k + 0.0), ""
        if (curve.low < curve.high).any():
            edges = np.concatenate([curve.high, curve.low[::-1]])
            band = _points(np.concatenate([x, x[::-1]]), y_axis.scale(edges))
        drawn.append(DrawnCurve(curve.name, curve.style, _points(x, y_axis.scale(curve.values)), band))
    shared = curves[0].k[np.all([np.isin(curves[0].k, curve.k) for curve in curves], axis=0)]
    table = [
        (k, [float(curve.values[np.searchsorted(curve.k, k)]) for curve in curves])
        for k in shared[sample_indices(len(shared), _TABLE_LINES)].tolist()
    ]
    return Chart(title, drawn, x_axis.ticks(), y_axis.ticks(), table)


def _points(x: NDArray[Any], y: NDArray[Any]) -> str:
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs if math.isfinite(a) and math.isfinite(b))
