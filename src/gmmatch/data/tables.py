"""Arrow tables, which Parquet files and Hugging Face datasets are made of, as batches of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.columns import Columns, ColumnType
from gmmatch.data.images import ImageBytes
from gmmatch.data.source import Batch, Id
from gmmatch.data.values import plain_ids, plain_labels, plain_texts
from gmmatch.errors import InvalidInputError


class TableReader:
    """Turns tables with the chosen columns into batches.

    Parameters
    ----------
    columns
        The choice of columns.
    location
        What to call the source in messages.

    Examples
    --------
    >>> import pyarrow as pa
    >>> reader = TableReader(Columns("text", "text", None, None, ""), "a.parquet")
    >>> reader.batch(pa.table({"text": ["a", None]}), 7).rows
    ['a', '']
    """

    def __init__(self, columns: Columns, location: str) -> None:
        self.columns = columns
        self.location = location
        self._n_features: int | None = None

    def row_name(self, row: int) -> str:
        """Return what to call a row in messages."""
        return f"row {row} of {self.location}"

    def batch(self, table: Any, first: int, folder: Path | None = None) -> Batch:
        """Return the rows of a table or record batch.

        Parameters
        ----------
        table
            Has the chosen columns.
        first
            The number of its first row.
        folder
            What the paths of images without bytes are relative to.
        """
        columns = self.columns

        def name(i: int) -> str:
            return self.row_name(first + i)

        data = _combined(table.column(columns.data))
        rows: Any
        if columns.kind == "image":
            rows = [_image(value, name(i), folder) for i, value in enumerate(data.to_pylist())]
        elif columns.kind == "text":
            rows = plain_texts(data.to_pylist(), columns.data, name)
        else:
            rows = self._vectors(data, first)
        ids: list[Id] = list(range(first, first + table.num_rows))
        if columns.id is not None:
            ids = plain_ids(table.column(columns.id).to_pylist(), columns.id, name)
        labels = None
        if columns.label is not None:
            labels = plain_labels(table.column(columns.label).to_pylist(), columns.label, name)
        return Batch(rows, ids, labels, first)

    def _vectors(self, column: Any, first: int) -> NDArray[Any]:
        import pyarrow.compute as pc

        lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        if self._n_features is None:
            self._n_features = max(1, int(lengths[0]))
        wrong = np.flatnonzero(lengths != self._n_features)
        if len(wrong):
            name, length = self.row_name(first + int(wrong[0])), int(lengths[wrong[0]])
            if length < 0:
                raise InvalidInputError(
                    f"{name} has no embedding in column {self.columns.data!r}: drop the row or fill it in."
                )
            raise InvalidInputError(
                f"{name} has an embedding of {length} numbers in column {self.columns.data!r}, "
                f"where {self._n_features} are expected."
            )
        values = column.flatten()
        if values.null_count:
            row = first + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // self._n_features
            raise InvalidInputError(
                f"{self.row_name(row)} has a missing number in column {self.columns.data!r}: fill it in."
            )
        flat: NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return flat.reshape(len(column), self._n_features)


def _combined(column: Any) -> Any:
    """A column as one array; tables have theirs in chunks, record batches do not."""
    if not hasattr(column, "chunks"):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _image(value: Any, name: str, folder: Path | None) -> ImageBytes | Path:
    if isinstance(value, dict):
        path = str(value.get("path") or "")
        name = f"{name} ({path})" if path else name
        value = value.get("bytes")
        if value is None and "://" in path:
            return ImageBytes(_download(path, name), name)
        if value is None and path:
            return Path(path) if folder is None else folder / path  # an absolute path stays as it is
    return ImageBytes(value or b"", name)


def _download(url: str, name: str) -> bytes:
    # It comes with `datasets`, which is where such addresses come from.
    import fsspec  # type: ignore[import-untyped]

    try:
        with fsspec.open(url, "rb") as file:
            return bytes(file.read())
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{name} cannot be fetched: {error}") from None


def column_types(schema: Any) -> dict[str, ColumnType]:
    """Tell what each column of an Arrow schema could serve as.

    Examples
    --------
    >>> import pyarrow as pa
    >>> column_types(pa.schema({"a": pa.string(), "b": pa.int8(), "c": pa.list_(pa.float32())}))
    {'a': 'text', 'b': 'number', 'c': 'embedding'}
    """
    return {field.name: _column_type(field.type) for field in schema}


def _column_type(kind: Any) -> ColumnType:
    import pyarrow.types as pt

    if pt.is_dictionary(kind):
        return _column_type(kind.value_type)
    if pt.is_string(kind) or pt.is_large_string(kind):
        return "text"
    if pt.is_integer(kind) or pt.is_boolean(kind):
        return "number"
    if pt.is_binary(kind) or pt.is_large_binary(kind):
        return "image"
    if pt.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        return "image"
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        numeric = pt.is_floating(kind.value_type) or pt.is_integer(kind.value_type)
        return "embedding" if numeric else "other"
    return "other"
