"""Sources with columns: what they share, and Parquet files, streamed row group by row group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._threads import cached_property
from gmmatch.data.columns import (
    ColumnRequest,
    Columns,
    ColumnType,
    choose_columns,
    plain_ids,
    plain_labels,
    plain_values,
)
from gmmatch.data.files import damaged, files_fingerprint
from gmmatch.data.images import ImageBytes
from gmmatch.data.source import BaseSource, Batch, Id
from gmmatch.data.texts import plain_texts
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.groups import Label

# Column chunks are read through a buffer of this size, a few pages at a time. pyarrow.dataset, and by default
# PyArrow's reader of a file, load whole row groups: 33 MB instead of 5 for a file of 33 MB with one.
_STREAMED = {"pre_buffer": False, "buffer_size": 1 << 20}
# Larger pieces leave the processor's cache: 4,096 rows took twice as long.
_SCANNED_ROWS = 256


@dataclass(frozen=True)
class Records:
    """Some consecutive rows of a table, as they are stored.

    Attributes
    ----------
    columns
        The values of each column: lists or Arrow arrays.
    n_rows, first
        How many rows there are, and the number of the first.
    name
        Turns a position into the name of a row, for errors.
    folder
        What paths of images are relative to.
    broken
        What is wrong with rows that could not be read, by position.
    """

    columns: Mapping[str, Any]
    n_rows: int
    first: int
    name: Callable[[int], str]
    folder: Path | None = None
    broken: Mapping[int, str] = field(default_factory=dict)


class TableSource(BaseSource):
    """What sources with columns share; a subclass calls ``_choose`` and reads records.

    Attributes
    ----------
    columns
        The choice of columns.
    """

    columns: Columns
    files: list[Path]
    streaming = False
    _n_features: int | None = None

    def _choose(self, available: dict[str, ColumnType], request: ColumnRequest) -> None:
        self.columns = choose_columns(available, request, self.location, wide=True)
        self.kind, self.how = self.columns.kind, self.columns.how

    @abstractmethod
    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        """Yield some columns of the rows from ``start`` on, about ``size`` rows at a time."""

    def fingerprint(self) -> str:
        """Hash the sizes and ends of all files, and the choice of columns."""
        name = self.format.lower() if self.format in ("Parquet", "WebDataset") else self.format
        return files_fingerprint(self.files, name, *self.columns.settings())

    @property
    def has_labels(self) -> bool:
        """Whether there is a column of labels."""
        return self.columns.label is not None

    @property
    def ids(self) -> Sequence[Id]:
        """The column of ids, or the row numbers."""
        if self.columns.id is None and self.n_rows is not None:
            return range(self.n_rows)
        return self._ids_and_labels[0]

    @property
    def labels(self) -> Sequence[Label] | None:
        """The column of labels."""
        return None if self.columns.label is None else self._ids_and_labels[1]

    @cached_property
    def _ids_and_labels(self) -> tuple[list[Id], list[Label]]:
        """All ids and labels, in one pass that reads nothing else where the format allows it."""
        if self.streaming:
            raise InvalidTypeError(
                f"{self.location} is a stream, whose ids and labels come with its batches and are not known before."
            )
        ids: list[Id] = []
        labels: list[Label] = []
        names = [name for name in (self.columns.id, self.columns.label) if name is not None]
        for records in self._records(names, 0, _SCANNED_ROWS):
            ids += self._ids_of(records)
            labels += self._labels_of(records) or []
        return ids, labels

    def _row_name(self, row: int) -> str:
        return f"row {row} of {self.location}"

    def _arrow_records(self, table: Any, first: int, folder: Path | None = None) -> Records:
        """Return the rows of an Arrow table or record batch, which begins with the row ``first``."""
        columns = dict(zip(table.schema.names, table.columns, strict=True))
        return Records(columns, table.num_rows, first, lambda i: self._row_name(first + i), folder)

    def _pieces(self, start: int, size_hint: int) -> Iterator[Batch]:
        for records in self._records(self.columns.names(), start, size_hint):
            yield Batch(
                self._rows_of(records), self._ids_of(records), self._labels_of(records), records.first
            )

    def _ids_of(self, records: Records) -> list[Id]:
        if self.columns.id is None:
            return list(range(records.first, records.first + records.n_rows))
        ids = _values(records, self.columns.id)
        for i in records.broken:
            ids[i] = records.name(i)
        return plain_ids(ids, self.columns.id, records.name)

    def _labels_of(self, records: Records) -> list[Label] | None:
        column = self.columns.label
        return None if column is None else plain_labels(_values(records, column), column, records.name)

    def _rows_of(self, records: Records) -> Any:
        chosen, name = self.columns, records.name
        columns = {column: records.columns[column] for column in chosen.members or (chosen.data,)}
        if chosen.kind == "text":
            texts = {column: _values(records, column, "surrogateescape") for column in columns}
            return plain_texts(texts, chosen.data, name, records.broken)
        for i, reason in records.broken.items():
            raise InvalidInputError(f"{name(i)} {reason}.")
        if chosen.members:
            return _matrix(columns, name)
        data = columns[chosen.data]
        if chosen.kind == "image":
            return [_image(value, name(i), records.folder) for i, value in enumerate(plain_values(data))]
        return self._vectors(
            _lists(data, chosen.data, name) if isinstance(data, list) else _combined(data), name
        )

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
            self._choose(column_types(first.schema_arrow, location), request)
        # Row groups per file: their sizes place every row without reading one.
        self._groups = [self._group_sizes(file) for file in self.files]

    def _group_sizes(self, path: Path) -> list[int]:
        with _opened(path) as file:
            for name in self.columns.names():
                if file.schema_arrow.names.count(name) != 1:
                    raise InvalidInputError(f"{path} has no column {name!r}, unlike {self.files[0].name}.")
            metadata = file.metadata
            return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    @cached_property
    def n_rows(self) -> int:
        """How many rows all files have."""
        return sum(map(sum, self._groups))

    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        first = 0
        for path, sizes in zip(self.files, self._groups, strict=True):
            wanted = list(range(len(sizes)))
            while wanted and first + sizes[wanted[0]] <= start:
                first += sizes[wanted.pop(0)]
            if not wanted:
                continue
            with _opened(path) as file:
                for table in file.iter_batches(size, row_groups=wanted, columns=names):
                    skipped = min(max(0, start - first), len(table))
                    if skipped < len(table):
                        yield self._arrow_records(table.slice(skipped), first + skipped, path.parent)
                    first += len(table)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Yield a Parquet file; what PyArrow raises on damaged contents becomes one sentence that names it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, **_STREAMED) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, "Parquet file", error) from None


def _values(records: Records, column: str, undecodable: str = "backslashreplace") -> list[Any]:
    """Return the values of a column; Parquet files may hold texts that are not UTF-8."""
    try:
        return plain_values(records.columns[column])
    except UnicodeDecodeError:
        import pyarrow as pa

        encoded = records.columns[column].cast(pa.large_binary()).to_pylist()
        return [None if value is None else value.decode("utf-8", undecodable) for value in encoded]


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
        entry = kind.value_type
        if pt.is_struct(entry) and {"role", "content"} <= {field.name for field in entry}:
            return "text"
        return "embedding" if pt.is_floating(entry) or pt.is_integer(entry) else "other"
    return "other"
