"""Parquet files: a column of images, of text or of embeddings, streamed row group by row group."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from gmmatch.data.columns import ColumnRequest, choose_columns
from gmmatch.data.fingerprints import files_fingerprint
from gmmatch.data.source import BaseSource, Batch, Id
from gmmatch.data.tables import TableReader, column_types
from gmmatch.data.values import plain_ids, plain_labels
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError
from gmmatch.selection.labels import Label

# Column chunks are read through a buffer of this size. By default PyArrow loads all the row groups that
# it was asked for before it hands out the first row.
_STREAMED = {"pre_buffer": False, "buffer_size": 1 << 20}


class ParquetSource(BaseSource):
    """The rows of one Parquet file, or of several one after another.

    Images are what Hugging Face writes (a struct of ``bytes`` and ``path``) or a binary column;
    embeddings are lists of numbers of one length. An id is the row's number, counted through all files,
    unless a column is named.

    Parameters
    ----------
    files
        In the order in which their rows count.
    request
        The columns that the caller named.
    location
        What to call the source; the first file's path by default.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"text": ["a", "b"], "label": [1, 0]}), f"{folder}/t.parquet")
    ...     source = ParquetSource([f"{folder}/t.parquet"])
    ...     [(batch.rows, batch.labels) for batch in source.batches(2)]
    [(['a', 'b'], [1, 0])]
    """

    format = "Parquet"

    def __init__(
        self,
        files: Sequence[str | os.PathLike[str]],
        request: ColumnRequest | None = None,
        *,
        location: str | None = None,
    ) -> None:
        self.files = [Path(file) for file in files]
        self.location = location or str(self.files[0])
        with _open(self.files[0]) as first:
            available = column_types(first.schema_arrow)
        self.columns = choose_columns(available, request or ColumnRequest(), self.location)
        self.kind = self.columns.kind
        self.how = self.columns.how
        # Row groups per file: their sizes place every row without reading one.
        self._groups = [self._group_sizes(file) for file in self.files]
        self._reader = TableReader(self.columns, self.location)

    def _group_sizes(self, path: Path) -> list[int]:
        with _open(path) as file:
            names = set(file.schema_arrow.names)
            for name in self.columns.names():
                if name not in names:
                    raise InvalidInputError(f"{path} has no column {name!r}, unlike {self.files[0].name}.")
            metadata = file.metadata
            return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    @cached_property
    def n_rows(self) -> int:
        """How many rows all files have."""
        return sum(sum(sizes) for sizes in self._groups)

    @property
    def has_labels(self) -> bool:
        """Whether there is a column of labels."""
        return self.columns.label is not None

    @cached_property
    def ids(self) -> Sequence[Id]:
        """The column of ids, or the row numbers."""
        if self.columns.id is None:
            return range(self.n_rows)
        return plain_ids(self._column(self.columns.id), self.columns.id, self._reader.row_name)

    @cached_property
    def labels(self) -> Sequence[Label] | None:
        """The column of labels, read without the other columns."""
        if self.columns.label is None:
            return None
        return plain_labels(self._column(self.columns.label), self.columns.label, self._reader.row_name)

    def _column(self, name: str) -> Iterator[Any]:
        for path in self.files:
            with _open(path) as file, _Readable(path):
                for piece in file.iter_batches(columns=[name]):
                    yield from piece.column(name).to_pylist()

    def fingerprint(self) -> str:
        """Hash the sizes and ends of all files, and the choice of columns."""
        return files_fingerprint(self.files, "parquet", *self.columns.settings())

    def _pieces(self, start: int, size_hint: int) -> Iterator[Batch]:
        first = 0
        for path, sizes in zip(self.files, self._groups, strict=True):
            stop = first + sum(sizes)
            if start < stop:
                yield from self._file_pieces(path, sizes, first, max(0, start - first), size_hint)
            first = stop

    def _file_pieces(
        self, path: Path, sizes: list[int], first: int, skip: int, size_hint: int
    ) -> Iterator[Batch]:
        """The rows of one file, without its first ``skip`` ones; ``first`` is its first row's number."""
        wanted = list(range(len(sizes)))
        while wanted and skip >= sizes[wanted[0]]:  # row groups may be empty
            skipped = sizes[wanted.pop(0)]
            first, skip = first + skipped, skip - skipped
        with _open(path) as file, _Readable(path):
            for table in file.iter_batches(size_hint, row_groups=wanted, columns=self.columns.names()):
                rest = table.slice(min(skip, len(table)))
                first, skip = first + len(table) - len(rest), max(0, skip - len(table))
                if len(rest):
                    yield self._reader.batch(rest, first, path.parent)
                first += len(rest)


class _Readable:
    """Turns what PyArrow raises on damaged contents into one sentence that names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import pyarrow as pa

        if isinstance(error, (pa.ArrowException, OSError)) and not isinstance(error, InvalidTypeError):
            raise _damaged(self.path, error) from None


def _open(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        raise DataFileNotFoundError(f"{path}: there is no such file.")
    try:
        return pq.ParquetFile(path, **_STREAMED)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: BaseException) -> InvalidInputError:
    reason = next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__
    return InvalidInputError(f"{path} is not a Parquet file, or is truncated or damaged: {reason}.")
