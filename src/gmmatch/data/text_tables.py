"""CSV and JSON lines: texts in files of records, read from front to back."""

# The standard library parses them, not PyArrow. Measured with PyArrow 26: its readers refuse a cell that is longer
# than their block (1 MiB) and a JSON column with both integers and strings; a quote that is never closed made one
# record of 300,000 without an error; and a bad record is numbered within its block, or as a record, where people
# look for a line. It reads a million records in 0.5 s instead of 2.4 s, beside hours of encoding them.

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from gmmatch.data.columns import ColumnRequest, ColumnType, number_columns
from gmmatch.data.files import files_fingerprint
from gmmatch.data.source import Batch, Id
from gmmatch.data.tables import TableSource, is_number
from gmmatch.errors import InvalidInputError, listed
from gmmatch.groups import Label

_DELIMITERS = (",", ";", "\t", "|")
# The csv module refuses cells longer than 128 KiB unless told otherwise; documents are longer.
_LONGEST_CELL = 2**31 - 1
# JSON objects need not all have the same keys: so many are looked at before the columns are chosen.
_EXAMINED = 100
_JSON_KINDS: tuple[tuple[type, ColumnType], ...] = ((str, "text"), (int, "number"), (float, "float"))


class TextTable(TableSource):
    """Records of one or several text files, in order; a name that ends in ``.gz`` is decompressed."""

    def __init__(self, files: Sequence[Path], request: ColumnRequest, location: str) -> None:
        self.files, self.location = list(files), location
        # Lists of numbers beside texts, such as scores, are about the texts.
        request = replace(request, prefer=request.prefer or "text")
        self._choose(self._available(request), request)

    @abstractmethod
    def _available(self, request: ColumnRequest) -> dict[str, ColumnType]:
        """Return the columns that the beginning of the first file has."""

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

    @cached_property
    def _names_and_labels(self) -> tuple[Sequence[Id], Sequence[Label]]:
        ids: list[Id] = []
        labels: list[Label] = []
        for batch in self._pieces(0, 1024):
            ids.extend(batch.ids)
            labels.extend(batch.labels or [])
        return ids, labels

    def _column(self, name: str, what: str) -> Iterable[Any]:
        return self._names_and_labels[what == "labels"]  # both in one pass

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
                yield self._records_batch(path, piece, first)
                first += len(piece)

    def _records_batch(self, path: Path, piece: list[tuple[int, Any]], first: int) -> Batch:
        records = [self._parsed(path, line, entry) for line, entry in piece]
        return self._batch(
            lambda name: [record.get(name) for record in records],
            len(piece),
            first,
            lambda i: f"line {piece[i][0]} of {path}",
        )


class CSVTable(TextTable):
    """Texts in a CSV file with a header line, or in several with the same columns; or a table of numbers.

    The delimiter is whichever of comma, semicolon, tab and bar is most frequent in the header. Quoted
    cells may span lines. Everything but a table's columns of numbers is text: a label ``3`` is the string
    ``"3"``, an empty label is none. Files are UTF-8.
    """

    format = "CSV"

    def _available(self, request: ColumnRequest) -> dict[str, ColumnType]:
        _, names, _ = next(csv_records(self.files[0]), (0, None, ""))
        if names is None:
            raise InvalidInputError(f"{self.files[0]} is empty: expected a header line with column names.")
        if sum(is_number(name) and not name.isdigit() for name in names) > len(names) / 2:
            raise InvalidInputError(
                f"{self.files[0]} begins with numbers ({listed(names, 3)}), where a line with column names is "
                "expected: add one."
            )
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidInputError(f"{self.files[0]} has two columns named {twice!r}: rename one.")
        some = [cells for _, cells, _ in islice(csv_records(self.files[0]), 1, _EXAMINED)]
        columns = dict(zip(names, zip(*some, strict=False), strict=False))
        # A column of numbers is text like any other, unless the table has nothing else.
        kinds: dict[str, ColumnType] = {
            name: "float" if any(cells) and all(is_number(cell or 0) for cell in cells) else "text"
            for name, cells in columns.items()
        }
        numbers = () if request.text is not None else number_columns(kinds, {request.label, request.id})
        return {name: "float" if name in numbers else "text" for name in names}

    def _entries(self, path: Path) -> Iterator[tuple[int, Any]]:
        records = csv_records(path)
        _, names, _ = next(records, (0, [], ""))
        for wanted in self.columns.names():
            if wanted not in names:
                raise InvalidInputError(f"{path} has no column {wanted!r}, unlike {self.files[0].name}.")
        for line, cells, _ in records:
            if len(cells) != len(names):
                raise _unreadable(path, line, f"it has {len(cells)} cells, and the header has {len(names)}")
            yield line, (names, cells)

    def _parsed(self, path: Path, line: int, entry: Any) -> Mapping[str, Any]:
        record = dict(zip(*entry, strict=True))
        if self.columns.label is not None:
            record[self.columns.label] = record[self.columns.label] or None
        return record


class JSONLines(TextTable):
    """Texts or embeddings in a file with one JSON object per line, or in several such files.

    Embeddings are lists of numbers. A key that an object lacks counts as null. Empty lines are passed over.
    """

    format = "JSON lines"

    def _available(self, request: ColumnRequest) -> dict[str, ColumnType]:
        available: dict[str, ColumnType] = {}
        path = self.files[0]
        kind: ColumnType
        for line, entry in islice(json_lines(path), _EXAMINED):
            for key, value in parsed_json(path, line, entry).items():
                if isinstance(value, list) and value and {int, float}.issuperset(map(type, value)):
                    kind = "embedding"
                else:
                    kind = next((kind for types, kind in _JSON_KINDS if isinstance(value, types)), "other")
                if available.get(key, "other") == "other":
                    available[key] = kind
        if not available:
            raise InvalidInputError(f"{path} is empty: there is no line in it.")
        return available

    def _entries(self, path: Path) -> Iterator[tuple[int, bytes]]:
        return json_lines(path)

    def _parsed(self, path: Path, line: int, entry: Any) -> Mapping[str, Any]:
        return parsed_json(path, line, entry)


def csv_records(path: Path) -> Iterator[tuple[int, list[str], str]]:
    """Yield each record of a CSV file, the header first: its last line's number, its cells and its text."""
    if csv.field_size_limit() < _LONGEST_CELL:
        csv.field_size_limit(_LONGEST_CELL)
    line = 0
    try:
        # newline="" leaves line ends within quotes as they are.
        with io.TextIOWrapper(open_binary(path), encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            consumed = [first] if first else []
            # Strict, so that a quote that is never closed does not swallow the rest of the file.
            reader = csv.reader(_noted(file, consumed), delimiter=delimiter_of(first), strict=True)
            for cells in reader:
                line = reader.line_num
                if cells:
                    yield line, cells, "".join(consumed)
                consumed.clear()
    except UnicodeDecodeError as error:
        # Text is decoded ahead of the line that is being read, so the place is not known exactly.
        raise InvalidInputError(
            f"{path} is not UTF-8 text ({error.reason}, some lines after line {line}): convert it first."
        ) from None
    except (csv.Error, EOFError, zlib.error, OSError) as error:
        raise _unreadable(path, line + 1, f"the file is damaged or truncated ({error})") from None


def delimiter_of(header: str) -> str:
    """Return what separates the cells of a CSV file, by its first line."""
    return max(_DELIMITERS, key=header.count)


def _noted(lines: Iterable[str], consumed: list[str]) -> Iterator[str]:
    """Yield what was consumed already and then the other lines, noting each of them as consumed."""
    yield from list(consumed)
    for line in lines:
        consumed.append(line)
        yield line


def json_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line that is not empty."""
    number = 0
    try:
        with open_binary(path) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except (EOFError, zlib.error, OSError) as error:
        raise _unreadable(path, number + 1, f"the file is truncated or damaged ({error})") from None


def parsed_json(path: Path, line: int, entry: bytes) -> dict[str, Any]:
    """Return the object on a line of JSON lines, or say what is wrong with that line."""
    try:
        record = json.loads(entry.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        reason = f"it is not valid JSON ({error})"
        if entry.lstrip().startswith(b"["):
            reason = "it begins a list; write one JSON object per line"
        elif not entry.endswith(b"\n"):
            reason = f"the file ends within it ({error})"
        raise _unreadable(path, line, reason) from None
    if isinstance(record, dict):
        return record
    content = "a list" if isinstance(record, list) else "a single value"
    raise _unreadable(path, line, f"it holds {content}; write one JSON object per line")


def open_binary(path: Path) -> IO[bytes]:
    """Open a file for reading, decompressed if its name ends in ``.gz``."""
    if path.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(path))
    return path.open("rb")


def _unreadable(path: Path, line: int, reason: str) -> InvalidInputError:
    return InvalidInputError(f"line {line} of {path} cannot be read: {reason.rstrip('.')}.")
