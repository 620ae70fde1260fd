"""A group of commands that are imported when needed, and that end in one line when something is wrong."""

from __future__ import annotations

import errno
import inspect
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, get_type_hints

import typer
from typer.core import TyperGroup

from gmmatch.cli.io.output import visible
from gmmatch.errors import GMMatchError, GMMatchWarning, MissingDependencyError

# An argument of the library with its value, as messages name it: batch_size=0, text_column='body'. Only values
# that are written like that count, as a path may well begin with "split=".
_ARGUMENT = re.compile(r"(?<![\w./-])(?:--)?([a-z][a-z_]+)=(?=['\"\d-]|True\b|False\b|None\b)")
_PATH = re.compile(r"^path=(['\"])(.*?)\1")
# Options that go by another name than what the library calls it.
_OTHER_NAMES = {"method": "methods", "n_jobs": "jobs", "random_state": "seed"}
# Commands of the laboratory, by name, so that the command line can say where to get them.
_IN_PAPER = ("corrupt", "reproduce")
_EXIT_ERROR = 2
_EXIT_INTERRUPTED = 130  # 128 + SIGINT, what shells expect


def flattened(function: Callable[..., Any]) -> Callable[..., Any]:
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
    >>> inspect.signature(flattened(area)), flattened(area)(width=3, height=2, times=1)
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
        of_fields = get_type_hints(hints[name], include_extras=True)
        for field in filter(_is_option, fields(hints[name])):
            default = parameter.empty if field.default is MISSING else field.default
            options.append(
                inspect.Parameter(
                    field.name, parameter.KEYWORD_ONLY, default=default, annotation=of_fields[field.name]
                )
            )

    def command(**given: Any) -> Any:
        for name, block in blocks.items():
            names = [field.name for field in filter(_is_option, fields(block))]
            given[name] = block(**{one: given.pop(one) for one in names})
        return function(**given)

    command.__doc__, command.__annotations__ = function.__doc__, {}
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return command


def _is_option(field: Any) -> bool:
    return bool(field.init)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, and what to tell about it."""


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
            function = self._added[name].load()
        elif name in _IN_PAPER:
            raise MissingDependencyError(
                f"gmmatch {name} is part of the package gmmatch-paper: pip install ./paper in a clone of gmmatch."
            )
        else:
            raise KeyError(name)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        alone.command(name)(flattened(function))
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self.names, *self._added}))

    def __len__(self) -> int:
        return len(list(iter(self)))


class CommandGroup(TyperGroup):
    """The top of the command line.

    An error that gmmatch raises, or that the operating system does (a full disk, a file without
    permission), becomes one line on stderr and exit code 2, and Ctrl-C one line and 130; ``--traceback``
    lets the error through as it is. Anything else is a bug, with a traceback and exit code 1.
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
        with _ended():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        with _ended(ctx.params["traceback"]):
            return self._invoke(ctx)

    def _invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except GMMatchError as error:
            if ctx.params["traceback"]:
                raise
            command = self.files.get(ctx.invoked_subcommand or "")
            options = set() if command is None else {name for one in command.params for name in one.opts}
            _say(f"Error: {_as_typed(_one_line(error), options)}", typer.colors.RED)
            raise typer.Exit(_EXIT_ERROR) from error
        except OSError as error:
            # A closed pipe is how `| head` ends a command, which Click knows.
            if ctx.params["traceback"] or error.errno in (None, errno.EPIPE):
                raise
            place = f"{error.filename}: " if error.filename else ""
            _say(f"Error: {_one_line(f'{place}{error.strerror or error}.')}", typer.colors.RED)
            raise typer.Exit(_EXIT_ERROR) from error


@contextmanager
def _ended(traceback: bool = False) -> Iterator[None]:
    """Turn Ctrl-C into one line, and the exit code that shells expect."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        if traceback:
            raise
        said = f": {interruption}" if isinstance(interruption, Interrupted) else "."
        _say(f"Interrupted{said}", typer.colors.YELLOW)
        raise typer.Exit(_EXIT_INTERRUPTED) from interruption


_plain_showwarning = warnings.showwarning


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    # A line of our own source says nothing to someone at a terminal; other packages' warnings keep theirs.
    if issubclass(category, GMMatchWarning):
        _say(f"Warning: {_one_line(message)}", typer.colors.YELLOW)
    else:
        _plain_showwarning(message, category, *where, **more)


def _as_typed(line: str, options: Collection[str]) -> str:
    """Name options as they are typed: ``text_column='body'`` becomes ``--text-column 'body'``.

    Only where the command has that option: another's would be refused.

    Examples
    --------
    >>> _as_typed("id_column='a' and text_column='b'", ["--id-column"])
    "--id-column 'a' and text_column='b'"
    """

    def typed(match: re.Match[str]) -> str:
        names = (match[1], _OTHER_NAMES.get(match[1], match[1]))
        found = (option for name in names if (option := f"--{name.replace('_', '-')}") in options)
        return next((f"{option} " for option in found), match[0])

    return _ARGUMENT.sub(typed, _PATH.sub(r"\2", line))


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


def _say(line: str, color: str) -> None:
    typer.secho(visible(line), fg=color, err=True)
