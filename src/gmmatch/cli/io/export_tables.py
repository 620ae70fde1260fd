"""Picked rows of tables as a new file of the same format, streamed."""

from __future__ import annotations

import gzip
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from gmmatch.cli.io.files import written
from gmmatch.data.text_tables import csv_records
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.data.tables import ParquetSource
    from gmmatch.data.text_tables import CSVTable, JSONLines
    from gmmatch.types import Indices


def export_parquet(source: ParquetSource, rows: Indices, output: Path) -> int:
    """Write these rows with all columns and the schema's metadata, which tell `datasets` what is an image.

    Parameters
    ----------
    source
        One or several Parquet files with one schema.
    rows
        Ascending row numbers, counted through all files; one may be there twice.
    output
        The new file.

    Returns
    -------
    int
        How many rows were written.
    """
    import numpy as np
    import pyarrow.parquet as pq

    with pq.ParquetFile(source.files[0]) as first:
        schema = first.schema_arrow
        compression = compression_of(first)
    start = 0
    with written(output) as temporary, pq.ParquetWriter(temporary, schema, compression=compression) as writer:
        for path in source.files:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                if not file.schema_arrow.equals(schema):
                    raise InvalidInputError(f"{path} has other columns than {source.files[0].name}.")
                for batch in file.iter_batches(1024):
                    low, high = np.searchsorted(rows, [start, start + len(batch)])
                    if high > low:
                        writer.write_batch(batch.take(rows[low:high] - start))
                    start += len(batch)
    return len(rows)


def compression_of(file: Any) -> str:
    """Return how the first column of a Parquet file is compressed, as its writer names it."""
    metadata = file.metadata
    if not metadata.num_row_groups or not metadata.num_columns:
        return "snappy"
    name = str(metadata.row_group(0).column(0).compression).lower()
    return {"uncompressed": "none", "lz4_raw": "lz4"}.get(name, name)


def export_json_lines(source: JSONLines, rows: Indices, output: Path) -> int:
    """Write these lines as they are; see :func:`export_parquet`."""
    with written(output) as temporary, opened_output(temporary, output) as file:
        for count, (_, line) in _repeated(
            (entry for path in source.files for entry in source._entries(path)), rows
        ):
            file.write((line if line.endswith(b"\n") else line + b"\n") * count)
    return len(rows)


def export_csv(source: CSVTable, rows: Indices, output: Path) -> int:
    """Write the header and these records as they are, quotes and all; see :func:`export_parquet`."""
    _, _, header = next(csv_records(source.files[0]))
    with written(output) as temporary, opened_output(temporary, output) as file:
        file.write(header.encode("utf-8"))
        for count, record in _repeated(_all_records(source.files), rows):
            line = record if record.endswith(("\n", "\r")) else record + "\n"
            file.write(line.encode("utf-8") * count)
    return len(rows)


def _all_records(files: list[Path]) -> Iterator[str]:
    _, names, _ = next(csv_records(files[0]))
    for path in files:
        records = csv_records(path)
        if next(records)[1] != names:
            raise InvalidInputError(f"{path} has another header than {files[0].name}.")
        yield from (text for _, _, text in records)


def _repeated(entries: Iterator[Any], rows: Indices) -> Iterator[tuple[int, Any]]:
    """Yield the wanted entries, each with how often it is wanted."""
    wanted = deque(rows.tolist())
    for number, entry in enumerate(entries):
        count = 0
        while wanted and wanted[0] == number:
            wanted.popleft()
            count += 1
        if count:
            yield count, entry
        if not wanted:
            return


def opened_output(temporary: Path, output: Path) -> IO[bytes]:
    """Open a file for writing, compressed if the name that it will get says so."""
    if output.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(temporary, "wb"))
    return temporary.open("wb")
