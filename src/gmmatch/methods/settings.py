"""Settings as text: ``target.eps=1e-6`` for ``target=GeometricMedian(eps=1e-6)``."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any

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
_WORDS = {"true": True, "false": False, "none": None}


@dataclass
class _Setting:
    """What was given for a parameter: a value, settings of the object that it is, or both."""

    name: str
    text: str = ""
    value: str | None = None
    children: dict[str, _Setting] = field(default_factory=dict)


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
    tree: dict[str, _Setting] = {}
    for text in texts:
        _add(tree, text)
    known = {name: value for name, value in _parameters(method_class).items() if name not in exclude}
    values = {}
    for name, setting in tree.items():
        _check_known(setting, name, known, "the method")
        values[name] = _build(setting, name, known[name])
    return values


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
            settings |= _flatten(_current_values(value), f"{prefix}{name}.")
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


def _add(tree: dict[str, _Setting], text: str) -> None:
    """Add a setting to those that were given before."""
    path, equals, value = text.partition("=")
    names = [name.strip().replace("-", "_") for name in path.split(".")]
    if not equals or not all(name.isidentifier() for name in names):
        raise InvalidInputError(f"{text}: write name=value, such as target.eps=1e-6.")
    level, setting = tree, _Setting("")
    for depth, name in enumerate(names):
        setting = level.setdefault(name, _Setting(".".join(names[: depth + 1])))
        setting.text = setting.text or text
        level = setting.children
    if setting.value is not None:
        raise InvalidInputError(f"{setting.name} was given twice: give it once.")
    setting.text, setting.value = text, value.strip()


def _parameters(cls: type[Any]) -> dict[str, Any]:
    """Return the parameters of a constructor with their defaults."""
    signature = inspect.signature(cls).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in signature
        if parameter.kind != parameter.VAR_KEYWORD
    }


def _current_values(option: Any) -> dict[str, Any]:
    return {name: getattr(option, name) for name in _parameters(type(option))}


def _check_known(setting: _Setting, name: str, known: Iterable[str], owner: str) -> None:
    names = list(known)
    if name not in names:
        listed = ", ".join(names) or "no settings"
        raise InvalidInputError(
            f"{setting.text}: {owner} has no {name}; it has {listed}.{did_you_mean(name, names)}"
        )


def _build(setting: _Setting, name: str, default: Any) -> Any:
    """Return the value of a parameter."""
    value = default
    if setting.value is not None:
        value = _parse_value(setting.value)
        value = _choose(setting, name, value) if name in _CHOICES else _match_type(setting, value, default)
    if isinstance(value, type) or setting.children:
        return _make_option(setting, name, value)
    return value


def _make_option(setting: _Setting, name: str, value: Any) -> Any:
    """Return an option object: of a class, or another one with some parameters changed."""
    choices = _CHOICES.get(name, ())
    if value is None and setting.value is None and len(choices) == 1:
        value = choices[0]
    cls = value if isinstance(value, type) else type(value)
    if not is_dataclass(cls):
        names = " or ".join(f"{setting.name}={option_name(choice)}" for choice in choices)
        raise InvalidInputError(
            f"{setting.text}: {f'say of which object, as {names}' if names else f'{setting.name} has no settings'}."
        )
    known = _parameters(cls)
    arguments = {} if isinstance(value, type) else _current_values(value)
    for key, child in setting.children.items():
        _check_known(child, key, known, option_name(cls))
        arguments[key] = _build(child, key, arguments.get(key, known[key]))
    missing = [
        key for key, default in known.items() if default is inspect.Parameter.empty and key not in arguments
    ]
    if missing:
        raise InvalidInputError(f"{setting.text}: also give {setting.name}.{missing[0]}=...")
    try:
        return cls(**arguments)
    except (TypeError, ValueError) as error:
        given = ", ".join(child.text for child in setting.children.values()) or setting.text
        reason = re.sub(r"^\w+=[^:]*: ", "", first_line(error))  # what was given is there already
        raise InvalidInputError(f"{given}: {reason}.") from None


def _parse_value(text: str) -> Any:
    """Return a number, a truth value, None, a list, or the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _choose(setting: _Setting, name: str, value: Any) -> Any:
    """Return the class of the option object with this name, or a value that stands for one."""
    by_name = {option_name(cls): cls for cls in _CHOICES[name]}
    if isinstance(value, str) and value.lower().replace("_", "-") in by_name:
        return by_name[value.lower().replace("_", "-")]
    if value is None and name not in _NEVER_NONE:
        return None
    if isinstance(value, bool) and len(by_name) == 1:
        return _CHOICES[name][0] if value else None
    if name == "batches" and isinstance(value, int) and not isinstance(value, bool):
        return value
    names = [
        *by_name,
        *(["a number"] if name == "batches" else []),
        *([] if name in _NEVER_NONE else ["none"]),
    ]
    raise InvalidInputError(f"{setting.text}: expected {' or '.join(names)}.{did_you_mean(value, by_name)}")


def _match_type(setting: _Setting, value: Any, default: Any) -> Any:
    """Return a value of the type of the default, where that is a number or a truth value."""
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise InvalidInputError(f"{setting.text}: expected true or false.")
    elif isinstance(default, (int, float)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidInputError(f"{setting.text}: expected a number, such as {default}.")
        if isinstance(default, int) and not float(value).is_integer():
            raise InvalidInputError(f"{setting.text}: expected a whole number, such as {default}.")
        value = type(default)(value)
    return value
