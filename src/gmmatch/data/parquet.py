"""Parquet files, read a few pages at a time."""

# Not by pyarrow.dataset, which loads whole row groups, as PyArrow's reader of a file does by default: 33 MB, not 5,
# for a file of 33 MB with a single one.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gmmatch._threads import cached_property
from gmmatch.data.columns import ColumnRequest, ColumnType
from gmmatch.data.tables import FileTable, Records
from gmmatch.data.values import column_types
from gmmatch.errors import InvalidInputError
from gmmatch.files import explain_damage

_STREAMED = {"pre_buffer": False, "buffer_size": 1 << 20}


class ParquetSource(FileTable):
    """The rows of one Parquet file, or of several one after another.

    Images are what Hugging Face writes (a struct of ``bytes`` and ``path``) or a binary column;
    embeddings are lists of numbers of one length. An id is the row's number, counted through all files,
    unless a column is named.
    """

    format = "Parquet"

    def _available(self, request: ColumnRequest) -> dict[str, ColumnType]:
        with open_parquet(self.files[0]) as first:
            return column_types(first.schema_arrow, self.location)

    def __init__(self, files: Sequence[Path], request: ColumnRequest, location: str) -> None:
        super().__init__(files, request, location)
        # Row groups per file: their sizes place every row without reading one.
        self._groups = list(map(self._group_sizes, self.files))

    def _group_sizes(self, path: Path) -> list[int]:
        with open_parquet(path) as file:
            for name in self.columns.names():
                if file.schema_arrow.names.count(name) != 1:
                    raise InvalidInputError(f"{path} has no column {name!r}, unlike {self.files[0].name}.")
            return [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]

    @cached_property
    def n_rows(self) -> int:
        """How many rows all files have."""
        return sum(map(sum, self._groups))

    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        first = 0
        for path, sizes in zip(self.files, self._groups, strict=True):
            later = list(range(len(sizes)))
            while later and first + sizes[later[0]] <= start:
                first += sizes[later.pop(0)]
            if not later:
                continue
            with open_parquet(path) as file:
                for batch in file.iter_batches(size, row_groups=later, columns=names):
                    skipped = min(max(0, start - first), len(batch))
                    if skipped < len(batch):
                        yield self._arrow_records(batch.slice(skipped), first + skipped, path.parent)
                    first += len(batch)


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Yield a Parquet file; what PyArrow raises on damaged contents becomes one sentence that names it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with explain_damage(path, "Parquet file", pa.ArrowException), pq.ParquetFile(path, **_STREAMED) as file:
        yield file
