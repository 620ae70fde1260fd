"""What was asked and what came out, in words and numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import numpy as np

from gmmatch.errors import UnknownMethodError
from gmmatch.report.classes import NO_LABEL, Classes
from gmmatch.report.text import LONGEST_NAME, shown
from gmmatch.selection.selection import Selection

_LONGEST_FACT = 160
_OWN_LINES = {"k", "per_class", "n_jobs"}


@dataclass(frozen=True)
class ClassLine:
    """A line of the table of classes.

    Attributes
    ----------
    name
        The class.
    rows, picked, screened
        How many.
    before, after
        Its shares of all rows and of the picks.
    residual
        ‖target − mean of its picks‖; None if it was not computed.
    """

    name: str
    rows: int
    picked: int
    screened: int
    before: float
    after: float
    residual: float | None


def class_lines(selection: Selection, classes: Classes) -> list[ClassLine]:
    """Return the counts of each class, in the order of the classes.

    Without labels for the rows, these are the classes that the selection itself was made by.

    Examples
    --------
    >>> from gmmatch.report.classes import classes_of
    >>> lines = class_lines(Selection([0], n_rows=4), classes_of(["a", "a", "b", "b"], 4))
    >>> [(line.name, line.picked, line.before, line.after) for line in lines]
    [('a', 1, 0.5, 1.0), ('b', 0, 0.5, 0.0)]
    """
    residuals = {(type(group.label), group.label): group.residual for group in selection.groups}
    if not classes.known:
        found = [
            (
                NO_LABEL if group.label is None else str(group.label),
                group.label,
                group.n_rows,
                len(group.order),
                0,
            )
            for group in selection.groups
        ]
        if len(found) == 1 and found[0][1] is None:
            screened = 0 if selection.screening is None else int((~selection.screening.kept).sum())
            found = [("all rows", None, selection.n_rows, selection.k, screened)]
    else:
        out = np.zeros(selection.n_rows, dtype=np.bool_)
        if selection.screening is not None:
            out = ~selection.screening.kept
        sizes, picked, screened_out = (
            np.bincount(classes.of_row[rows], minlength=len(classes)).tolist()
            for rows in (slice(None), selection.order, out)
        )
        found = list(zip(classes.names, classes.labels, sizes, picked, screened_out, strict=True))
    total = sum(rows for _, _, rows, _, _ in found) or 1
    return [
        ClassLine(
            name=shown(name, LONGEST_NAME),
            rows=rows,
            picked=picked,
            screened=screened,
            before=rows / total,
            after=picked / max(1, selection.k),
            residual=_known(residuals.get((type(label), label), math.nan)),
        )
        for name, label, rows, picked, screened in found
    ]


def facts(selection: Selection, seconds: float | None, when: datetime) -> list[tuple[str, str]]:
    """Return what is known of how a selection was made, as pairs of a name and a text.

    Examples
    --------
    >>> from gmmatch import Easy
    >>> found = facts(Easy(k=2, random_state=3).select([[0.0], [1.0], [5.0]]), 0.5, datetime(2025, 1, 2))
    >>> dict(found)["Seed"], dict(found)["Rows"], dict(found)["Time"]
    ('3', '3 of 1 number each (float64)', '0.5 s')
    """
    record = selection.provenance
    parameters, origin = _mapping(record.get("parameters")), _mapping(record.get("embeddings"))
    found = [("Method", record.get("method"))]
    if parameters:
        found.append(("Asked for", _asked(parameters)))
        found.append(("Other settings", _settings(str(record.get("method")), parameters)))
    found.append(("Seed", record.get("seed")))
    found.append(("Rows", _rows(record.get("input"), selection.n_rows)))
    found.append(("Encoder", origin.get("encoder")))
    found.append(("Source", _mapping(origin.get("source")).get("location")))
    if seconds is not None:
        found.append(("Time", f"{seconds:.1f} s"))
    found.append(("Made by", f"gmmatch {record['version']}" if record.get("version") else None))
    found.append(("Page written", when.strftime("%Y-%m-%d %H:%M")))
    return [(name, shown(value, _LONGEST_FACT)) for name, value in found if value not in (None, "")]


def about_method(selection: Selection) -> str:
    """Return one sentence about the method; empty if it is not one of gmmatch's.

    Examples
    --------
    >>> about_method(Selection([0], n_rows=1, provenance={"method": "easy"}))
    "Keep the rows nearest to their group's centre."
    """
    from gmmatch.selectors.registry import method_class

    try:
        words = method_class(str(selection.provenance.get("method"))).__doc__ or ""
    except UnknownMethodError:
        return ""
    return words.strip().splitlines()[0]


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _asked(parameters: dict[str, Any]) -> str:
    k = parameters.get("k")
    share = parameters.get("per_class")
    said = "a tenth of the rows" if k is None and isinstance(share, (str, type(None))) else f"k = {k}"
    if share is None:
        return f"{said}, whatever the classes"
    if isinstance(share, str):
        return f"{said}, {share} over the classes"
    return f"{said}, with a count for each class" if k is not None else "a count for each class"


def _settings(method: str, parameters: dict[str, Any]) -> str:
    """The parameters that are not what they are by default."""
    from gmmatch.selectors.registry import method_class

    try:
        defaults = {field.name: field.default for field in fields(method_class(method))}
    except UnknownMethodError:
        defaults = {}
    changed = {
        name: value
        for name, value in parameters.items()
        if name not in _OWN_LINES and (name not in defaults or value != defaults[name])
    }
    return ", ".join(f"{name} = {value}" for name, value in changed.items())


def _rows(given: Any, n_rows: int) -> str:
    if not isinstance(given, dict) or "n_features" not in given:
        return f"{n_rows:,}"
    numbers = given["n_features"]
    return f"{n_rows:,} of {numbers:,} number{'' if numbers == 1 else 's'} each ({given.get('dtype')})"
