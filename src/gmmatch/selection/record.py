"""What a selection records of itself, as JSON can hold it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gmmatch.errors import InvalidTypeError

# Most values, of which there are several for each of many classes.
_PLAIN = (str, int, bool, type(None))


def json_copy(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """A deep copy made of what JSON can hold."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {
            str(key): item
            if type(item) in _PLAIN or (type(item) is float and math.isfinite(item))
            else json_copy(item, (*path, key))
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [json_copy(item, (*path, i)) for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    name = "".join(f"[{key!r}]" for key in path)
    raise InvalidTypeError(
        f"provenance{name} has type {type(value).__name__}, which JSON cannot hold: use numbers, text and lists."
    )
