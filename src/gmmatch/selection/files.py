"""Selections on disk: Parquet, JSON, and .npy with a JSON file beside it.

All three hold the same header and, for every pick, its row, its group, its id, its residual and its weight. Nothing
is ever pickled, and a file is either the old one or the new one, never half of each.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError, first_line
from gmmatch.files import as_path, is_remote, parquet_table, replacing
from gmmatch.screening.result import screening_from_json, screening_to_json
from gmmatch.selection.groups import SelectedGroup
from gmmatch.selection.labels import Label
from gmmatch.selection.past import Past
from gmmatch.types import Indices, Mask

if TYPE_CHECKING:
    from gmmatch.selection.selection import Selection

FORMAT_VERSION = 1
"""Raised when a file of the new format would be misread by an older gmmatch."""

_FORMAT = "gmmatch-selection"
_METADATA_KEY = b"gmmatch"
# What reading a file with wrong contents can raise; files that cannot be opened at all are not among them.
_DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    *(RuntimeError, EOFError, OSError, MemoryError),
    tokenize.TokenError,  # NumPy's, from the header of a .npy file
)


def write_selection(selection: Selection, path: str | os.PathLike[str]) -> None:
    """Write a selection in the format that the path's suffix names, and all of it or nothing."""
    path = as_path(path)
    suffix = _suffix(path)
    if selection.past is not None and suffix != ".parquet":
        raise InvalidInputError(
            f"path={str(path)!r}: a selection that can be updated holds the rows of its picks; save it as .parquet."
        )
    if not is_remote(path) and not path.parent.is_dir():
        raise DataFileNotFoundError(
            f"path={str(path)!r}: the folder {path.parent} does not exist; make it first."
        )
    if suffix == ".parquet":
        contents = {path: _parquet(selection)}
    elif suffix == ".json":
        document = {**_header(selection), "order": selection.order.tolist(), **_per_pick(selection)}
        contents = {path: _json(document)}
    else:
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(selection.order), allow_pickle=False)
        # Two files cannot be renamed in one step: the checksum tells when they do not belong together.
        digest = hashlib.sha256(buffer.getvalue()).hexdigest()
        document = {**_header(selection), "npy_sha256": digest, **_per_pick(selection)}
        contents = {path: buffer.getvalue(), _sidecar(path): _json(document)}
    with replacing(*contents) as temporary:
        for made, data in zip(temporary, contents.values(), strict=True):
            made.write_bytes(data)


def read_selection(cls: type[Selection], path: str | os.PathLike[str]) -> Selection:
    """Read what :func:`write_selection` wrote."""
    path = as_path(path)
    suffix = _suffix(path)
    if not path.exists():
        raise DataFileNotFoundError(f"path={str(path)!r}: there is no such file.")
    if path.is_dir():
        raise InvalidInputError(
            f"path={str(path)!r} is a folder: give the file that a selection was saved to."
        )
    contents = path.read_bytes()
    try:
        if suffix == ".parquet":
            arguments = _from_parquet(contents, path)
        elif suffix == ".json":
            document = _parse_header(contents, path)
            arguments = _from_json(document, document["order"])
        else:
            arguments = _from_npy(contents, path)
    except (DataFileNotFoundError, InvalidInputError):
        raise
    except _DAMAGE as error:
        raise _damaged(path, error) from None
    try:
        groups = [SelectedGroup(*part) for part in arguments.pop("groups")]
        return cls(groups=groups, **arguments)
    except (InvalidInputError, InvalidTypeError) as error:
        raise _damaged(path, error) from None


def _suffix(path: Path) -> str:
    if path.suffix.lower() not in (".parquet", ".json", ".npy"):
        raise InvalidInputError(
            f"path={str(path)!r} has the suffix {path.suffix!r}: use .parquet, .json or .npy."
        )
    return path.suffix.lower()


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _damaged(path: Path, reason: object) -> InvalidInputError:
    """The error for a file that is no selection or not a whole one, in one sentence."""
    if isinstance(reason, KeyError):
        reason = f"{reason} is missing"
    return InvalidInputError(
        f"path={str(path)!r} is not a gmmatch selection, or is damaged: {first_line(reason)}."
    )


# ------------------------------------------------------------------------------- header, JSON and npy


def _header(selection: Selection) -> dict[str, Any]:
    header = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        "n_rows": selection.n_rows,
        "groups": [{"label": _json_float(group.label), "n_rows": group.n_rows} for group in selection.groups],
        "provenance": selection.provenance,
    }
    if selection.screening is not None:
        header["screening"] = screening_to_json(selection.screening)
    if selection.past is not None:
        header["past"] = selection.past.as_json()
    return header


def _per_pick(selection: Selection) -> dict[str, Any]:
    return {
        "group_of_pick": selection.group_of_pick.tolist(),
        "residuals": [
            [_json_float(value) for value in group.residuals.tolist()] for group in selection.groups
        ],
        "ids": None if selection.order_ids is None else selection.order_ids.tolist(),
        "weights": None if selection.order_weights is None else selection.order_weights.tolist(),
    }


def _json(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, allow_nan=False) + "\n").encode("ascii")


def _json_float(value: Label) -> Any:
    """JSON has no infinity and no NaN: write them as {"float": "inf"}."""
    return {"float": str(value)} if isinstance(value, float) and not np.isfinite(value) else value


def _read_float(value: Any) -> Any:
    return float(value["float"]) if isinstance(value, dict) else value


def _parse_header(text: bytes, path: Path) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, error) from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise _damaged(path, f"it does not say format: {_FORMAT}")
    version = document["format_version"]
    if type(version) is not int or version < 1:
        raise _damaged(path, f"its format_version is {version!r}")
    if version > FORMAT_VERSION:
        raise InvalidInputError(
            f"path={str(path)!r} was written by a newer gmmatch (format {version}; this one reads up to "
            f"{FORMAT_VERSION}): upgrade gmmatch to read it."
        )
    return document


def _arguments(
    header: dict[str, Any],
    order: Indices,
    group_of_pick: Indices,
    residuals: list[Any],
    ids: Any,
    weights: Any,
) -> dict[str, Any]:
    """Return the arguments of a selection, its groups as arguments too."""
    groups = header["groups"]
    if not groups or len(order) != len(group_of_pick) or len(groups) != len(residuals):
        raise ValueError("its parts have different lengths")
    if len(order) and not 0 <= group_of_pick.min() <= group_of_pick.max() < len(groups):
        raise ValueError("a pick belongs to no group")
    if not isinstance(header["provenance"], dict):
        raise ValueError("its provenance is not a mapping")
    screening = header.get("screening")
    parts = zip(groups, _by_group(group_of_pick, len(groups)), residuals, strict=True)
    return {
        "order": order,
        "n_rows": header["n_rows"],
        "groups": [
            (_read_float(group["label"]), order[places], group["n_rows"], path)
            for group, places, path in parts
        ],
        "ids": ids,
        "weights": weights,
        "provenance": header["provenance"],
        "screening": None if screening is None else screening_from_json(screening),
    }


def _by_group(group_of_pick: Indices, n_groups: int) -> list[Indices]:
    """Return where the picks of each group stand in the pick order."""
    ends = np.cumsum(np.bincount(group_of_pick, minlength=n_groups))
    return np.split(np.argsort(group_of_pick, kind="stable"), ends[:-1])


def _integers(values: ArrayLike) -> Indices:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError("row or group numbers are not integers")
    return array.astype(np.int64)


def _from_json(document: dict[str, Any], order: Any) -> dict[str, Any]:
    residuals = [[_read_float(value) for value in path] for path in document["residuals"]]
    groups = _integers(document["group_of_pick"])
    more = document["ids"], document.get("weights")
    return _arguments(document, _integers(order), groups, residuals, *more)


def _from_npy(contents: bytes, path: Path) -> dict[str, Any]:
    order = np.lib.format.read_array(io.BytesIO(contents), allow_pickle=False)
    sidecar = _sidecar(path)
    if not sidecar.is_file():
        raise DataFileNotFoundError(
            f"path={str(path)!r} holds row numbers only; the rest of the selection is in {sidecar.name} "
            "beside it, which is missing: copy both files, or save as .parquet or .json."
        )
    document = _parse_header(sidecar.read_bytes(), sidecar)
    if document["npy_sha256"] != hashlib.sha256(contents).hexdigest():
        raise ValueError(f"{sidecar.name} beside it belongs to another array")
    return _from_json(document, order)


# ------------------------------------------------------------------------------------------- Parquet


def pick_table(selection: Selection) -> Any:
    """Return the picks as a pyarrow Table, one line per pick, in pick order."""
    import pyarrow as pa

    residual = np.full(selection.k, np.nan)
    known = np.zeros(selection.k, dtype=np.bool_)
    by_group = _by_group(selection.group_of_pick, len(selection.groups))
    for group, places in zip(selection.groups, by_group, strict=True):
        if len(group.residuals):
            residual[places], known[places] = group.residuals, True
    keys, kind = _group_keys([group.label for group in selection.groups])
    columns = {
        "row": _column(selection.order, "int64"),
        "group": _column([keys[i] for i in selection.group_of_pick.tolist()], kind),
    }
    ids = selection.order_ids
    try:
        if ids is not None:
            columns["id"] = _column(ids.tolist(), "string" if ids.dtype == object else ids.dtype.name)
    except UnicodeEncodeError:
        raise InvalidInputError("ids hold text that is not valid Unicode: save as .json instead.") from None
    columns["residual"] = _column(residual, "float64", known)
    if selection.order_weights is not None:
        columns["weight"] = _column(selection.order_weights, "float64")
    return pa.table(columns)


def _column(values: Any, kind: str, known: Mask | None = None) -> Any:
    """Return values as an Arrow array, from its bytes: ``pa.array`` imports pandas first, if that is installed."""
    import pyarrow as pa

    if isinstance(values, list):
        known = np.array([value is not None for value in values], dtype=np.bool_)
        values = [("" if kind == "string" else 0) if value is None else value for value in values]
    parts: list[Any]
    if kind == "string":
        texts = [text.encode() for text in values]
        parts = [np.cumsum([0, *map(len, texts)], dtype=np.int64), b"".join(texts)]
    else:
        numbers = np.ascontiguousarray(values, dtype=kind)
        parts = [np.packbits(numbers, bitorder="little") if kind == "bool" else numbers]
    mask = None if known is None or known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    type_ = pa.type_for_alias("large_string" if kind == "string" else kind)
    found = pa.Array.from_buffers(type_, len(values), [mask, *map(pa.py_buffer, parts)])
    return found.cast(pa.string()) if kind == "string" else found


def _parquet(selection: Selection) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pick_table(selection)
    if selection.past is not None:
        rows = selection.past.rows
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
        table = table.append_column("vector", vectors)
    table = table.replace_schema_metadata({_METADATA_KEY: _json(_header(selection))})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, write_page_checksum=True)
    return buffer.getvalue()


def _from_parquet(contents: bytes, path: Path) -> dict[str, Any]:
    table = parquet_table(contents)
    metadata = table.schema.metadata or {}
    if _METADATA_KEY not in metadata:
        raise ValueError("the metadata that gmmatch writes is missing")
    header = _parse_header(metadata[_METADATA_KEY], path)
    keys, _ = _group_keys([_read_float(group["label"]) for group in header["groups"]])
    position = {key: i for i, key in enumerate(keys)}
    group_of_pick = _integers([position[key] for key in table["group"].to_pylist()])
    known = ~table["residual"].is_null().to_numpy()
    values = table["residual"].to_numpy()
    residuals = [values[places[known[places]]] for places in _by_group(group_of_pick, len(keys))]
    ids = table["id"].to_pylist() if "id" in table.column_names else None
    weights = table["weight"].to_numpy() if "weight" in table.column_names else None
    found = _arguments(header, _integers(table["row"].to_numpy()), group_of_pick, residuals, ids, weights)
    if "past" in header:
        vectors = table["vector"].combine_chunks()
        rows = vectors.values.to_numpy().reshape(len(table), -1)
        found["past"] = Past.from_json(header["past"], rows)
    return found


def _group_keys(labels: list[Label]) -> tuple[list[Any], str]:
    """The labels as values of one Parquet column, and the column's type.

    Labels of one type are written as they are; a mixture, or what the type cannot hold, as JSON text.
    """
    types = {type(label) for label in labels if label is not None}
    if types == {int} and all(-(2**63) <= label < 2**63 for label in labels if isinstance(label, int)):
        return list(labels), "int64"
    if types == {bool} or types == {float}:
        return list(labels), "bool" if bool in types else "float64"
    if types <= {str} and all(_is_unicode(label) for label in labels if isinstance(label, str)):
        return list(labels), "string"
    return [json.dumps(_json_float(label)) for label in labels], "string"


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
