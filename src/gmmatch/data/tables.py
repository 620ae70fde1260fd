"""Sources with columns: what they share, and Parquet files, streamed row group by row group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.columns import (
    ColumnRequest,
    Columns,
    ColumnType,
    choose_columns,
    plain_ids,
    plain_labels,
    plain_texts,
    plain_values,
)
from gmmatch.data.files import damaged, files_fingerprint
from gmmatch.data.images import ImageBytes
from gmmatch.data.source import BaseSource, Batch, Id
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.groups import Label

# Column chunks are read through a buffer of this size. By default PyArrow loads all the row groups that
# it was asked for before it hands out the first row.
_STREAMED = {"pre_buffer": False, "buffer_size": 1 << 20}


class TableSource(BaseSource):
    """What sources with columns share; a subclass chooses the columns and reads them.

    Attributes
    ----------
    columns
        The choice of columns.
    """

    columns: Columns
    _n_features: int | None = None

    def _choose(self, available: dict[str, ColumnType], request: ColumnRequest) -> None:
        self.columns = choose_columns(available, request, self.location, wide=True)
        self.kind, self.how = self.columns.kind, self.columns.how

    @abstractmethod
    def _column(self, name: str, what: str) -> Iterable[Any]:
        """Return the values of one column, read without the others; ``what`` they are is for messages."""

    @property
    def has_labels(self) -> bool:
        """Whether there is a column of labels."""
        return self.columns.label is not None

    @cached_property
    def ids(self) -> Sequence[Id]:
        """The column of ids, or the row numbers."""
        if self.columns.id is None and self.n_rows is not None:
            return range(self.n_rows)
        name = self.columns.id or "id"
        return plain_ids(self._column(name, "ids"), name, self._row_name)

    @cached_property
    def labels(self) -> Sequence[Label] | None:
        """The column of labels."""
        name = self.columns.label
        return None if name is None else plain_labels(self._column(name, "labels"), name, self._row_name)

    def _row_name(self, row: int) -> str:
        return f"row {row} of {self.location}"

    def table_batch(self, table: Any, first: int, folder: Path | None = None) -> Batch:
        """Return the rows of an Arrow table or record batch that has the chosen columns.

        ``first`` is the number of its first row; ``folder`` is what paths of images are relative to.
        """
        return self._batch(
            table.column, table.num_rows, first, lambda i: self._row_name(first + i), folder=folder
        )

    def _batch(
        self,
        column: Callable[[str], Any],
        n_rows: int,
        first: int,
        name: Callable[[int], str],
        folder: Path | None = None,
    ) -> Batch:
        chosen = self.columns
        data = column(chosen.data)
        rows: Any
        if chosen.features:
            rows = _matrix({feature: column(feature) for feature in chosen.features}, name)
        elif chosen.kind == "embedding":
            lists = _lists(data, chosen.data, name) if isinstance(data, list) else _combined(data)
            rows = self._vectors(lists, name)
        elif chosen.kind == "image":
            rows = [_image(value, name(i), folder) for i, value in enumerate(plain_values(data))]
        else:
            rows = plain_texts(plain_values(data), chosen.data, name)
        ids: list[Id] = list(range(first, first + n_rows))
        if chosen.id is not None:
            ids = plain_ids(plain_values(column(chosen.id)), chosen.id, name)
        labels = None
        if chosen.label is not None:
            labels = plain_labels(plain_values(column(chosen.label)), chosen.label, name)
        return Batch(rows, ids, labels, first)

    def _vectors(self, column: Any, name: Callable[[int], str]) -> NDArray[Any]:
        import pyarrow.compute as pc

        lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        if self._n_features is None:
            self._n_features = max(1, int(lengths[0]))
        wrong = np.flatnonzero(lengths != self._n_features)
        if len(wrong):
            row, length = name(int(wrong[0])), int(lengths[wrong[0]])
            if length < 0:
                raise InvalidInputError(
                    f"{row} has no embedding in column {self.columns.data!r}: drop the row or fill it in."
                )
            raise InvalidInputError(
                f"{row} has an embedding of {length} numbers in column {self.columns.data!r}, "
                f"where {self._n_features} are expected."
            )
        values = column.flatten()
        if values.null_count:
            row = name(int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // self._n_features)
            raise InvalidInputError(
                f"{row} has a missing number in column {self.columns.data!r}: fill it in."
            )
        flat: NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return flat.reshape(len(column), self._n_features)


class ParquetSource(TableSource):
    """The rows of one Parquet file, or of several one after another.

    Images are what Hugging Face writes (a struct of ``bytes`` and ``path``) or a binary column;
    embeddings are lists of numbers of one length. An id is the row's number, counted through all files,
    unless a column is named.
    """

    format = "Parquet"

    def __init__(self, files: Sequence[Path], request: ColumnRequest, location: str) -> None:
        self.files, self.location = list(files), location
        with _opened(self.files[0]) as first:
            self._choose(column_types(first.schema_arrow), request)
        # Row groups per file: their sizes place every row without reading one.
        self._groups = [self._group_sizes(file) for file in self.files]

    def _group_sizes(self, path: Path) -> list[int]:
        with _opened(path) as file:
            names = set(file.schema_arrow.names)
            for name in self.columns.names():
                if name not in names:
                    raise InvalidInputError(f"{path} has no column {name!r}, unlike {self.files[0].name}.")
            metadata = file.metadata
            return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    @cached_property
    def n_rows(self) -> int:
        """How many rows all files have."""
        return sum(sum(sizes) for sizes in self._groups)

    def _column(self, name: str, what: str) -> Iterator[Any]:
        for path in self.files:
            with _opened(path) as file:
                for piece in file.iter_batches(columns=[name]):
                    yield from piece.column(name).to_pylist()

    def fingerprint(self) -> str:
        """Hash the sizes and ends of all files, and the choice of columns."""
        return files_fingerprint(self.files, "parquet", *self.columns.settings())

    def _pieces(self, start: int, size_hint: int) -> Iterator[Batch]:
        first = 0
        for path, sizes in zip(self.files, self._groups, strict=True):
            stop = first + sum(sizes)
            if start < stop:
                yield from self._file_pieces(path, sizes, first, max(0, start - first), size_hint)
            first = stop

    def _file_pieces(
        self, path: Path, sizes: list[int], first: int, skip: int, size_hint: int
    ) -> Iterator[Batch]:
        """The rows of one file, without its first ``skip`` ones; ``first`` is its first row's number."""
        wanted = list(range(len(sizes)))
        while wanted and skip >= sizes[wanted[0]]:  # row groups may be empty
            skipped = sizes[wanted.pop(0)]
            first, skip = first + skipped, skip - skipped
        with _opened(path) as file:
            for table in file.iter_batches(size_hint, row_groups=wanted, columns=self.columns.names()):
                rest = table.slice(min(skip, len(table)))
                first, skip = first + len(table) - len(rest), max(0, skip - len(table))
                if len(rest):
                    yield self.table_batch(rest, first, path.parent)
                first += len(rest)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Yield a Parquet file; what PyArrow raises on damaged contents becomes one sentence that names it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, **_STREAMED) as file:
            yield file
    except InvalidTypeError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, "Parquet file", error) from None


def _matrix(columns: Mapping[str, Any], name: Callable[[int], str]) -> NDArray[Any]:
    """Return columns of numbers as a matrix, of float32 where that holds them; texts are read as numbers."""
    parts = []
    for column, values in columns.items():
        known = hasattr(values, "to_numpy") and not values.null_count
        plain = (
            values.to_numpy(zero_copy_only=False) if known else np.array(plain_values(values), dtype=object)
        )
        if plain.dtype.kind not in "fiub":
            bad = next((i for i, value in enumerate(plain) if not is_number(value)), None)
            if bad is not None:
                content = f"{str(plain[bad])[:40]!r}, which is no number," if plain[bad] else "no number"
                raise InvalidInputError(
                    f"{name(bad)} has {content} in column {column!r}: fill it in, or drop the row."
                )
            plain = plain.astype(np.float64)
        parts.append(plain)
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


def _lists(values: list[Any], column: str, name: Callable[[int], str]) -> Any:
    """Lists of numbers, as JSON has them, as an Arrow array."""
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
    import fsspec

    try:
        with fsspec.open(url, "rb") as file:
            return bytes(file.read())
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{name} cannot be fetched: {error}") from None


def column_types(schema: Any) -> dict[str, ColumnType]:
    """Tell what each column of an Arrow schema could serve as."""
    return {field.name: _column_type(field.type) for field in schema}


def _column_type(kind: Any) -> ColumnType:
    import pyarrow.types as pt

    if pt.is_dictionary(kind):
        return _column_type(kind.value_type)
    if pt.is_string(kind) or pt.is_large_string(kind):
        return "text"
    if pt.is_integer(kind) or pt.is_boolean(kind):
        return "number"
    if pt.is_floating(kind):
        return "float"
    if pt.is_binary(kind) or pt.is_large_binary(kind):
        return "image"
    if pt.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        return "image"
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        numeric = pt.is_floating(kind.value_type) or pt.is_integer(kind.value_type)
        return "embedding" if numeric else "other"
    return "other"
