"""What the page of several methods says beside its map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gmmatch.metrics import Yardsticks, imbalance
from gmmatch.report.charts import Chart, Series, line_chart
from gmmatch.report.classes import Classes
from gmmatch.report.quality import MEANINGS, moment_errors, notes_about
from gmmatch.selection.selection import Selection

_KEYS = {
    "contamination": ("Wrong labels", "share of the picks whose label is not the true one"),
    **MEANINGS,
    "seconds": ("Seconds", "that the selection took"),
}
# The page's colours, by method; others get one of the spare ones.
_COLORS = {
    "random": "muted",
    "easy": "c2",
    "hard": "c5",
    "moderate": "c3",
    "herding": "c1",
    "kernel-herding": "c1",
    "gm-matching": "kept",
    "gm-matching-rbf": "kept",
}
_SPARE = ("c4", "c1", "c2", "c3", "c5", "kept", "ink")


@dataclass(frozen=True)
class MethodLine:
    """A method's figures, in the order of the columns, and whether each is the best."""

    name: str
    k: int
    style: str
    cells: list[tuple[float | None, bool]]


def comparison_facts(
    selections: Mapping[str, Selection],
    yardsticks: Yardsticks,
    classes: Classes,
    measured: Sequence[Mapping[str, Any]] | None,
    caption: str,
) -> dict[str, Any]:
    """Return the table of figures, the chart and the shared picks, for the template."""
    notes = [caption] if caption else []
    if measured is None:
        measured = [
            {
                **asdict(yardsticks.measure(selection.order)),
                "imbalance": imbalance(classes.of_row, selection.order),
            }
            for selection in selections.values()
        ]
        notes = notes_about(yardsticks, screened=False)
    keys = [key for key in _KEYS if any(_number(one.get(key)) is not None for one in measured)]
    if len(classes) < 2 and "imbalance" in keys:
        keys.remove("imbalance")
    colors = _colors(list(selections))
    best = {key: _best([_number(one.get(key)) for one in measured]) for key in keys if key != "seconds"}
    lines = [
        MethodLine(
            name=name,
            k=selection.k,
            style=colors[name][0],
            cells=[
                (value, value is not None and value == best.get(key))
                for key in keys
                for value in [_number(one.get(key))]
            ],
        )
        for (name, selection), one in zip(selections.items(), measured, strict=True)
    ]
    return {
        "columns": [(key, *_KEYS[key]) for key in keys],
        "lines": lines,
        "figure_notes": notes,
        "chart": _chart(selections, yardsticks, colors),
        "shared": _shared(selections),
        "n_rows": len(yardsticks.rows),
        "n_features": yardsticks.rows.n_features,
        "n_classes": len(classes) if classes.known else 0,
    }


def _chart(
    selections: Mapping[str, Selection], yardsticks: Yardsticks, colors: dict[str, tuple[str, bool]]
) -> Chart | None:
    series = []
    for name, selection in selections.items():
        color, dashed = colors[name]
        series.append(Series(name, color, *moment_errors(selection.order, yardsticks), dashed=dashed))
    return line_chart(
        "Moment error against k", "picks (k)", "distance from the mean of rows to the mean of picks", series
    )


def _shared(selections: Mapping[str, Selection]) -> list[tuple[str, list[float]]]:
    """The share of each method's picks that each other method picked too."""
    picks = {name: np.unique(selection.order) for name, selection in selections.items()}
    return [
        (name, [len(np.intersect1d(mine, other, assume_unique=True)) / len(mine) for other in picks.values()])
        for name, mine in picks.items()
    ]


def _colors(names: list[str]) -> dict[str, tuple[str, bool]]:
    """A colour for each method, that of the project's figures where they have one; dashed if it is taken."""
    found: dict[str, tuple[str, bool]] = {}
    for number, name in enumerate(names):
        color = _COLORS.get(name, _SPARE[number % len(_SPARE)])
        found[name] = (color, color in {taken for taken, _ in found.values()})
    return found


def _number(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _best(values: list[float | None]) -> float | None:
    """The least, unless all are the same."""
    known = [value for value in values if value is not None]
    return min(known) if len(set(known)) > 1 else None
