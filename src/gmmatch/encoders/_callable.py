"""A user's function as an encoder."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gmmatch._array import to_numpy
from gmmatch.data.images import load_image
from gmmatch.data.source import Kind
from gmmatch.encoders.base import Described, Items, Vectors, as_floats, sha256_of
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError, first_line

FILE_MODULE = "_gmmatch_encoder_"
"""How the names of modules begin that were read from a file, and that no other process can import."""


class CallableEncoder(Described):
    """Encode with any function from a list of items to an array with one row per item.

    Items are RGB PIL images, strings or the rows of an array, as ``kind`` says. The function is called
    from one thread, a batch at a time; images are decoded before, in parallel.

    Parameters
    ----------
    function
        Takes a list (or, for vectors, an array) of n items; returns an array or tensor of shape (n, s).
        Attributes it may have: ``fingerprint`` (a text that changes when its results do), ``batch_size``.
    kind
        What items it takes.
    name
        What to call it.

    Notes
    -----
    The fingerprint is made of the function's own ``fingerprint`` if it has one, else of the source code
    of the function or class and its name: what it calls, or the weights it loads, are not looked at.

    Examples
    --------
    >>> def lengths(texts):
    ...     return np.array([[len(text)] for text in texts])
    >>> encoder = CallableEncoder(lengths, "text")
    >>> encoder.encode(encoder.prepare(["a", "abc"]))
    array([[1.],
           [3.]], dtype=float32)
    """

    def __init__(self, function: Callable[[Any], Any], kind: Kind = "image", name: str | None = None) -> None:
        if not callable(function):
            raise InvalidTypeError(f"encoder has type {type(function).__name__}: give a name or a function.")
        self.function = function
        self.kind: Kind = kind
        named = _named(function)
        self.name = name or f"{named.__module__}:{named.__qualname__}"
        self.fingerprint = sha256_of({"encoder": "callable", "kind": kind, "function": _identity(function)})
        self.n_features: int | None = None
        self.batch_size = int(getattr(function, "batch_size", 64))

    def prepare(self, items: Items) -> Items:
        """Decode images; pass anything else on."""
        if self.kind == "image":
            return [load_image(item) for item in items]
        return items if isinstance(items, np.ndarray) else list(items)

    def encode(self, batch: Items) -> Vectors:
        """Call the function and check what it returned."""
        result = self.function(batch)
        vectors = to_numpy(result)
        if vectors.ndim != 2 or len(vectors) != len(batch) or vectors.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"encoder={self.name!r} returned an array of shape {vectors.shape} and type {vectors.dtype} for "
                f"{len(batch)} items: it must return numbers of shape ({len(batch)}, features)."
            )
        self.n_features = vectors.shape[1]
        return as_floats(vectors)


def import_callable(spec: str) -> Callable[[Any], Any]:
    """Import ``module:function`` or ``path/to/file.py:function``."""
    module_name, _, attribute = spec.rpartition(":")
    module = _import_module(module_name, spec)
    try:
        function: Callable[[Any], Any] = attrgetter(attribute)(module)
    except AttributeError:
        raise InvalidInputError(f"encoder={spec!r}: {module_name} has no function {attribute!r}.") from None
    if not callable(function):
        raise InvalidTypeError(f"encoder={spec!r} is a {type(function).__name__}, not a function.")
    return function


def _import_module(name: str, spec: str) -> ModuleType:
    path, folder = Path(name), str(Path.cwd())
    if path.suffix == ".py" and not path.is_file():
        raise DataFileNotFoundError(f"encoder={spec!r}: there is no file {path}.")
    sys.path.insert(0, folder)  # the `gmmatch` command does not look there by itself
    try:
        return _import_file(path) if path.suffix == ".py" else importlib.import_module(name)
    except Exception as error:  # whatever the user's own code raises
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        reason = f" cannot be imported: {first_line(error)}."
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            known = "module:function, path/to/file.py:function, a folder, or the name of a model"
            reason = f": there is no module {missing!r}; write {known}."
        raise InvalidInputError(f"encoder={spec!r}{reason}") from error
    finally:
        sys.path.remove(folder)


def _import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{FILE_MODULE}{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look a class's module up there
    spec.loader.exec_module(module)
    return module


def _named(function: Any) -> Any:
    return function if hasattr(function, "__qualname__") else type(function)


def _identity(function: Any) -> dict[str, str]:
    fingerprint = getattr(function, "fingerprint", None)
    if fingerprint is not None:
        return {"fingerprint": str(fingerprint() if callable(fingerprint) else fingerprint)}
    named, source = _named(function), ""
    with suppress(OSError, TypeError):
        source = inspect.getsource(named)
    return {"name": named.__qualname__, "source": source}
