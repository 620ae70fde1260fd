"""A group of commands that are imported when needed, and that end in one line when something is wrong."""

from __future__ import annotations

import errno
import inspect
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from gmmatch._threads import cached_property
from gmmatch.cli.io.output import find_option, join_lines, note, translate
from gmmatch.errors import (
    GMMatchError,
    GMMatchWarning,
    InvalidInputError,
    MissingDependencyError,
    first_line,
)

# Commands of gmmatch-paper, so that the command line can say where to get them.
_IN_PAPER = ("corrupt", "reproduce")
_EXIT_ERROR = 2
_EXIT_INTERRUPTED = 130  # 128 + SIGINT, what shells expect
# Words of the library that reads the values, which say nothing to a user.
_JARGON = re.compile(r"^Value error, |^Input (?=should)|, unable to parse .*$")


def expand_dataclasses(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with an option for every field of the dataclasses among its parameters.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: int
    ...     height: int = 1
    >>> def area(*, size: Size, times: int = 1) -> int:
    ...     return times * size.width * size.height
    >>> command = expand_dataclasses(area)
    >>> inspect.signature(command), command(width=3, height=2, times=1)
    (<Signature (*, width: int, height: int = 1, times: int = 1)>, 6)
    """
    hints = get_type_hints(function, include_extras=True)
    blocks: dict[str, Any] = {}
    options: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if not is_dataclass(hints[name]):
            options.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[name]))
            continue
        blocks[name] = hints[name]
        field_hints = get_type_hints(hints[name], include_extras=True)
        for field in fields(blocks[name]):
            default = parameter.empty if field.default is MISSING else field.default
            hint = field_hints[field.name]
            options.append(
                inspect.Parameter(field.name, parameter.KEYWORD_ONLY, default=default, annotation=hint)
            )

    def command(**arguments: Any) -> Any:
        for name, block in blocks.items():
            arguments[name] = block(**{field.name: arguments.pop(field.name) for field in fields(block)})
        return function(**arguments)

    command.__doc__, command.__annotations__ = function.__doc__, {}
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return command


class Command(TyperCommand):
    """A command whose help lists its options by what they are about, without the time it takes to load Rich."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options; say how to write those that were written as in Python."""
        options = {name for parameter in self.params for name in parameter.opts}
        for before, word in zip(["", *args], args, strict=False):
            name, _, value = word.partition("=")
            is_usual = not value or before in options or word.startswith("--") or Path(word).exists()
            option = None if is_usual else find_option(name, options)
            if option is not None:
                ctx.fail(f"{word!r}: write {option} {value}")
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = _JARGON.sub("", error.message)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then a section for each panel, in the order of their first options."""
        sections: dict[str, list[Any]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                panel = getattr(parameter, "rich_help_panel", None)
                name = "Arguments" if parameter.param_type_name == "argument" else panel or "Options"
                sections.setdefault(name, []).append(record)
        last = sections.pop("Options", [])
        for name, records in {**sections, "Options": last}.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


class CommandFiles(Mapping[str, Any]):
    """The commands by name; looking one up imports its file.

    Other distributions add commands through the entry-point group ``gmmatch.commands``. Those are looked for
    only where a command is not one of ours, or all are listed.
    """

    def __init__(self, package: str, names: Sequence[str]) -> None:
        self.package = package
        self.names = tuple(names)

    @cached_property
    def _added(self) -> dict[str, Any]:
        from importlib.metadata import entry_points

        return {point.name: point for point in entry_points(group="gmmatch.commands")}

    def __getitem__(self, name: str) -> Any:
        if name in self.names:
            attribute = name.replace("-", "_")
            function = getattr(import_module(f"{self.package}.{attribute}"), attribute)
        elif name in self._added:
            try:
                function = self._added[name].load()
            except Exception as error:  # it must not break the help of all
                problem = f"gmmatch {name} cannot be loaded: {first_line(error)}."

                def function(arguments: list[str] | None = None) -> None:
                    """Cannot be loaded."""
                    raise MissingDependencyError(problem)

        elif name in _IN_PAPER:
            raise MissingDependencyError(
                f"gmmatch {name} belongs to the package gmmatch-paper: pip install ./paper in a clone of gmmatch."
            )
        else:
            raise KeyError(name)
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        app.command(name, cls=Command)(expand_dataclasses(function))
        return typer.main.get_command(app)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self.names, *self._added}))

    def __len__(self) -> int:
        return len(list(iter(self)))


class CommandGroup(TyperGroup):
    """The top of the command line.

    An error that gmmatch raises, or that the operating system does (a full disk, a file without permission),
    becomes one line on stderr and exit code 2, and Ctrl-C one line and 130; ``--traceback`` lets the error through
    as it is. Anything else is a bug, with a traceback and exit code 1.
    """

    files: CommandFiles

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = self.files  # type: ignore[assignment]

    @classmethod
    def of(cls, package: str, names: Sequence[str]) -> type[CommandGroup]:
        """Return a group with these commands."""
        return type("Commands", (cls,), {"files": CommandFiles(package, names)})

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Read the command line."""
        with _in_one_line():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        if ctx.params["traceback"]:
            return super().invoke(ctx)
        with _in_one_line(lambda message: translate(message, self._options(ctx))), warnings.catch_warnings():
            self._translate_warnings(ctx)
            _check_threads(os.environ.get("NUMBA_NUM_THREADS", "1"))
            return super().invoke(ctx)

    def _options(self, ctx: Any) -> set[str]:
        command = self.files.get(ctx.invoked_subcommand or "")
        return set() if command is None else {name for parameter in command.params for name in parameter.opts}

    def _translate_warnings(self, ctx: Any) -> None:
        """Show our warnings as one line: a place in our source says nothing to someone at a terminal."""
        plain_showwarning = warnings.showwarning

        def showwarning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, GMMatchWarning):
                note(f"Warning: {translate(str(message), self._options(ctx))}", typer.colors.YELLOW)
            else:
                plain_showwarning(message, category, *where, **more)

        warnings.showwarning = showwarning


def _check_threads(number: str) -> None:
    """Raise for a number of threads that Numba, which reads it from the environment, has only a traceback for."""
    if not number.isdecimal() or int(number) == 0:
        raise InvalidInputError(f"NUMBA_NUM_THREADS={number} in the environment: give at least 1.")


@contextmanager
def _in_one_line(explain: Callable[[str], str] = join_lines) -> Iterator[None]:
    """Turn errors that a user can correct, and Ctrl-C, into one line and the exit code that shells expect."""
    try:
        yield
        return
    except GMMatchError as error:
        message = explain(str(error))
    except OSError as error:
        # A closed pipe is how `| head` ends a command, which Click knows.
        if error.errno in (None, errno.EPIPE):
            raise
        message = f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}."
    except KeyboardInterrupt as interruption:
        reason = f": {interruption}" if interruption.args else "."
        note(f"Interrupted{reason}", typer.colors.YELLOW)
        raise typer.Exit(_EXIT_INTERRUPTED) from interruption
    note(f"Error: {join_lines(message)}", typer.colors.RED)
    raise typer.Exit(_EXIT_ERROR)
