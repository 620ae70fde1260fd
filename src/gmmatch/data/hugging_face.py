"""Hugging Face datasets: by name, from a folder, or already loaded; whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from gmmatch._array import sample_indices
from gmmatch.data.columns import ColumnRequest, ColumnType, choose_columns
from gmmatch.data.files import fingerprint_of
from gmmatch.data.tables import Records, TableSource
from gmmatch.data.values import column_types
from gmmatch.errors import (
    DataFileNotFoundError,
    InvalidInputError,
    first_line,
    imported,
    listed,
    unknown_name,
)

_SAMPLED_ROWS = 64
_SAMPLED_FROM_STREAM = 16


class HuggingFaceSource(TableSource):
    """The rows of a ``datasets.Dataset`` or ``datasets.IterableDataset``.

    Images are handed on as they are stored, without being decoded. An id is the row's number unless a
    column is named. A stream has no length and cannot list its ids and labels: they come with the
    batches.
    """

    format = "Hugging Face dataset"

    def __init__(self, dataset: Any, request: ColumnRequest, location: str) -> None:
        self._data, self.streaming = dataset, not hasattr(dataset, "num_rows")
        self.location = location
        self._take(choose_columns(self._available(), request, location))
        self.how = ("streamed, " if self.streaming else "") + self.how
        # In the form of Arrow tables nothing is decoded or converted.
        self._data = dataset.select_columns(self.columns.names()).with_format("arrow")

    def _available(self) -> dict[str, ColumnType]:
        features = self._data.features
        if features is None:  # a stream that does not know before it is read
            tables = self._data.with_format("arrow").iter(_SAMPLED_FROM_STREAM)
            types = next((column_types(table.schema, self.location) for table in tables), {})
        else:
            types = column_types(features.arrow_schema, self.location)
            # Sounds and films are stored like images.
            others = [name for name in types if type(features[name]).__name__ in ("Audio", "Video", "Pdf")]
            types |= dict.fromkeys(others, "other")
        if not types:
            raise InvalidInputError(f"{self.location} has no columns, or no rows to find them in.")
        return types

    @property
    def n_rows(self) -> int | None:
        """How many rows there are; None for a stream."""
        return None if self.streaming else int(self._data.num_rows)

    def fingerprint(self) -> str:
        """Hash the columns, the number of rows and up to 64 of them; of a stream, its name and beginning."""
        parts: list[str | int | bytes | None] = ["hugging face", *self.columns.settings(), self.n_rows]
        if self.streaming:
            parts.append(self.location)
            tables = self._data.take(_SAMPLED_FROM_STREAM).iter(_SAMPLED_FROM_STREAM)
        else:
            rows = sample_indices(self._data.num_rows, _SAMPLED_ROWS).tolist()
            tables = (self._data[row : row + 1] for row in rows)
        for table in tables:
            parts.append(repr([dict(sorted(row.items())) for row in table.to_pylist()]))
        return fingerprint_of(parts)

    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        data = self._data.select_columns(names)
        if self.streaming:
            tables = (data.skip(start) if start else data).iter(size)
        else:
            tables = (data[first : first + size] for first in range(start, data.num_rows, size))
        for batch in chain.from_iterable(table.to_batches() for table in tables):
            yield self._arrow_records(batch, start)
            start += batch.num_rows


def load_named(
    name: str, request: ColumnRequest, split: str | None = None, *, streaming: bool = False
) -> HuggingFaceSource:
    """Load a dataset of the hub by its name."""
    repository, _, configuration = name.partition("::")
    problem = f"{name}: there is no such file or folder, and no dataset of that name could be loaded"
    with _explain(name, DataFileNotFoundError, problem) as datasets:
        loaded = datasets.load_dataset(repository, configuration or None, split=split, streaming=streaming)
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
    names = list(loaded)
    if split is None and len(names) != 1:
        raise InvalidInputError(
            f"{location} has several splits ({listed(names)}): say which, as split={names[0]!r}."
        )
    split = names[0] if split is None else split
    if split not in loaded:
        raise unknown_name("split", split, names, f"{location} has no such split; it has")
    return HuggingFaceSource(loaded[split], request, f"{location} ({split})")
