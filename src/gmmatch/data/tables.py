"""What all sources share: each is a table, of which one column holds the rows, and others the labels and the ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gmmatch._checks import check_whole_number
from gmmatch._threads import cached_property
from gmmatch.data.columns import ColumnRequest, Columns, ColumnType, choose_columns
from gmmatch.data.files import files_fingerprint
from gmmatch.data.source import Batch, Id, Kind, regroup
from gmmatch.data.values import (
    as_matrix,
    as_texts,
    as_vectors,
    image_of,
    plain_ids,
    plain_labels,
    plain_values,
)
from gmmatch.errors import InvalidInputError
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
        key = self.keys[i] if self.keys else f"row {self.first + i}"
        return f"{key if isinstance(key, str) else f'line {key}'} of {self.location}"

    def values(self, column: str, undecodable: str = "backslashreplace") -> list[Any]:
        """Return the values of a column; Parquet files may hold texts that are not UTF-8."""
        try:
            return plain_values(self.columns[column])
        except UnicodeDecodeError:
            import pyarrow as pa

            encoded = self.columns[column].cast(pa.large_binary()).to_pylist()
            return [None if value is None else value.decode("utf-8", undecodable) for value in encoded]


class BaseSource(ABC):
    """What the sources of this package share; a subclass chooses the columns and reads records.

    Attributes
    ----------
    columns
        The choice of columns.
    """

    columns: Columns
    format: str
    location: str
    files: Sequence[Path] = ()
    opened_with: Mapping[str, str] = MappingProxyType({})
    _n_features: int | None = None

    def _take(self, columns: Columns) -> None:
        self.columns, self.kind, self.how = columns, columns.kind, columns.how

    @abstractmethod
    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        """Yield some columns of the rows from ``start`` on, about ``size`` rows at a time."""

    def __len__(self) -> int:
        return self.n_rows

    def __bool__(self) -> bool:
        return True  # without this, `if source:` would count the rows of a file

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.location!r}: {self.kind}, {self.n_rows:,} rows>"

    @cached_property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self._scanned[0]

    @property
    def has_labels(self) -> bool:
        """Whether the batches carry labels."""
        return self.columns.label is not None

    @cached_property
    def ids(self) -> Sequence[Id]:
        """The ids: row numbers, unless a column has others."""
        return range(len(self)) if self.columns.id is None else self._scanned[1]

    @cached_property
    def labels(self) -> Sequence[Label] | None:
        """The labels, or None if there are none."""
        return None if self.columns.label is None else self._scanned[2]

    @cached_property
    def _scanned(self) -> tuple[int, list[Id], list[Label]]:
        """The number of rows, and ids and labels, in one pass that reads nothing else where the format allows it."""
        n_rows, ids, labels = 0, list[Id](), list[Label]()
        names = [name for name in (self.columns.id, self.columns.label) if name is not None]
        for records in self._records(names, 0, _SCANNED_ROWS):
            n_rows += records.n_rows
            ids += self._ids_of(records) if self.columns.id is not None else ()
            labels += self._labels_of(records) or ()
        return n_rows, ids, labels

    def batches(self, batch_size: int, start: int = 0) -> Iterator[Batch]:
        """Yield the rows from number ``start`` on; all batches but the last have ``batch_size`` rows."""
        check_whole_number(batch_size, "batch_size")
        check_whole_number(start, "start", least=0)
        records = self._records(self.columns.names(), int(start), int(batch_size))
        pieces = (Batch(self._rows_of(r), self._ids_of(r), self._labels_of(r), r.first) for r in records)
        return regroup(pieces, int(batch_size))

    def describe(self) -> dict[str, Any]:
        """Say what the source is and how it was recognized, in what JSON can hold."""
        names = ("format", "location", "kind", "n_rows", "has_labels", "how")
        opened_with = {"opened_with": dict(self.opened_with)} if self.opened_with else {}
        return {name: getattr(self, name) for name in names} | opened_with

    def fingerprint(self) -> str:
        """Return a short text that changes when the rows, ids or labels change: of files, their sizes and ends."""
        names = {"Parquet": "parquet", ".npz archive": "npz"}
        return files_fingerprint(self.files, names.get(self.format, self.format), *self.columns.settings())

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
            texts = [records.values(column, "surrogateescape") for column in chosen.members]
            return as_texts(texts, chosen, name, records.broken)
        for i, reason in records.broken.items():
            raise InvalidInputError(f"{name(i)} {reason}.")
        data = {column: records.columns[column] for column in chosen.members}
        if len(data) > 1:
            return as_matrix(data, name)
        [column] = data.values()
        if chosen.kind == "image":
            return [image_of(value, name(i), records.folder) for i, value in enumerate(plain_values(column))]
        vectors = as_vectors(column, chosen.data, name, self._n_features)
        self._n_features = vectors.shape[1]
        return vectors


class FileTable(BaseSource):
    """A table in one or several files that are read record after record, from front to back."""

    prefers: Kind | None = None

    def __init__(self, files: Sequence[Path], request: ColumnRequest, location: str) -> None:
        self.files, self.location = files, location
        preferring = replace(request, prefer=request.prefer or self.prefers)
        self._take(choose_columns(self._available(request), preferring, location))

    @abstractmethod
    def _available(self, request: ColumnRequest) -> dict[str, ColumnType]:
        """Return what each column could serve as."""

    @abstractmethod
    def _entries(
        self, path: Path, names: Sequence[str], skipped: int
    ) -> Iterator[tuple[Any, list[Any] | str]]:
        """Yield the line or key of each record of a file, and the values of some columns or why there are none.

        Those of the first ``skipped`` records do not matter.
        """

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
