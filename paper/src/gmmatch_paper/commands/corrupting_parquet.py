"""Parquet files with some values changed and all else as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.cli.io.files import compression_of, written
from gmmatch.errors import InvalidInputError
from gmmatch_paper.commands.corrupting import Advance

if TYPE_CHECKING:
    from gmmatch.data.tables import ParquetSource


def rewrite_parquet(
    source: ParquetSource,
    output: Path,
    name: str,
    change: Callable[[Any, int, Path], Any],
    advance: Advance,
    *,
    rows_at_a_time: int = 1024,
) -> None:
    """Write all rows of one or several Parquet files, one column changed; streamed, with the schema and its metadata.

    Parameters
    ----------
    source
        The files.
    output
        The new file.
    name
        The column that is changed.
    change
        Gets a record batch, the number of its first row and the folder of its file, and returns the column to
        write, or None to leave it.
    advance
        Called with how many rows are done.
    rows_at_a_time
        Rows per batch.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(source.files[0]) as opened:
        schema, compression = opened.schema_arrow, compression_of(opened)
    first = 0
    with written(output) as temporary, pq.ParquetWriter(temporary, schema, compression=compression) as writer:
        for path in source.files:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                if not file.schema_arrow.equals(schema):
                    raise InvalidInputError(f"{path} has other columns than {source.files[0].name}.")
                for batch in file.iter_batches(rows_at_a_time):
                    column = change(batch, first, path.parent)
                    if column is not None:
                        place = batch.schema.get_field_index(name)
                        batch = batch.set_column(place, batch.schema.field(name), column)
                    writer.write_batch(batch)
                    first += len(batch)
                    advance(first)
