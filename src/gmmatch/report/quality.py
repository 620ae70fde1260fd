"""How good a selection is, as the page shows it: a table beside random subsets, and curves against k."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmmatch.report.charts import Chart, Series, line_chart
from gmmatch.report.residuals import residual_path
from gmmatch.report.yardsticks import Figures, Path, Yardsticks
from gmmatch.selection.selection import Selection

_MOST_CLASS_CURVES = 60

MEANINGS = {
    "moment_error": ("Moment error", "distance from the mean of the picks to the mean of the rows"),
    "mmd": ("MMD", "distance between picks and rows as distributions"),
    "coverage_mean": ("Mean coverage", "distance from a row to its nearest pick, on average"),
    "coverage_max": ("Largest coverage", "the same for the row that is worst off"),
    "imbalance": ("Imbalance", "share of picks that would have to change class for the shares of the rows"),
}


@dataclass(frozen=True)
class Measure:
    """A line of the table.

    Attributes
    ----------
    key, name, meaning
        What is measured.
    value
        Of the selection.
    random, low, high
        The mean, least and greatest of the random subsets.
    """

    key: str
    name: str
    meaning: str
    value: float
    random: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """How the two compare, in words.

        Examples
        --------
        >>> Measure("mmd", "MMD", "", 0.5, 1.0, 0.9, 1.1).verdict
        '50% less than random'
        """
        if not np.isfinite([self.value, self.random]).all() or self.random <= 0.0:
            return ""
        if self.low <= self.value <= self.high:
            return "within the range of random"
        ratio = self.value / self.random
        if ratio >= 2.0:
            return f"{ratio:.1f} times that of random"
        return f"{abs(1.0 - ratio):.0%} {'less' if ratio < 1.0 else 'more'} than random"


@dataclass(frozen=True)
class Quality:
    """The section of the page.

    Attributes
    ----------
    measures
        The table.
    draws
        How many random subsets were drawn.
    charts
        Residual and moment error against k.
    notes
        What the numbers were measured on.
    """

    measures: list[Measure]
    draws: int
    charts: list[Chart]
    notes: list[str]


def quality_of(selection: Selection, yardsticks: Yardsticks) -> Quality:
    """Measure a selection and as many random subsets as the yardsticks draw."""
    orders = yardsticks.random_orders(selection)
    mine = yardsticks.measure(selection.order)
    theirs = [yardsticks.measure(order) for order in orders]
    charts = [
        residual_chart(selection),
        _moment_chart(yardsticks.path(selection.order), [yardsticks.path(order) for order in orders]),
    ]
    return Quality(
        measures=_measures(mine, theirs, classes=len(yardsticks.classes) > 1),
        draws=len(orders),
        charts=[chart for chart in charts if chart is not None],
        notes=notes_about(yardsticks, bool(selection.screening)),
    )


def notes_about(yardsticks: Yardsticks, screened: bool) -> list[str]:
    """Say what was measured on what."""
    what = "the rows that were not screened out" if screened else "all rows, corrupt ones included"
    said = [
        f"The picks are compared with {what} ({yardsticks.n_reference:,}). Where part of them is corrupt, a "
        "robust method keeps away from their mean on purpose."
    ]
    if yardsticks.n_groups > 1:
        said.append(
            f"Moment error and MMD are taken in each of the {yardsticks.n_groups:,} classes and averaged."
        )
    if yardsticks.sampled < yardsticks.n_reference:
        said.append(f"MMD is that of a random sample of {yardsticks.sampled:,} rows.")
    if yardsticks.covered < yardsticks.n_reference:
        said.append(f"Coverage is that of a random sample of {yardsticks.covered:,} rows.")
    return said


def _measures(mine: Figures, theirs: list[Figures], *, classes: bool) -> list[Measure]:
    lines = []
    for key, (name, meaning) in MEANINGS.items():
        drawn = np.array([getattr(one, key) for one in theirs])
        if key == "imbalance":
            if not classes:
                continue
            # The random subsets have the selection's own counts, so that there is nothing to compare.
            drawn = np.array([np.nan])
        spread = (float(drawn.mean()), float(drawn.min()), float(drawn.max()))
        lines.append(Measure(key, name, meaning, getattr(mine, key), *spread))
    return lines


def residual_chart(selection: Selection) -> Chart | None:
    """Draw how the residual falls, with the classes' own curves behind their mean."""
    path = residual_path(selection)
    if path is None:
        return None
    series = []
    if 1 < len(path.per_class) <= _MOST_CLASS_CURVES:
        series = [Series("", "faint", path.k, one) for one in path.per_class]
    name = "mean of the classes" if len(path.per_class) > 1 else "residual"
    series.append(Series(name, "kept", path.k, path.mean))
    return line_chart(
        "Residual against k", "picks (k)", "distance from the target to the mean of picks", series
    )


def _moment_chart(mine: Path, theirs: list[Path]) -> Chart | None:
    errors = np.array([one.error for one in theirs])
    drawn = Series(
        "random subsets", "muted", mine.k, errors.mean(axis=0), errors.min(axis=0), errors.max(axis=0)
    )
    return line_chart(
        "Moment error against k",
        "picks (k)",
        "distance from the mean of rows to the mean of picks",
        [drawn, Series("this selection", "kept", mine.k, mine.error)],
    )
