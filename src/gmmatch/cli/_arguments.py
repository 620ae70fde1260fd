"""Arguments that several commands share, and how their texts are read."""

from __future__ import annotations

import ast
import re
from enum import Enum
from typing import Annotated, Any, TypeAlias

import typer

from gmmatch.errors import InvalidInputError

_UNITS = {
    "": 1, "b": 1,
    "k": 10**3, "kb": 10**3, "kib": 1 << 10,
    "m": 10**6, "mb": 10**6, "mib": 1 << 20,
    "g": 10**9, "gb": 10**9, "gib": 1 << 30,
    "t": 10**12, "tb": 10**12, "tib": 1 << 40,
}  # fmt: skip


EmbeddingColumnOption: TypeAlias = Annotated[str | None, typer.Option(help="The column of vectors.")]


class PerClassChoice(str, Enum):
    """How k is shared among the classes."""

    proportional = "proportional"
    balanced = "balanced"
    none = "none"

    @property
    def argument(self) -> Any:
        """What ``select`` calls it."""
        return None if self is PerClassChoice.none else self.value


def parse_memory(text: str | None) -> int | None:
    """Return an amount of memory in bytes.

    Examples
    --------
    >>> parse_memory("1.5GB"), parse_memory("64 MiB"), parse_memory(None)
    (1500000000, 67108864, None)
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].lower() not in _UNITS:
        raise InvalidInputError(f"--memory {text}: give an amount such as 2GB, 500MB or 1.5GiB.")
    amount = int(float(match[1]) * _UNITS[match[2].lower()])
    if amount < 1:
        raise InvalidInputError(f"--memory {text}: give an amount above 0, such as 2GB.")
    return amount


def parse_settings(texts: list[str] | None) -> dict[str, Any]:
    """Return parameters that were given as ``name=value``; a value is a Python literal, or else text.

    Examples
    --------
    >>> parse_settings(["normalize=True", "eps=1e-6", "center=geometric-median", "batches = 4"])
    {'normalize': True, 'eps': 1e-06, 'center': 'geometric-median', 'batches': 4}
    """
    found: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name.isidentifier():
            raise InvalidInputError(f"--set {text}: write name=value, such as --set normalize=True.")
        if name in found:
            raise InvalidInputError(f"--set {name} was given twice: give it once.")
        try:
            found[name] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            found[name] = value.strip()
    return found


def split_names(text: str, option: str) -> list[str]:
    """Return names that were given with commas between them.

    Examples
    --------
    >>> split_names("random, easy", "--methods")
    ['random', 'easy']
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InvalidInputError(f"{option} {text!r}: give names with commas between them.")
    return names
