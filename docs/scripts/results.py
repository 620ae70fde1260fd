"""Where the committed results are, and how a page shows and cites them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# What methods were called when the committed results were measured.
FORMER_NAMES = {"matching": "moment-matching"}


def load(path: str) -> dict[str, Any]:
    """Return a result file, by its path in the repository."""
    found: dict[str, Any] = json.loads((ROOT / path).read_text(encoding="utf-8"))
    return found


def of_method(results: Mapping[str, Any], name: str) -> Any:
    """Return the entry of a method, also under its former name; None if it was not measured.

    Examples
    --------
    >>> of_method({"moment-matching": 1}, "matching"), of_method({}, "easy")
    (1, None)
    """
    return results.get(name, results.get(FORMER_NAMES.get(name, name)))


def cite(path: str, up: int = 0) -> str:
    """Return a link to a result file, from a page that lies ``up`` folders below ``docs``.

    Examples
    --------
    >>> cite("benchmarks/results/gpu.json", up=1)
    '[gpu.json](../../benchmarks/results/gpu.json)'
    """
    inside = path.removeprefix("docs/")
    steps = up if inside != path else up + 1
    return f"[{Path(path).name}]({'../' * steps}{inside})"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int = 1) -> str:
    """Return a table in Markdown; columns from ``numbers_from`` on are set to the right.

    Examples
    --------
    >>> print(table(["what", "n"], [["cats", "3"]]))
    | what | n |
    | --- | ---: |
    | cats | 3 |
    """
    marks = ["---" if column < numbers_from else "---:" for column in range(len(columns))]
    return "\n".join("| " + " | ".join(line) + " |" for line in [columns, marks, *rows])


def percent(share: float, digits: int = 1) -> str:
    """Return a share as text.

    Examples
    --------
    >>> percent(0.0312)
    '3.1%'
    """
    return f"{100 * share:.{digits}f}%"
