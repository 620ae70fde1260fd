"""What CSV and JSON lines share: text in files of records, read from front to back."""

from __future__ import annotations

import gzip
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from gmmatch.data.columns import ColumnRequest, Columns
from gmmatch.data.fingerprints import files_fingerprint
from gmmatch.data.source import BaseSource, Batch, Id
from gmmatch.data.values import plain_ids, plain_labels, plain_texts
from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.selection.labels import Label


class TextTable(BaseSource):
    """Records of one or several text files; a subclass reads the records of one file.

    Parameters
    ----------
    files
        In the order in which their records count; a name that ends in ``.gz`` is decompressed.
    request
        The columns that the caller named.
    location
        What to call the source; the first file's path by default.
    """

    kind = "text"

    def __init__(
        self,
        files: Sequence[str | os.PathLike[str]],
        request: ColumnRequest | None = None,
        *,
        location: str | None = None,
    ) -> None:
        self.files = [Path(file) for file in files]
        self.location = location or str(self.files[0])
        for path in self.files:
            if not path.exists():
                raise DataFileNotFoundError(f"{path}: there is no such file.")
        self.columns = self._choose(request or ColumnRequest())
        self.how = self.columns.how

    @abstractmethod
    def _choose(self, request: ColumnRequest) -> Columns:
        """Decide on the columns from the beginning of the first file."""

    @abstractmethod
    def _entries(self, path: Path) -> Iterator[tuple[int, Any]]:
        """Yield the line number and the unparsed content of each record of a file."""

    @abstractmethod
    def _parsed(self, path: Path, line: int, entry: Any) -> Mapping[str, Any]:
        """Return the columns of one record."""

    @cached_property
    def n_rows(self) -> int:
        """How many records there are; counting them takes one pass over the files."""
        if self.columns.label is not None or self.columns.id is not None:
            return len(self._names_and_labels[0])
        return sum(1 for path in self.files for _ in self._entries(path))

    @property
    def has_labels(self) -> bool:
        """Whether there is a column of labels."""
        return self.columns.label is not None

    @property
    def ids(self) -> Sequence[Id]:
        """The column of ids, or the row numbers."""
        return range(self.n_rows) if self.columns.id is None else self._names_and_labels[0]

    @property
    def labels(self) -> Sequence[Label] | None:
        """The column of labels."""
        return self._names_and_labels[1]

    @cached_property
    def _names_and_labels(self) -> tuple[Sequence[Id], Sequence[Label] | None]:
        ids: list[Id] = []
        labels: list[Label] = []
        for batch in self._pieces(0, 1024):
            ids.extend(batch.ids)
            labels.extend(batch.labels or [])
        return ids, labels if self.has_labels else None

    def fingerprint(self) -> str:
        """Hash the sizes and ends of all files, and the choice of columns."""
        return files_fingerprint(self.files, self.format, *self.columns.settings())

    def _pieces(self, start: int, size_hint: int) -> Iterator[Batch]:
        first = 0
        for path in self.files:
            entries = self._entries(path)
            # What is skipped is not parsed.
            first += sum(1 for _ in islice(entries, max(0, start - first)))
            while piece := list(islice(entries, size_hint)):
                records = [(line, self._parsed(path, line, entry)) for line, entry in piece]
                yield self._batch(path, records, first)
                first += len(piece)

    def _batch(self, path: Path, piece: list[tuple[int, Mapping[str, Any]]], first: int) -> Batch:
        columns = self.columns

        def name(i: int) -> str:
            return f"line {piece[i][0]} of {path}"

        texts = plain_texts([record.get(columns.data) for _, record in piece], columns.data, name)
        ids: list[Id] = list(range(first, first + len(piece)))
        if columns.id is not None:
            ids = plain_ids([record.get(columns.id) for _, record in piece], columns.id, name)
        labels = None
        if columns.label is not None:
            values = [record.get(columns.label) for _, record in piece]
            labels = plain_labels(values, columns.label, name)
        return Batch(texts, ids, labels, first)


def open_binary(path: Path) -> IO[bytes]:
    """Open a file for reading, decompressed if its name ends in ``.gz``."""
    if path.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(path))
    return path.open("rb")


def unreadable(path: Path, line: int, reason: object) -> InvalidInputError:
    """Make the error for a line that cannot be read.

    Examples
    --------
    >>> print(unreadable(Path("a.csv"), 3, "a quote is never closed"))
    line 3 of a.csv cannot be read: a quote is never closed.
    """
    text = str(reason).rstrip(".") or type(reason).__name__
    return InvalidInputError(f"line {line} of {path} cannot be read: {text}.")
