"""Picked rows as files: images in a folder, rows of a table with all their columns, and columns beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.cli.io.files import compression_of, opened_output, put_image, written, written_folder
from gmmatch.errors import InvalidInputError
from gmmatch.files import csv_bytes

if TYPE_CHECKING:
    from gmmatch.data.images import ImageFolder
    from gmmatch.data.tables import ParquetSource
    from gmmatch.data.text_tables import CSVTable, JSONLines
    from gmmatch.types import Indices

Extra = Mapping[str, list[Any]]
LABELS = "labels.csv"
"""In a folder of images: a line for each with its labels."""


def export_images(source: ImageFolder, output: Path, link: bool, rows: Indices, extra: Extra) -> int:
    """Copy or link these images; one that is there twice is written once."""
    names = list(dict.fromkeys(str(source.ids[row]) for row in rows.tolist()))
    with written_folder(output, source.folder, len(names)) as temporary:
        for name in names:
            place = temporary / name
            place.parent.mkdir(parents=True, exist_ok=True)
            put_image(source.folder / name, place, link)
        if extra:
            labels, lines = source.labels, {}
            for row, *values in zip(rows.tolist(), *extra.values(), strict=True):
                name = str(source.ids[row])
                lines[name] = [name, None if labels is None else labels[row], *values]
            with (temporary / LABELS).open("xb") as file:
                file.write(csv_bytes([["file", "label", *extra], *lines.values()]))
    return len(names)


def export_parquet(source: ParquetSource, output: Path, rows: Indices, extra: Extra) -> int:
    """Write these rows with all columns and the schema's metadata, which tell `datasets` what is an image."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(source.files[0]) as first:
        schema = first.schema_arrow
        compression = compression_of(first)
    _check_new(extra, schema.names, source.files[0])
    added = {name: pa.array(values) for name, values in extra.items()}
    wider = schema
    for name, values in added.items():
        wider = wider.append(pa.field(name, values.type))
    start = 0
    with written(output) as temporary, pq.ParquetWriter(temporary, wider, compression=compression) as writer:
        for path in source.files:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                if not file.schema_arrow.equals(schema):
                    raise InvalidInputError(f"{path} has other columns than {source.files[0].name}.")
                for batch in file.iter_batches(1024):
                    low, high = np.searchsorted(rows, [start, start + len(batch)])
                    if high > low:
                        some = batch.take(rows[low:high] - start)
                        columns = [*some.columns, *(values[low:high] for values in added.values())]
                        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=wider))
                    start += len(batch)
    return len(rows)


def export_lines(source: JSONLines | CSVTable, output: Path, rows: Indices, extra: Extra) -> int:
    """Write these records as they are, quotes and all, after the header if there is one."""
    from gmmatch.data.text_tables import CSVTable, json_lines

    header, delimiter = b"", None
    records: Iterator[bytes] = (line for path in source.files for _, line in json_lines(path))
    if isinstance(source, CSVTable):
        header, delimiter, records = _csv_lines(source.files, extra)
    wanted, place = rows.tolist(), 0
    with written(output) as temporary, opened_output(temporary, output) as file:
        file.write(header)
        for number, line in enumerate(records):
            while place < len(wanted) and wanted[place] == number:  # a row may be wanted twice
                values = {name: column[place] for name, column in extra.items()}
                whole = line if line.endswith((b"\n", b"\r")) else line + b"\n"
                file.write(_widened(whole, values, delimiter, source.files[0]) if values else whole)
                place += 1
            if place == len(wanted):
                break
    return len(rows)


def _widened(line: bytes, values: dict[str, Any], delimiter: str | None, path: Path) -> bytes:
    """Return a record with values after its own."""
    if delimiter is None:
        record = json.loads(line)
        _check_new(values, record, path)
        return (json.dumps({**record, **values}, ensure_ascii=False) + "\n").encode()
    return line.rstrip(b"\r\n") + delimiter.encode() + csv_bytes([values.values()], delimiter)


def _check_new(extra: Mapping[str, Any], columns: Any, path: Path) -> None:
    for name in extra:
        if name in columns:
            raise InvalidInputError(f"{path} has a column {name!r} already: rename it first.")


def _csv_lines(files: list[Path], extra: Extra) -> tuple[bytes, str, Iterator[bytes]]:
    """Return the header of CSV files, what separates their cells, and the records of all of them."""
    from gmmatch.data.text_tables import csv_records, delimiter_of

    _, names, header = next(csv_records(files[0]))
    _check_new(extra, names, files[0])
    delimiter = delimiter_of(header)

    def lines() -> Iterator[bytes]:
        for path in files:
            records = csv_records(path)
            if next(records)[1] != names:
                raise InvalidInputError(f"{path} has another header than {files[0].name}.")
            yield from (text.encode() for _, _, text in records)

    first = header.encode()
    if extra:
        first = first.rstrip(b"\r\n") + delimiter.encode() + csv_bytes([extra], delimiter)
    return first, delimiter, lines()
