"""Data inside a page: arrays as base64, and JSON that no text in it can break out of."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from markupsafe import Markup

_NAMES = {"float32": "Float32Array", "uint32": "Uint32Array", "uint16": "Uint16Array", "uint8": "Uint8Array"}
# In JSON these occur in texts only, where an escape means the same. With them gone, nothing can end the
# element that holds it, and JavaScript's two extra line ends cannot occur.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def packed(array: NDArray[Any]) -> dict[str, str]:
    """Return an array as the page's script reads it: JavaScript's name of the type, and the bytes.

    Examples
    --------
    >>> packed(np.array([1, 2], dtype=np.uint16))
    {'type': 'Uint16Array', 'data': 'AQACAA=='}
    """
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return {"type": _NAMES[array.dtype.name], "data": base64.b64encode(little.tobytes()).decode("ascii")}


def smallest_unsigned(values: Any) -> NDArray[Any]:
    """Return integers of at least 0 in the narrowest type that the page's script can read.

    Examples
    --------
    >>> smallest_unsigned([0, 300]).dtype
    dtype('uint16')
    """
    array = np.asarray(values, dtype=np.int64)
    largest = int(array.max(initial=0))
    wide = np.uint8 if largest < 1 << 8 else np.uint16 if largest < 1 << 16 else np.uint32
    return array.astype(wide)


def json_for_page(value: Any) -> Markup:
    """Return JSON that can stand inside a ``script`` element, whatever texts it holds.

    Examples
    --------
    >>> print(json_for_page({"name": "</script>&"}))
    {"name":"\\u003c/script\\u003e\\u0026"}
    """
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return Markup(text)
