"""``gmmatch methods``: what can be chosen."""

from __future__ import annotations

import inspect
from typing import Any

from gmmatch.cli.io.arguments import JsonOption
from gmmatch.cli.io.output import console, print_json


def methods(
    as_json: JsonOption = False,
) -> None:
    """List the selection methods, one line each."""
    found = describe_methods()
    if as_json:
        print_json(found)
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for method in found:
        default = " (the default)" if method["default"] else ""
        summary = f"{method['summary'].removesuffix('.')}{default}."
        table.add_row(f"[bold]{method['name']}[/bold]", summary)
    console().print(table)


def describe_methods() -> list[dict[str, Any]]:
    """Return the name, class and summary of every method; the summary is its docstring's first line."""
    from gmmatch.selectors.registry import DEFAULT_METHOD, method_class, methods

    classes = {name: method_class(name) for name in methods()}
    return [
        {
            "name": name,
            "class": cls.__name__,
            "default": name == DEFAULT_METHOD,
            "summary": (inspect.getdoc(cls) or "").partition("\n")[0].replace("``", ""),
        }
        for name, cls in classes.items()
    ]
