"""What an encoder is: something that turns raw rows into vectors, in two steps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.source import Kind
from gmmatch.errors import GMMatchWarning, InvalidTypeError

Vectors: TypeAlias = NDArray[np.floating[Any]]
"""One row of float16 or float32 numbers per item."""

Items: TypeAlias = "Sequence[Any] | NDArray[Any]"
"""Rows of a source, or what an encoder made of them: a list or an array, one entry per row."""

OnError: TypeAlias = Literal["raise", "skip"]
"""What to do about a row that cannot be encoded."""


class SmallerBatchWarning(GMMatchWarning):
    """Memory ran out; encoding continues with smaller batches."""


@runtime_checkable
class Encoder(Protocol):
    """Turns rows of one kind into vectors. Anything with these members can embed a source.

    The work is cut in two. :meth:`prepare` is what a CPU does for each item on its own (decode, resize):
    it runs in several threads at once while the model is busy. :meth:`encode` is the model: it runs in
    one thread, and may be called with a part of what ``prepare`` returned when memory runs out.

    An encoder may have one member more: ``fit`` takes an iterator over the rows of a source, before any is encoded.
    """

    @property
    def name(self) -> str:
        """What to call it in files and messages."""

    @property
    def fingerprint(self) -> str:
        """A SHA-256 of everything that decides the vectors: weights, preprocessing, options."""

    @property
    def kind(self) -> Kind:
        """What rows it takes: ``"image"``, ``"text"`` or ``"embedding"``."""

    @property
    def n_features(self) -> int | None:
        """How long a vector is; None if that shows only when rows are encoded."""

    @property
    def batch_size(self) -> int:
        """How many rows to encode at a time, if nobody says otherwise."""

    def prepare(self, items: Items) -> Items:
        """Make items ready for the model: a sequence as long as ``items`` that can be cut anywhere."""

    def encode(self, batch: Any) -> Vectors:
        """Encode what :meth:`prepare` returned; the result has one row per item."""

    def describe(self) -> dict[str, Any]:
        """Say what the encoder is and how it was set up, in what JSON can hold."""


def sha256_of(settings: object, arrays: Iterable[tuple[str, NDArray[Any]]] = ()) -> str:
    """Return a SHA-256 of settings that JSON can hold and of named arrays."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for name, array in arrays:
        digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def as_floats(rows: NDArray[Any]) -> Vectors:
    """Return numbers as float16 or float32: those two as they are, anything else as float32."""
    return rows if rows.dtype in (np.float16, np.float32) else rows.astype(np.float32)


def check_texts(items: Items, encoder: str) -> list[str]:
    """Return the items, which must be texts."""
    for item in items:
        if not isinstance(item, str):
            raise InvalidTypeError(f"encoder={encoder!r} takes texts, not a {type(item).__name__}.")
    return list(items)


class Described:
    """An encoder that says what it is, and how it was set up, by its attributes."""

    settings: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Say what the encoder is and how it was set up."""
        return {name: getattr(self, name) for name in ("name", "kind", "fingerprint", *self.settings)}
