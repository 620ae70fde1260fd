"""Embeddings that lie in a file: which column they are in, which one names them, and the rows themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gmmatch.cli.io.output import note
from gmmatch.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gmmatch.data.columns import UndecidedColumnsError
    from gmmatch.data.source import BaseSource

_PLURALS = {"image": "images", "text": "texts"}


def open_vectors(
    path: str, embedding_column: str | None, id_column: str | None
) -> tuple[BaseSource, dict[str, Any]]:
    """Open a file of embeddings.

    Parameters
    ----------
    path
        What :func:`gmmatch.data.open_source` takes.
    embedding_column, id_column
        As for :func:`gmmatch.cli.io.inputs.open_embeddings`.

    Returns
    -------
    (source, options)
        The options open it the same way again.
    """
    options: dict[str, Any] = {"prefer": "embedding"}
    if embedding_column is not None:
        options["embedding_column"] = embedding_column
    if id_column:
        options["id_column"] = id_column
    source = open_as_vectors(path, options)
    return _with_ids(source, path, options) if id_column is None else (source, options)


def open_as_vectors(path: str, options: Mapping[str, Any]) -> BaseSource:
    """Open a source, and raise if it holds anything but embeddings."""
    from gmmatch.data import open_source
    from gmmatch.data.columns import UndecidedColumnsError

    try:
        source = open_source(path, **options)
    except UndecidedColumnsError as error:
        if "embedding" in error.candidates or not error.candidates:
            raise
        raise _not_vectors(path, *_first_candidate(error)) from None
    if source.kind != "embedding":
        raise _not_vectors(path, source.kind)
    return source


def _first_candidate(error: UndecidedColumnsError) -> tuple[str, str]:
    kind, names = next(iter(error.candidates.items()))
    return kind, names[0]


def _not_vectors(path: str, kind: str, column: str | None = None) -> InvalidInputError:
    from gmmatch.data.opening import format_of

    named = "" if column is None else f" --{kind}-column {column}"
    # Numbers in a text file are the likeliest thing to be taken for embeddings.
    hint = " Vectors are not read from CSV: save them as .npy or Parquet." if format_of(path) == "csv" else ""
    return InvalidInputError(
        f"{path} holds {_PLURALS[kind]}, not embeddings: make some first, as `gmmatch embed {path}{named} "
        f"-o rows.emb`.{hint}"
    )


def _with_ids(source: BaseSource, path: str, options: dict[str, Any]) -> tuple[BaseSource, dict[str, Any]]:
    """Open a source again with a column that is named like ids, if it can serve as that."""
    name = getattr(getattr(source, "columns", None), "id_like", None)
    if name is None or source.n_rows is None:
        return source, options
    asked = {**options, "id_column": name}
    named = open_as_vectors(path, asked)
    try:
        distinct = len(set(named.ids)) == source.n_rows
    except InvalidTypeError:  # some are missing, or no ids at all
        distinct = False
    if distinct:
        return named, asked
    note(f"{path}: column {name!r} is not taken as ids, as some of its values are missing or the same.")
    return source, options


def read_rows(source: BaseSource, memory: int | None) -> tuple[Any, tuple[int, int]]:
    """Return the rows as ``gmmatch.select`` takes them, mapped if the format allows it, and their shape.

    Parameters
    ----------
    source
        Of embeddings.
    memory
        The most bytes that they may take if they have to be read.
    """
    import numpy as np

    from gmmatch.data.arrays import ArraySource

    n_rows = source.n_rows
    if n_rows is None:
        raise InvalidInputError(
            f"{source.location} is a stream: write it to a store first, with `gmmatch embed --encoder identity`."
        )
    if not n_rows:
        raise InvalidInputError(f"{source.location} has no rows: there is nothing to select from.")
    if isinstance(source, ArraySource):
        array = source.array
        return (MappedBfloat16(array) if _is_bfloat16(source) else array), tuple(array.shape)
    out: NDArray[Any] | None = None
    for batch in source.batches(4096):
        if out is None:
            shape = (n_rows, batch.rows.shape[1])
            _check_memory(source.location, n_rows * shape[1] * batch.rows.dtype.itemsize, memory)
            out = np.empty(shape, dtype=batch.rows.dtype)
        out[batch.start : batch.start + len(batch)] = batch.rows
    assert out is not None
    return out, (out.shape[0], out.shape[1])


def _check_memory(location: str, needed: int, memory: int | None) -> None:
    if memory is not None and needed > memory // 2:
        raise InvalidInputError(
            f"{location} would take {needed:,} bytes of memory, and --memory allows half of {memory:,} for it: "
            f"write it to a store first, as `gmmatch embed {location} -o rows.emb --encoder identity`."
        )


def _is_bfloat16(source: Any) -> bool:
    return (
        source.describe()["format"] == "safetensors file"
        and bool(source._bfloat16)
        and source.array.dtype.name == "uint16"
    )


class MappedBfloat16:
    """Rows of a safetensors file of bfloat16 numbers, as selectors read them.

    Examples
    --------
    >>> import numpy as np
    >>> MappedBfloat16(np.zeros((3, 2), dtype=np.uint16)).row_source().shape
    (3, 2)
    """

    bfloat16 = True
    on_disk = True

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.shape, self.dtype = array.shape, array.dtype

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        picked: NDArray[Any] = self.array[rows]
        return picked

    def row_source(self) -> MappedBfloat16:
        """Return itself."""
        return self
