"""``gmmatch methods``: what can be chosen."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from gmmatch.cli.io.arguments import DEFAULT_METHOD, OWN_OPTIONS, JsonOption
from gmmatch.cli.io.output import print_facts, print_json, print_lines


def methods(
    name: Annotated[str | None, typer.Argument(help="A method, to list its settings.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the selection methods, or the settings of one.

    \b
    Examples:
      gmmatch methods
      gmmatch methods gm-matching
      gmmatch select photos.emb -k 10% -o picks.parquet -m gm-matching --set target.eps=1e-6
    """
    from gmmatch.methods.registry import method_class, methods
    from gmmatch.methods.settings import describe_settings

    if name is not None:
        defaults = describe_settings(method_class(name)).items()
        settings = {setting: value for setting, value in defaults if setting not in OWN_OPTIONS}
        if as_json:
            print_json({**_describe(name), "settings": settings})
            return
        print_lines(_describe(name)["summary"], "Settings, to be given as --set NAME=VALUE:")
        print_facts(
            (f"  {setting}", str(value).lower() if str(value) in ("None", "True", "False") else str(value))
            for setting, value in settings.items()
        )
        return
    listed = [_describe(known) for known in methods()]
    if as_json:
        print_json(listed)
        return
    print_facts(
        (method["name"], method["summary"] + " The default." * method["default"]) for method in listed
    )


def _describe(name: str) -> dict[str, Any]:
    """Return the name, class and summary of a method; the summary is its docstring's first line."""
    from gmmatch.methods.registry import method_class

    cls = method_class(name)
    summary = (inspect.getdoc(cls) or "").partition("\n")[0].replace("``", "")
    return {"name": name, "class": cls.__name__, "default": name == DEFAULT_METHOD, "summary": summary}
