"""One record of results out of two: a study may run in pieces, on several machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def joined_records(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of both records; where both measured a cell, the later one's.

    Cells of a part count only if the same code measured them. The facts of the record are the later one's, but for
    the list of runs, which has those of both.
    """
    parts = dict(earlier["parts"])
    for name, part in later["parts"].items():
        parts[name] = _joined_parts(parts.get(name), part)
    runs = list(earlier["provenance"].get("runs", []))
    # A run that was resumed from the earlier record lists its runs already.
    runs += [run for run in later["provenance"].get("runs", []) if run not in runs]
    provenance = {**later["provenance"], **({"runs": runs} if runs else {})}
    return {**later, "provenance": provenance, "parts": parts}


def _joined_parts(earlier: Mapping[str, Any] | None, later: Mapping[str, Any]) -> dict[str, Any]:
    same = ("code", "fixed", "parameters")
    if earlier is None or any(earlier.get(name) != later.get(name) for name in same):
        return dict(later)
    names = later["parameters"]

    def key(cell: Mapping[str, Any]) -> str:
        return json.dumps([cell[name] for name in names])

    cells = {key(cell): cell for cell in [*earlier["cells"], *later["cells"]]}
    seconds = sum(float(cell.get("seconds", 0.0)) for cell in cells.values())
    return {**later, "seconds": round(seconds, 1), "cells": list(cells.values())}
