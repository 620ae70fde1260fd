"""Settings as text: ``target.eps=1e-6`` for ``target=GeometricMedian(eps=1e-6)``."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any, TypeAlias

from gmmatch.batches import Carried, Independent
from gmmatch.errors import InvalidInputError, did_you_mean, first_line
from gmmatch.kernels import RBF, Laplacian, Nystroem, Polynomial, RandomFeatures
from gmmatch.screening.screening import Screening
from gmmatch.targets import CoordinateMedian, GeometricMedian, Mean

# The option objects that a parameter of this name takes, in methods and in option objects alike.
_CHOICES: dict[str, tuple[type[Any], ...]] = {
    "target": (Mean, GeometricMedian, CoordinateMedian),
    "center": (Mean, GeometricMedian, CoordinateMedian),
    "kernel": (RBF, Laplacian, Polynomial, RandomFeatures, Nystroem),
    "batches": (Carried, Independent),
    "screening": (Screening,),
}
_NEVER_NONE = ("target", "center")
_WORDS = {"true": "True", "false": "False", "none": "None"}

_Given: TypeAlias = "dict[tuple[str, ...], tuple[str, str]]"
"""Settings by the names of their path, each as it was given and its value."""


def parse_settings(
    method_class: type[Any], texts: Iterable[str], *, exclude: Collection[str] = ()
) -> dict[str, Any]:
    """Return arguments of the constructor of a method from texts such as ``target.eps=1e-6``.

    A value is a number, ``true``, ``false``, ``none``, a text, or the name of an option object: ``mean``,
    ``geometric-median``, ``coordinate-median``, ``rbf``, ``laplacian``, ``polynomial``, ``random-features``,
    ``nystroem``, ``carried``, ``independent``, ``screening``. A dot leads to a parameter of an option object: of the
    one that was given, else of the default one of the method.

    Parameters
    ----------
    method_class : type
        A method, such as ``gmmatch.GMMatching``.
    texts : iterable of str
        Each ``name=value``.
    exclude : collection of str
        Parameters that cannot be set this way.

    Raises
    ------
    InvalidInputError
        For a name that the method does not have, a name that was given twice, or a value that it cannot take.

    Examples
    --------
    >>> from gmmatch import GMMatching
    >>> parse_settings(GMMatching, ["target.eps=1e-6", "batches=8"])
    {'target': GeometricMedian(eps=1e-06, max_iter=1000, delta=0.0, fraction=1.0, unit=False), 'batches': 8}
    >>> parse_settings(GMMatching, ["kernel=random-features", "kernel.kernel=laplacian"])["kernel"].kernel
    Laplacian(bandwidth='median')
    """
    given: _Given = {}
    for text in texts:
        name, equals, value = text.partition("=")
        path = tuple(word.strip().replace("-", "_") for word in name.split("."))
        if not equals or not all(map(str.isidentifier, path)):
            raise InvalidInputError(f"{text}: write name=value, such as target.eps=1e-6.")
        if path in given:
            raise InvalidInputError(f"{'.'.join(path)} was given twice: give it once.")
        given[path] = (text, value.strip())
    known = {name: value for name, value in _parameters(method_class).items() if name not in exclude}
    return _read_settings(given, known, "the method")


def describe_settings(method_class: type[Any]) -> dict[str, Any]:
    """Return the settings of a method by name, with those of its option objects, and their defaults.

    Examples
    --------
    >>> from gmmatch import Herding
    >>> {name: value for name, value in describe_settings(Herding).items() if "target" in name}
    {'target': 'mean', 'target.unit': False}
    """
    return _flatten(_parameters(method_class))


def _flatten(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name, value in parameters.items():
        if is_dataclass(value):
            settings[prefix + name] = option_name(type(value))
            settings |= _flatten(_parameters(value), f"{prefix}{name}.")
        else:
            settings[prefix + name] = None if value is inspect.Parameter.empty else value
    return settings


def option_name(cls: type[Any]) -> str:
    """Return what an option object is called in a setting.

    Examples
    --------
    >>> option_name(GeometricMedian), option_name(RBF)
    ('geometric-median', 'rbf')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()


def _parameters(option: Any) -> dict[str, Any]:
    """Return the parameters of a class with their defaults, or those of an object with their values."""
    is_class = isinstance(option, type)
    parameters = inspect.signature(option if is_class else type(option)).parameters.values()
    return {
        parameter.name: parameter.default if is_class else getattr(option, parameter.name)
        for parameter in parameters
        if parameter.kind != parameter.VAR_KEYWORD
    }


def _read_settings(given: _Given, known: Mapping[str, Any], owner: str, prefix: str = "") -> dict[str, Any]:
    """Return the parameters that were given; ``prefix`` is the path to their owner."""
    values = {}
    for name in dict.fromkeys(path[0] for path in given):
        below = {path[1:]: entry for path, entry in given.items() if path[0] == name}
        text = next(iter(below.values()))[0]
        if name not in known:
            listed = ", ".join(known) or "no settings"
            raise InvalidInputError(
                f"{text}: {owner} has no {name}, but {listed}.{did_you_mean(name, known)}"
            )
        value, choices = known[name], _CHOICES.get(name, ())
        if () in below:
            text, written = below.pop(())
            value = _parse_value(written)
            value = _choose(text, name, value) if choices else _match_type(text, value, known[name])
        elif value is None and len(choices) == 1:
            value = choices[0]
        is_option = isinstance(value, type) or below
        values[name] = _make_option(text, prefix + name, value, below) if is_option else value
    return values


def _make_option(text: str, name: str, value: Any, below: _Given) -> Any:
    """Return an option object: of a class, or another one with some parameters changed."""
    cls = value if isinstance(value, type) else type(value)
    if not is_dataclass(cls):
        choices = _CHOICES.get(name.rpartition(".")[2], ())
        names = " or ".join(f"{name}={option_name(choice)}" for choice in choices)
        raise InvalidInputError(
            f"{text}: {f'of which, as {names}?' if names else f'{name} has no settings'}."
        )
    known = _parameters(value)
    arguments = {**known, **_read_settings(below, known, option_name(cls), f"{name}.")}
    missing = [key for key, argument in arguments.items() if argument is inspect.Parameter.empty]
    if missing:
        raise InvalidInputError(f"{text}: also give {name}.{missing[0]}=...")
    try:
        return cls(**arguments)
    except (TypeError, ValueError) as error:
        written = ", ".join(entry[0] for entry in below.values()) or text
        reason = re.sub(r"^\w+=[^:]*: ", "", first_line(error))  # what was given is there already
        raise InvalidInputError(f"{written}: {reason}.") from None


def _parse_value(text: str) -> Any:
    """Return a number, a truth value, None, a list, or the text itself."""
    try:
        return ast.literal_eval(_WORDS.get(text.lower(), text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _choose(text: str, name: str, value: Any) -> Any:
    """Return the class of the option object with this name, or a value that stands for one."""
    by_name = {option_name(cls): cls for cls in _CHOICES[name]}
    key = str(value).lower().replace("_", "-")
    if key in by_name:
        return by_name[key]
    if value is None and name not in _NEVER_NONE:
        return None
    if isinstance(value, bool) and len(by_name) == 1:
        return _CHOICES[name][0] if value else None
    if name == "batches" and type(value) is int:
        return value
    others = ["a number"] * (name == "batches") + ["none"] * (name not in _NEVER_NONE)
    expected = " or ".join([*by_name, *others])
    raise InvalidInputError(f"{text}: expected {expected}.{did_you_mean(value, by_name)}")


def _match_type(text: str, value: Any, default: Any) -> Any:
    """Return a value of the type of the default, where that is a number or a truth value."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise InvalidInputError(f"{text}: expected true or false.")
    elif isinstance(default, (int, float)):
        if not is_number:
            raise InvalidInputError(f"{text}: expected a number, such as {default}.")
        if isinstance(default, int) and not float(value).is_integer():
            raise InvalidInputError(f"{text}: expected a whole number, such as {default}.")
        return type(default)(value)
    return value
