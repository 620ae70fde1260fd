"""What a source is: rows of one kind, in a fixed order, read a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.groups import Label

Kind: TypeAlias = Literal["image", "text", "embedding"]
"""What the rows of a source are."""

Id: TypeAlias = "int | str"
"""The name of a row: its number, its path or key, or what a column says."""


class BrokenRowError(InvalidInputError):
    """A row of texts cannot be used: a damaged line, a missing text, or a value that is no text.

    It stands among the rows of a source in place of the text, and whoever reads the rows decides.

    Parameters
    ----------
    message
        Which row, and what is wrong with it.
    missing
        Whether there simply is no text.
    """

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class ImageBytes(NamedTuple):
    """An encoded image in memory, with the name under which an error would report it.

    A tuple, because millions of them are handed to other processes: pickling a dataclass takes twice as long.

    Attributes
    ----------
    data
        The bytes of an image file; empty if the row has no image.
    name
        Where it comes from, such as ``row 3 of photos.parquet``.

    Examples
    --------
    >>> ImageBytes(b"", "row 3 of photos.parquet").name
    'row 3 of photos.parquet'
    """

    data: bytes
    name: str


@dataclass(frozen=True, eq=False)
class Batch:
    """Some consecutive rows of a source.

    Attributes
    ----------
    rows
        Images: a list of :class:`~pathlib.Path` or :class:`~gmmatch.data.ImageBytes`, for
        :func:`~gmmatch.data.load_image`. Text: a list of strings, with a :class:`~gmmatch.data.BrokenRowError` for
        each row without one. Vectors: an array of shape (b, s).
    ids
        One per row, integers or strings.
    labels
        One per row, None where a row has none; or None if the source has no labels.
    start
        The number of the first row in the source.

    Examples
    --------
    >>> batch = Batch(["a", "b", "c"], [7, 8, 9], None, start=7)
    >>> len(batch), batch[1:].ids, batch[1:].start
    (3, [8, 9], 8)
    """

    rows: Any
    ids: list[Id]
    labels: list[Label] | None
    start: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, chosen: slice) -> Batch:
        first, _, _ = chosen.indices(len(self))
        labels = None if self.labels is None else self.labels[chosen]
        return Batch(self.rows[chosen], self.ids[chosen], labels, self.start + first)


class Source(Protocol):
    """Rows of one kind in a fixed order. Anything with these members can be embedded.

    Two passes over a source give the same rows in the same order, and ``batches(b, start=s)`` gives the
    rows from number s on, so that interrupted work can be resumed.
    """

    @property
    def kind(self) -> Kind:
        """What the rows are: ``"image"``, ``"text"`` or ``"embedding"``."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""

    @property
    def has_labels(self) -> bool:
        """Whether the batches carry labels."""

    @property
    def ids(self) -> Sequence[Id]:
        """The names of all rows, found without reading the rows where the format allows it."""

    @property
    def labels(self) -> Sequence[Label] | None:
        """The labels of all rows, found without reading the rows where the format allows it."""

    def batches(self, batch_size: int, start: int = 0) -> Iterator[Batch]:
        """Yield the rows from number ``start`` on; all batches but the last have ``batch_size`` rows."""

    def describe(self) -> dict[str, Any]:
        """Say what the source is and how it was recognized, in what JSON can hold."""

    def fingerprint(self) -> str:
        """Return a short text that changes when the rows, ids or labels change."""


def regroup(pieces: Iterable[Batch], size: int) -> Iterator[Batch]:
    """Cut and join consecutive pieces into batches of ``size`` rows; the last may be shorter."""
    waiting: list[Batch] = []
    count = 0
    for piece in pieces:
        waiting.append(piece)
        count += len(piece)
        if count >= size:
            joined = _join(waiting)
            for first in range(0, count - size + 1, size):
                yield joined[first : first + size]
            count %= size
            waiting = [joined[len(joined) - count :]] if count else []
    if count:
        yield _join(waiting)


def _join(batches: list[Batch]) -> Batch:
    first, *others = batches
    if not others:
        return first
    parts = [batch.rows for batch in batches]
    rows = np.concatenate(parts) if isinstance(first.rows, np.ndarray) else list(chain.from_iterable(parts))
    labels = None if first.labels is None else [label for batch in batches for label in batch.labels or ()]
    return Batch(rows, [name for batch in batches for name in batch.ids], labels, first.start)
