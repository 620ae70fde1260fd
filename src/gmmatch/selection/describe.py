"""A selection in words, and its provenance as JSON can hold it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch._array import Indices
from gmmatch.errors import InvalidTypeError
from gmmatch.frames import SHOWN, html_table

if TYPE_CHECKING:
    from gmmatch.selection.selection import Selection


def copy_json(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """Return a deep copy made of what JSON can hold: tuples become lists, infinity and NaN become strings."""
    if isinstance(value, (np.generic, np.ndarray)):
        finite = value.dtype.kind in "biu" or (value.dtype.kind == "f" and np.isfinite(value).all())
        value = value.tolist()
        if finite:  # thousands of classes have thousands of numbers
            return value
    if isinstance(value, Mapping):
        return {str(key): copy_json(item, (*path, key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_json(item, (*path, position)) for position, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    name = "".join(f"[{key!r}]" for key in path)
    raise InvalidTypeError(
        f"provenance{name} has type {type(value).__name__}, which JSON cannot hold: use numbers, text and lists."
    )


def drop_record_of_others(provenance: Mapping[str, Any], picks: Indices) -> dict[str, Any]:
    """Return a provenance for other picks: relabeled are those among them, and no certificate is about them.

    Examples
    --------
    >>> drop_record_of_others({"method": "robust", "certificate": {"most_wrong": 2}}, np.array([3]))
    {'method': 'robust'}
    """
    record = {name: value for name, value in provenance.items() if name != "certificate"}
    if "relabeled" in record:
        kept = np.isin(record["relabeled"]["rows"], picks).tolist()
        lists = {name: values for name, values in record["relabeled"].items() if isinstance(values, list)}
        record["relabeled"] = {
            **record["relabeled"], **{name: list(compress(values, kept)) for name, values in lists.items()}
        }  # fmt: skip
    return record


def summarize(selection: Selection) -> str:
    """Return a selection in one line."""
    distinct = len(np.unique(selection.order))
    picks = (
        f"{selection.k:,}" if distinct == selection.k else f"{selection.k:,} picks ({distinct:,} distinct)"
    )
    phrases = [f"Selection: {picks} of {selection.n_rows:,} rows"]
    if selection.provenance.get("method"):
        phrases[0] += f" by {selection.provenance['method']}"
    n_classes = sum(label is not None for label in selection.classes)
    if n_classes:
        phrases.append(f"{n_classes:,} class" + ("es" if n_classes > 1 else ""))
    known = [value for value in selection.residual.values() if not math.isnan(value)]
    if known:
        low, high = f"{min(known):.3g}", f"{max(known):.3g}"
        phrases.append(f"residual {low}" + (f" to {high}" if low != high else ""))
    return ", ".join(phrases)


def describe(selection: Selection) -> str:
    """Return a selection in plain text, a line for each class and each entry of the provenance."""
    lines = [summarize(selection)]
    for name, picks, rows, residual in class_lines(selection):
        lines.append(f"  {name}: {picks:,} of {rows:,}" + (f", residual {residual}" if residual else ""))
    return "\n".join(lines + [f"  {key}: {value}" for key, value in selection.provenance.items()])


def as_html(selection: Selection) -> str:
    """Return a selection as a notebook shows it: a line, the screening, and a table of its classes."""
    title = summarize(selection)
    if selection.screening is not None:
        title += f". {selection.screening}"
    lines = [
        (name, f"{picks:,}", f"{rows:,}", residual)
        for name, picks, rows, residual in class_lines(selection)[:SHOWN]
    ]
    return html_table(title, ["", "picks", "rows", "residual"], lines, len(selection.classes))


def class_lines(selection: Selection) -> list[tuple[str, int, int, str]]:
    """Return the name, the picks, the rows and the residual of each class."""
    counts, residuals = selection.counts.values(), selection.residual.values()
    unlabeled = "all rows" if len(selection.classes) == 1 else "(no label)"
    return [
        (unlabeled if label is None else str(label), count, size, "" if math.isnan(last) else f"{last:.3g}")
        for label, count, size, last in zip(
            selection.classes, counts, selection.group_sizes.tolist(), residuals, strict=True
        )
    ]
