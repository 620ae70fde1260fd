"""What commands print with (results go to stdout, everything else to stderr), and messages in their words."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress, zip_longest
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


# Of what is not a terminal: tables in a file or a pipe need not wrap.
_WIDTH = 160
# Seconds between two lines about progress, where there is no terminal.
_QUIET_SECONDS = 20.0
# Control characters but tabs and line ends, marks that turn the direction of text, and halves of characters.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# An argument of the library as messages name it: batch_size=0, text_column='body', "method=, which"; or alone. Only
# values that are written like that count, as a path may well begin with "split=".
_ARGUMENT = re.compile(
    r"(?<![\w'\"./:=-])([A-Za-z_]+)(?:(=)(?=['\"\d.\[(,; -]|(?:nan|inf|True|False|None)\b|$)|(?![\w'\"/=-]|\.\w))"
)
_OTHER = re.compile(r"^(against|reference|test)(?= (?:has|contains) )")
# Options that go by another name than the argument, or than what people call it.
_OPTIONS = {
    "k": ("-k", "--k"),
    "n": ("-k", "--sample"),
    "y": ("--labels",),
    "y_new": ("--labels",),
    "labels": ("--labels", "--label-column"),
    "method": ("--method", "--methods"),
    "n_jobs": ("--jobs",),
    "random_state": ("--seed",),
    "memory_limit": ("--memory",),
    "label_column": ("--label-column", "--labels"),
    "text_column": ("--text", "--text-column"),
    "projection": ("--map",),
}
_WORDS = {"X": "the input", "X_new": "the input", "y": "the labels"}


def visible(text: str) -> str:
    """Return a text that cannot steer a terminal: names of files can hold anything.

    Examples
    --------
    >>> visible("a\\x1b[2Jb\\u202ec")
    'a\\\\x1b[2Jb\\\\u202ec'
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def note(line: str, color: str | None = None) -> None:
    """Say something on stderr, where it cannot get into a result that is piped on."""
    typer.secho(visible(line), fg=color, err=True)


def print_json(value: Any) -> None:
    """Print a value as indented JSON on stdout."""
    import json

    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def console(*, to_stderr: bool = False) -> Console:
    """Return Rich's console, as it is now."""
    from rich.console import Console

    class VisibleConsole(Console):
        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(visible(text), **options)

    terminal = VisibleConsole(highlight=False, stderr=to_stderr)
    return (
        terminal if terminal.is_terminal else VisibleConsole(highlight=False, stderr=to_stderr, width=_WIDTH)
    )


def print_lines(*lines: str, to_stderr: bool = False) -> None:
    """Print lines as they are; a terminal wraps them."""
    out = console(to_stderr=to_stderr)
    for line in filter(None, lines):
        out.print(line, soft_wrap=True, markup=False)


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

    Columns without any value are left out. Title and caption are lines of their own: no narrow table breaks them.
    A ``narrow`` one has room for many columns.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    lines = list(lines)
    filled = [any(cells) for cells in zip_longest(*lines, fillvalue="")]
    padding = (0, 1, 0, 0) if narrow else (0, 1)
    table = Table(box=box.SIMPLE_HEAD, padding=padding, pad_edge=False, show_footer=bool(footer))
    for name, total in compress(zip_longest(columns, footer, fillvalue=""), filled):
        justify: Any = "left" if name in (columns[0], *left) else "right"
        table.add_column(name, total, justify=justify, overflow="fold")
    for line in lines:
        if line:
            table.add_row(*map(escape, compress(line, filled)))
        else:
            table.add_section()
    out = console(to_stderr=to_stderr)
    if title:
        out.print(title, soft_wrap=True, markup=False, style="bold")
    out.print(table)
    print_lines(caption, to_stderr=to_stderr)


def print_facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and what is known about them, side by side."""
    from rich.markup import escape
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(escape(name), escape(value))
    console().print(table)


@contextmanager
def progress(description: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of how much is done, and of how much there is: a bar on a terminal, lines elsewhere."""
    from rich import progress as rich_progress
    from rich.console import Console

    terminal = Console(stderr=True)
    if not terminal.is_terminal:
        last = time.monotonic()

        def print_line(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last >= _QUIET_SECONDS:
                last = time.monotonic()
                note(f"{description}: {done:,} of {total:,}")

        yield print_line
        return
    columns = (
        rich_progress.TextColumn("{task.description}"), rich_progress.BarColumn(bar_width=24),
        rich_progress.MofNCompleteColumn(separator=" of "),
        rich_progress.TimeRemainingColumn(compact=True),
    )  # fmt: skip
    with rich_progress.Progress(*columns, console=terminal, transient=True) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def find_option(argument: str, options: Collection[str]) -> str | None:
    """Return which of a command's options an argument is; a short option is one itself.

    Examples
    --------
    >>> find_option("random_state", ["--seed"]), find_option("n", ["-k"]), find_option("eps", ["-k"])
    ('--seed', '-k', None)
    """
    names = _OPTIONS.get(argument, (f"--{argument.replace('_', '-')}", argument))
    return next((name for name in names if name in options), None)


def translate(message: str, options: Collection[str]) -> str:
    """Return a message of the library with options as they are typed, on one line.

    Only options that the command has: another command's would be refused.

    Examples
    --------
    >>> translate("id_column='a' and text_column='b':\\n  X has two.", ["--id-column"])
    "--id-column 'a' and text_column='b': the input has two."
    """
    line = join_lines(message)
    if line.startswith("--set "):  # a setting is typed as the library names it
        return line

    def type_name(match: re.Match[str]) -> str:
        name, sign = match.groups()
        option = find_option(name, options)
        if not sign:  # other names are words as well
            return _WORDS.get(name) or (option if option and "_" in name else name)
        has_value = match.end() < len(line) and line[match.end()] not in ",; "
        if option is None and has_value:  # at the beginning of a message, the value says enough
            return "" if match.start() == 0 and line[match.end()] in "'\"" else match[0]
        return (option or name) + " " * has_value

    line = _OTHER.sub(r"--\1", _ARGUMENT.sub(type_name, line))
    return line[:1].upper() + line[1:] if line.startswith("the ") else line


def join_lines(message: object) -> str:
    """Return a message on one line."""
    return " ".join(str(message).split())
