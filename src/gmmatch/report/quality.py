"""How good selections are: beside random subsets, beside each other, and as curves against k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from gmmatch.metrics import imbalance
from gmmatch.report.charts import Chart, Series, growing_steps, line_chart
from gmmatch.report.names import Classes
from gmmatch.rows.rows import Rows
from gmmatch.selection.selection import Selection
from gmmatch.types import Indices, Mask, Vector
from gmmatch.yardsticks import Figures, Yardsticks

# MMD takes as many rows per class as keep its cost the same however many classes there are.
_MMD_ROWS = 1_500
_MOST_MMD_ROWS = 20_000
_COVERED_ROWS = 2_500
_DRAWS = 5
_DRAWN_ELEMENTS = 1 << 27
_STEPS = 48

MEANINGS = {
    "moment_error": ("Moment error", "distance from the mean of the picks to the mean of the rows"),
    "mmd": ("MMD", "distance between picks and rows as distributions"),
    "coverage_mean": ("Mean coverage", "distance from a row to its nearest pick, on average"),
    "coverage_max": ("Largest coverage", "the same for the row that is worst off"),
    "imbalance": ("Imbalance", "share of picks that would have to change class for the shares of the rows"),
}


@dataclass(frozen=True)
class Measure:
    """A line of the table: a selection's value, and the mean, least and greatest of the random subsets."""

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
    """The section of the page."""

    measures: list[Measure]
    draws: int  # random subsets
    chart: Chart | None
    notes: list[str]  # what the numbers were measured on


def yardsticks_for(rows: Rows, classes: Classes | None, reference: Mask | None, seed: int) -> Yardsticks:
    """Return what measures selections for a page: on samples that take seconds, not minutes."""
    n_classes = 1 if classes is None else len(classes)
    return Yardsticks(
        rows,
        None if classes is None else classes.of_row,
        reference=reference,
        sampled_rows=min(_MOST_MMD_ROWS, int(_MMD_ROWS * np.sqrt(n_classes))),
        covered_rows=_COVERED_ROWS,
        seed=seed,
    )


def random_orders(selection: Selection, yardsticks: Yardsticks) -> list[Indices]:
    """Draw random picks, as many of each class as the selection has, and in the same sequence of classes."""
    random = np.random.default_rng([yardsticks.seed, 1])
    cost = selection.k * yardsticks.rows.n_features
    classes = yardsticks.class_of_row[selection.order]
    by_class = np.argsort(classes, kind="stable")
    counts = np.bincount(classes, minlength=yardsticks.n_classes).tolist()
    members = [np.flatnonzero(yardsticks.class_of_row == number) for number in range(yardsticks.n_classes)]
    orders = []
    for _ in range(_DRAWS if cost <= _DRAWN_ELEMENTS else 2):
        drawn = [
            random.choice(mine, count, replace=count > len(mine))
            for mine, count in zip(members, counts, strict=True)
        ]
        order = np.empty(selection.k, dtype=np.int64)
        order[by_class] = np.concatenate(drawn)
        orders.append(order)
    return orders


def quality_of(selection: Selection, yardsticks: Yardsticks) -> Quality:
    """Measure a selection and a few random subsets of its size."""
    orders = random_orders(selection, yardsticks)
    measures = _measures(yardsticks.measure(selection.order), [yardsticks.measure(order) for order in orders])
    return Quality(
        measures=measures,
        draws=len(orders),
        chart=_beside_random(selection, orders, yardsticks),
        notes=notes_about(yardsticks, "trusted" if selection.screening else ""),
    )


def notes_about(yardsticks: Yardsticks, which: str) -> list[str]:
    """Say what was measured on what: on all rows, or on those that are ``which``."""
    n = yardsticks.n_reference
    said = [f"Compared with {f'the {n:,} {which} rows' if which else f'all {n:,} rows'}."]
    if not which:
        said.append("Where part of them is corrupt, a robust method keeps away from their mean on purpose.")
    if yardsticks.n_classes > 1:
        said.append(
            f"Moment error and MMD are taken in each of the {yardsticks.n_classes:,} classes and averaged."
        )
    for what, rows in (("MMD", yardsticks.sampled), ("Coverage", yardsticks.covered)):
        if len(rows) < n:
            said.append(f"{what} is that of a random sample of {len(rows):,} rows.")
    return said


def _measures(mine: Figures, theirs: list[Figures]) -> list[Measure]:
    lines = []
    for key, value in asdict(mine).items():
        drawn = np.array([getattr(one, key) for one in theirs])
        spread = (float(drawn.mean()), float(drawn.min()), float(drawn.max()))
        lines.append(Measure(key, *MEANINGS[key], value, *spread))
    return lines


def moment_errors(order: Indices, yardsticks: Yardsticks) -> tuple[Indices, Vector]:
    """Return some numbers of picks, the last of them all, and the moment error after as many."""
    steps = growing_steps(len(order), _STEPS)
    return steps, yardsticks.moment_errors(order, steps)


def _beside_random(selection: Selection, orders: list[Indices], yardsticks: Yardsticks) -> Chart | None:
    k, mine = moment_errors(selection.order, yardsticks)
    theirs = np.array([moment_errors(order, yardsticks)[1] for order in orders])
    low, high = theirs.min(axis=0), theirs.max(axis=0)
    random = Series(
        "random subsets, mean", "muted", k, theirs.mean(axis=0), low, high, band_name="their range"
    )
    return _moment_chart([random, Series("this selection", "kept", k, mine)])


def _moment_chart(series: list[Series]) -> Chart | None:
    words = "distance from the mean of rows to the mean of picks"
    return line_chart("Moment error against k", "picks (k)", words, series)


_KEYS = {
    "contamination": ("Mislabeled", "share of the picks whose label is not the true one"),
    "estimated_mislabeled": (
        "Estimated mislabeled",
        "share of the picks that are mislabeled, as estimated by the screening that robust uses",
    ),
    **MEANINGS,
    "seconds": ("Seconds", "that the selection took"),
}
_SHARES = {"contamination", "estimated_mislabeled", "imbalance"}
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
    "robust": "c5",
}
_SPARE = ("c4", "c1", "c2", "c3", "c5", "kept", "ink")


@dataclass(frozen=True)
class MethodLine:
    """A method's figures, in the order of the columns, and whether each is the best."""

    name: str
    k: int
    style: str
    cells: list[tuple[float | None, str, bool]]  # exact, as written, best


def comparison_facts(
    selections: Mapping[str, Selection],
    yardsticks: Yardsticks,
    classes: Classes,
    measured: Sequence[Mapping[str, Any]] | None,
    caption: str,
    mislabeled: Sequence[int] = (),
) -> dict[str, Any]:
    """Return the headline, the table of figures, the chart and the shared picks, for the template."""
    notes = [caption] if caption else []
    if measured is None:
        measured = [
            {
                "contamination": None if wrong is None else wrong / len(np.unique(selection.order)),
                **asdict(yardsticks.measure(selection.order)),
                "imbalance": imbalance(classes.of_row, selection.order),
            }
            for selection, wrong in zip_longest(selections.values(), mislabeled)
        ]
        part = yardsticks.n_reference < len(yardsticks.rows)
        notes = notes_about(yardsticks, "correctly labeled" if mislabeled else "reference" if part else "")
    keys = [key for key in _KEYS if any(_number(one.get(key)) is not None for one in measured)]
    if len(classes) < 2 and "imbalance" in keys:
        keys.remove("imbalance")
    colors = method_colors(list(selections))
    best = {key: _best([_number(one.get(key)) for one in measured]) for key in keys if key != "seconds"}
    lines = [
        MethodLine(
            name=name,
            k=selection.k,
            style=colors[name][0],
            cells=[
                (value, _written(key, value), value is not None and value == best.get(key))
                for key in keys
                for value in [_number(one.get(key))]
            ],
        )
        for (name, selection), one in zip(selections.items(), measured, strict=True)
    ]
    return {
        "title": _headline(list(selections), [_number(one.get("contamination")) for one in measured]),
        "columns": [(key, *_KEYS[key]) for key in keys],
        "lines": lines,
        "figure_notes": notes,
        "chart": _moment_chart(
            [
                Series(name, colors[name][0], *moment_errors(one.order, yardsticks), dashed=colors[name][1])
                for name, one in selections.items()
            ]
        ),
        "shared": _shared(selections),
        "n_rows": len(yardsticks.rows),
        "n_classes": len(classes) if classes.known else 0,
    }


def _headline(names: list[str], wrong: list[float | None]) -> str:
    """What was learned: whose picks have the fewest wrong labels, where that is known."""
    best = _best(wrong)
    if best is None or wrong.count(best) > 1:
        return f"{len(names)} methods side by side"
    return f"{names[wrong.index(best)]} picked the fewest wrong labels: {best:.1%}"


def _shared(selections: Mapping[str, Selection]) -> list[tuple[str, list[float]]]:
    """The share of each method's picks that each other method picked too."""
    picks = {name: np.unique(selection.order) for name, selection in selections.items()}
    return [
        (name, [len(np.intersect1d(mine, other, assume_unique=True)) / len(mine) for other in picks.values()])
        for name, mine in picks.items()
    ]


def method_colors(names: list[str]) -> dict[str, tuple[str, bool]]:
    """A color for each method, that of the project's figures where they have one; dashed if it is taken."""
    found: dict[str, tuple[str, bool]] = {}
    for number, name in enumerate(names):
        color = _COLORS.get(name, _SPARE[number % len(_SPARE)])
        found[name] = (color, color in {taken for taken, _ in found.values()})
    return found


def _written(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1%}" if key in _SHARES else f"{value:.1f}" if key == "seconds" else f"{value:.3g}"


def _number(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _best(values: list[float | None]) -> float | None:
    """The least, unless all are the same."""
    known = [value for value in values if value is not None]
    return min(known) if len(set(known)) > 1 else None
