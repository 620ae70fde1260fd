"""Sources with columns: what they share, whatever the format of their files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from gmmatch._threads import cached_property
from gmmatch.data.columns import ColumnRequest, Columns, ColumnType, choose_columns
from gmmatch.data.files import files_fingerprint
from gmmatch.data.source import BaseSource, Batch, Id
from gmmatch.data.texts import plain_texts
from gmmatch.data.values import (
    as_matrix,
    as_vectors,
    image_of,
    plain_ids,
    plain_labels,
    plain_values,
)
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.groups import Label

# Larger pieces leave the processor's cache: 4,096 rows took twice as long.
_SCANNED_ROWS = 256


@dataclass(frozen=True)
class Records:
    """Some consecutive rows of a table, as they are stored.

    Attributes
    ----------
    columns
        The values of each column: lists or arrays.
    n_rows, first
        How many rows there are, and the number of the first.
    location
        Where they are from, for errors.
    keys
        The lines or keys of the rows, where errors do not name them by their numbers.
    folder
        What paths of images are relative to.
    broken
        What is wrong with rows that could not be read, by position.
    """

    columns: Mapping[str, Any]
    n_rows: int
    first: int
    location: object
    keys: Sequence[str] | Sequence[int] = ()
    folder: Path | None = None
    broken: Mapping[int, str] = field(default_factory=dict)

    def name(self, i: int) -> str:
        """Return the name of the row at a position."""
        if not self.keys:
            return f"row {self.first + i} of {self.location}"
        key = self.keys[i]
        return f"{key if isinstance(key, str) else f'line {key}'} of {self.location}"

    def values(self, column: str, undecodable: str = "backslashreplace") -> list[Any]:
        """Return the values of a column; Parquet files may hold texts that are not UTF-8."""
        try:
            return plain_values(self.columns[column])
        except UnicodeDecodeError:
            import pyarrow as pa

            encoded = self.columns[column].cast(pa.large_binary()).to_pylist()
            return [None if value is None else value.decode("utf-8", undecodable) for value in encoded]


class TableSource(BaseSource):
    """What sources with columns share; a subclass says which there are, and reads records.

    Attributes
    ----------
    columns
        The choice of columns.
    """

    columns: Columns
    streaming = False
    files: Sequence[Path] = ()
    _n_features: int | None = None

    def _take(self, columns: Columns) -> None:
        self.columns, self.kind, self.how = columns, columns.kind, columns.how

    @abstractmethod
    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        """Yield some columns of the rows from ``start`` on, about ``size`` rows at a time."""

    def fingerprint(self) -> str:
        """Hash the sizes and ends of all files, and the choice of columns."""
        names = {"Parquet": "parquet", "WebDataset": "webdataset", ".npz archive": "npz"}
        name = names.get(self.format, self.format)
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

    def _arrow_records(self, batch: Any, first: int, folder: Path | None = None) -> Records:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return Records(columns, len(batch), first, self.location, (), folder)

    def _pieces(self, start: int, size_hint: int) -> Iterator[Batch]:
        for records in self._records(self.columns.names(), start, size_hint):
            rows, ids = self._rows_of(records), self._ids_of(records)
            yield Batch(rows, ids, self._labels_of(records), records.first)

    def _ids_of(self, records: Records) -> list[Id]:
        if self.columns.id is None:
            return list(range(records.first, records.first + records.n_rows))
        ids = records.values(self.columns.id)
        for i in records.broken:
            ids[i] = records.name(i)
        return plain_ids(ids, self.columns.id, records.name)

    def _labels_of(self, records: Records) -> list[Label] | None:
        column = self.columns.label
        return None if column is None else plain_labels(records.values(column), column, records.name)

    def _rows_of(self, records: Records) -> Any:
        chosen, name = self.columns, records.name
        if chosen.kind == "text":
            columns = chosen.members or (chosen.data,)
            texts = {column: records.values(column, "surrogateescape") for column in columns}
            return plain_texts(texts, chosen.data, name, records.broken)
        for i, reason in records.broken.items():
            raise InvalidInputError(f"{name(i)} {reason}.")
        if chosen.members:
            return as_matrix({column: records.columns[column] for column in chosen.members}, name)
        data = records.columns[chosen.data]
        if chosen.kind == "image":
            return [image_of(value, name(i), records.folder) for i, value in enumerate(plain_values(data))]
        vectors = as_vectors(data, chosen.data, name, self._n_features)
        self._n_features = vectors.shape[1]
        return vectors


class FileTable(TableSource):
    """A table in one or several files."""

    def __init__(self, files: Sequence[Path], request: ColumnRequest, location: str) -> None:
        self.files, self.location = files, location
        self._take(choose_columns(self._available(request), request, location))

    @abstractmethod
    def _available(self, request: ColumnRequest) -> dict[str, ColumnType]:
        """Return what each column could serve as."""


class EntryTable(FileTable):
    """A table in files that are read record after record, from front to back."""

    @abstractmethod
    def _entries(
        self, path: Path, names: Sequence[str], skipped: int
    ) -> Iterator[tuple[Any, list[Any] | str]]:
        """Yield the line or key of each record of a file, and the values of some columns or why there are none.

        Those of the first ``skipped`` records do not matter.
        """

    @cached_property
    def n_rows(self) -> int:
        """How many records there are; counting them takes one pass over the files."""
        if self.columns.label is not None or self.columns.id is not None:
            return len(self._ids_and_labels[0])
        return sum(1 for path in self.files for _ in self._entries(path, (), 0))

    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        first, blank = 0, [None] * len(names)
        for path in self.files:
            skipped = max(0, start - first)
            entries = self._entries(path, names, skipped)
            first += sum(1 for _ in islice(entries, skipped))
            while piece := list(islice(entries, size)):
                keys, values = zip(*piece, strict=True)
                broken = {i: reason for i, reason in enumerate(values) if isinstance(reason, str)}
                rows = (blank if isinstance(row, str) else row for row in values)
                columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=False))
                yield Records(columns, len(piece), first, path, keys, None, broken)
                first += len(piece)
