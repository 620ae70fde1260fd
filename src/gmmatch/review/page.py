"""The page on which a person decides about rows: suspects, or a random sample of the picks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from gmmatch.report.content import Content
from gmmatch.report.rendering import check_target, json_for_page, render_page, write_page
from gmmatch.report.subject import NO_LABEL, shorten
from gmmatch.review.decisions import WRONG, Decision
from gmmatch.screening.result import DUPLICATE as COPY
from gmmatch.screening.result import ScreeningResult

_SCRIPTS = ("shared.js", "review.js")
_BUTTONS = {
    "right": ("R", "Right"), "wrong": ("W", "Wrong"), "other": ("L", "Another label"), "first": ("A", "A stays"),
    "second": ("B", "B stays"), "drop": ("D", "Drop"), "unsure": ("U", "Cannot tell"),
}  # fmt: skip
_REVIEW_NOTE = (
    "A person's word is final: give the file to gmmatch clean, screen, select or export by --decisions. The first "
    "hundred questions are a sample of all rows, which tells how many labels are wrong. Then come rows in doubt."
)


class Questions:
    """What the page says of rows.

    Parameters
    ----------
    screening : ScreeningResult
    ids : sequence of length n, optional
    """

    def __init__(self, screening: ScreeningResult, ids: Any = None) -> None:
        self.screening, self.ids = screening, ids
        self.labels = ["" if label is None else str(label) for label in screening.labels]

    def items(self, rows: Iterable[int]) -> list[dict[str, Any]]:
        """Return what is asked about some rows; a copy comes with the row that it is a copy of."""
        return [self._item(int(row)) for row in rows]

    def _item(self, row: int) -> dict[str, Any]:
        screening, original = self.screening, int(self.screening.duplicate_of[row])
        item = describe_row(
            row, None if self.ids is None else self.ids[row], self._label(screening.given[row])
        )
        suggested = screening.suggested_codes[row]
        if suggested >= 0 and suggested != screening.given[row]:
            item["suggested"] = self._label(suggested)
        item["reason"] = str(screening.reason[row])
        if screening.noise_rate is not None and item["given"]:
            item["chance"] = round(100 * float(screening.probability[row]))
        differs = original >= 0 and screening.given[row] != screening.given[original]
        if original >= 0 and (screening.reason_codes[row] == COPY or differs):
            name = None if self.ids is None else self.ids[original]
            item["reason"] = "duplicate"
            item["partner"] = describe_row(original, name, self._label(screening.given[original]))
        return item

    def _label(self, code: int) -> str:
        return self.labels[code] if code >= 0 else ""


def describe_row(row: int, name: Any, given: str, content: Content | None = None) -> dict[str, Any]:
    """Return what the page needs to show a row, and to write its decision."""
    item: dict[str, Any] = {
        "row": row, "id": "" if name is None else str(name), "given": given, "label": shorten(given or NO_LABEL),
        "name": f"row {row}" if name is None else shorten(name, 120, middle=True), "suggested": "", "reason": "",
        "chance": None, "partner": None,
    }  # fmt: skip
    return item if content is None else {**item, "content": describe_content(content)}


def describe_content(content: Content | None) -> dict[str, Any]:
    """Return a picture or text as the script takes it."""
    if content is None:
        return {"kind": "", "value": "", "small": False}
    return {"kind": content.kind, "value": content.value, "small": content.is_small}


def page_values(
    items: list[dict[str, Any]], *, title: str, note: str, actions: Iterable[str], file: str, name: str,
    labels: list[str], answers: Iterable[Decision] = (), sample: str = "", served: bool = False, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return what the template and its script are given."""
    data = {
        "items": items, "labels": labels, "answers": [vars(answer) for answer in answers], "sample": sample,
        "file": file, "name": name, "served": served, **more,
    }  # fmt: skip
    buttons = [(action, *_BUTTONS[action]) for action in actions]
    return {
        "title": title,
        "note": note,
        "buttons": buttons,
        "served": served,
        "page_data": json_for_page(data),
    }


def render_review(
    items: list[dict[str, Any]], labels: list[str], *, file: str, name: str, served: bool, **more: Any
) -> str:
    """Return the page about suspects."""
    actions = [action for action in _BUTTONS if labels or action not in (WRONG, "other")]
    values = page_values(
        items, title="Review suspects", note=_REVIEW_NOTE, actions=actions, file=file, name=name, labels=labels,
        served=served, **more,
    )  # fmt: skip
    return render_page("review.html.j2", values, scripts=_SCRIPTS, connect=served)


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
            int(row), name, "" if label is None else str(label), contents.get(int(row), Content("broken", ""))
        )
        for row, label, name in zip(sample.rows, sample.labels, names, strict=True)
    ]
    note = (
        "Answer for every row, also where it is hard: “cannot tell” counts as wrong. The answers are kept in this "
        f"browser. Save them to a file at the end, then run gmmatch certify {picks} --answers answers.csv."
    )
    values = page_values(
        items, title=f"Check {len(items):,} of {sample.n_picks:,} picks", note=note,
        actions=("right", "wrong", "unsure"), file="answers.csv", name=sample.name, labels=[], sample=sample.name,
    )  # fmt: skip
    write_page(target, "review.html.j2", values, scripts=_SCRIPTS)
