"""The page about what was picked and what looks wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from gmmatch.files import write_text
from gmmatch.report.content import Content, describe_contents, open_contents
from gmmatch.report.findings import (
    MAX_LISTED,
    class_lines,
    compare,
    describe_origin,
    headline,
    lead,
    mixed_up,
    notes_about,
    suspect_table,
)
from gmmatch.report.galleries import (
    duplicate_groups,
    fill_gallery,
    suspects,
    typical_picks,
    wrong_picks,
)
from gmmatch.report.map_data import (
    Drawing,
    ProjectionName,
    check_projection,
    draw,
    first_picks,
    map_data,
    rows_with_content,
)
from gmmatch.report.rendering import check_target, json_for_page, render_page
from gmmatch.report.subject import (
    DOUBTFUL,
    PICKED,
    REST,
    WRONG,
    Classes,
    RowNames,
    Subject,
    split_subject,
)
from gmmatch.rows import open_rows
from gmmatch.rows.open import per_row_values
from gmmatch.screening.result import ScreeningResult
from gmmatch.selection.selection import Selection

_SHOWN_FIRST = 6
_SCRIPTS = ("shared.js", "data.js", "canvas.js", "map.js", "page.js")


def write_report(
    subject: Selection | ScreeningResult | Mapping[str, Selection],
    path: str | os.PathLike[str],
    X: Any,
    y: Any = None,
    *,
    source: Any = None,
    class_names: Any = None,
    projection: ProjectionName = "pca",
    ids: Any = None,
) -> None:
    """Write a page: what was picked, what looks wrong, and a map of the rows. One file that needs no network.

    Parameters
    ----------
    subject : Selection, ScreeningResult, or dict of name to Selection
        What the page is about. Several selections of the same rows are shown side by side.
    path
        Where the page goes; ends in ``.html``. Replaced if it exists.
    X : array of shape (n, s), tensor, paths of .npy files, store or Rows
        The rows that it was made from. An open store brings its labels and ids along.
    y : array of shape (n,), optional
        Their labels.
    source, optional
        The pictures or texts behind the rows: what :func:`gmmatch.data.open_source` takes or returns, or a
        list, an array or a torch Dataset of PIL images, arrays, paths or strings.
    class_names : mapping of label to name, or list of names by label, optional
        What to call the classes.
    projection : "pca" or "tsne"
        How rows become points on the map. t-SNE (of at most 4,000 rows) has PCA as a second map.
    ids : array of shape (n,) or callable, optional
        What to call the rows; or a function that returns the ids of row numbers.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import gmmatch as gm
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> selection = gm.GMMatching(k=10).select(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gm.write_report(selection, f"{folder}/picks.html", X)
    ...     "10 of 50 rows" in Path(folder, "picks.html").read_text(encoding="utf-8")
    True
    """
    target = check_target(path)
    check_projection(projection)
    y, ids = per_row_values(X, y, "labels"), per_row_values(X, ids, "ids")
    with open_rows(X) as rows:
        selections, screening = split_subject(subject, len(rows))
        names = RowNames(ids, len(rows), list(selections.values()))
        content_source = open_contents(source, len(rows))
        about = Subject(rows, Classes.of(y, len(rows), class_names), names, selections, screening)
        drawing = draw(about, projection)
        is_comparison = len(selections) > 1
        galleries = {
            "wrong": wrong_picks(about) if is_comparison else suspects(about, "wrong"),
            "doubtful": [] if is_comparison else suspects(about, "doubtful"),
            "typical": []
            if content_source is None
            else typical_picks(about),  # row numbers alone show nothing
            "duplicates": duplicate_groups(screening),
        }
        contents: dict[int, Content] = {}
        if content_source is not None:
            shown = [gallery.rows for group in galleries.values() for gallery in group]
            contents = content_source.fetch(np.concatenate([rows_with_content(about, drawing), *shown]))
        values = {
            **_texts(about),
            **_map(about, drawing, contents),
            **{
                name: [fill_gallery(gallery, about, contents, drawing.positions) for gallery in group]
                for name, group in galleries.items()
            },
            "has_source": content_source is not None,
        }
    write_text(target, render_page("report.html.j2", values, scripts=_SCRIPTS))


def _texts(subject: Subject) -> dict[str, Any]:
    """Return the texts and tables of the page."""
    selection, screening = subject.selection, subject.screening
    is_comparison = len(subject.selections) > 1
    copies = np.empty(0) if screening is None else screening.duplicate_of[screening.duplicate_of >= 0]
    return {
        "title": "comparison" if is_comparison else next(iter(subject.selections), "screening"),
        "headline": headline(subject),
        "lead": lead(subject),
        "not_judged": [] if screening is None else screening.notes,
        "notes": notes_about(subject),
        "k": 0 if selection is None else selection.k,
        "n_rows": len(subject.rows),
        "n_suspects": int((subject.has_verdict("wrong") | subject.has_verdict("doubtful")).sum()),
        "n_duplicates": len(copies),
        "n_groups": len(np.unique(copies)),
        "max_listed": MAX_LISTED,
        "shown_first": _SHOWN_FIRST,
        "screened": screening is not None,
        "mixed_up": mixed_up(subject),
        "comparison": compare(subject) if is_comparison else [],
        "lines": class_lines(subject),
        "facts": describe_origin(subject),
    }


def _map(subject: Subject, drawing: Drawing, contents: dict[int, Content]) -> dict[str, Any]:
    """Return what the page says about the map, and what its script draws."""
    data = map_data(subject, drawing, contents)
    data["suspects"] = suspect_table(subject)
    names = ((PICKED, "picked", "picked"), (REST, "rest", subject.rest_name), (DOUBTFUL, "doubtful", "doubtful"),
             (WRONG, "wrong", "wrong"))  # fmt: skip
    return {
        "page_data": json_for_page(data),
        "maps": data["maps"],
        "drawing": drawing,
        "classes": data["classes"],
        "panels": list(subject.selections),
        "states": [
            (style, name, total, drawn)
            for state, style, name in names
            for drawn, total in [drawing.counts[state]]
            if total
        ],
        "first_picks": first_picks(subject, drawing),
        "contents_text": describe_contents(contents),
    }
