"""``gmmatch methods``: what can be chosen."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from gmmatch.cli.io.arguments import DEFAULT_METHOD, OWN_OPTIONS, JsonOption, complete_methods
from gmmatch.cli.io.output import print_facts, print_json, print_lines


def methods(
    name: Annotated[
        str | None, typer.Argument(autocompletion=complete_methods, help="A method, to list its settings.")
    ] = None,
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

    if name is not None:
        settings = _settings(method_class(name))
        if as_json:
            print_json({**_describe(name), "settings": settings})
            return
        print_lines(_describe(name)["summary"], "Settings, to be given as --set NAME=VALUE:")
        print_facts((f"  {setting}", _text(value)) for setting, value in settings.items())
        return
    listed = [_describe(known) for known in methods()]
    if as_json:
        print_json(listed)
        return
    defaults = {True: " (the default).", False: "."}
    print_facts(
        (method["name"], method["summary"].removesuffix(".") + defaults[method["default"]])
        for method in listed
    )


def _describe(name: str) -> dict[str, Any]:
    """Return the name, class and summary of a method; the summary is its docstring's first line."""
    from gmmatch.methods.registry import method_class

    cls = method_class(name)
    summary = (inspect.getdoc(cls) or "").partition("\n")[0].replace("``", "")
    return {"name": name, "class": cls.__name__, "default": name == DEFAULT_METHOD, "summary": summary}


def _settings(cls: type[Any]) -> dict[str, Any]:
    from gmmatch.methods.settings import describe_settings

    return {name: value for name, value in describe_settings(cls).items() if name not in OWN_OPTIONS}


def _text(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
