"""What commands print with: results go to stdout, everything said along the way to stderr."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


# Of what is not a terminal: tables in a file or a pipe need not wrap.
_WIDTH = 160
# Control characters but tabs and line ends, marks that turn the direction of text, and halves of characters.
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def console(*, to_stderr: bool = False) -> Console:
    """Return Rich's console, as it is now."""
    from rich.console import Console

    class Visible(Console):
        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(visible(text), **options)

    found = Visible(highlight=False, stderr=to_stderr)
    return found if found.is_terminal else Visible(highlight=False, stderr=to_stderr, width=_WIDTH)


def print_table(
    title: str,
    columns: Sequence[str],
    lines: Iterable[Sequence[str]],
    *,
    left: Collection[str] = (),
    footer: Sequence[str] = (),
    caption: str = "",
    narrow: bool = False,
    to_stderr: bool = False,
) -> None:
    """Print a table, its first column and those of ``left`` to the left; an empty line stands for a rule.

    Title and caption are lines of their own: no narrow table breaks them. A ``narrow`` one has room for many columns.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    padding = (0, 1, 0, 0) if narrow else (0, 1)
    table = Table(box=box.SIMPLE_HEAD, padding=padding, pad_edge=False, show_footer=bool(footer))
    for name, total in zip_longest(columns, footer, fillvalue=""):
        beside = name in (columns[0], *left)
        table.add_column(name, total, justify="left" if beside else "right", overflow="fold")
    for line in lines:
        if line:
            table.add_row(*map(escape, line))
        else:
            table.add_section()
    out = console(to_stderr=to_stderr)
    if title:
        out.print(title, soft_wrap=True, markup=False, style="bold")
    out.print(table)
    if caption:
        out.print(caption, soft_wrap=True, markup=False)


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
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def progress() -> Progress:
    """Return a progress display on stderr, with counts and rate: a bar on a terminal, silence elsewhere."""
    from rich import progress as rich_progress
    from rich.console import Console

    class Counts(rich_progress.ProgressColumn):
        def render(self, task: Any) -> Any:
            total = "" if task.total is None else f" of {task.total:,.0f}"
            speed = task.finished_speed or task.speed
            return f"{task.completed:,.0f}{total}" + (f", {speed:,.3g}/s" if speed else "")

    terminal = Console(stderr=True)
    columns = (
        rich_progress.TextColumn("{task.description}"), rich_progress.BarColumn(bar_width=24), Counts(),
        rich_progress.TimeRemainingColumn(compact=True),
    )  # fmt: skip
    return rich_progress.Progress(
        *columns, console=terminal, disable=not terminal.is_terminal, transient=True
    )
