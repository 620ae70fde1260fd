"""Texts of rows: from one column, from several by a template, or from the messages of a chat."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from itertools import filterfalse
from typing import Any

from gmmatch.data.source import BrokenRowError
from gmmatch.errors import InvalidInputError


def template_columns(template: str) -> tuple[str, ...]:
    """Return the columns that a template of texts names.

    Examples
    --------
    >>> template_columns("{instruction}\\n{output}")
    ('instruction', 'output')
    """
    return tuple(dict.fromkeys(column for _, column in _parse_template(template) if column is not None))


def _parse_template(template: str) -> list[tuple[str, str | None]]:
    """Return each column of a template with the text before it; the text after the last has no column."""
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError as error:
        raise InvalidInputError(
            f"text_column={template!r}: this is no template ({error}): write columns as {{title}}, braces as {{{{."
        ) from None
    for _, column, format_spec, conversion in fields:
        if column == "" or format_spec or conversion:
            raise InvalidInputError(
                f"text_column={template!r}: expected nothing but the name of a column in braces, such as {{title}}."
            )
    return [(literal, column) for literal, column, _, _ in fields]


def is_chat(value: Any) -> bool:
    """Tell whether a value is a list of messages, each with a role and a content.

    Examples
    --------
    >>> is_chat([{"role": "user", "content": "Hi"}]), is_chat(["Hi"]), is_chat([])
    (True, False, False)
    """
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(message, dict) and {"role", "content"} <= message.keys() for message in value)
    )


def plain_texts(
    columns: Mapping[str, Sequence[Any]],
    template: str,
    name: Callable[[int], str],
    broken: Mapping[int, str],
) -> list[Any]:
    """Return the texts of rows as strings, with a :class:`BrokenRowError` in place of each that cannot be used.

    Parameters
    ----------
    columns
        The values of each column.
    template
        A column, or a template of columns.
    name
        Turns a position into a name for an error.
    broken
        What is wrong with rows that cannot be read, by position: "cannot be read: it is not valid JSON".
    """
    values = next(iter(columns.values()))
    if template in columns and not broken and {str}.issuperset(map(type, values)):
        try:
            # JSON can hold halves of characters, which no encoder takes.
            "".join(filterfalse(str.isascii, values)).encode()
            return list(values)
        except UnicodeEncodeError:
            pass
    fields: list[tuple[str, str | None]] = (
        [("", template)] if template in columns else _parse_template(template)
    )
    numbers = template not in columns
    texts: list[Any] = []
    for i, row in enumerate(zip(*columns.values(), strict=True)):
        try:
            if i in broken:
                raise BrokenRowError(broken[i])
            cells = dict(zip(columns, row, strict=True))
            # A missing value leaves a gap in a template.
            if all(value is None for value in row):
                raise BrokenRowError(f"has no text in column {template!r}", missing=True)
            text = "".join(literal + _text_of(cells, column, numbers) for literal, column in fields)
            text.encode()
            texts.append(text)
        except (BrokenRowError, UnicodeEncodeError) as error:
            reason = "is not UTF-8 text" if isinstance(error, UnicodeEncodeError) else error
            missing = isinstance(error, BrokenRowError) and error.missing
            texts.append(BrokenRowError(f"{name(i)} {reason}.", missing=missing))
    return texts


def _text_of(cells: Mapping[str, Any], column: str | None, numbers: bool) -> str:
    value = None if column is None else cells[column]
    if value is None or isinstance(value, str):
        return value or ""
    if numbers and isinstance(value, (int, float)):
        return str(value)
    if is_chat(value):
        contents = [message["content"] for message in value]
        if all(content is None or isinstance(content, str) for content in contents):
            return "\n".join(f"{message['role']}: {message['content'] or ''}" for message in value)
    raise BrokenRowError(f"has {type(value).__name__} in column {column!r}, where a text is expected")
