"""Questions as tasks of other tools, and the answers that these export: a table of formats."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from gmmatch.errors import InvalidInputError, listed

Record: TypeAlias = Mapping[str, Any]
ToolName: TypeAlias = Literal["label-studio", "argilla", "fiftyone", "jsonl"]


# What stands before, between and after the records, if it is not a list of them.
_FRAMES = {"jsonl": ("", "\n", "\n"), "fiftyone": ('{"samples": [', ",\n", "]}\n")}


class Tool(NamedTuple):
    """How a tool takes a question, and where the answer is in its export.

    Attributes
    ----------
    key : str
        Where a record keeps what we know of the row; no other tool has it.
    ask : callable
        From what is shown, what we know of the row, the suggested label and the probability that the given one is
        wrong, to the rest of the record.
    answer_of : callable
        From a record of the export to the label that was chosen, or "drop" or "unsure"; None without an answer.
    """

    key: str
    ask: Callable[[dict[str, str], Record, str, float], dict[str, Any]]
    answer_of: Callable[[Record], str | None]


def format_tasks(tool: ToolName, questions: Iterable[Record], folder: Path | None = None) -> str:
    """Return questions as a tool reads them.

    Parameters
    ----------
    tool : "label-studio", "argilla", "fiftyone" or "jsonl"
    questions : iterable of dict
        What :func:`gmmatch.review.page.describe_row` returns, with their ``content``.
    folder : path, optional
        The images, whose ids are their paths in it.
    """
    texts = []
    for question in questions:
        content = question["content"]
        shown = {content["kind"]: content["value"]} if content["kind"] in ("image", "text") else {}
        known = {name: question[name] for name in ("row", "id", "given", "reason")}
        if question["partner"] is not None:
            known["copy_of"] = question["partner"]["id"] or str(question["partner"]["row"])
        suggested, wrong = question["suggested"], (question["chance"] or 0) / 100
        if tool == "jsonl":
            answer = {"answer": "", "label": "", "keep": known.pop("copy_of", "")}
            record = {**known, **answer, "suggested": suggested, "probability": wrong, **shown}
        else:
            shown = shown if folder is None or tool != "fiftyone" else {"filepath": str(folder / known["id"])}
            record = {TOOLS[tool].key: known, **TOOLS[tool].ask(shown, known, suggested, wrong)}
        texts.append(json.dumps(record, ensure_ascii=False))
    before, between, after = _FRAMES.get(tool, ("[", ",\n", "]\n"))
    return before + between.join(texts) + after


def read_answers(path: str | os.PathLike[str], text: str) -> list[dict[str, str]]:
    """Return the answers of a tool's export as lines of a table of decisions."""
    try:
        if Path(path).suffix.lower() == ".jsonl":
            records = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            records = json.loads(text)
        records = records["samples"] if isinstance(records, dict) else records
        return [line for record in records if (line := _line_of(record))]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"{path} has no answers of {listed(TOOLS)} or jsonl: {error!r}.") from None


def read_label_issues(lines: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return a table of cleanlab's label issues as lines of a table of decisions, which drop them.

    No person has looked at them: nothing is learned from them.
    """
    issues = [(number, line) for number, line in enumerate(lines) if line["is_label_issue"] == "True"]
    return [
        {"row": line.get("row") or line.get("") or str(number), "id": line.get("id", ""), "answer": "drop"}
        for number, line in issues
    ]


def _line_of(record: Record) -> dict[str, str]:
    tool = next((tool for tool in TOOLS.values() if tool.key in record), None)
    if tool is None:
        return {name: "" if value is None else str(value) for name, value in record.items()}
    known = {name: str(record[tool.key][name]) for name in ("row", "id", "given")}
    chosen = tool.answer_of(record)
    if chosen is None:
        return {}
    if chosen in ("drop", "unsure"):
        return {**known, "answer": chosen}
    is_right = not known["given"] or chosen == known["given"]
    return {**known, "answer": "right"} if is_right else {**known, "answer": "wrong", "label": chosen}


def _ask_label_studio(shown: dict[str, str], known: Record, suggested: str, wrong: float) -> dict[str, Any]:
    task: dict[str, Any] = {"data": {**shown, **known}}
    if suggested:
        region = {
            "from_name": "label",
            "to_name": "item",
            "type": "choices",
            "value": {"choices": [suggested]},
        }
        task["predictions"] = [{"model_version": "gmmatch", "score": wrong, "result": [region]}]
    return task


def _read_label_studio(record: Record) -> str | None:
    given = [annotation for annotation in record["annotations"] if not annotation.get("was_cancelled")]
    choices = [region["value"]["choices"][0] for annotation in given for region in annotation["result"]]
    return choices[-1] if choices else None


def _ask_argilla(shown: dict[str, str], known: Record, suggested: str, wrong: float) -> dict[str, Any]:
    suggestion = {"value": suggested, "score": wrong, "agent": "gmmatch"}
    return {
        "id": known["id"] or str(known["row"]), "fields": shown, "responses": {}, "vectors": {},
        "suggestions": {"label": suggestion} if suggested else {},
    }  # fmt: skip


def _read_argilla(record: Record) -> str | None:
    values = [response["value"] for responses in record["responses"].values() for response in responses]
    return values[-1] if values else None


def _ask_fiftyone(shown: dict[str, str], known: Record, suggested: str, wrong: float) -> dict[str, Any]:
    names = {"ground_truth": known["given"], "suggested": suggested}
    labels = {name: {"_cls": "Classification", "label": label} for name, label in names.items() if label}
    return {**shown, **labels, "tags": [known["reason"]] * bool(known["reason"]), "probability_wrong": wrong}


def _read_fiftyone(record: Record) -> str | None:
    label, suggested = ((record.get(name) or {}).get("label", "") for name in ("ground_truth", "suggested"))
    if label != record["gmmatch"]["given"]:
        return str(label)
    meanings = {"right": label, "wrong": suggested, "drop": "drop", "unsure": "unsure"}
    return next((meanings[tag] for tag in record["tags"] if tag in meanings), None)


# FiftyOne comes first: its samples have "metadata" of their own.
TOOLS = {
    "fiftyone": Tool("gmmatch", _ask_fiftyone, _read_fiftyone),
    "label-studio": Tool("data", _ask_label_studio, _read_label_studio),
    "argilla": Tool("metadata", _ask_argilla, _read_argilla),
}
