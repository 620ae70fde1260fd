"""The lines of Python that make a selection again."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gmmatch.errors import UnknownMethodError
from gmmatch.selection import Selection

# What has no effect on the picks.
_WITHOUT_EFFECT = {"n_jobs"}


def python_to_run_again(selection: Selection) -> str | None:
    """Return code that makes the same selection from the same ``X`` and ``y``; None if how is not recorded.

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
    arguments = [f"{name}={_literal(name, value)}" for name, value in changed.items()]
    arguments.append(f"random_state={facts['seed']!r}")
    given = facts.get("input", {})
    called_with = ["X", "y"] if "labels" in given else ["X"]
    called_with += [f"{name}={name}" for name in ("sample_weight", "include", "exclude") if name in given]
    line = f"selection = gm.{cls.__name__}({', '.join(arguments)}).select({', '.join(called_with)})"
    if "prefix" in facts:
        line += f".prefix({facts['prefix']!r})"
    return f"import gmmatch as gm\n\n{line}"


def _literal(name: str, value: Any) -> str:
    if name == "per_class" and isinstance(value, list):  # a mapping whose keys are no strings
        return repr(dict(value))
    if name == "kernel" and isinstance(value, list):
        return repr(tuple(value))
    return repr(value)
