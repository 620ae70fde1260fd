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
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from gmmatch.data.columns import ColumnRequest, ColumnType, number_columns
from gmmatch.data.tables import FileTable, Records
from gmmatch.data.values import check_names, is_chat, is_number
from gmmatch.errors import InvalidInputError, listed
from gmmatch.files import explain_damage
from gmmatch.groups import Label

CSVRecord: TypeAlias = "tuple[int, list[str] | str, str]"
"""The number of a record's last line, its cells or what is wrong with it, and its text."""

_DELIMITERS = (",", ";", "\t", "|")
# The csv module refuses cells longer than 128 KiB unless told otherwise; documents are longer.
_LONGEST_CELL = 2**31 - 1
# JSON objects need not all have the same keys: so many are looked at before the columns are chosen.
_EXAMINED = 100
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_JSON_KINDS: tuple[tuple[type, ColumnType], ...] = ((str, "text"), (int, "number"), (float, "float"))


class CSVTable(FileTable):
    """Texts in a CSV file with a header line, or in several with the same columns; or a table of numbers.

    The delimiter is whichever of comma, semicolon, tab and bar is most frequent in the header. Quoted
    cells may span lines. Everything but a table's columns of numbers is text: a label ``3`` is the string
    ``"3"``, an empty label is none. Files are UTF-8.
    """

    format = "CSV"
    prefers = "text"

    def _available(self, request: ColumnRequest) -> dict[str, ColumnType]:
        path = self.files[0]
        examined = [cells for _, cells, _ in islice(csv_records(path), _EXAMINED)]
        if not examined:
            raise InvalidInputError(f"{path} is empty: expected a header line with column names.")
        names, *some = examined
        if isinstance(names, str):
            raise InvalidInputError(f"line 1 of {path} {names}.")
        if sum(is_number(name) and not name.isdigit() for name in names) > len(names) / 2:
            raise InvalidInputError(
                f"{path} begins with numbers ({listed(names, 3)}), where a line with column names is expected: "
                "add one."
            )
        check_names(names, path)
        columns = zip(*(cells for cells in some if isinstance(cells, list)), strict=True)
        # A column of numbers is text like any other, unless the table has nothing else.
        kinds: dict[str, ColumnType] = {
            name: "float" if any(cells) and all(is_number(cell or 0) for cell in cells) else "text"
            for name, cells in zip(names, columns, strict=False)
        }
        numbers = () if request.text is not None else number_columns(kinds, {request.label, request.id})
        return {name: "float" if name in numbers else "text" for name in names}

    def _entries(
        self, path: Path, names: Sequence[str], skipped: int
    ) -> Iterator[tuple[int, list[Any] | str]]:
        records = csv_records(path)
        _, header, _ = next(records, (0, (), ""))
        for name in self.columns.names():
            if name not in header:
                raise InvalidInputError(f"{path} has no column {name!r}, unlike {self.files[0].name}.")
        positions = [header.index(name) for name in names]
        for line, cells, _ in records:
            yield line, cells if isinstance(cells, str) else [cells[position] for position in positions]

    def _labels_of(self, records: Records) -> list[Label] | None:
        labels = super()._labels_of(records)
        return None if labels is None else [label or None for label in labels]


class JSONLines(FileTable):
    """Texts or embeddings in a file with one JSON object per line, or in several such files.

    Embeddings are lists of numbers. A key that an object lacks counts as null. Empty lines are passed over.
    """

    format = "JSON lines"
    prefers = "text"  # lists of numbers beside texts, such as scores, are about the texts

    def _available(self, request: ColumnRequest) -> dict[str, ColumnType]:
        available: dict[str, ColumnType] = {}
        reasons = [f"{self.files[0]} is empty: there is no line in it."]
        for line, text in islice(json_lines(self.files[0]), _EXAMINED):
            record = _parse(text)
            if isinstance(record, str):
                reasons.append(f"line {line} of {self.files[0]} {record}.")
                continue
            for key, value in record.items():
                if available.get(key, "other") == "other":
                    available[key] = _json_type(value)
        if not available:
            raise InvalidInputError(reasons[:2][-1])
        return available

    def _entries(
        self, path: Path, names: Sequence[str], skipped: int
    ) -> Iterator[tuple[int, list[Any] | str]]:
        for number, (line, text) in enumerate(json_lines(path)):
            # What is skipped or merely counted is not parsed.
            record = _parse(text) if names and number >= skipped else ""
            yield line, record if isinstance(record, str) else list(map(record.get, names))


def _parse(line: bytes) -> dict[str, Any] | str:
    """Return the object of a line, or what is wrong with it."""
    try:
        record = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        if line.lstrip().startswith(b"["):
            return "cannot be read: it begins a list; write one JSON object per line"
        ended = "the file ends within it" if not line.endswith(b"\n") else "it is not valid JSON"
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


def csv_records(path: Path) -> Iterator[CSVRecord]:
    """Yield each record of a CSV file, the header first; bytes that are not UTF-8 are escaped as surrogates."""
    if csv.field_size_limit() < _LONGEST_CELL:
        csv.field_size_limit(_LONGEST_CELL)
    return _read_lines(path, "CSV file", _read_csv)


def json_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line that is not empty."""
    return _read_lines(
        path, "file of JSON lines", lambda file: ((i, line) for i, line in enumerate(file, 1) if line.strip())
    )


def _read_lines(path: Path, kind: str, read: Callable[[IO[bytes]], Iterator[Any]]) -> Iterator[Any]:
    """Yield what is read from a file, tuples that begin with a number of a line, which an error names."""
    line = 0
    with (
        explain_damage(path, kind, csv.Error, position=lambda: f"line {line + 1}: "),
        open_binary(path) as file,
    ):
        for record in read(file):
            line = record[0]
            yield record


def _read_csv(file: IO[bytes]) -> Iterator[CSVRecord]:
    # newline="" leaves line ends within quotes as they are.
    decoded = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    first = decoded.readline()
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for line in chain([first] if first else [], decoded):
            taken.append(line)
            yield line

    # Strict, so that a quote that is never closed does not swallow the rest of the file.
    reader, width = csv.reader(lines(), delimiter=delimiter_of(first), strict=True), 0
    while True:
        taken.clear()
        cells: list[str] | str
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if str(error) == "unexpected end of data":
                raise
            begin = reader.line_num - len(taken) + 1
            more = f", nor the lines from {begin} on" if len(taken) > 1 else ""
            cells = f"cannot be read{more}: {error}"
        text, width = "".join(taken), width or len(cells)
        if not text.isascii() and _ESCAPED_BYTE.search(text):
            cells = "is not UTF-8 text"
        elif isinstance(cells, list) and len(cells) not in (0, width):
            cells = f"cannot be read: it has {len(cells)} cells, and the header has {width}"
        if cells:
            yield reader.line_num, cells, text


def delimiter_of(header: str) -> str:
    """Return what separates the cells of a CSV file, by its first line."""
    return max(_DELIMITERS, key=header.count)


def open_binary(path: Path, mode: str = "rb", name: Path | None = None) -> IO[bytes]:
    """Open a file, compressed if its name, or the one that it will get, ends in ``.gz``."""
    compressed = (name or path).suffix.lower() == ".gz"
    return cast("IO[bytes]", gzip.open(path, mode) if compressed else path.open(mode))
