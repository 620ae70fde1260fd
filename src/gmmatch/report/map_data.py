"""What the page's script draws the map from, packed tightly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.report.classes import Classes
from gmmatch.report.content import Content, spread
from gmmatch.report.galleries import looks_like
from gmmatch.report.names import RowNames
from gmmatch.report.packing import packed, smallest_unsigned
from gmmatch.report.projection import Projection
from gmmatch.report.text import LONGEST_NAME, shown
from gmmatch.report.thinning import Drawn
from gmmatch.selection.selection import Selection
from gmmatch.types import Indices

# Pictures or texts for so many rows of the map, beside those of the galleries.
SAMPLED_CONTENTS = 600
# Ids of all rows drawn, unless they would take more than this.
_MOST_ID_BYTES = 3_000_000
_TABLED_PICKS = 100


@dataclass(frozen=True)
class TabledPick:
    """A line of the table that stands for the map where it cannot be seen."""

    number: int
    name: str
    label: str
    x: float
    y: float


def content_sample(drawn: Drawn, selections: list[Selection], random: np.random.Generator) -> Indices:
    """Choose the rows of the map that get a picture or a text: half of them picks."""
    on_map = np.zeros(selections[0].n_rows, dtype=np.bool_)
    on_map[drawn.rows] = True
    picks = np.concatenate([selection.order for selection in selections])
    picks = np.array(list(dict.fromkeys(picks[on_map[picks]].tolist())), dtype=np.int64)
    others = np.setdiff1d(drawn.rows, picks)
    some = spread(picks, max(SAMPLED_CONTENTS // 2, SAMPLED_CONTENTS - len(others)))
    rest = random.choice(others, min(len(others), SAMPLED_CONTENTS - len(some)), replace=False)
    return np.unique(np.concatenate([some, rest])).astype(np.int64)


def map_data(
    projection: Projection,
    drawn: Drawn,
    classes: Classes,
    names: RowNames,
    contents: dict[int, Content],
    selections: dict[str, Selection],
) -> dict[str, Any]:
    """Return everything that the map shows, as JSON can hold it.

    Parameters
    ----------
    projection, drawn
        The points, and which rows they are.
    classes, names
        What the rows are called.
    contents
        The pictures and texts that are shown on hovering, by row.
    selections
        A panel for each, by its title.
    """
    rows = drawn.rows
    place = np.full(len(classes.of_row), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return {
        "x": packed(projection.points[:, 0]),
        "y": packed(projection.points[:, 1]),
        "class": packed(smallest_unsigned(classes.of_row[rows])),
        "row": None if len(rows) == len(place) else packed(smallest_unsigned(rows)),
        "classes": [shown(name, LONGEST_NAME) for name in classes.names] if classes.known else [],
        "ids": _ids(rows, names, contents, list(selections.values())),
        "view": first_view(projection.points),
        "contents": {
            str(place[row]): [one.kind, one.value, int(one.small)]
            for row, one in contents.items()
            if place[row] >= 0
        },
        "panels": [_panel(title, selection, place, classes, rows) for title, selection in selections.items()],
    }


def _panel(
    title: str, selection: Selection, place: Indices, classes: Classes, rows: Indices
) -> dict[str, Any]:
    at = place[selection.order]
    drawn = np.flatnonzero(at >= 0)
    # A row that was picked again keeps the number of its first time.
    _, first = np.unique(at[drawn], return_index=True)
    drawn = drawn[np.sort(first)]
    panel: dict[str, Any] = {
        "title": title,
        "k": selection.k,
        "picks": packed(smallest_unsigned(at[drawn])),
        "numbers": packed(smallest_unsigned(drawn + 1)),
        "screened": None,
    }
    screening = selection.screening
    if screening is not None:
        out = np.flatnonzero(~screening.kept[rows])
        panel["screened"] = packed(smallest_unsigned(out))
        panel["reason"] = packed(smallest_unsigned(screening.reason[rows[out]]))
        panel["reasons"] = list(screening.reasons)
        panel["looks"] = packed(smallest_unsigned(looks_like(selection, classes)[rows[out]] + 1))
    return panel


def _ids(
    rows: Indices, names: RowNames, contents: dict[int, Content], selections: list[Selection]
) -> list[str | None] | dict[str, str] | None:
    """All ids as a list, or those of picks and of rows with contents by their place, or none at all."""
    found = names.of(rows)
    size = sum(len(name.encode("utf-8")) + 3 for name in found if name is not None)
    if size == 0:
        return None
    if size <= _MOST_ID_BYTES:
        return found
    wanted = np.zeros(len(rows), dtype=np.bool_)
    for selection in selections:
        wanted |= np.isin(rows, spread(selection.order, 10_000))
    wanted |= np.isin(rows, np.array(list(contents), dtype=np.int64))
    return {
        str(place): name for place in np.flatnonzero(wanted).tolist() if (name := found[place]) is not None
    }


def first_view(points: NDArray[np.float32]) -> list[float]:
    """Return the part of the plane that the map shows at first: left, right, bottom, top.

    All of it, unless a few rows lie so far out that the others would become a dot.

    Examples
    --------
    >>> first_view(np.array([[0.0, 0.0], [4.0, 2.0]], dtype=np.float32))
    [0.0, 4.0, 0.0, 2.0]
    """
    view = []
    for values in np.sort(points.astype(np.float64), axis=0).T.tolist():
        # A few at each end are asked last: they belong to the picture if they are not far from the others.
        few = max(1, len(values) // 100) if len(values) > 3 else 0
        low, high = values[few], values[-1 - few]
        reach = max(high - low, 1e-6)
        low = values[0] if values[0] > low - reach else low - 0.1 * reach
        high = values[-1] if values[-1] < high + reach else high + 0.1 * reach
        view += [low, high]
    return view


def outside(points: NDArray[np.float32], view: list[float]) -> int:
    """Count the points that the first view leaves out.

    Examples
    --------
    >>> outside(np.array([[0.0, 0.0], [9.0, 0.0]], dtype=np.float32), [0.0, 1.0, 0.0, 1.0])
    1
    """
    x, y = points.astype(np.float64).T
    seen = (x >= view[0]) & (x <= view[1]) & (y >= view[2]) & (y <= view[3])
    return int((~seen).sum())


def tabled_picks(
    projection: Projection, drawn: Drawn, classes: Classes, names: RowNames, selection: Selection
) -> list[TabledPick]:
    """Return the first picks on the map as lines of a table."""
    place = np.full(len(classes.of_row), -1, dtype=np.int64)
    place[drawn.rows] = np.arange(len(drawn.rows))
    numbers = np.flatnonzero(place[selection.order] >= 0)[:_TABLED_PICKS]
    rows = selection.order[numbers]
    lines = []
    for number, row, name in zip(numbers.tolist(), rows.tolist(), names.of(rows), strict=True):
        x, y = projection.points[place[row]].tolist()
        label = shown(classes.names[classes.of_row[row]], LONGEST_NAME)
        lines.append(TabledPick(number + 1, name or f"row {row}", label, x, y))
    return lines
