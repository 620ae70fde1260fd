"""The lines of Python that make a selection again."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gmmatch.errors import UnknownMethodError
from gmmatch.selection.selection import Selection

# What has no effect on the picks.
_WITHOUT_EFFECT = {"n_jobs"}
# What select_on sets by itself.
_ENGINE_SETS = {"carry"}


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
    from gmmatch.selectors.registry import method_class

    try:
        cls = method_class(str(facts.get("method")))
    except UnknownMethodError:
        return None
    defaults = {field.name: field.default for field in fields(cls)}
    changed = {
        name: value
        for name, value in parameters.items()
        if name in defaults and name not in _WITHOUT_EFFECT and value != defaults[name]
    }
    prefix = f".prefix({facts['prefix']!r})" if "prefix" in facts else ""
    if isinstance(facts.get("engine"), dict):
        return _on_engine(facts, changed, prefix)
    given = facts.get("input", {})
    called_with = ["X", "y"] if "labels" in given else ["X"]
    called_with += [f"{name}={name}" for name in ("sample_weight", "include", "exclude") if name in given]
    made = f"gm.{cls.__name__}({_arguments(changed, facts)}).select({', '.join(called_with)})"
    return f"import gmmatch as gm\n\nselection = {made}{prefix}"


def _on_engine(facts: dict[str, Any], changed: dict[str, Any], prefix: str) -> str:
    """The lines for a selection whose provenance names an engine."""
    engine, origin = facts["engine"], facts.get("embeddings") or {}
    files = origin.get("files") or []
    source = origin.get("store") or (files[0] if len(files) == 1 else files)
    arguments = [_arguments({k: v for k, v in changed.items() if k not in _ENGINE_SETS}, facts)]
    if facts["method"] != "gm-matching":
        arguments.insert(0, f"method={facts['method']!r}")
    if "labels" in facts.get("input", {}):
        arguments.insert(0, "y=y")
    if engine.get("unreadable"):
        arguments.append("skip_unreadable=True")
    call = f"select_on(engine, {source!r}, {', '.join(arguments)}){prefix}"
    # Sums are added in another order on a GPU, so that the last digits of the target may differ from a CPU's.
    on_gpu = any(str(device).startswith("cuda") for device in engine.get("devices", []))
    device = f'device="{"cuda" if on_gpu else "cpu"}"'
    if engine.get("name") == "ray":
        header = "from gmmatch.backends.cluster import RayEngine, select_on\n\n"
        return (
            f"{header}with RayEngine({device}) as engine:  # address=... of a cluster\n    selection = {call}"
        )
    header = "from gmmatch.backends.cluster import LocalEngine, select_on\n\n"
    return f"{header}engine = LocalEngine({device if on_gpu else ''})\nselection = {call}"


def _arguments(changed: dict[str, Any], facts: dict[str, Any]) -> str:
    words = [f"{name}={_literal(name, value)}" for name, value in changed.items()]
    return ", ".join([*words, f"random_state={facts['seed']!r}"])


def _literal(name: str, value: Any) -> str:
    if name == "per_class" and isinstance(value, list):  # a mapping whose keys are no strings
        return repr(dict(value))
    if name == "kernel" and isinstance(value, list):
        return repr(tuple(value))
    return repr(value)
