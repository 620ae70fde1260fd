"""The page on which a person says of each row of a sample whether its label is right."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gmmatch.report.content import Content
from gmmatch.report.map_data import json_for_page
from gmmatch.report.names import NO_LABEL, shorten
from gmmatch.report.rendering import check_target, write_page


def write_check_page(
    sample: Any,
    path: str | os.PathLike[str],
    contents: Mapping[int, Content],
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
    """
    target = check_target(path)
    items = []
    for row, label, name in zip(
        sample.rows, sample.labels, sample.ids or [None] * len(sample.rows), strict=True
    ):
        content = contents.get(int(row))
        items.append(
            {
                "row": int(row),
                "id": "" if name is None else name,
                "given": "" if label is None else str(label),
                "label": NO_LABEL if label is None else shorten(label),
                "name": f"row {row}" if name is None else shorten(name, 120, middle=True),
                "kind": "" if content is None else content.kind,
                "value": "" if content is None else content.value,
                "small": content is not None and content.is_small,
            }
        )
    values = {
        "total": len(items),
        "n_picks": sample.n_picks,
        "picks": picks,
        "page_data": json_for_page({"sample": sample.name, "items": items}),
    }
    write_page(target, "check.html.j2", values, scripts=("shared.js", "check.js"))
