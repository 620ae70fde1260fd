"""What can go wrong, and what is worth a warning.

Every exception is a :class:`GMMatchError` and also the builtin that a caller would expect, so both
``except GMMatchError`` and ``except ValueError`` work.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any


class GMMatchError(Exception):
    """Base class of all exceptions of gmmatch."""


class InvalidInputError(GMMatchError, ValueError):
    """An argument has a value that cannot be used; the message says what would be right."""


class NotFiniteError(InvalidInputError):
    """The rows hold NaN, infinity or a value too large to square."""


class InvalidTypeError(GMMatchError, TypeError):
    """An argument has a type that cannot be used; the message says which would be right."""


class UnknownMethodError(GMMatchError, ValueError):
    """The method is unknown; the message lists similar names."""


class MissingDependencyError(GMMatchError, ImportError):
    """An optional package is not installed; the message names the extra to install."""


class DataFileNotFoundError(GMMatchError, FileNotFoundError):
    """A file or folder that was asked for does not exist."""


def install_command(extra: str) -> str:
    """Return the command that installs an optional part, from where gmmatch itself was installed.

    Examples
    --------
    >>> install_command("vision").endswith('[vision]"')
    True
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        origin = json.loads(distribution("gmmatch").read_text("direct_url.json") or "{}").get("url", "")
    except PackageNotFoundError:
        origin = ""
    location = unquote(urlsplit(origin).path) if origin.startswith("file:") else origin
    return f'pip install "{location or "gmmatch"}[{extra}]"'


def imported(module: str, what: str, extra: str) -> Any:
    """Import a module of an optional package, or say what needs it and which extra brings it.

    Examples
    --------
    >>> imported("json", "Writing it needs a package", "report").dumps({})
    '{}'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingDependencyError(f"{what}, which is not installed: {install_command(extra)}.") from error


def first_line(error: object) -> str:
    """Return the first line of what an error says, without its full stop.

    Examples
    --------
    >>> first_line(ValueError("no such thing.\\nTry another."))
    'no such thing'
    """
    return next(iter(str(error).strip().splitlines()), "").strip().rstrip(".") or type(error).__name__


class GMMatchWarning(UserWarning):
    """Base class of all warnings of gmmatch."""


class FarRowWarning(GMMatchWarning):
    """A row is so far from the others that linear matching may pick it and miss the target."""


class ConvergenceWarning(GMMatchWarning):
    """An iteration stopped before it reached the accuracy that was asked for."""


class UnlabeledRowsWarning(GMMatchWarning):
    """Rows without a label were left out of a selection per class."""


class ApproximationWarning(GMMatchWarning):
    """An exact computation would not fit the memory limit and was replaced by an approximation."""


def unknown_name(
    argument: str,
    name: object,
    known: Iterable[str],
    explanation: str,
    error: type[GMMatchError] = InvalidInputError,
) -> GMMatchError:
    """Make the error for a name that does not exist, with the names that do and the nearest of them.

    Examples
    --------
    >>> print(unknown_name("text_column", "txt", ["text", "id"], "a.csv has no such column; it has"))
    text_column='txt': a.csv has no such column; it has 'text', 'id'. Did you mean 'text'?
    """
    names = list(known)
    return error(f"{argument}={name!r}: {explanation} {listed(names)}.{did_you_mean(name, names)}")


def listed(values: Iterable[object], at_most: int = 20) -> str:
    """Return values as a message lists them, the first few if there are many.

    Examples
    --------
    >>> listed(["a", "b", "c"], at_most=2)
    "'a', 'b' and 1 more"
    """
    names = [repr(value) for value in values]
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return (", ".join(names[:at_most]) or "none") + more


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a sentence with the known names that are spelled almost like this one, or nothing.

    Examples
    --------
    >>> did_you_mean("Eazy", ["easy", "hard"]), did_you_mean("xyz", ["easy", "hard"])
    (" Did you mean 'easy'?", '')
    """
    import difflib

    by_spelling = {other.lower(): other for other in known}
    near = difflib.get_close_matches(str(name).lower(), by_spelling, n=3)
    return f" Did you mean {' or '.join(repr(by_spelling[name]) for name in near)}?" if near else ""
