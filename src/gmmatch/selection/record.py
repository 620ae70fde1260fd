"""What a selection says and records of itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.errors import InvalidTypeError
from gmmatch.frames import SHOWN, html_table

if TYPE_CHECKING:
    from gmmatch.selection.groups import SelectedGroup
    from gmmatch.selection.selection import Selection
    from gmmatch.types import Indices

# Most values, of which there are several for each of many classes.
_PLAIN = (str, int, bool, type(None))


def json_copy(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """A deep copy made of what JSON can hold."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {
            str(key): item
            if type(item) in _PLAIN or (type(item) is float and math.isfinite(item))
            else json_copy(item, (*path, key))
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [json_copy(item, (*path, i)) for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    name = "".join(f"[{key!r}]" for key in path)
    raise InvalidTypeError(
        f"provenance{name} has type {type(value).__name__}, which JSON cannot hold: use numbers, text and lists."
    )


def record_of_others(provenance: Mapping[str, Any], picks: Indices) -> dict[str, Any]:
    """Return a provenance for other picks: relabeled are those among them, and no certificate is about them.

    Examples
    --------
    >>> record_of_others({"method": "robust", "certificate": {"most_wrong": 2}}, np.array([3]))
    {'method': 'robust'}
    """
    record = {name: value for name, value in provenance.items() if name != "certificate"}
    if "relabeled" in record:
        left = np.isin(record["relabeled"]["rows"], picks).tolist()
        listed = ("rows", "given", "confidence")
        of_picks = {name: list(compress(record["relabeled"][name], left)) for name in listed}
        record["relabeled"] = {**record["relabeled"], **of_picks}
    return record


def summary(selection: Selection) -> str:
    """Return a selection in one line."""
    distinct = len(np.unique(selection.order))
    picks = (
        f"{selection.k:,}" if distinct == selection.k else f"{selection.k:,} picks ({distinct:,} distinct)"
    )
    parts = [f"Selection: {picks} of {selection.n_rows:,} rows"]
    if selection.provenance.get("method"):
        parts[0] += f" by {selection.provenance['method']}"
    classes = sum(label is not None for label in selection.groups.labels)
    if classes:
        parts.append(f"{classes:,} class" + ("es" if classes > 1 else ""))
    known = [value for value in selection.residual.values() if not math.isnan(value)]
    if known:
        low, high = f"{min(known):.3g}", f"{max(known):.3g}"
        parts.append(f"residual {low}" + (f" to {high}" if low != high else ""))
    return ", ".join(parts)


def described(selection: Selection) -> str:
    """Return a selection in plain text, a line for each group and each fact."""
    lines = [summary(selection)]
    for group in selection.groups:
        name = _name(selection, group)
        known = "" if math.isnan(group.residual) else f", residual {group.residual:.3g}"
        lines.append(f"  {name}: {len(group.order):,} of {group.n_rows:,}{known}")
    return "\n".join(lines + [f"  {key}: {value}" for key, value in selection.provenance.items()])


def as_html(selection: Selection) -> str:
    """Return a selection as a notebook shows it: a line, the screening, and a table of its classes."""
    title = summary(selection)
    if selection.screening is not None:
        title += f". {selection.screening}"
    lines = [
        (
            _name(selection, group),
            f"{len(group.order):,}",
            f"{group.n_rows:,}",
            "" if math.isnan(group.residual) else f"{group.residual:.3g}",
        )
        for group in selection.groups[:SHOWN]
    ]
    return html_table(title, ["", "picks", "rows", "residual"], lines, len(selection.groups))


def _name(selection: Selection, group: SelectedGroup) -> str:
    if group.label is not None:
        return f"class {group.label!r}"
    return "all rows" if len(selection.groups) == 1 else "rows without a label"
