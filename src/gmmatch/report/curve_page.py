"""The page of a budget curve: what is gained by more rows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from gmmatch import __version__
from gmmatch.report.charts import Chart, Series, line_chart
from gmmatch.report.quality import method_colors
from gmmatch.report.rendering import check_target, write_page

if TYPE_CHECKING:
    from gmmatch.curve.curve import BudgetCurve

_CHARTS = (
    ("accuracy", "Accuracy of a linear probe", "share of unseen rows that are classified right"),
    ("mislabeled", "Mislabeled picks", "expected number of mislabeled picks"),
    ("mmd", "MMD", "distance between picks and rows as distributions"),
    ("moment_error", "Moment error", "distance from the mean of rows to the mean of picks"),
    ("coverage_mean", "Coverage", "mean distance from a row to its nearest pick"),
)


def write_curve(curve: BudgetCurve, path: str | os.PathLike[str]) -> None:
    """Write curves and their table as one page.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from gmmatch import budget_curve
    >>> curve = budget_curve(np.random.default_rng(0).normal(size=(60, 3)), sizes=[5, 10])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_curve(curve, f"{folder}/curve.html")
    ...     "Moment error" in Path(folder, "curve.html").read_text(encoding="utf-8")
    True
    """
    target = check_target(path)
    charts = [chart for name, title, words in _CHARTS if (chart := _chart(curve, name, title, words))]
    facts = {"version": __version__, "notes": [], "map_data": "{}", "curve": curve, "charts": charts}
    write_page(target, "curve.html.j2", facts, scripts=())


def _chart(curve: BudgetCurve, name: str, title: str, words: str) -> Chart | None:
    series = []
    for method, (color, dashed) in method_colors(curve.methods).items():
        points = [point for point in curve.of(method) if getattr(point, name) is not None]
        x, y = np.array([point.k for point in points]), np.array([getattr(point, name) for point in points])
        low = high = None
        if name == "accuracy" and all(point.low is not None for point in points):
            low, high = (np.array([getattr(point, side) for point in points]) for side in ("low", "high"))
        series.append(Series(method, color, x, y, low, high, dashed=dashed, band_name="95% interval"))
    return line_chart(title, "picks (k)", words, series, percent=name == "accuracy")
