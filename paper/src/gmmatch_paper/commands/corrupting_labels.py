"""Copies of tables and arrays in which some labels are others."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.cli.io.files import opened_output, written
from gmmatch.data.text_tables import csv_records, delimiter_of
from gmmatch.errors import InvalidInputError
from gmmatch_paper.commands.corrupting import Advance, Touched

if TYPE_CHECKING:
    from gmmatch.data.tables import ParquetSource
    from gmmatch.data.text_tables import CSVTable, JSONLines
    from gmmatch_paper.corruption.labels import LabelNoise


def turn_labels(source: Any, noise: LabelNoise, output: Path, advance: Advance) -> Touched:
    """Write a copy of a table or an ``.npz`` archive with noisy labels; everything else stays as it was."""
    import numpy as np

    from gmmatch.data.tables import ParquetSource
    from gmmatch.data.text_tables import CSVTable, JSONLines

    labels = list(source.labels)
    result = noise.apply(np.array(labels, dtype=object))
    after = result.data.tolist()
    changes = {row: after[row] for row in result.rows.tolist()}
    if isinstance(source, ParquetSource):
        _turn_parquet(source, changes, output, advance)
    elif isinstance(source, JSONLines):
        _turn_json_lines(source, changes, output, advance)
    elif isinstance(source, CSVTable):
        _turn_csv(source, changes, output, advance)
    else:
        from gmmatch_paper.commands.corrupting_vectors import rewrite_npz

        name = source.columns.label
        rewrite_npz(source.path, output, {name: lambda array: _with_changes(array, changes)})
        advance(len(labels))
    return Touched(list(source.ids), result.mask, result.kinds, after, labels)


def _with_changes(array: Any, changes: dict[int, Any]) -> Any:
    copy = array.copy()
    for row, label in changes.items():
        copy[row] = label
    return copy


def _turn_parquet(source: ParquetSource, changes: dict[int, Any], output: Path, advance: Advance) -> None:
    import pyarrow as pa

    from gmmatch_paper.commands.corrupting_parquet import rewrite_parquet

    name = str(source.columns.label)

    def change(batch: Any, first: int, folder: Path) -> Any:
        column = batch.column(name)
        values = column.to_pylist()
        for row in range(first, first + len(batch)):
            if row in changes:
                values[row - first] = changes[row]
        kind = column.type
        return pa.array(values, kind.value_type if pa.types.is_dictionary(kind) else kind).cast(kind)

    rewrite_parquet(source, output, name, change, advance)


def _turn_json_lines(source: JSONLines, changes: dict[int, Any], output: Path, advance: Advance) -> None:
    def lines() -> Iterator[bytes]:
        entries = ((path, *entry) for path in source.files for entry in source._entries(path))
        for row, (path, number, line) in enumerate(entries):
            if row in changes:
                record = {**source._parsed(path, number, line), str(source.columns.label): changes[row]}
                yield json.dumps(record, ensure_ascii=False).encode("utf-8") + b"\n"
            else:
                yield line if line.endswith(b"\n") else line + b"\n"

    _write_lines(lines(), output, advance)


def _turn_csv(source: CSVTable, changes: dict[int, Any], output: Path, advance: Advance) -> None:
    _, names, header = next(csv_records(source.files[0]))
    place = names.index(str(source.columns.label))
    delimiter = delimiter_of(header.partition("\n")[0])

    def lines() -> Iterator[bytes]:
        row = 0
        for path in source.files:
            records = csv_records(path)
            if next(records)[1] != names:
                raise InvalidInputError(f"{path} has another header than {source.files[0].name}.")
            for _, cells, text in records:
                whole = text if text.endswith(("\n", "\r")) else text + "\n"
                if row in changes:
                    cells[place] = str(changes[row])
                    whole = _record(cells, delimiter, "\r\n" if whole.endswith("\r\n") else whole[-1])
                yield whole.encode("utf-8")
                row += 1

    _write_lines(lines(), output, advance, header.encode("utf-8"))


def _record(cells: list[str], delimiter: str, end: str) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerow(cells)
    return text.getvalue()


def _write_lines(lines: Iterator[bytes], output: Path, advance: Advance, header: bytes = b"") -> None:
    with written(output) as temporary, opened_output(temporary, output) as file:
        file.write(header)
        for row, line in enumerate(lines):
            file.write(line)
            if row % 1024 == 0:
                advance(row)
