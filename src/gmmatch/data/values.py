"""Single values out of tables: texts, labels and ids as plain Python objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.budget import Label, plain_label
from gmmatch.data.source import Id
from gmmatch.errors import InvalidInputError, InvalidTypeError


def plain_labels(values: Iterable[Any]) -> list[Label]:
    """Labels as plain Python scalars, None where there is none.

    Examples
    --------
    >>> plain_labels([np.int64(3), "cat", float("nan")])
    [3, 'cat', None]
    """
    return [plain_label(value) for value in values]


def plain_ids(values: Iterable[Any], column: str, name: Callable[[int], str]) -> list[Id]:
    """Ids as integers or strings; ``name`` turns a position into a name for the error.

    Examples
    --------
    >>> plain_ids([np.int64(3), "cat"], "id", lambda i: f"row {i}")
    [3, 'cat']
    """
    ids: list[Id] = []
    for i, value in enumerate(values):
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, bool) or not isinstance(plain, (int, str)):
            held = "nothing" if plain is None else type(plain).__name__
            raise InvalidTypeError(
                f"{name(i)} has {held} in id_column={column!r}: an id is an integer or a text."
            )
        ids.append(plain)
    return ids


def plain_texts(values: Iterable[Any], column: str, name: Callable[[int], str]) -> list[str]:
    """Texts as strings; a missing one is an empty text, as CSV files cannot tell the two apart.

    Examples
    --------
    >>> plain_texts(["a", None], "text", lambda i: f"row {i}")
    ['a', '']
    """
    texts = []
    for i, value in enumerate(values):
        if value is not None and not isinstance(value, str):
            raise InvalidTypeError(
                f"{name(i)} has {type(value).__name__} in column {column!r}, where a text is expected."
            )
        texts.append(value or "")
    return texts


def check_vectors(block: NDArray[Any], where: str) -> NDArray[Any]:
    """Return an array if it can be rows of numbers, or say why not.

    Examples
    --------
    >>> check_vectors(np.zeros(3), "a.npy")
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: a.npy has shape (3,): embeddings are two-dimensional, rows by features.
    """
    if block.ndim != 2:
        raise InvalidInputError(
            f"{where} has shape {block.shape}: embeddings are two-dimensional, rows by features."
        )
    if block.dtype.kind not in "fiub":
        raise InvalidInputError(f"{where} has dtype {block.dtype}: embeddings are floats or integers.")
    if block.shape[1] == 0:
        raise InvalidInputError(f"{where} has shape {block.shape}: embeddings need at least one feature.")
    return block
