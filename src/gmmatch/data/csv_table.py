"""CSV: a header line with the names of the columns, then one record per row."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gmmatch.data.columns import ColumnRequest, Columns, choose_columns
from gmmatch.data.text_tables import TextTable, open_binary, unreadable
from gmmatch.errors import InvalidInputError

_DELIMITERS = (",", ";", "\t", "|")
# The csv module refuses cells longer than 128 KiB unless told otherwise; documents are longer.
_LONGEST_CELL = 2**31 - 1


class CSVTable(TextTable):
    """Texts in a CSV file with a header line, or in several with the same columns.

    The delimiter is whichever of comma, semicolon, tab and bar is most frequent in the header. Quoted
    cells may span lines. Everything is text: a label ``3`` is the string ``"3"``, an empty label is
    none. Files are UTF-8.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_text('text,label\\n"a, b",3\\n')
    ...     [(batch.rows, batch.labels) for batch in CSVTable([f"{folder}/t.csv"]).batches(8)]
    [(['a, b'], ['3'])]
    """

    format = "CSV"

    def _choose(self, request: ColumnRequest) -> Columns:
        header = next(self._cells(self.files[0]), None)
        if header is None:
            raise InvalidInputError(f"{self.files[0]} is empty: expected a header line with column names.")
        names = header[1]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidInputError(f"{self.files[0]} has two columns named {twice!r}: rename one.")
        for given in (request.image, request.embedding):
            if given is not None:
                raise InvalidInputError(f"{self.location}: CSV files are read for text; give text_column.")
        return choose_columns(dict.fromkeys(names, "text"), request, self.location)

    def _cells(self, path: Path) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number and the cells of each record, the header included."""
        if csv.field_size_limit() < _LONGEST_CELL:
            csv.field_size_limit(_LONGEST_CELL)
        line = 0
        try:
            # newline="" leaves line ends within quotes as they are.
            with io.TextIOWrapper(open_binary(path), encoding="utf-8-sig", newline="") as file:
                first = file.readline()
                # Strict, so that a quote that is never closed does not swallow the rest of the file.
                delimiter = max(_DELIMITERS, key=first.count)
                reader = csv.reader(_chain(first, file), delimiter=delimiter, strict=True)
                for cells in reader:
                    line = reader.line_num
                    if cells:
                        yield line, cells
        except UnicodeDecodeError as error:
            # Text is decoded ahead of the line that is being read, so the place is not known exactly.
            raise InvalidInputError(
                f"{path} is not UTF-8 text ({error.reason}, some lines after line {line}): convert it first."
            ) from None
        except (csv.Error, EOFError, zlib.error, OSError) as error:
            raise unreadable(path, line + 1, f"the file is damaged or truncated ({error})") from None

    def _entries(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        records = self._cells(path)
        _, names = next(records, (0, []))
        for wanted in self.columns.names():
            if wanted not in names:
                raise InvalidInputError(f"{path} has no column {wanted!r}, unlike {self.files[0].name}.")
        for line, cells in records:
            if len(cells) != len(names):
                raise unreadable(path, line, f"it has {len(cells)} cells, and the header has {len(names)}")
            yield line, dict(zip(names, cells, strict=True))

    def _parsed(self, path: Path, line: int, entry: dict[str, Any]) -> Mapping[str, Any]:
        label = self.columns.label
        return entry if label is None else {**entry, label: entry[label] or None}


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    if first:
        yield first
    yield from rest
