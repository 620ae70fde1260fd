"""The page on which a person decides about rows: suspects, or a random sample of the picks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from gmmatch.files import explain_failure, write_file
from gmmatch.report.content import Content
from gmmatch.report.rendering import check_target, json_for_page, render_page
from gmmatch.report.subject import NO_LABEL, shorten
from gmmatch.review.decisions import WRONG

_BUTTONS = {
    "right": ("R", "Right"), "wrong": ("W", "Wrong"), "other": ("L", "Another label"), "first": ("A", "A stays"),
    "second": ("B", "B stays"), "drop": ("D", "Drop"), "unsure": ("U", "Cannot tell"),
}  # fmt: skip
_REVIEW_NOTE = (
    "A person's word is final: give the file to gmmatch clean, screen, select or export by --decisions. The first "
    "hundred questions are a sample of all rows, which tells how many labels are wrong. Then come rows in doubt."
)


def describe_row(row: int, name: Any, given: str, **more: Any) -> dict[str, Any]:
    """Return what the page needs to show a row, and to write its decision."""
    return {
        "row": row, "id": "" if name is None else str(name), "given": given, "label": shorten(given or NO_LABEL),
        "name": f"row {row}" if name is None else shorten(name, 120, middle=True), "suggested": "", "reason": "",
        "chance": None, "partner": None, **more,
    }  # fmt: skip


def describe_content(content: Content | None) -> dict[str, Any]:
    """Return a picture or text as the script takes it."""
    if content is None:
        return {"kind": "", "value": "", "small": False}
    return {"kind": content.kind, "value": content.value, "small": content.is_small}


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
    contents: Mapping[int, Content],
    *,
    picks: str = "picks.parquet",
) -> None:
    """Write the page about a sample of picks: one file, which saves its answers.

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
    names = sample.ids or [None] * len(sample.rows)
    items = [
        describe_row(
            int(row),
            name,
            "" if label is None else str(label),
            content=describe_content(contents.get(int(row))),
        )
        for row, label, name in zip(sample.rows, sample.labels, names, strict=True)
    ]
    note = (
        "Answer for every row, also where it is hard: “cannot tell” counts as wrong. The answers are kept in this "
        f"browser. Save them to a file at the end, then run gmmatch certify {picks} --answers answers.csv."
    )
    text = render_decisions(
        f"Check {len(items):,} of {sample.n_picks:,} picks", note, ("right", "wrong", "unsure"), items=items,
        answers=[], labels=[], file="answers.csv", name=sample.name, sample=sample.name,
    )  # fmt: skip
    with explain_failure(target):
        write_file(target, text.encode("utf-8", "replace"))
