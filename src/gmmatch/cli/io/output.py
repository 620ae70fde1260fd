"""What commands print with: results go to stdout, everything said along the way to stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table


def console() -> Console:
    """Return Rich's console on stdout, as it is now."""
    from rich.console import Console

    return Console(highlight=False)


def new_table(title: str, **options: Any) -> Table:
    """Return an empty table of figures."""
    from rich import box
    from rich.table import Table

    # With the default padding, 80 columns would not hold the names.
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "pad_edge": False}
    return Table(title=title, title_justify="left", caption_justify="left", **{**look, **options})


def print_json(value: Any) -> None:
    """Print a value as indented JSON on stdout."""
    import json

    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def note(line: str) -> None:
    """Say something on stderr, where it cannot get into a result that is piped on."""
    typer.echo(visible(line), err=True)


def visible(text: str) -> str:
    """Return a text that cannot steer a terminal: names of files can hold anything.

    Examples
    --------
    >>> visible("a\\x1b[2Jb\\u202ec")
    'a\\\\x1b[2Jb\\\\u202ec'
    """
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else repr(letter)[1:-1] for letter in text
    )


def progress() -> Progress:
    """Return a progress display on stderr: a bar on a terminal, silence elsewhere."""
    from rich.console import Console
    from rich.progress import Progress

    terminal = Console(stderr=True)
    return Progress(console=terminal, disable=not terminal.is_terminal, transient=True)
