"""Results as tables: a DataFrame of the package at hand, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import import_module
from typing import Any, Literal, TypeAlias

from gmmatch.errors import InvalidInputError, MissingDependencyError

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
