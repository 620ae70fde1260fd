"""Single values out of tables: texts, labels and ids as plain Python objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gmmatch.data.source import Id
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.selection.labels import Label, plain_label


def plain_labels(values: Iterable[Any], column: str, name: Callable[[int], str]) -> list[Label]:
    """Labels as plain Python scalars, None where there is none; ``name`` is as in :func:`plain_ids`.

    Examples
    --------
    >>> plain_labels([np.int64(3), "cat", float("nan")], "label", lambda i: f"row {i}")
    [3, 'cat', None]
    """
    labels = []
    for i, value in enumerate(values):
        try:
            labels.append(plain_label(value))
        except InvalidTypeError:
            raise InvalidTypeError(
                f"{name(i)} has {type(value).__name__} in column {column!r}: a label is a number or a text."
            ) from None
    return labels


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
                f"{name(i)} has {held} in column {column!r}: an id is an integer or a text."
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


def check_shape(shape: tuple[int, ...], where: str) -> None:
    """Raise unless this is the shape of rows of numbers.

    Examples
    --------
    >>> check_shape((3,), "a.npy")
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: a.npy has shape (3,): embeddings are two-dimensional, rows by features.
    """
    if len(shape) != 2:
        raise InvalidInputError(
            f"{where} has shape {shape}: embeddings are two-dimensional, rows by features."
        )
    if shape[1] == 0:
        raise InvalidInputError(f"{where} has shape {shape}: embeddings need at least one feature.")


def check_dtype(dtype: np.dtype[Any], where: str) -> None:
    """Raise unless this is a type of real numbers.

    Examples
    --------
    >>> check_dtype(np.dtype("U3"), "a.npy")
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: a.npy has dtype <U3: embeddings are floats or integers.
    """
    if dtype.kind not in "fiub":
        raise InvalidInputError(f"{where} has dtype {dtype}: embeddings are floats or integers.")
