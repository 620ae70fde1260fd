"""JSON lines: one JSON object per line."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from gmmatch.data.columns import ColumnRequest, Columns, ColumnType, choose_columns
from gmmatch.data.text_tables import TextTable, open_binary, unreadable
from gmmatch.errors import InvalidInputError

# Objects need not all have the same keys: so many are looked at before the columns are chosen.
_EXAMINED = 100


class JSONLines(TextTable):
    """Texts in a file with one JSON object per line, or in several such files.

    A key that an object lacks counts as null. Empty lines are passed over.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.jsonl").write_text('{"text": "a", "label": 3}')
    ...     [(batch.rows, batch.labels) for batch in JSONLines([f"{folder}/t.jsonl"]).batches(8)]
    [(['a'], [3])]
    """

    format = "JSON lines"

    def _choose(self, request: ColumnRequest) -> Columns:
        available: dict[str, ColumnType] = {}
        path = self.files[0]
        for line, entry in islice(self._entries(path), _EXAMINED):
            for key, value in self._parsed(path, line, entry).items():
                kind = _column_type(value)
                if kind is not None and available.get(key, "other") == "other":
                    available[key] = kind
                available.setdefault(key, "other")
        if not available:
            raise InvalidInputError(f"{path} is empty: there is no line in it.")
        columns = choose_columns(available, request, self.location)
        if columns.kind != "text":
            raise InvalidInputError(f"{self.location}: JSON lines are read for text; give text_column.")
        return columns

    def _entries(self, path: Path) -> Iterator[tuple[int, bytes]]:
        number = 0
        try:
            with open_binary(path) as file:
                for number, line in enumerate(file, start=1):
                    if line.strip():
                        yield number, line
        except (EOFError, zlib.error, OSError) as error:
            raise unreadable(path, number + 1, f"the file is truncated or damaged ({error})") from None

    def _parsed(self, path: Path, line: int, entry: bytes) -> Mapping[str, Any]:
        try:
            record = json.loads(entry.removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, RecursionError) as error:
            raise unreadable(path, line, _explain(entry, error)) from None
        if isinstance(record, dict):
            return record
        held = "a list" if isinstance(record, list) else "a single value"
        raise unreadable(path, line, f"it holds {held}; write one JSON object per line")


def _explain(line: bytes, error: Exception) -> str:
    if line.lstrip().startswith(b"["):
        return "it begins a list; write one JSON object per line"
    if not line.endswith(b"\n"):
        return f"the file ends within it ({error})"
    return f"it is not valid JSON ({error})"


def _column_type(value: Any) -> ColumnType | None:
    if value is None:
        return None
    if isinstance(value, str):
        return "text"
    if isinstance(value, (bool, int)):
        return "number"
    return "other"
