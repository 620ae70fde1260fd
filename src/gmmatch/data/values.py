"""Values of columns: what their types could serve as, and what they become: labels, ids, texts, pictures, vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.columns import Columns, ColumnType, parse_template
from gmmatch.data.source import BrokenRowError, Id, ImageBytes
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.groups import Label, plain_label


def plain_values(values: Any) -> list[Any]:
    """Return the entries of a list, an array, a tensor or an Arrow column as Python values."""
    convert = getattr(values, "to_pylist", getattr(values, "tolist", None))
    return list(values if convert is None else convert())


def plain_labels(values: Iterable[Any], column: str, name: Callable[[int], str]) -> list[Label]:
    """Return labels as plain Python scalars, None where there is none; ``name`` is as in :func:`plain_ids`."""
    return _plain(values, plain_label, column, name, "a label is a number or a text")


def plain_ids(values: Iterable[Any], column: str, name: Callable[[int], str]) -> list[Id]:
    """Return ids as integers or strings; ``name`` turns a position into a name for the error."""
    return _plain(values, _plain_id, column, name, "an id is an integer or a text")


def _plain_id(value: Any) -> Id:
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool) or not isinstance(plain, (int, str)):
        raise InvalidTypeError
    return plain


def _plain(
    values: Iterable[Any],
    convert: Callable[[Any], Any],
    column: str,
    name: Callable[[int], str],
    expected: str,
) -> list[Any]:
    plain: list[Any] = []
    for i, value in enumerate(values):
        try:
            plain.append(value if type(value) in (int, str) else convert(value))
        except InvalidTypeError:
            content = "nothing" if value is None else type(value).__name__
            raise InvalidTypeError(f"{name(i)} has {content} in column {column!r}: {expected}.") from None
    return plain


def as_texts(
    columns: Sequence[Sequence[Any]], chosen: Columns, name: Callable[[int], str], broken: Mapping[int, str]
) -> list[Any]:
    """Return the texts of rows as strings, with a :class:`BrokenRowError` in place of each that cannot be used.

    Parameters
    ----------
    columns
        The values of each column of the template.
    chosen
        The choice of columns, of which ``data`` is a column or a template.
    name
        Turns a position into a name for an error.
    broken
        What is wrong with rows that cannot be read, by position: "cannot be read: it is not valid JSON".
    """
    is_template = chosen.data not in chosen.members
    fields = parse_template(chosen.data) if is_template else [("", chosen.data)]
    texts: list[Any] = []
    for i, row in enumerate(zip(*columns, strict=True)):
        try:
            if i in broken:
                raise BrokenRowError(broken[i])
            # A missing value, or a chat without messages, leaves a gap in a template.
            if row[0] in (None, []) and all(value in (None, []) for value in row):
                raise BrokenRowError(f"has no text in column {chosen.data!r}", missing=True)
            text = "".join(
                literal
                if column is None
                else literal + _text_of(row[chosen.members.index(column)], column, is_template)
                for literal, column in fields
            )
            text.encode()  # JSON can hold halves of characters, which no encoder takes
            texts.append(text)
        except BrokenRowError as error:
            texts.append(BrokenRowError(f"{name(i)} {error}.", missing=error.missing))
        except UnicodeEncodeError:
            texts.append(BrokenRowError(f"{name(i)} is not UTF-8 text."))
    return texts


def _text_of(value: Any, column: str, is_template: bool) -> str:
    if isinstance(value, str):
        return value
    if value in (None, []):
        return ""
    if is_template and isinstance(value, (int, float)):
        return str(value)
    if is_chat(value) and all(isinstance(message["content"], (str, type(None))) for message in value):
        return "\n".join(f"{message['role']}: {message['content'] or ''}" for message in value)
    raise BrokenRowError(f"has {type(value).__name__} in column {column!r}, where a text is expected")


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


def as_vectors(
    column: Any, label: str, name: Callable[[int], str], n_features: int | None = None
) -> NDArray[Any]:
    """Return lists of numbers, all of one length, as the rows of a matrix."""
    if isinstance(column, np.ndarray):
        return column
    import pyarrow.compute as pc

    if isinstance(column, list):
        column = _arrow_lists(column, label, name)
    lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    n_features = n_features or max(1, int(lengths[0]))
    for row in np.flatnonzero(lengths != n_features)[:1].tolist():
        what, remedy = f"an embedding of {lengths[row]} numbers", f", where {n_features} are expected"
        if lengths[row] < 0:
            what, remedy = "no embedding", ": drop the row or fill it in"
        raise InvalidInputError(f"{name(row)} has {what} in column {label!r}{remedy}.")
    values = column.flatten()
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // n_features
        raise InvalidInputError(f"{name(row)} has a missing number in column {label!r}: fill it in.")
    flat: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), n_features)


def _arrow_lists(values: list[Any], column: str, name: Callable[[int], str]) -> Any:
    """Return lists of numbers, as JSON has them, as an Arrow array."""
    import pyarrow as pa

    kind, refusals = pa.list_(pa.float64()), (pa.ArrowException, TypeError, OverflowError)
    try:
        return pa.array(values, kind)
    except refusals:
        for i, value in enumerate(values):
            try:
                pa.array([value], kind)
            except refusals:
                raise InvalidInputError(f"{name(i)} has no list of numbers in column {column!r}.") from None
        raise


def as_matrix(columns: Mapping[str, Any], name: Callable[[int], str]) -> NDArray[Any]:
    """Return columns of numbers as a matrix, of float32 where that holds them; texts are read as numbers."""
    parts = []
    for column, values in columns.items():
        if hasattr(values, "to_numpy") and not values.null_count:
            parts.append(values.to_numpy(zero_copy_only=False))
            continue
        cells = plain_values(values)
        for row, cell in enumerate(cells):
            if not is_number(cell):
                content = f"{str(cell)[:40]!r}, which is no number," if cell else "no number"
                raise InvalidInputError(f"{name(row)} has {content} in column {column!r}: drop the row.")
        parts.append(np.array(cells).astype(np.float64))
    dtype = np.result_type(np.float32, *(values.dtype for values in parts))
    return np.stack(parts, axis=1).astype(dtype, copy=False)


def is_number(value: Any) -> bool:
    """Tell whether a value, or the text of a cell, is a number.

    Examples
    --------
    >>> is_number("1e-3"), is_number("one"), is_number(None)
    (True, False, False)
    """
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def image_of(value: Any, name: str, folder: Path | None) -> ImageBytes | Path:
    """Return an image as it is stored: a path, bytes, or a struct of both, whose path may be relative to a folder."""
    if isinstance(value, Path):
        return value
    if isinstance(value, dict):
        path = str(value.get("path") or "")
        name = f"{name} ({path})" if path else name
        value = value.get("bytes")
        if value is None and path:
            return Path(path) if folder is None else folder / path  # an absolute path stays as it is
    return ImageBytes(value or b"", name)


def column_types(schema: Any, where: str) -> dict[str, ColumnType]:
    """Tell what each column of an Arrow schema could serve as."""
    check_names(schema.names, where)
    return {field.name: _column_type(field.type) for field in schema}


def check_names(names: Sequence[str], where: object) -> None:
    """Raise if two columns have the same name."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"{where} has two columns named {twice!r}: rename one.")


def _column_type(kind: Any) -> ColumnType:
    import pyarrow.types as pt

    if pt.is_dictionary(kind):
        return _column_type(kind.value_type)
    if pt.is_struct(kind):
        return "image" if kind.get_field_index("bytes") >= 0 else "other"
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        entry = kind.value_type
        if pt.is_struct(entry) and {"role", "content"} <= {field.name for field in entry}:
            return "text"
        return "embedding" if pt.is_floating(entry) or pt.is_integer(entry) else "other"
    uses: dict[ColumnType, tuple[Callable[[Any], bool], ...]] = {
        "text": (pt.is_string, pt.is_large_string),
        "number": (pt.is_integer, pt.is_boolean),
        "float": (pt.is_floating,),
        "image": (pt.is_binary, pt.is_large_binary),
    }
    return next((use for use, tests in uses.items() if any(test(kind) for test in tests)), "other")
