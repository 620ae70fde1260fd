"""What was asked and what came out, in words and numbers, and the Python that makes it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.errors import UnknownMethodError
from gmmatch.report.names import LONGEST_NAME, NO_LABEL, Classes, shown
from gmmatch.selection.selection import Selection
from gmmatch.selectors.registry import DEFAULT_METHOD

if TYPE_CHECKING:
    from gmmatch.selectors.base import Selector

_LONGEST_FACT = 160
_OWN_LINES = {"k", "per_class", "n_jobs"}
# What has no effect on the picks, and what an engine sets by itself.
_WITHOUT_EFFECT = {"n_jobs"}
_ENGINE_SETS = {"carry"}


@dataclass(frozen=True)
class ClassLine:
    """A line of the table of classes."""

    name: str
    rows: int
    picked: int
    screened: int
    before: float  # its share of all rows
    after: float  # its share of the picks


def class_lines(selection: Selection, classes: Classes) -> list[ClassLine]:
    """Return the counts of each class, in the order of the classes.

    Without labels for the rows, these are the classes that the selection itself was made by.

    Examples
    --------
    >>> from gmmatch.report.names import classes_of
    >>> lines = class_lines(Selection([0], n_rows=4), classes_of(["a", "a", "b", "b"], 4))
    >>> [(line.name, line.picked, line.before, line.after) for line in lines]
    [('a', 1, 0.5, 1.0), ('b', 0, 0.5, 0.0)]
    """
    if not classes.known:
        found = [
            (NO_LABEL if group.label is None else str(group.label), group.n_rows, len(group.order), 0)
            for group in selection.groups
        ]
        if [group.label for group in selection.groups] == [None]:
            screened = 0 if selection.screening is None else int((~selection.screening.kept).sum())
            found = [("all rows", selection.n_rows, selection.k, screened)]
    else:
        out = np.zeros(selection.n_rows, dtype=np.bool_)
        if selection.screening is not None:
            out = ~selection.screening.kept
        sizes, picked, screened_out = (
            np.bincount(classes.of_row[rows], minlength=len(classes)).tolist()
            for rows in (slice(None), selection.order, out)
        )
        found = list(zip(classes.names, sizes, picked, screened_out, strict=True))
    total = sum(rows for _, rows, _, _ in found) or 1
    return [
        ClassLine(
            name=shown(name, LONGEST_NAME),
            rows=rows,
            picked=picked,
            screened=screened,
            before=rows / total,
            after=picked / max(1, selection.k),
        )
        for name, rows, picked, screened in found
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
        changed = _changed(_method(record), parameters, _OWN_LINES)
        found.append(("Other settings", ", ".join(f"{name} = {value}" for name, value in changed.items())))
    reference = _mapping(record.get("reference"))
    if reference:
        from_path = f" of {reference['path']}" if "path" in reference else ""
        found.append(("Follows", f"{reference['n_rows']:,} reference rows{from_path}"))
    if selection.weights is not None and selection.k:
        found.append(("Weights", f"{selection.weights.min():.3g} to {selection.weights.max():.3g}"))
    found.append(("Seed", record.get("seed")))
    found.append(("Rows", _rows(record.get("input"), selection.n_rows)))
    if record.get("updates"):
        fresh = sum(one["n_rows"] for one in record["updates"])
        found.append(("Updates", f"{len(record['updates'])}, of {fresh:,} rows in all"))
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
    "Keep the rows nearest to their group's center."
    """
    cls = _method(selection.provenance)
    return "" if cls is None else (cls.__doc__ or "").strip().partition("\n")[0]


def _method(record: Mapping[str, Any]) -> type[Selector] | None:
    from gmmatch.selectors.registry import method_class

    try:
        return method_class(str(record.get("method")))
    except UnknownMethodError:
        return None


def _changed(cls: type[Selector] | None, parameters: dict[str, Any], without: set[str]) -> dict[str, Any]:
    """The parameters that are not what they are by default."""
    defaults = {} if cls is None else {field.name: field.default for field in fields(cls)}
    return {
        name: value
        for name, value in parameters.items()
        if name not in without and (name not in defaults or value != defaults[name])
    }


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _asked(parameters: dict[str, Any]) -> str:
    k = parameters.get("k")
    share = parameters.get("per_class")
    said = "a tenth of the rows" if k is None and isinstance(share, (str, type(None))) else f"k = {k}"
    if share is None:
        return f"{said}, whatever the classes"
    if isinstance(share, str):
        return f"{said}, {share} over the classes"
    return f"{said}, with a count for each class" if k is not None else "a count for each class"


def _rows(given: Any, n_rows: int) -> str:
    if not isinstance(given, dict) or "n_features" not in given:
        return f"{n_rows:,}"
    numbers = given["n_features"]
    return f"{n_rows:,} of {numbers:,} number{'' if numbers == 1 else 's'} each ({given.get('dtype')})"


def python_to_run_again(selection: Selection) -> str | None:
    """Return code that makes the same selection from the same ``X`` and ``y``; None if how is not recorded.

    A selection that was made on an engine is made on one again: with several batches the method in memory would
    pick other rows.

    Examples
    --------
    >>> from gmmatch import Easy
    >>> selection = Easy(k=2, random_state=7).select([[0.0], [1.0], [1.2], [3.0]])
    >>> print(python_to_run_again(selection))
    import gmmatch as gm
    <BLANKLINE>
    selection = gm.Easy(k=2, random_state=7).select(X)
    """
    facts = selection.provenance
    parameters = facts.get("parameters")
    if not isinstance(parameters, dict) or "seed" not in facts:
        return None
    cls = _method(facts)
    if cls is None:
        return None
    unknown = set(parameters).difference(field.name for field in fields(cls))
    changed = _changed(cls, parameters, unknown | _WITHOUT_EFFECT)
    prefix = f".prefix({facts['prefix']!r})" if "prefix" in facts else ""
    if isinstance(facts.get("engine"), dict):
        return _on_engine(facts, changed, prefix)
    given = facts.get("input", {})
    called_with = ["X", "y"] if "labels" in given else ["X"]
    called_with += [f"{name}={name}" for name in ("sample_weight", "include", "exclude") if name in given]
    made = f"gm.{cls.__name__}({_arguments(changed, facts)}).select({', '.join(called_with)})"
    for number, one in enumerate(facts.get("updates", []), 1):
        labels = f", y_{number}" if "labels" in one else ""
        made += f".update(X_{number}{labels})"
    return f"import gmmatch as gm\n\nselection = {made}{prefix}"


def _on_engine(facts: dict[str, Any], changed: dict[str, Any], prefix: str) -> str:
    """The lines for a selection whose provenance names an engine."""
    engine, origin = facts["engine"], facts.get("embeddings") or {}
    files = origin.get("files") or []
    source = origin.get("store") or (files[0] if len(files) == 1 else files)
    arguments = [_arguments({k: v for k, v in changed.items() if k not in _ENGINE_SETS}, facts)]
    if facts["method"] != DEFAULT_METHOD:
        arguments.insert(0, f"method={facts['method']!r}")
    if "labels" in facts.get("input", {}):
        arguments.insert(0, "y=y")
    call = f"gm.select({source!r}, engine=engine, {', '.join(arguments)}){prefix}"
    # Sums are added in another order on a GPU, so that the last digits of the target may differ from a CPU's.
    on_gpu = any(str(device).startswith("cuda") for device in engine.get("devices", []))
    device = f'device="{"cuda" if on_gpu else "cpu"}"'
    skip = ["skip_unreadable=True"] if engine.get("unreadable") else []
    if engine.get("name") == "ray":
        header = "import gmmatch as gm\nfrom gmmatch.backends.cluster import RayEngine\n\n"
        made = f"RayEngine({', '.join([device, *skip])})"
        return f"{header}with {made} as engine:  # address=... of a cluster\n    selection = {call}"
    header = "import gmmatch as gm\nfrom gmmatch.backends.cluster import LocalEngine\n\n"
    made = f"LocalEngine({', '.join([device, *skip] if on_gpu else skip)})"
    return f"{header}engine = {made}\nselection = {call}"


def _arguments(changed: dict[str, Any], facts: dict[str, Any]) -> str:
    words = [f"{name}={_literal(name, value)}" for name, value in changed.items()]
    if "reference" in facts:
        words.append("reference=reference")
    return ", ".join([*words, f"random_state={facts['seed']!r}"])


def _literal(name: str, value: Any) -> str:
    if name == "per_class" and isinstance(value, list):  # a mapping whose keys are no strings
        return repr(dict(value))
    if name == "kernel" and isinstance(value, list):
        return repr(tuple(value))
    return repr(value)
