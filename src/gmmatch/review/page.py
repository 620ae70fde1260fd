"""The page on which a person decides about rows: suspects, or a random sample of the picks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.files import write_text
from gmmatch.groups import Label
from gmmatch.report.content import Content, Contents
from gmmatch.report.rendering import check_target, json_for_page, render_page
from gmmatch.report.subject import NO_LABEL, shorten
from gmmatch.review.decisions import WRONG
from gmmatch.review.tools import ToolName, format_tasks

LARGE = {"side": 640, "length": 20_000}
"""How large pictures and texts are where a person decides."""
_BUTTONS = {
    "right": ("R", "Right"), "wrong": ("W", "Wrong"), "other": ("L", "Another label"), "first": ("A", "A stays"),
    "second": ("B", "B stays"), "drop": ("D", "Drop"), "unsure": ("U", "Cannot tell"),
}  # fmt: skip
_REVIEW_NOTE = (
    "A person's word is final: give the file to gmmatch clean, screen, select or export by --decisions. The first "
    "hundred questions are a sample of all rows, which tells how many labels are wrong. Then come rows in doubt."
)


def describe_row(row: int, name: Any, given: Label, **more: Any) -> dict[str, Any]:
    """Return what the page needs to show a row, and to write its decision."""
    label = "" if given is None else str(given)
    return {
        "row": row, "id": "" if name is None else str(name), "given": label, "label": shorten(label or NO_LABEL),
        "name": f"row {row}" if name is None else shorten(name, 120, middle=True), "suggested": "", "reason": "",
        "chance": None, "partner": None, **more,
    }  # fmt: skip


def describe_content(content: Content | None) -> dict[str, Any]:
    """Return a picture or text as the script takes it."""
    if content is None:
        return {"kind": "", "value": "", "small": False}
    return {"kind": content.kind, "value": content.value, "small": content.is_small}


def add_contents(questions: list[dict[str, Any]], contents: Contents | None, **size: int) -> None:
    """Add pictures or texts to questions, and to the rows that they are compared with."""
    shown = [row for item in questions for row in (item, item["partner"]) if row is not None]
    rows = np.array([row["row"] for row in shown], dtype=np.int64)
    items = {} if contents is None else contents.fetch(rows, **size)
    for row in shown:
        row["content"] = describe_content(items.get(row["row"]))


def write_tasks(
    path: Path, tool: ToolName, questions: list[dict[str, Any]], contents: Contents | None
) -> None:
    """Write questions, with their pictures or texts, as another tool reads them."""
    folder = None if contents is None else contents.folder
    if tool == "fiftyone" and folder is None:
        raise InvalidInputError("FiftyOne shows files: give rows that come from a folder of images.")
    add_contents(questions, None if tool == "fiftyone" else contents, **LARGE)
    write_text(path, format_tasks(tool, questions, folder))


def render_decisions(
    title: str, note: str, actions: Iterable[str], *, served: bool = False, **data: Any
) -> str:
    """Return the page on which rows get one of some answers; its script is given the data."""
    values = {
        "title": title, "note": note, "served": served, "buttons": [(name, *_BUTTONS[name]) for name in actions],
        "page_data": json_for_page({"served": served, "sample": "", **data}),
    }  # fmt: skip
    return render_page("review.html.j2", values, scripts=("shared.js", "review.js"), connect=served)


def render_review(*, labels: list[str], **data: Any) -> str:
    """Return the page about suspects."""
    actions = [action for action in _BUTTONS if labels or action not in (WRONG, "other")]
    return render_decisions("Review suspects", _REVIEW_NOTE, actions, labels=labels, **data)


def write_check_page(
    sample: Any,
    path: str | os.PathLike[str],
    contents: Contents | None = None,
    *,
    picks: str = "picks.parquet",
) -> None:
    """Write the page about a sample of picks: one file, which saves its answers.

    Parameters
    ----------
    sample : CheckSample
    path
        Where the page goes; ends in ``.html``.
    contents : Contents, optional
        What the rows are.
    picks : str
        The file of the picks, for the command that takes the answers.
    """
    target = check_target(path)
    rows = zip(sample.rows.tolist(), sample.ids or [None] * len(sample), sample.labels, strict=True)
    items = [describe_row(*row) for row in rows]
    add_contents(items, contents)
    note = (
        "Answer for every row, also where it is hard: “cannot tell” counts as wrong. The answers are kept in this "
        f"browser. Save them to a file at the end, then run gmmatch certify {picks} --answers answers.csv."
    )
    text = render_decisions(
        f"Check {len(items):,} of {sample.n_picks:,} picks", note, ("right", "wrong", "unsure"), items=items,
        answers=[], labels=[], file="answers.csv", name=sample.name, sample=sample.name,
    )  # fmt: skip
    write_text(target, text)
