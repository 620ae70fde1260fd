"""Tables and datasets: results as a DataFrame of the package at hand or as HTML, and rows taken from any dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any, Literal, TypeAlias

import numpy as np

from gmmatch._array import Indices
from gmmatch.errors import InvalidInputError, InvalidTypeError, MissingDependencyError

Package: TypeAlias = Literal["pandas", "polars", "pyarrow"]
"""Which package's table ``to_frame`` returns."""

# Lines of a table in a notebook.
SHOWN = 10


def as_frame(table: Any, package: Package) -> Any:
    """Return a pyarrow Table as a DataFrame of pandas or polars, or as it is.

    Examples
    --------
    >>> import pyarrow as pa
    >>> as_frame(pa.table({"row": [3, 0]}), "pandas")
       row
    0    3
    1    0
    """
    if package == "pyarrow":
        return table
    if package not in ("pandas", "polars"):
        raise InvalidInputError(f'package={package!r}: expected "pandas", "polars" or "pyarrow".')
    try:
        module = import_module(package)
    except ImportError:
        raise MissingDependencyError(
            f"to_frame({package!r}) needs {package}: pip install {package}. "
            'to_frame("pyarrow") needs nothing more.'
        ) from None
    return table.to_pandas() if package == "pandas" else module.from_arrow(table)


def arrow_column(values: Any) -> Any:
    """Return values as a pyarrow Array; as text if they are of several types.

    Examples
    --------
    >>> arrow_column(["a", 1, None]).to_pylist()
    ['a', '1', None]
    """
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return arrow_column([None if value is None else str(value) for value in values])
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"The text {error.object!r}, an id or a label, is not valid Unicode, which no table can hold: rename it."
        ) from None


def html_table(title: str, header: Sequence[str], lines: Sequence[Sequence[object]], total: int = 0) -> str:
    """Return a headline and a table, as a notebook shows them; ``total`` is how many lines there would be.

    Examples
    --------
    >>> html_table("2 < 3", ["class", "picks"], [("a", 2)])
    '<p>2 &lt; 3</p><table><tr><th>class</th><th>picks</th></tr><tr><td>a</td><td>2</td></tr></table>'
    """
    more = f"<p>and {total - len(lines):,} more</p>" if total > len(lines) else ""
    cells = "".join(_line("td", line) for line in lines)
    table = f"<table>{_line('th', header)}{cells}</table>" if lines else ""
    return f"<p>{escape(title)}</p>{table}{more}"


def _line(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"


def _bases(dataset: object) -> set[str]:
    """Names such as "torch.Dataset" (top package and class) of a type and its bases.

    Telling types apart by name spares importing the packages they come from.
    """
    return {f"{base.__module__.partition('.')[0]}.{base.__qualname__}" for base in type(dataset).__mro__}


def is_ray_dataset(dataset: object) -> bool:
    """Return whether something is a dataset of Ray Data.

    Examples
    --------
    >>> is_ray_dataset([1, 2])
    False
    """
    return "ray.Dataset" in _bases(dataset)


def count_rows(dataset: Any, name: str = "dataset") -> int:
    """Return how many rows a dataset has; raise where rows cannot be looked up by number.

    Examples
    --------
    >>> count_rows(np.zeros((3, 2)))
    3
    """
    if isinstance(dataset, Mapping):
        raise InvalidTypeError(f"{name} is a mapping, not rows: give one of its values ({name}['train']).")
    streamed = any(base.endswith(".IterableDataset") for base in _bases(dataset))
    if not streamed and hasattr(dataset, "__getitem__") and not isinstance(dataset, (str, bytes)):
        try:
            return len(dataset)
        except (TypeError, NotImplementedError):
            # Sparse matrices refuse to say, but have a shape.
            shape = getattr(dataset, "shape", None)
            if shape:
                return int(shape[0])
    raise InvalidTypeError(
        f"{name} has type {type(dataset).__name__}, whose rows cannot be looked up by number: give a list, "
        "an array, a DataFrame, a Table, or a dataset with a length (list(dataset) makes one)."
    )


def wrong_length(n_rows: int, expected: int) -> str:
    """Return what is said of a dataset that a selection was not made from.

    Examples
    --------
    >>> wrong_length(3, 4)[:56]
    'dataset has 3 rows, but the selection was made from 4: a'
    """
    return (
        f"dataset has {n_rows:,} rows, but the selection was made from {expected:,}: apply it to the dataset it was "
        "made from."
    )


def take_rows(dataset: Any, rows: Indices) -> Any:
    """Return these rows of a dataset, as the same kind of thing where there is one.

    A torch Dataset becomes a ``torch.utils.data.Subset``, any sequence that is not an array a list.

    Examples
    --------
    >>> take_rows(("a", "b", "c"), np.array([2, 0]))
    ['c', 'a']
    """
    bases = _bases(dataset)
    packages = {name.partition(".")[0] for name in bases}
    if isinstance(dataset, np.ndarray):
        return dataset[rows]
    if "torch.Tensor" in bases:
        import torch

        return dataset.index_select(0, torch.tensor(rows, device=dataset.device))
    if "torch.Dataset" in bases:
        from torch.utils.data import Subset

        return Subset(dataset, rows.tolist())
    if "datasets" in packages and hasattr(dataset, "select"):
        return dataset.select(rows)
    if hasattr(dataset, "iloc"):
        return dataset.iloc[rows]
    if "polars" in packages:
        return dataset[rows.tolist()]
    if packages & {"pandas", "pyarrow"} and hasattr(dataset, "take"):
        return dataset.take(rows)
    if "scipy" in packages:
        return dataset.tocsr()[rows].asformat(dataset.format)
    return [dataset[row] for row in rows.tolist()]
