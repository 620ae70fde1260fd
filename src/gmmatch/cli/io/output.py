"""What commands print with: results go to stdout, everything said along the way to stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


def console() -> Console:
    """Return Rich's console on stdout, as it is now.

    Examples
    --------
    >>> console().stderr
    False
    """
    from rich.console import Console

    return Console(highlight=False)


def print_json(value: Any) -> None:
    """Print a value as indented JSON on stdout.

    Examples
    --------
    >>> print_json({"k": 3})
    {
      "k": 3
    }
    """
    import json

    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def note(line: str) -> None:
    """Say something on stderr, where it cannot get into a result that is piped on.

    Examples
    --------
    >>> note("Wrote picks.parquet")
    """
    typer.echo(line, err=True)


def progress() -> Progress:
    """Return a progress display on stderr: a bar on a terminal, silence elsewhere.

    Examples
    --------
    >>> from io import StringIO
    >>> from contextlib import redirect_stderr
    >>> with redirect_stderr(StringIO()) as said, progress() as bar:
    ...     for _ in bar.track(range(3)):
    ...         pass
    >>> said.getvalue()
    ''
    """
    from rich.console import Console
    from rich.progress import Progress

    terminal = Console(stderr=True)
    return Progress(console=terminal, disable=not terminal.is_terminal, transient=True)
