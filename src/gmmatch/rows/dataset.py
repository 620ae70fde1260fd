"""Datasets of Ray Data: vectors for the workers, labels and ids by column, and the rows of a selection.

Rows are numbered through the blocks of a dataset in its own order, which Ray keeps if asked to (``preserve_order``),
however many tasks read and transform them at a time. Blocks stay in Ray's object store: what comes here is their
sizes, and columns of labels and ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from gmmatch._array import Indices
from gmmatch.errors import InvalidInputError, imported, listed, unknown_name
from gmmatch.frames import wrong_length

_ORDER = "__pick__"


class VectorBlock(NamedTuple):
    """The vectors of one block: an array in Ray's object store, and its shape."""

    reference: Any
    n_rows: int
    n_features: int


def read_vectors(dataset: Any) -> list[VectorBlock]:
    """Return the blocks of the only column of vectors, those without rows left out."""
    ray = imported("ray", "A Ray dataset needs Ray", "ray")
    column = _vector_column(dataset)
    convert = ray.remote(num_returns=2)(_convert)
    with _in_order(dataset):
        pairs = [convert.remote(block, column) for block, _ in _blocks(dataset.select_columns([column]))]
    blocks: list[VectorBlock] = []
    first, expected = 0, 0
    for reference, answer in pairs:
        n_rows, length, odd = ray.get(answer)
        if n_rows:
            expected = expected or length
            if length != expected or odd >= 0:
                row = first + (0 if length != expected else odd)
                raise InvalidInputError(
                    f"X: row {row:,} of the dataset has no vector of {expected} numbers in column {column!r}: drop "
                    "such rows, or fill them in."
                )
            blocks.append(VectorBlock(reference, n_rows, length))
        first += n_rows
    if not blocks:
        raise InvalidInputError("X is a dataset without rows: give at least one.")
    return blocks


def read_column(dataset: Any, name: str) -> NDArray[Any]:
    """Return the values of a column, in the order of the rows."""
    names = dataset.schema().names
    if name not in names:
        raise unknown_name("column", name, names, "the dataset has no such column; its columns are")
    values: list[Any] = []
    with _in_order(dataset):
        for table in dataset.select_columns([name]).iter_batches(batch_size=None, batch_format="pyarrow"):
            values.extend(table.column(name).to_pylist())
    return np.array(values, dtype=None if {type(value) for value in values} <= {int} else object)


def filter_dataset(dataset: Any, rows: Indices, n_rows: int, *, ranked: bool) -> Any:
    """Return a dataset of these rows: in its own order, or if ``ranked`` in theirs.

    Blocks are filtered where they are, one after another, so that Ray never holds more of them than it wants to.
    """
    ray, data = (imported(name, "A Ray dataset needs Ray", "ray") for name in ("ray", "ray.data"))
    ascending = np.argsort(rows, kind="stable")
    ordered = rows[ascending]
    take, first = ray.remote(_take), 0
    kept: list[Any] = []
    with _in_order(dataset):
        for block, size in _blocks(dataset):
            low, high = np.searchsorted(ordered, (first, first + size))
            if low < high or not kept:
                ranks = ascending[low:high] if ranked else None
                kept.append(take.remote(block, ordered[low:high] - first, ranks))
            first += size
    if first != n_rows:
        raise InvalidInputError(wrong_length(first, n_rows))
    result = data.from_arrow_refs(kept)
    return result.sort(_ORDER).drop_columns([_ORDER]) if ranked else result


@contextmanager
def _in_order(dataset: Any) -> Iterator[None]:
    """Let Ray hand out blocks in the order of the dataset, and not as they become ready."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        yield
    finally:
        options.preserve_order = before


def _blocks(dataset: Any) -> Iterator[tuple[Any, int]]:
    """Yield the blocks of a dataset, and how many rows they have."""
    for bundle in dataset.iter_internal_ref_bundles():
        yield from zip(bundle.block_refs, (block.num_rows for block in bundle.metadata), strict=True)


def _vector_column(dataset: Any) -> str:
    schema = dataset.schema()
    kinds = dict(zip(schema.names, schema.types, strict=True)) if schema is not None else {}
    vectors = [name for name, kind in kinds.items() if _is_vector(kind)]
    if len(vectors) == 1:
        return str(vectors[0])
    if not vectors:
        raise InvalidInputError(
            f"X: the dataset has no column of vectors, which are lists or tensors of numbers; its columns are "
            f"{listed(kinds)}."
        )
    raise InvalidInputError(
        f"X: the dataset has several columns of vectors ({listed(vectors)}): leave one, as in "
        f"dataset.drop_columns({vectors[1:]})."
    )


def _is_vector(kind: Any) -> bool:
    if getattr(kind, "shape", None) is not None:  # Ray's tensors; pictures have more dimensions
        return len(kind.shape) == 1
    if not isinstance(kind, pa.DataType):
        return False
    if not (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)):
        return False
    return bool(pt.is_floating(kind.value_type) or pt.is_integer(kind.value_type))


def _table(block: Any) -> Any:
    from ray.data.block import BlockAccessor

    return BlockAccessor.for_block(block).to_arrow()


def _take(block: Any, rows: Indices, ranks: Indices | None) -> Any:
    from ray.data.block import BlockAccessor

    table = _table(BlockAccessor.for_block(block).take(rows.tolist()))
    return table if ranks is None else table.append_column(_ORDER, pa.array(ranks))


def _convert(block: Any, column: str) -> tuple[NDArray[Any], tuple[int, int, int]]:
    """Return the vectors of a block; and its rows, the length of the first, and the first odd row or -1."""
    from ray.data.block import BlockAccessor

    table = _table(block)
    values, n = table.column(column), table.num_rows
    if getattr(values.type, "shape", None) is not None:
        array = np.asarray(BlockAccessor.for_block(table).to_numpy(column))
        return array, (n, array.shape[1], -1)
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    if n == 0 or lengths.min() != lengths.max() or lengths[0] < 1:
        length = max(1, int(lengths[0])) if n else 0
        return np.empty((0, 0)), (n, length, int(np.argmax(lengths != length)) if n else -1)
    flat = values.combine_chunks().flatten()
    missing = flat.is_null().to_numpy(zero_copy_only=False)
    odd_row = int(np.argmax(missing)) // int(lengths[0]) if flat.null_count else -1
    return flat.to_numpy(zero_copy_only=False).reshape(n, -1), (n, int(lengths[0]), odd_row)
