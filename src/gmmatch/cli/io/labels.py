"""Labels from a file beside the embeddings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.errors import DataFileNotFoundError, InvalidInputError, first_line

if TYPE_CHECKING:
    from gmmatch.types import Indices

_SUFFIXES = (".npy", ".npz", ".txt", ".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".pq")


def is_label_file(text: str) -> bool:
    """Tell whether ``--labels`` names a file rather than a column."""
    file, _ = _split(text)
    return file.suffix.lower() in _SUFFIXES or file.exists()


def read_labels(
    text: str,
    n_rows: int,
    *,
    option: str = "--labels",
    positions: Callable[[int], Indices | None] | None = None,
) -> Any:
    """Read one label per row from a file."""
    file, column = _split(text)
    if not text:
        raise InvalidInputError(f"{option} '': give a file or the name of a column, or 'none' for no labels.")
    if file.is_dir():
        raise InvalidInputError(f"{option} {text} is a folder: give a file with one label per row.")
    if not file.is_file():
        raise DataFileNotFoundError(f"{option} {text}: there is no such file.")
    try:
        labels = _read(file, column)
    except InvalidInputError as error:
        raise InvalidInputError(f"{option} {text}: {error}") from None
    except (ValueError, OSError, KeyError, EOFError, TypeError) as error:
        raise InvalidInputError(f"{option} {text} cannot be read: {first_line(error)}.") from None
    _check_plain(labels, f"{option} {text}")
    if len(labels) != n_rows:
        among = None if positions is None else positions(len(labels))
        if among is None:
            raise InvalidInputError(
                f"{option} {text} holds {len(labels):,} labels, but there are {n_rows:,} rows: give one per row."
            )
        labels = [labels[row] for row in among.tolist()]
    return labels


def _check_plain(labels: Any, what: str) -> None:
    """Raise unless there is a single value per row."""
    if hasattr(labels, "shape"):
        if len(labels.shape) != 1:
            raise InvalidInputError(f"{what} has shape {labels.shape}, where one label per row is expected.")
        return
    odd = next((label for label in labels if isinstance(label, (list, dict, bytes))), None)
    if odd is not None:
        raise InvalidInputError(f"{what} holds {str(odd)[:60]} where one label is expected.")


def _split(text: str) -> tuple[Path, str | None]:
    file, marks, column = text.rpartition("::")
    return (Path(file), column) if marks else (Path(text), None)


def _read(file: Path, column: str | None) -> Any:
    import numpy as np

    from gmmatch.data.text_tables import csv_records, json_lines, parsed_json

    suffix = file.suffix.lower()
    if suffix == ".npy":
        return np.load(file, allow_pickle=False)
    if suffix == ".npz":
        with np.load(file, allow_pickle=False) as members:
            return members[_column(members.files, column)]
    if suffix in (".parquet", ".pq"):
        import pyarrow.parquet as pq

        with pq.ParquetFile(file) as table:
            name = _column(table.schema_arrow.names, column)
            return table.read(columns=[name]).column(name).to_pylist()
    if suffix in (".csv", ".tsv"):
        lines = csv_records(file)
        _, names, _ = next(lines, (0, [], ""))
        place = names.index(_column(names, column))
        return [(cells[place] or None) if place < len(cells) else None for _, cells, _ in lines]
    if suffix in (".jsonl", ".ndjson"):
        records = [parsed_json(file, number, line) for number, line in json_lines(file)]
        name = _column(list(dict.fromkeys(key for record in records for key in record)), column)
        return [record.get(name) for record in records]
    if suffix == ".txt":
        return [line or None for line in file.read_text(encoding="utf-8-sig").splitlines()]
    raise InvalidInputError(f"give a file that ends in {', '.join(_SUFFIXES)}.")


def _column(names: list[str], wanted: str | None) -> str:
    listed = ", ".join(repr(name) for name in names) or "none"
    if wanted is not None:
        if wanted not in names:
            raise InvalidInputError(f"there is no column {wanted!r}; its columns are {listed}.")
        return wanted
    for name in ("label", "labels"):
        if name in names:
            return name
    if len(names) != 1:
        raise InvalidInputError(f"say which column, as file::column; its columns are {listed}.")
    return names[0]
