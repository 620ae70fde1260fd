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
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, tee
from pathlib import Path
from typing import IO, Any, cast

from gmmatch._threads import cached_property
from gmmatch.data.columns import ColumnRequest, ColumnType, number_columns
from gmmatch.data.tables import Records, TableSource, check_names, is_number
from gmmatch.data.texts import is_chat
from gmmatch.errors import InvalidInputError, listed

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
    def _columns_of(
        self, entries: list[Any], names: list[str]
    ) -> tuple[dict[str, list[Any]], dict[int, str]]:
        """Return some columns of records, and what is wrong with records by position."""

    @cached_property
    def n_rows(self) -> int:
        """How many records there are; counting them takes one pass over the files."""
        if self.columns.label is not None or self.columns.id is not None:
            return len(self._ids_and_labels[0])
        return sum(1 for path in self.files for _ in self._entries(path))

    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        first = 0
        for path in self.files:
            entries = self._entries(path)
            # What is skipped is not parsed.
            first += sum(1 for _ in islice(entries, max(0, start - first)))
            while piece := list(islice(entries, size)):
                columns, broken = self._columns_of([entry for _, entry in piece], names)
                lines = [line for line, _ in piece]
                yield Records(columns, len(piece), first, partial(_line_name, path, lines), broken=broken)
                first += len(piece)


def _line_name(path: Path, lines: list[int], i: int) -> str:
    return f"line {lines[i]} of {path}"


class CSVTable(TextTable):
    """Texts in a CSV file with a header line, or in several with the same columns; or a table of numbers.

    The delimiter is whichever of comma, semicolon, tab and bar is most frequent in the header. Quoted
    cells may span lines. Everything but a table's columns of numbers is text: a label ``3`` is the string
    ``"3"``, an empty label is none. Files are UTF-8.
    """

    format = "CSV"

    def _available(self, request: ColumnRequest) -> dict[str, ColumnType]:
        path, records = self.files[0], csv_records(self.files[0])
        _, names, _ = next(records, (0, "", ""))
        if not names:
            raise InvalidInputError(f"{path} is empty: expected a header line with column names.")
        if isinstance(names, str):
            raise InvalidInputError(f"line 1 of {path} {names}.")
        if sum(is_number(name) and not name.isdigit() for name in names) > len(names) / 2:
            raise InvalidInputError(
                f"{path} begins with numbers ({listed(names, 3)}), where a line with column names is expected: "
                "add one."
            )
        check_names(names, path)
        some = [cells for _, cells, _ in islice(records, _EXAMINED - 1) if isinstance(cells, list)]
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
            yield line, (names, cells)

    def _columns_of(
        self, entries: list[Any], names: list[str]
    ) -> tuple[dict[str, list[Any]], dict[int, str]]:
        header = entries[0][0]
        records = [cells for _, cells in entries]
        broken: dict[int, str] = {}
        for i, cells in enumerate(records):
            if isinstance(cells, str):
                broken[i] = cells
            elif len(cells) != len(header):
                broken[i] = f"cannot be read: it has {len(cells)} cells, and the header has {len(header)}"
        for i in broken:
            records[i] = [""] * len(header)
        columns = {}
        for name in names:
            position = header.index(name)
            columns[name] = [cells[position] for cells in records]
        if self.columns.label in columns:
            columns[self.columns.label] = [label or None for label in columns[self.columns.label]]
        return columns, broken


class JSONLines(TextTable):
    """Texts or embeddings in a file with one JSON object per line, or in several such files.

    Embeddings are lists of numbers. A key that an object lacks counts as null. Empty lines are passed over.
    """

    format = "JSON lines"

    def _available(self, request: ColumnRequest) -> dict[str, ColumnType]:
        available: dict[str, ColumnType] = {}
        reasons = [f"{self.files[0]} is empty: there is no line in it."]
        for line, entry in islice(json_lines(self.files[0]), _EXAMINED):
            record = self._parsed(entry)
            if isinstance(record, str):
                reasons.append(f"line {line} of {self.files[0]} {record}.")
                continue
            for key, value in record.items():
                if available.get(key, "other") == "other":
                    available[key] = _json_type(value)
        if not available:
            raise InvalidInputError(reasons[:2][-1])
        return available

    def _entries(self, path: Path) -> Iterator[tuple[int, bytes]]:
        return json_lines(path)

    def _columns_of(
        self, entries: list[Any], names: list[str]
    ) -> tuple[dict[str, list[Any]], dict[int, str]]:
        records: list[Any] = [self._parsed(entry) for entry in entries]
        broken: dict[int, str] = {}
        if str in map(type, records):
            broken = {i: record for i, record in enumerate(records) if isinstance(record, str)}
            records = [{} if isinstance(record, str) else record for record in records]
        return {name: [record.get(name) for record in records] for name in names}, broken

    def _parsed(self, entry: bytes) -> dict[str, Any] | str:
        """Return an object, or what is wrong with its line."""
        try:
            record = json.loads(entry.removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, RecursionError) as error:
            if entry.lstrip().startswith(b"["):
                return "cannot be read: it begins a list; write one JSON object per line"
            ended = "the file ends within it" if not entry.endswith(b"\n") else "it is not valid JSON"
            return f"cannot be read: {ended} ({error})"
        if isinstance(record, dict):
            return record
        content = "a list" if isinstance(record, list) else "a single value"
        return f"cannot be read: it holds {content}; write one JSON object per line"


def _json_type(value: Any) -> ColumnType:
    if is_chat(value):
        return "text"
    if isinstance(value, list) and value and {int, float}.issuperset(map(type, value)):
        return "embedding"
    return next((kind for types, kind in _JSON_KINDS if isinstance(value, types)), "other")


def csv_records(path: Path) -> Iterator[tuple[int, list[str] | str, str]]:
    """Yield each record of a CSV file, the header first.

    Yields
    ------
    int
        The number of its last line.
    list of str or str
        Its cells, or what is wrong with it.
    str
        Its text; bytes that are not UTF-8 are escaped as surrogates.
    """
    if csv.field_size_limit() < _LONGEST_CELL:
        csv.field_size_limit(_LONGEST_CELL)
    line = 0
    try:
        # newline="" leaves line ends within quotes as they are.
        with io.TextIOWrapper(
            open_binary(path), encoding="utf-8-sig", errors="surrogateescape", newline=""
        ) as file:
            first = file.readline()
            lines, same = tee(chain([first] if first else [], file))
            # Strict, so that a quote that is never closed does not swallow the rest of the file.
            reader = csv.reader(lines, delimiter=delimiter_of(first), strict=True)
            while True:
                try:
                    for cells in reader:
                        single = reader.line_num == line + 1
                        text = next(same) if single else "".join(islice(same, reader.line_num - line))
                        line = reader.line_num
                        if not text.isascii() and not _is_unicode(text):
                            yield line, "is not UTF-8 text", text
                        elif cells:
                            yield line, cells, text
                    return
                except csv.Error as error:
                    if str(error) == "unexpected end of data":
                        raise
                    more = f", nor the lines from {line + 1} on" if reader.line_num > line + 1 else ""
                    text = "".join(islice(same, reader.line_num - line))
                    line = reader.line_num
                    yield line, f"cannot be read{more}: {error}", text
    except (csv.Error, EOFError, zlib.error, OSError) as error:
        raise _unreadable(path, line + 1, error) from None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def delimiter_of(header: str) -> str:
    """Return what separates the cells of a CSV file, by its first line."""
    return max(_DELIMITERS, key=header.count)


def json_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line that is not empty."""
    number = 0
    try:
        with open_binary(path) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except (EOFError, zlib.error, OSError) as error:
        raise _unreadable(path, number + 1, error) from None


def open_binary(path: Path) -> IO[bytes]:
    """Open a file for reading, decompressed if its name ends in ``.gz``."""
    if path.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(path))
    return path.open("rb")


def _unreadable(path: Path, line: int, error: Exception) -> InvalidInputError:
    reason = str(error).rstrip(".")
    return InvalidInputError(
        f"line {line} of {path} cannot be read: the file is damaged or truncated ({reason})."
    )
