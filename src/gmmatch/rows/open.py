"""Choose a backend by what was passed; no other module does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch._array import Indices, array_namespace, is_torch_array
from gmmatch._checks import LARGEST, check_array, check_whole_number, not_finite
from gmmatch.errors import InvalidInputError
from gmmatch.frames import is_ray_dataset
from gmmatch.rows.array import ArrayRows
from gmmatch.rows.base import Rows
from gmmatch.rows.files import FileRows
from gmmatch.rows.shards import RowFile


@contextmanager
def open_rows(
    X: Any,
    *,
    engine: Any = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
    name: str = "X",
    check: bool = True,
) -> Iterator[Rows]:
    """Open rows for reading; what was opened here is closed in the end.

    Parameters
    ----------
    X : array of shape (n, s), torch tensor, path or list of paths of .npy files, store, Ray dataset, or Rows
        A tensor stays on its device, files are read block by block. A ``ray.data.Dataset`` has one column of vectors,
        and stays in its cluster.
    engine : RayEngine, optional
        Where the work runs: in this process without one.
    memory_limit : int, optional
        For rows in files: bytes of rows that may be held at a time; 1 GiB by default.
    n_jobs : int, optional
        For rows in memory or in files: threads; every core by default.
    name : str
        What messages call ``X``.
    check : bool
        Whether to raise for NaN and infinity at once, which reads all rows.

    Examples
    --------
    >>> with open_rows([[1, 2], [3, 4]]) as rows:
    ...     rows.take(np.array([1]))
    array([[3., 4.]])
    """
    if isinstance(X, Rows):
        yield X
        return
    if memory_limit is not None:
        check_whole_number(memory_limit, "memory_limit", what="number of bytes")
    options: dict[str, Any] = {}
    for option, value in (("engine", engine), ("memory_limit", memory_limit), ("n_jobs", n_jobs)):
        if value is not None:
            options[option] = value
    if not isinstance(X, np.ndarray) and is_ray_dataset(X):
        options.setdefault("engine", "ray")
    backend, source = _choose(X, options.get("engine"), name)
    unused = options.keys() - signature(backend).parameters.keys()
    if unused:
        kind = backend.__name__.removesuffix("Rows").lower()
        raise InvalidInputError(f"{', '.join(sorted(unused))} has no meaning for {kind} rows: leave it out.")
    rows = backend(source, **options)
    try:
        if check:
            check_finite(rows, name)
        yield rows
    finally:
        rows.close()


def per_row_values(X: Any, given: Any, name: str) -> Any:
    """Return labels or ids: those that were given, or that ``X`` brings along; a text names a column of a dataset.

    Examples
    --------
    >>> per_row_values([[1.0], [2.0]], ["a", "b"], "labels")
    ['a', 'b']
    """
    if isinstance(given, str) and is_ray_dataset(X):
        from gmmatch.rows.dataset import read_column

        return read_column(X, given)
    # Of a table, such a name is a column.
    return getattr(X, name, None) if given is None and hasattr(X, "row_files") else given


def _choose(X: Any, engine: Any, name: str) -> tuple[Any, Any]:
    """Return the backend for ``X``, and what it reads."""
    # torch and Ray are optional, and slow to import.
    if engine is not None:
        from gmmatch.rows.ray import RayRows

        if is_ray_dataset(X):
            return RayRows, X
    paths = [X] if isinstance(X, (str, Path)) else getattr(X, "row_files", X)
    in_files = isinstance(paths, (list, tuple)) and bool(paths)
    in_files = in_files and all(isinstance(path, (str, Path, RowFile)) for path in paths)
    # A tensor in main memory is an array: compiled loops read it where it is.
    on_device = engine is None and is_torch_array(X) and X.is_cuda
    source: Any = (
        paths if in_files else X if on_device else check_array(X, name, "a 2d array of numbers", numbers=True)
    )
    if not in_files and source.ndim != 2:
        hint = " Reshape your data: X.reshape(-1, 1) for a single feature." if source.ndim == 1 else ""
        raise InvalidInputError(
            f"{name} has shape {tuple(source.shape)}: expected a 2d array, rows by features.{hint}"
        )
    if not in_files and 0 in source.shape:
        raise InvalidInputError(
            f"{name} has shape {tuple(source.shape)}: found array with 0 sample(s) or 0 feature(s) while a minimum "
            "of 1 is required."
        )
    if engine is not None:
        return RayRows, source
    if on_device:
        from gmmatch.rows.tensor import TensorRows

        return TensorRows, source
    return (FileRows if in_files else ArrayRows), source


def check_finite(rows: Rows, name: str = "X") -> None:
    """Raise for NaN, infinity or numbers that are too large to square, and name the first rows that hold them."""
    if rows.reduce_blocks(_is_suspect, combine=np.logical_or):
        bad: Indices = np.flatnonzero(~rows.map_blocks(_usable_rows))
        if len(bad):
            raise not_finite(name, len(bad), bad, len(rows))


def _is_suspect(block: Any) -> bool:
    xp = array_namespace(block)
    if xp.finfo(block.dtype).bits == 64:
        return not bool((xp.max(block) <= LARGEST) & (xp.min(block) >= -LARGEST))
    # All finite numbers of 32 bits can be squared. A sum shows NaN and infinity several times faster than a test of
    # every number; a sum of finite numbers can overflow, hence only suspect.
    with np.errstate(over="ignore", invalid="ignore"):
        return not bool(xp.isfinite(xp.sum(block)))


def _usable_rows(block: Any) -> Any:
    xp = array_namespace(block)
    rows = xp.astype(block, xp.float64)
    return xp.all(xp.isfinite(rows) & (xp.abs(rows) <= LARGEST), axis=1)
