"""Which rows the map draws, and what the page's script draws them from, packed tightly."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.report.content import Content
from gmmatch.report.galleries import looks_like
from gmmatch.report.names import LONGEST_NAME, Classes, RowNames, shown
from gmmatch.report.projection import Projection
from gmmatch.selection.selection import Selection
from gmmatch.types import Indices, evenly_spaced

if TYPE_CHECKING:
    from markupsafe import Markup

_NAMES = {"float32": "Float32Array", "uint32": "Uint32Array", "uint16": "Uint16Array", "uint8": "Uint8Array"}
# In JSON these occur in texts only, where an escape means the same. With them gone, nothing can end the
# element that holds it, and JavaScript's two extra line ends cannot occur.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def packed(array: NDArray[Any]) -> dict[str, str]:
    """Return an array as the page's script reads it: JavaScript's name of the type, and the bytes.

    Examples
    --------
    >>> packed(np.array([1, 2], dtype=np.uint16))
    {'type': 'Uint16Array', 'data': 'AQACAA=='}
    """
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return {"type": _NAMES[array.dtype.name], "data": base64.b64encode(little.tobytes()).decode("ascii")}


def smallest_unsigned(values: Any) -> NDArray[Any]:
    """Return integers of at least 0 in the narrowest type that the page's script can read.

    Examples
    --------
    >>> smallest_unsigned([0, 300]).dtype
    dtype('uint16')
    """
    array = np.asarray(values, dtype=np.int64)
    largest = int(array.max(initial=0))
    wide = np.uint8 if largest < 1 << 8 else np.uint16 if largest < 1 << 16 else np.uint32
    return array.astype(wide)


def json_for_page(value: Any) -> Markup:
    """Return JSON that can stand inside a ``script`` element, whatever texts it holds.

    Examples
    --------
    >>> print(json_for_page({"name": "</script>&"}))
    {"name":"\\u003c/script\\u003e\\u0026"}
    """
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return Markup(text)


LEFT_OUT, KEPT, SCREENED_OUT = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Drawn:
    """The rows on the map, ascending."""

    rows: Indices
    counts: tuple[tuple[int, int], ...]  # drawn and all rows that were left out, kept, screened out

    @property
    def places(self) -> Indices:
        """Where each row of the data is among those drawn; -1 if it is not."""
        places = np.full(sum(total for _, total in self.counts), -1, dtype=np.int64)
        places[self.rows] = np.arange(len(self.rows))
        return places

    @property
    def is_everything(self) -> bool:
        """Whether no row was left away."""
        return all(drawn == total for drawn, total in self.counts)


def row_states(selections: list[Selection]) -> NDArray[np.uint8]:
    """Return what became of each row: kept (by any of the selections), screened out, or left out.

    Examples
    --------
    >>> row_states([Selection([1], n_rows=3), Selection([2], n_rows=3)])
    array([0, 1, 1], dtype=uint8)
    """
    states = np.full(selections[0].n_rows, LEFT_OUT, dtype=np.uint8)
    for selection in selections:
        if selection.screening is not None:
            states[~selection.screening.kept] = SCREENED_OUT
    for selection in selections:
        states[selection.order] = KEPT
    return states


def choose_rows(states: NDArray[np.uint8], limit: int, random: np.random.Generator) -> Drawn:
    """Choose the rows to draw: all if they are at most ``limit``, else a random part of each state.

    The picks get up to half of the places and what was screened out up to a quarter, so that neither
    drowns among the rows that were left out.

    Examples
    --------
    >>> states = np.array([0] * 90 + [1] * 10, dtype=np.uint8)
    >>> choose_rows(states, 15, np.random.default_rng(0)).counts
    ((8, 90), (7, 10), (0, 0))
    """
    totals = [int((states == state).sum()) for state in (LEFT_OUT, KEPT, SCREENED_OUT)]
    if len(states) <= limit:
        return Drawn(np.arange(len(states), dtype=np.int64), tuple((total, total) for total in totals))
    taken = [0, min(totals[KEPT], limit // 2), min(totals[SCREENED_OUT], limit // 4)]
    for state in (LEFT_OUT, KEPT, SCREENED_OUT):
        taken[state] += min(totals[state] - taken[state], limit - sum(taken))
    parts = [
        random.choice(np.flatnonzero(states == state), count, replace=False)
        for state, count in enumerate(taken)
    ]
    rows = np.sort(np.concatenate(parts)).astype(np.int64)
    return Drawn(rows, tuple(zip(taken, totals, strict=True)))


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


def content_sample(drawn: Drawn, selections: list[Selection], random: np.random.Generator) -> Indices:
    """Choose the rows of the map that get a picture or a text: half of them picks."""
    on_map = np.zeros(selections[0].n_rows, dtype=np.bool_)
    on_map[drawn.rows] = True
    picks = np.concatenate([selection.order for selection in selections])
    picks = np.array(list(dict.fromkeys(picks[on_map[picks]].tolist())), dtype=np.int64)
    others = np.setdiff1d(drawn.rows, picks)
    most = max(SAMPLED_CONTENTS // 2, SAMPLED_CONTENTS - len(others))
    some = picks[evenly_spaced(len(picks), most)]
    rest = random.choice(others, min(len(others), SAMPLED_CONTENTS - len(some)), replace=False)
    return np.unique(np.concatenate([some, rest])).astype(np.int64)


def map_data(
    maps: list[Projection],
    drawn: Drawn,
    classes: Classes,
    names: RowNames,
    contents: dict[int, Content],
    selections: dict[str, Selection],
) -> dict[str, Any]:
    """Return everything that the map shows, as JSON can hold it: contents by row, and a panel for each selection."""
    rows, place = drawn.rows, drawn.places
    return {
        "maps": [_map(one) for one in maps],
        "class": packed(smallest_unsigned(classes.of_row[rows])),
        "row": None if len(rows) == len(place) else packed(smallest_unsigned(rows)),
        "classes": [shown(name, LONGEST_NAME) for name in classes.names] if classes.known else [],
        "ids": _ids(rows, names, contents, list(selections.values())),
        "contents": {
            str(place[row]): [one.kind, one.value, int(one.small)]
            for row, one in contents.items()
            if place[row] >= 0
        },
        "panels": [_panel(title, selection, place, classes, rows) for title, selection in selections.items()],
    }


def _map(projection: Projection) -> dict[str, Any]:
    """Where the rows are on one map, and what to say about it."""
    view = first_view(projection.points)
    beyond = outside(projection.points, view)
    said = f"{projection.name}. {projection.explanation}"
    if beyond:
        them = ("row lies", "it") if beyond == 1 else ("rows lie", "them")
        said += f" {beyond:,} {them[0]} outside the first view; zoom out to see {them[1]}."
    points = projection.points
    return {
        "name": projection.name,
        "said": said,
        "x": packed(points[:, 0]),
        "y": packed(points[:, 1]),
        "view": view,
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
        # A label in doubt may still be the likeliest one; then there is no other to name.
        looks = looks_like(selection, classes)[rows[out]]
        panel["looks"] = packed(smallest_unsigned(np.where(looks == classes.of_row[rows[out]], 0, looks + 1)))
        panel["suspicion"] = packed(
            smallest_unsigned((100 * np.clip(screening.probability[rows[out]], 0.0, 1.0)).round())
        )
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
        wanted |= np.isin(rows, selection.order[evenly_spaced(selection.k, 10_000)])
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
    placed = points[~np.isnan(points[:, 0])].astype(np.float64)
    for values in np.sort(placed, axis=0).T.tolist():
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
    return int(((x < view[0]) | (x > view[1]) | (y < view[2]) | (y > view[3])).sum())


def tabled_picks(drawn: Drawn, classes: Classes, names: RowNames, selection: Selection) -> list[TabledPick]:
    """Return the first picks on the map as lines of a table."""
    numbers = np.flatnonzero(drawn.places[selection.order] >= 0)[:_TABLED_PICKS]
    rows = selection.order[numbers]
    return [
        TabledPick(number + 1, name or f"row {row}", shown(classes.names[classes.of_row[row]], LONGEST_NAME))
        for number, row, name in zip(numbers.tolist(), rows.tolist(), names.of(rows), strict=True)
    ]
