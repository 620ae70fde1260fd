"""Selections on disk: Parquet, one line per pick, and CSV for people.

The rest is JSON in the metadata of the Parquet file. Nothing is ever pickled, and a file is either the old one or the
new one, never half of each.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.files import as_path, explain_damage, is_remote, parquet_table, read_header, write_table
from gmmatch.frames import arrow_column
from gmmatch.groups import Label
from gmmatch.screening.result import ScreeningResult

if TYPE_CHECKING:
    from gmmatch.selection.selection import Selection

FORMAT_VERSION = 2
"""Raised when a file of the new format would be misread by an older gmmatch; version 1 is read as well."""

_FORMAT = "gmmatch-selection"
_METADATA_KEY = b"gmmatch"


def write_selection(selection: Selection, path: str | os.PathLike[str]) -> None:
    """Write a selection in the format that the path's suffix names, and all of it or nothing."""
    path = as_path(path)
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise InvalidInputError(f"{path} has the suffix {path.suffix!r}: use .parquet or .csv.")
    if not is_remote(path) and not path.parent.is_dir():
        raise DataFileNotFoundError(f"{path}: the folder {path.parent} does not exist; make it first.")
    table = pick_table(selection)
    if path.suffix.lower() == ".parquet":
        table = table.replace_schema_metadata({_METADATA_KEY: _header(selection).encode("ascii")})
    write_table(table, path)


def read_selection(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of the selection that :func:`write_selection` wrote as Parquet."""
    path = as_path(path)
    if path.suffix.lower() != ".parquet":
        raise InvalidInputError(f"{path} has the suffix {path.suffix!r}: a selection is read from .parquet.")
    with explain_damage(path, "gmmatch selection", MemoryError):
        return _read_parquet(path.read_bytes(), path)


def pick_table(selection: Selection) -> Any:
    """Return the picks as a pyarrow Table, one line per pick, in pick order."""
    import pyarrow as pa

    keys, kind = _group_keys(selection.classes)
    columns = {
        "row": pa.array(selection.order),
        "group": pa.array([keys[i] for i in selection.group_of_pick.tolist()], kind),
    }
    if selection.order_ids is not None:
        columns["id"] = arrow_column(selection.order_ids.tolist())
    columns["residual"] = pa.array(selection.residuals, mask=np.isnan(selection.residuals))
    if selection.order_weights is not None:
        columns["weight"] = pa.array(selection.order_weights)
    return pa.table(columns)


def _header(selection: Selection) -> str:
    """Return what the metadata of a Parquet file hold, as JSON."""
    header = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        "n_rows": selection.n_rows,
        "groups": [
            {"label": _write_float(label), "n_rows": size}
            for label, size in zip(selection.classes, selection.group_sizes.tolist(), strict=True)
        ],
        "provenance": selection.provenance,
        "screening": None if selection.screening is None else selection.screening.to_json(),
    }
    return json.dumps(header, allow_nan=False)


def _read_parquet(contents: bytes, path: Path) -> dict[str, Any]:
    table = parquet_table(contents)
    metadata = table.schema.metadata or {}
    if _METADATA_KEY not in metadata:
        raise ValueError("the metadata that gmmatch writes is missing")
    header = read_header(metadata[_METADATA_KEY], path, _FORMAT, FORMAT_VERSION)
    if not isinstance(header["provenance"], dict) or not header["groups"]:
        raise ValueError("its provenance is not a mapping, or it has no groups")
    classes = [_read_float(group["label"]) for group in header["groups"]]
    position = {key: i for i, key in enumerate(_group_keys(classes)[0])}
    columns = set(table.column_names)
    # A screening of the first edition had other verdicts: its picks are read without it.
    screening = header.get("screening") if header["format_version"] > 1 else None
    return {
        "order": table["row"].to_numpy(),
        "n_rows": header["n_rows"],
        "classes": classes,
        "group_of_pick": np.array([position[key] for key in table["group"].to_pylist()], dtype=np.int64),
        "group_sizes": np.array([group["n_rows"] for group in header["groups"]], dtype=np.int64),
        "residuals": table["residual"].to_numpy(zero_copy_only=False),
        "ids": table["id"].to_pylist() if "id" in columns else None,
        "weights": table["weight"].to_numpy() if "weight" in columns else None,
        "provenance": header["provenance"],
        "screening": None if screening is None else ScreeningResult.from_json(screening),
    }


def _write_float(value: Label) -> Any:
    """JSON has no infinity and no NaN: write them as {"float": "inf"}."""
    return {"float": str(value)} if isinstance(value, float) and not np.isfinite(value) else value


def _read_float(value: Any) -> Any:
    return float(value["float"]) if isinstance(value, dict) else value


def _group_keys(labels: list[Label]) -> tuple[list[Any], str]:
    """Return the labels as values of one Parquet column, and the column's type.

    Labels of one type are written as they are; a mixture, or what the type cannot hold, as JSON text.
    """
    types = {type(label) for label in labels if label is not None}
    if types == {int} and all(-(2**63) <= label < 2**63 for label in labels if isinstance(label, int)):
        return list(labels), "int64"
    if types == {bool} or types == {float}:
        return list(labels), "bool" if bool in types else "float64"
    if types <= {str} and all(_is_unicode(label) for label in labels if isinstance(label, str)):
        return list(labels), "string"
    return [json.dumps(_write_float(label)) for label in labels], "string"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
