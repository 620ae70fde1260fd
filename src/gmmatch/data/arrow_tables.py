"""Tables that PyArrow holds: Parquet files, and datasets of the package ``datasets``."""

# Parquet files are not read by pyarrow.dataset, which loads whole row groups, as PyArrow's reader of a file does by
# default: 33 MB, not 5, for a file of 33 MB with a single one.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from gmmatch._array import sample_indices
from gmmatch.data.columns import ColumnRequest, choose_columns
from gmmatch.data.files import fingerprint_of
from gmmatch.data.tables import BaseSource, Records
from gmmatch.data.values import column_types
from gmmatch.errors import (
    DataFileNotFoundError,
    InvalidInputError,
    InvalidTypeError,
    first_line,
    imported,
    listed,
    unknown_name,
)
from gmmatch.files import explain_damage

_STREAMED = {"pre_buffer": False, "buffer_size": 1 << 20}
_SAMPLED_ROWS = 64
_NO_IMAGES = ("Audio", "Video", "Pdf")


class ParquetSource(BaseSource):
    """The rows of one Parquet file, or of several one after another.

    Images are what Hugging Face writes (a struct of ``bytes`` and ``path``) or a binary column;
    embeddings are lists of numbers of one length. An id is the row's number, counted through all files,
    unless a column is named.
    """

    format = "Parquet"

    def __init__(self, files: Sequence[Path], request: ColumnRequest, location: str) -> None:
        self.files, self.location = files, location
        with open_parquet(files[0]) as first:
            available = column_types(first.schema_arrow, location)
        self._take(choose_columns(available, request, location))
        # Row groups per file: their sizes place every row without reading one.
        self._groups = list(map(self._group_sizes, files))
        self.n_rows = sum(map(sum, self._groups))

    def _group_sizes(self, path: Path) -> list[int]:
        with open_parquet(path) as file:
            for name in self.columns.names():
                if file.schema_arrow.names.count(name) != 1:
                    raise InvalidInputError(f"{path} has no column {name!r}, unlike {self.files[0].name}.")
            return [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]

    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        first = end = 0
        for path, sizes in zip(self.files, self._groups, strict=True):
            end += sum(sizes)
            later = list(range(len(sizes)))
            while later and first + sizes[later[0]] <= start:
                first += sizes[later.pop(0)]
            with open_parquet(path) as file:
                for batch in file.iter_batches(size, row_groups=later, columns=names) if later else ():
                    skipped = min(max(0, start - first), len(batch))
                    if skipped < len(batch):
                        yield _as_records(batch.slice(skipped), first + skipped, self.location, path.parent)
                    first += len(batch)
                if first != end:
                    raise ValueError(f"{end - first:,} of its rows are missing")


def _as_records(batch: Any, first: int, location: str, folder: Path | None = None) -> Records:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return Records(columns, len(batch), first, location, folder=folder)


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Yield a Parquet file; what PyArrow raises on damaged contents becomes one sentence that names it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with explain_damage(path, "Parquet file", pa.ArrowException), pq.ParquetFile(path, **_STREAMED) as file:
        yield file


class HuggingFaceSource(BaseSource):
    """The rows of a ``datasets.Dataset``.

    Images are handed on as they are stored, without being decoded; an id is the row number unless a column is named.
    """

    format = "Hugging Face dataset"

    def __init__(self, dataset: Any, request: ColumnRequest, location: str) -> None:
        if not hasattr(dataset, "num_rows"):
            raise InvalidTypeError(f"{location} is a stream, whose rows cannot be looked up: load it whole.")
        self.location, self.n_rows = location, dataset.num_rows
        available = column_types(dataset.features.arrow_schema, location)
        # Sounds and films are stored like images.
        others = [name for name in available if type(dataset.features[name]).__name__ in _NO_IMAGES]
        self._take(choose_columns(available | dict.fromkeys(others, "other"), request, location))
        # In the form of Arrow tables nothing is decoded or converted.
        self._data = dataset.select_columns(self.columns.names()).with_format("arrow")

    def fingerprint(self) -> str:
        """Hash the columns, the number of rows and up to 64 of them."""
        parts: list[str | int | bytes | None] = ["hugging face", *self.columns.settings(), self.n_rows]
        tables = (self._data[row : row + 1] for row in sample_indices(self.n_rows, _SAMPLED_ROWS).tolist())
        parts += (repr([dict(sorted(row.items())) for row in table.to_pylist()]) for table in tables)
        return fingerprint_of(parts)

    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        data = self._data.select_columns(names)
        tables = (data[first : first + size] for first in range(start, self.n_rows, size))
        for batch in chain.from_iterable(table.to_batches() for table in tables):
            yield _as_records(batch, start, self.location)
            start += batch.num_rows


def load_named(name: str, request: ColumnRequest, split: str | None = None) -> HuggingFaceSource:
    """Load a dataset of the hub by its name."""
    repository, _, configuration = name.partition("::")
    problem = f"{name}: there is no such file or folder, and no dataset of that name could be loaded"
    with _explain(name, DataFileNotFoundError, problem) as datasets:
        loaded = datasets.load_dataset(repository, configuration or None, split=split)
    return from_dataset(loaded, request, None, f"hf:{name}")


def load_saved(folder: str, request: ColumnRequest, split: str | None = None) -> HuggingFaceSource:
    """Open a folder that ``save_to_disk`` wrote."""
    with _explain(folder, InvalidInputError, f"{folder} is not a saved dataset, or is damaged") as datasets:
        loaded = datasets.load_from_disk(folder)
    return from_dataset(loaded, request, split, folder)


@contextmanager
def _explain(name: str, kind: type[Exception], problem: str) -> Iterator[Any]:
    """Yield the package, and make one sentence of whatever it raises."""
    datasets = imported("datasets", f"{name}: reading it needs the package datasets", "vision")
    try:
        yield datasets
    except Exception as error:  # the package raises a dozen kinds, for a dozen things beyond our reach
        raise kind(f"{problem}: {first_line(error)}.") from None


def from_dataset(loaded: Any, request: ColumnRequest, split: str | None, location: str) -> HuggingFaceSource:
    """Make a source of what ``datasets`` returns, be it one split or a dictionary of splits."""
    if not isinstance(loaded, dict):
        if split is not None:
            raise InvalidInputError(f"split={split!r}: {location} is a single split.")
        return HuggingFaceSource(loaded, request, location)
    if split is None and len(loaded) != 1:
        raise InvalidInputError(
            f"{location} has several splits ({listed(loaded)}): say which, as split={next(iter(loaded), '')!r}."
        )
    split = next(iter(loaded)) if split is None else split
    if split not in loaded:
        raise unknown_name("split", split, loaded, f"{location} has no such split; it has")
    return HuggingFaceSource(loaded[split], request, f"{location} ({split})")
