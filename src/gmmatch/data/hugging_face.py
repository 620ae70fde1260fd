"""Hugging Face datasets: by name, from a folder, or already loaded; whole or streamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from gmmatch._array import sample_indices
from gmmatch.data.columns import ColumnRequest, ColumnType
from gmmatch.data.files import canonical, fingerprint_of
from gmmatch.data.tables import Records, TableSource, column_types
from gmmatch.errors import (
    DataFileNotFoundError,
    InvalidInputError,
    first_line,
    imported,
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
        self.location = location
        self.streaming = not hasattr(dataset, "num_rows")
        types = _feature_types(dataset, location)
        if not types:
            raise InvalidInputError(f"{location} has no columns, or no rows to find them in.")
        self._choose(types, request)
        self.how = ("streamed, " if self.streaming else "") + self.how
        # In the form of Arrow tables nothing is decoded or converted.
        self._data = dataset.select_columns(self.columns.names()).with_format("arrow")

    @property
    def n_rows(self) -> int | None:
        """How many rows there are; None for a stream."""
        return None if self.streaming else int(self._data.num_rows)

    def fingerprint(self) -> str:
        """Hash the columns, the number of rows and up to 64 of them; of a stream, its name and beginning."""
        parts: list[str | int | bytes | None] = ["hugging face", *self.columns.settings(), self.n_rows]
        if self.streaming:
            tables = self._data.take(_SAMPLED_FROM_STREAM).iter(_SAMPLED_FROM_STREAM)
            return fingerprint_of([*parts, self.location, *(_content(table) for table in tables)])
        rows = sample_indices(int(self._data.num_rows), _SAMPLED_ROWS).tolist()
        return fingerprint_of([*parts, *(_content(self._data[row : row + 1]) for row in rows)])

    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        data = self._data.select_columns(names)
        if self.streaming:
            tables = (data.skip(start) if start else data).iter(size)
        else:
            tables = (data[first : first + size] for first in range(start, data.num_rows, size))
        for table in tables:
            yield self._arrow_records(table, start)
            start += table.num_rows


def load_named(
    name: str, request: ColumnRequest, *, split: str | None = None, streaming: bool = False
) -> HuggingFaceSource:
    """Load a dataset of the hub by its name."""
    datasets = _datasets(name)
    repository, _, configuration = name.partition("::")
    try:
        loaded = datasets.load_dataset(repository, configuration or None, split=split, streaming=streaming)
    except Exception as error:  # the package raises a dozen kinds, for a dozen things beyond our reach
        raise DataFileNotFoundError(
            f"{name}: there is no such file or folder, and no dataset of that name could be loaded: "
            f"{first_line(error)}."
        ) from None
    return from_dataset(loaded, request, split=None if split else split, location=f"hf:{name}")


def load_saved(
    folder: str | os.PathLike[str], request: ColumnRequest, *, split: str | None = None
) -> HuggingFaceSource:
    """Open a folder that ``save_to_disk`` wrote; see :func:`load_named` for the parameters."""
    datasets = _datasets(str(folder))
    try:
        loaded = datasets.load_from_disk(str(folder))
    except Exception as error:  # see above
        raise InvalidInputError(
            f"{folder} is not a saved dataset, or is damaged: {first_line(error)}."
        ) from None
    return from_dataset(loaded, request, split=split, location=str(folder))


def from_dataset(
    loaded: Any, request: ColumnRequest, *, split: str | None, location: str
) -> HuggingFaceSource:
    """Make a source of what ``datasets`` returns, be it one split or a dictionary of splits."""
    if isinstance(loaded, dict):
        names = list(loaded)
        if split is None and len(names) != 1:
            listed = ", ".join(repr(name) for name in names)
            raise InvalidInputError(
                f"{location} has several splits ({listed}): say which, as split={names[0]!r}."
            )
        split = names[0] if split is None else split
        if split not in loaded:
            raise unknown_name("split", split, names, f"{location} has no such split; it has")
        return HuggingFaceSource(loaded[split], request, f"{location} ({split})")
    if split is not None:
        raise InvalidInputError(f"split={split!r}: {location} is a single split.")
    return HuggingFaceSource(loaded, request, location)


def _datasets(name: str) -> Any:
    return imported("datasets", f"{name}: reading it needs the package datasets", "vision")


def _feature_types(dataset: Any, where: str) -> dict[str, ColumnType]:
    features = dataset.features
    if features is None:  # a stream that does not know before it is read
        for table in dataset.with_format("arrow").iter(_SAMPLED_FROM_STREAM):
            return column_types(table.schema, where)
        return {}
    types = column_types(features.arrow_schema, where)
    # Sounds and films are stored like images.
    return {
        name: "other" if type(features[name]).__name__ in ("Audio", "Video", "Pdf") else kind
        for name, kind in types.items()
    }


def _content(table: Any) -> str:
    return canonical(table.to_pylist())
