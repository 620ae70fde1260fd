"""How well picks stand for the rows, and how well a model learns from them: a budget curve, as the page shows it."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np

from gmmatch.curve import BudgetCurve, budget_curve
from gmmatch.errors import imported
from gmmatch.report.subject import Subject, shorten

# Name, meaning, and whether more is better.
_COLUMNS = {
    "moment_error": ("moment error", "distance from the mean of the picks to the mean of the rows", False),
    "mmd": ("MMD", "distance between picks and rows as distributions", False),
    "coverage_mean": ("mean coverage", "distance from a row to its nearest pick, on average", False),
    "coverage_max": ("largest coverage", "the same for the row that is worst off", False),
    "accuracy": ("accuracy", "of a linear probe that is trained on the picks", True),
}
# Gray is legible on light and dark; the lines have Okabe and Ito's colors, as all of the page.
_GRAY = "#808080"
_STYLE = {
    **{f"{name}.color": _GRAY for name in ("text", "xtick", "ytick")},
    **{f"axes.{name}": _GRAY for name in ("edgecolor", "labelcolor")},
    "legend.frameon": False,
    "text.parse_math": False,
    "svg.hashsalt": "gmmatch",
}
_COLORS = ("#009e73", "#0072b2", "#d55e00", "#cc79a7", "#e69f00", "#56b4e9")


@dataclass(frozen=True, eq=False)
class Quality:
    """The section of the page.

    Attributes
    ----------
    sentence : str
        What to learn from it.
    notes : list of str
        What was measured.
    columns : list of (name, meaning)
    lines : list of (name, cells)
        A cell is a value, and whether it is the best of its column.
    picture : str
        The curve, as a ``data:`` address.
    """

    sentence: str
    notes: list[str]
    columns: list[tuple[str, str]]
    lines: list[tuple[str, list[tuple[float, bool]]]]
    picture: str


def measure_quality(subject: Subject) -> Quality:
    """Measure the selections, and random rows, at several sizes; the table is of the largest size that all have."""
    classes = subject.classes
    labels = np.array(classes.labels, dtype=object)[classes.codes] if classes.is_known else None
    selections = {shorten(name): selection for name, selection in subject.selections.items()}
    curve = budget_curve(selections, subject.rows, labels, random_state=subject.seed)
    last = [curve.of(name)[-1] for name in curve.methods]
    shown = {name: about for name, about in _COLUMNS.items() if getattr(last[0], name) is not None}
    values = np.array([[getattr(point, name) for name in shown] for point in last], dtype=np.float64)
    signed = np.where([is_more for *_, is_more in shown.values()], -values, values)
    is_best = (signed == signed.min(axis=0)) & (signed < signed.max(axis=0))
    lines = [
        (point.method, list(zip(*cells, strict=True)))
        for point, *cells in zip(last, values.tolist(), is_best.tolist(), strict=True)
    ]
    is_screened = subject.screening is not None and subject.screening.trusted.any()
    notes = [
        f"The first {last[0].k:,} picks of each, compared with {'the trusted' if is_screened else 'all'} rows; of "
        "many rows, with samples of them."
    ]
    if "accuracy" in shown:
        notes.append(f"Accuracy is that on {curve.judged_by}.")
    columns = [(name, meaning) for name, meaning, _ in shown.values()]
    return Quality(curve.sentence, notes, columns, lines, _draw(curve))


def _draw(curve: BudgetCurve) -> str:
    """Return the figure of a curve as the address of a picture."""
    matplotlib = imported("matplotlib", "A figure needs Matplotlib", "report")
    out = io.BytesIO()
    with matplotlib.rc_context({**_STYLE, "axes.prop_cycle": matplotlib.cycler(color=_COLORS)}):
        figure = curve.figure()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(out.getvalue()).decode('ascii')}"
