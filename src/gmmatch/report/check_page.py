"""The page on which a person says of each row of a sample whether its label is right."""

from __future__ import annotations

import os
from typing import Any

from gmmatch import __version__
from gmmatch.certificate.sample import CheckSample
from gmmatch.report.content import Content
from gmmatch.report.map_data import json_for_page
from gmmatch.report.names import LONGEST_NAME, NO_LABEL, shown
from gmmatch.report.rendering import check_target, write_page


def write_check_page(
    sample: CheckSample,
    path: str | os.PathLike[str],
    contents: dict[int, Content],
    *,
    picks: str = "picks.parquet",
) -> None:
    """Write a page about a sample: one file, driven by keys, which saves its answers.

    Parameters
    ----------
    sample
        What :func:`gmmatch.check_sample` drew.
    path
        Where the page goes; ends in ``.html``.
    contents
        The pictures or texts of its rows, by row number.
    picks
        What the page calls the file of the picks.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from gmmatch import Selection, check_sample
    >>> sample = check_sample(Selection([3, 0], n_rows=4), 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_check_page(sample, f"{folder}/check.html", {0: Content("text", "a"), 3: Content("text", "b")})
    ...     sample.name in Path(folder, "check.html").read_text(encoding="utf-8")
    True
    """
    target = check_target(path)
    ids: list[Any] = sample.ids or [None] * len(sample)
    items = []
    for row, name, label in zip(sample.rows.tolist(), ids, sample.labels, strict=True):
        content = contents.get(row)
        items.append(
            {
                "row": row,
                "id": "" if name is None else name,
                "given": "" if label is None else str(label),
                "label": NO_LABEL if label is None else shown(label, LONGEST_NAME),
                "name": f"row {row}" if name is None else shown(name, 2 * LONGEST_NAME, middle=True),
                "kind": "" if content is None else content.kind,
                "value": "" if content is None else content.value,
                "small": content is not None and content.small,
            }
        )
    facts = {
        "version": __version__,
        "total": len(sample),
        "n_picks": sum(sample.sizes),
        "picks": picks,
        "check_data": json_for_page({"sample": sample.name, "items": items}),
    }
    write_page(
        target, "check.html.j2", facts, styles=("style.css", "check.css"), scripts=("csv.js", "check.js")
    )
