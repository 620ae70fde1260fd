"""Which rows the map draws, and what the page's script draws them from, packed tightly."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, sample_indices
from gmmatch.report.content import Content
from gmmatch.report.projection import MAX_POINTS, Projection, ProjectionName, offered_maps, project
from gmmatch.report.subject import DOUBTFUL, PICKED, REST, WRONG, Subject, count_of
from gmmatch.selection.selection import Selection

# Pictures or texts of so many rows of the map, and of those in the galleries.
_SAMPLED_CONTENTS = 600
# Ids of all rows that are drawn, unless they would take more than this.
_ID_BYTES = 3_000_000
_TABLED_PICKS = 100
_TYPES = {"float32": "Float32Array", "uint32": "Uint32Array", "uint16": "Uint16Array", "uint8": "Uint8Array"}


def pack_floats(array: NDArray[np.float32]) -> dict[str, str]:
    """Return an array as the page's script reads it: JavaScript's name of the type, and the bytes."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return {"type": _TYPES[array.dtype.name], "data": base64.b64encode(little.tobytes()).decode("ascii")}


def pack_counts(values: Any) -> dict[str, str]:
    """Return integers of at least 0 in the narrowest type that the page's script can read.

    Examples
    --------
    >>> pack_counts([1, 300])
    {'type': 'Uint16Array', 'data': 'AQAsAQ=='}
    """
    array = np.asarray(values, dtype=np.int64)
    largest = int(array.max(initial=0))
    dtype = np.uint8 if largest < 1 << 8 else np.uint16 if largest < 1 << 16 else np.uint32
    return pack_floats(array.astype(dtype))


@dataclass(frozen=True, eq=False)
class Drawing:
    """The rows on the map and where they are.

    Attributes
    ----------
    rows : int64 array of shape (m,)
        Ascending.
    positions : int64 array of shape (n,)
        Where each row of the data is among those drawn, -1 if it is not.
    counts : list of (int, int)
        Drawn and all rows of each state.
    projections : list of Projection
    """

    rows: Indices
    positions: Indices
    counts: list[tuple[int, int]]
    projections: list[Projection]

    @property
    def is_complete(self) -> bool:
        """Whether every row is drawn."""
        return len(self.rows) == len(self.positions)


def draw(subject: Subject, projection: ProjectionName) -> Drawing:
    """Choose the rows to draw and project them."""
    random = np.random.default_rng(subject.seed)
    states = subject.states
    rows = choose_rows(states, MAX_POINTS["pca"], random)
    positions = np.full(len(states), -1, dtype=np.int64)
    positions[rows] = np.arange(len(rows))
    projections = []
    for name in offered_maps(projection, len(rows)):
        sample = choose_rows(states[rows], MAX_POINTS[name], random)
        projections.append(project(subject.rows, rows[sample], name, subject.seed).expand(sample, len(rows)))
    counts = [(int((states[rows] == state).sum()), int((states == state).sum())) for state in range(4)]
    return Drawing(rows, positions, counts, projections)


def choose_rows(states: NDArray[np.uint8], limit: int, random: np.random.Generator) -> Indices:
    """Choose the rows to draw: all if they are at most ``limit``, else a random part of each state.

    The picks get up to half of the points, wrong and doubtful rows up to an eighth each, so that none of them drowns
    among the rest.

    Examples
    --------
    >>> states = np.array([0] * 90 + [1] * 10, dtype=np.uint8)
    >>> rows = choose_rows(states, 15, np.random.default_rng(0))
    >>> np.bincount(states[rows])
    array([8, 7])
    """
    if len(states) <= limit:
        return np.arange(len(states), dtype=np.int64)
    totals = np.bincount(states, minlength=4)
    taken = np.zeros(4, dtype=np.int64)
    for state, share in ((PICKED, 2), (WRONG, 8), (DOUBTFUL, 8)):
        taken[state] = min(int(totals[state]), limit // share)
    for state in (REST, PICKED, WRONG, DOUBTFUL):
        taken[state] += min(int(totals[state] - taken[state]), limit - int(taken.sum()))
    samples = [
        random.choice(np.flatnonzero(states == state), taken[state], replace=False) for state in range(4)
    ]
    return np.sort(np.concatenate(samples)).astype(np.int64)


def rows_with_content(subject: Subject, drawing: Drawing) -> Indices:
    """Choose the rows of the map that get a picture or a text: half of them picks."""
    random = np.random.default_rng([subject.seed, 3])
    picks = subject.picks[drawing.positions[subject.picks] >= 0]
    others = np.setdiff1d(drawing.rows, picks)
    limit = max(_SAMPLED_CONTENTS // 2, _SAMPLED_CONTENTS - len(others))
    picks = picks[sample_indices(len(picks), limit)]
    others = random.choice(others, min(len(others), _SAMPLED_CONTENTS - len(picks)), replace=False)
    return np.unique(np.concatenate([picks, others])).astype(np.int64)


def map_data(subject: Subject, drawing: Drawing, contents: dict[int, Content]) -> dict[str, Any]:
    """Return everything that the map shows, as JSON can hold it."""
    rows, positions = drawing.rows, drawing.positions
    return {
        "maps": [_pack_map(projection) for projection in drawing.projections],
        "class": pack_counts(subject.classes.codes[rows]),
        "row": None if drawing.is_complete else pack_counts(rows),
        "classes": subject.classes.names if subject.classes.is_known else [],
        "ids": _drawn_ids(subject, rows, contents),
        "rest": subject.rest_name,
        "contents": {
            str(positions[row]): [content.kind, content.value, int(content.is_small)]
            for row, content in contents.items()
            if positions[row] >= 0
        },
        "verdicts": _pack_verdicts(subject, rows),
        "panels": [_pack_panel(name, selection, positions) for name, selection in subject.selections.items()],
    }


def _pack_map(projection: Projection) -> dict[str, Any]:
    x, y = projection.points.T
    view = first_view(projection.points)
    n_outside = int(((x < view[0]) | (x > view[1]) | (y < view[2]) | (y > view[3])).sum())
    text = f"{projection.name}. {projection.explanation}"
    if n_outside:
        verb, pronoun = ("lies", "it") if n_outside == 1 else ("lie", "them")
        text += f" {count_of(n_outside, 'row')} {verb} outside the first view; zoom out to see {pronoun}."
    return {"name": projection.name, "text": text, "x": pack_floats(x), "y": pack_floats(y), "view": view}


def _pack_panel(name: str, selection: Selection, positions: Indices) -> dict[str, Any]:
    at = positions[selection.order]
    drawn = np.flatnonzero(at >= 0)
    # A row that was picked again keeps the number of its first time.
    _, first = np.unique(at[drawn], return_index=True)
    drawn = drawn[np.sort(first)]
    return {
        "title": name,
        "k": len(selection.order),
        "picks": pack_counts(at[drawn]),
        "numbers": pack_counts(drawn + 1),
    }


def _pack_verdicts(subject: Subject, rows: Indices) -> dict[str, Any] | None:
    """Return what the screening says of the rows that it doubts."""
    screening = subject.screening
    if screening is None:
        return None
    is_wrong, is_doubtful = (subject.has_verdict(verdict)[rows] for verdict in ("wrong", "doubtful"))
    at = np.flatnonzero(is_wrong | is_doubtful)
    names, reasons = np.unique(np.asarray(screening.reason)[rows[at]].astype(str), return_inverse=True)
    chances = np.clip(np.nan_to_num(np.asarray(screening.probability)[rows[at]]), 0.0, 1.0)
    return {
        "at": pack_counts(at),
        "state": pack_counts(np.where(is_wrong[at], WRONG, DOUBTFUL)),
        "reasons": names.tolist(),
        "reason": pack_counts(reasons),
        "looks": pack_counts(subject.looks_like(rows[at]) + 1),
        "chance": pack_counts((100 * chances).round()),
    }


def _drawn_ids(
    subject: Subject, rows: Indices, contents: dict[int, Content]
) -> dict[str, str] | list[str] | None:
    """Return all ids as a list, or those of picks and of rows with contents by position, or none at all."""
    has_id = np.array([name is not None for name in subject.names.ids(rows)], dtype=np.bool_)
    if not has_id.any():
        return None
    names = subject.names.short(rows)
    if has_id.all() and sum(len(name.encode("utf-8")) + 3 for name in names) <= _ID_BYTES:
        return names
    wanted = np.concatenate([subject.picks[sample_indices(len(subject.picks), 10_000)], list(contents)])
    return {str(at): names[at] for at in np.flatnonzero(np.isin(rows, wanted) & has_id).tolist()}


def first_view(points: NDArray[np.float32]) -> list[float]:
    """Return the part of the plane that the map shows at first: left, right, bottom, top.

    All of it, unless a few rows lie so far out that the others would become a dot.

    Examples
    --------
    >>> first_view(np.array([[0.0, 0.0], [4.0, 2.0]], dtype=np.float32))
    [0.0, 4.0, 0.0, 2.0]
    """
    view = []
    for values in np.sort(points[~np.isnan(points[:, 0])].astype(np.float64), axis=0).T.tolist():
        # The ends belong to the view if they are not far from the other rows.
        n_ends = max(1, len(values) // 100) if len(values) > 3 else 0
        low, high = values[n_ends], values[-1 - n_ends]
        reach = max(high - low, 1e-6)
        low = values[0] if values[0] > low - reach else low - 0.1 * reach
        high = values[-1] if values[-1] < high + reach else high + 0.1 * reach
        view += [low, high]
    return view


def first_picks(subject: Subject, drawing: Drawing) -> list[tuple[int, str, str]]:
    """Return number, name and class of the first picks on the map: the table for who cannot see it."""
    if not subject.selections:
        return []
    order = next(iter(subject.selections.values())).order
    numbers = np.flatnonzero(drawing.positions[order] >= 0)[:_TABLED_PICKS]
    rows, classes = order[numbers], subject.classes
    labels = [classes.names[code] for code in classes.codes[rows].tolist()]
    return list(zip((numbers + 1).tolist(), subject.names.short(rows), labels, strict=True))
