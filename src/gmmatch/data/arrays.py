"""Vectors that exist already: arrays in memory, memory-mapped ``.npy`` files, tensors."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.fingerprints import canonical, evenly_spaced, fingerprint_of
from gmmatch.data.source import BaseSource, Batch, Id
from gmmatch.data.values import check_dtype, check_shape, plain_ids, plain_labels
from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.rows.npy_files import mapped
from gmmatch.selection.labels import Label

_SAMPLED_ROWS = 1024


class VectorSource(BaseSource):
    """What all sources of vectors share: a shape, and maybe labels and ids held in memory.

    Attributes
    ----------
    n_features
        Numbers per row.
    """

    kind = "embedding"

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], location: str, *, labels: Any, ids: Any
    ) -> None:
        self.location = location
        check_shape(shape, location)
        check_dtype(dtype, location)
        self._n_rows, self.n_features = shape
        self._labels = None if labels is None else plain_labels(_values(labels), "labels", self._row_name)
        self._ids: Sequence[Id] = range(self._n_rows)
        if ids is not None:
            self._ids = plain_ids(_values(ids), "ids", self._row_name)
        for name, values in (("labels", self._labels), ("ids", self._ids)):
            if values is not None and len(values) != self._n_rows:
                raise InvalidInputError(
                    f"{name} has {len(values):,} entries, but {location} has {self._n_rows:,} rows."
                )

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self._n_rows

    @property
    def has_labels(self) -> bool:
        """Whether labels were given."""
        return self._labels is not None

    @property
    def ids(self) -> Sequence[Id]:
        """The ids that were given, or the row numbers."""
        return self._ids

    @property
    def labels(self) -> Sequence[Label] | None:
        """The labels that were given."""
        return self._labels

    def _row_name(self, row: int) -> str:
        return f"row {row} of {self.location}"

    @abstractmethod
    def _blocks(self, start: int, size_hint: int) -> Iterator[NDArray[Any]]:
        """Yield the rows from ``start`` on, ``size_hint`` at a time."""

    def _pieces(self, start: int, size_hint: int) -> Iterator[Batch]:
        first = start
        for block in self._blocks(start, size_hint):
            stop = first + len(block)
            labels = None if self._labels is None else self._labels[first:stop]
            yield Batch(block, list(self._ids[first:stop]), labels, first)
            first = stop


class ArraySource(VectorSource):
    """The rows of a two-dimensional array or torch tensor, in memory or memory-mapped.

    Batches are views where the type allows it; bfloat16 rows come out as float32.

    Parameters
    ----------
    array : array of shape (n, s)
        Floats or integers; a torch tensor on any device.
    labels, ids
        One per row; by default there are no labels, and an id is the row's number.
    bfloat16
        Whether ``array`` is uint16 that holds the bits of bfloat16 numbers.
    location, format, how
        What to call it.

    Attributes
    ----------
    array
        What was given.

    Examples
    --------
    >>> source = ArraySource(np.arange(6.0).reshape(3, 2), labels=["a", "b", "a"])
    >>> [batch.rows.tolist() for batch in source.batches(2)]
    [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]]
    """

    def __init__(
        self,
        array: Any,
        *,
        labels: Any = None,
        ids: Any = None,
        bfloat16: bool = False,
        location: str = "an array in memory",
        format: str = "array",
        how: str = "",
    ) -> None:
        self.array, self.format, self.how = array, format, how
        check_shape(tuple(array.shape), location)  # before anything is sliced
        self._bfloat16 = bfloat16 or str(array.dtype) == "bfloat16"  # the latter is ml_dtypes' name
        super().__init__(tuple(array.shape), self._block(0, 0).dtype, location, labels=labels, ids=ids)

    @property
    def is_bfloat16(self) -> bool:
        """Whether ``array`` holds bfloat16 numbers, as NumPy arrays can only as the bits of another type."""
        return self._bfloat16

    def fingerprint(self) -> str:
        """Hash the shape, the type, up to 1,024 rows spread over the array, and all ids and labels."""
        n, s = self.array.shape
        parts: list[str | int | bytes | None] = ["array", int(n), int(s), str(self.array.dtype)]
        parts.append(int(self._bfloat16))
        parts.extend(self._block(row, row + 1).tobytes() for row in evenly_spaced(n, _SAMPLED_ROWS))
        parts.append(canonical(self._labels))
        parts.append(repr(self._ids) if isinstance(self._ids, range) else canonical(self._ids))
        return fingerprint_of(parts)

    def _block(self, start: int, stop: int) -> NDArray[Any]:
        block = self.array[start:stop]
        if is_tensor(block):
            return tensor_to_numpy(block)
        return widened(block) if self._bfloat16 else np.asarray(block)

    def _blocks(self, start: int, size_hint: int) -> Iterator[NDArray[Any]]:
        for first in range(start, self.n_rows, size_hint):
            yield self._block(first, min(self.n_rows, first + size_hint))


def open_npy(path: str | os.PathLike[str]) -> ArraySource:
    """Open a ``.npy`` file, memory-mapped.

    Parameters
    ----------
    path
        Holds a two-dimensional array of numbers.

    Returns
    -------
    ArraySource

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.zeros((3, 2)))
    ...     open_npy(f"{folder}/x.npy").n_rows
    3
    """
    if not Path(path).exists():
        raise DataFileNotFoundError(f"{path}: there is no such file.")
    try:
        array = mapped(path)
    except (ValueError, OSError, EOFError) as error:
        raise InvalidInputError(
            f"{path} is not a .npy file of numbers, or is truncated: {_first_line(error)}."
        ) from None
    return ArraySource(array, location=str(path), format=".npy file", how="an array, by its suffix")


def widened(bits: NDArray[Any]) -> NDArray[np.float32]:
    """Turn the bits of bfloat16 numbers into float32.

    Examples
    --------
    >>> widened(np.array([[0x3FC0]], dtype=np.uint16))
    array([[1.5]], dtype=float32)
    """
    wide = np.ascontiguousarray(bits).view(np.uint16).astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32)


def is_tensor(array: object) -> bool:
    """Tell whether this is a torch tensor, without importing torch."""
    return type(array).__module__.partition(".")[0] == "torch" and hasattr(array, "detach")


def tensor_to_numpy(tensor: Any) -> NDArray[Any]:
    """Bring a torch tensor to the CPU as an array; bfloat16 becomes float32."""
    tensor = tensor.detach().cpu()
    array: NDArray[Any] = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
    return array


def _values(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__
