"""Selections on disk: Parquet, JSON, and .npy with a JSON file beside it.

All three hold the same thing, a :class:`SelectionRecord`. Nothing is ever pickled, and a file is either
the old one or the new one, never half of each.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.files import replacing
from gmmatch.screening.result import Screening, screening_from_json, screening_to_json
from gmmatch.selection.labels import Label
from gmmatch.types import Indices, Vector

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


@dataclass(frozen=True, eq=False)
class SelectionRecord:
    """What a file holds: one entry per pick, in pick order, and what is known of the groups.

    Attributes
    ----------
    n_rows
        Rows of the input.
    order
        Row numbers of the picks, shape (k,).
    group_of_pick
        The position of each pick's group in ``labels``, shape (k,).
    labels, group_sizes, residuals
        Per group: its label, the rows of its class, and the residual after each of its picks (empty if
        it was not computed).
    ids
        The caller's ids of the picks, integers or strings, shape (k,); or None.
    provenance
        How the selection was made; can be written as JSON.
    screening
        Which rows could be picked, and why the others could not; or None.

    Examples
    --------
    >>> record = SelectionRecord(3, np.array([2, 0]), np.zeros(2, int), [None], [3], [np.ones(2)], None, {})
    >>> record.order
    array([2, 0])
    """

    n_rows: int
    order: Indices
    group_of_pick: Indices
    labels: list[Label]
    group_sizes: list[int]
    residuals: list[Vector]
    ids: Any
    provenance: dict[str, Any]
    screening: Screening | None = None


def write_record(record: SelectionRecord, path: str | os.PathLike[str]) -> None:
    """Write a record in the format that the path's suffix names, and all of it or nothing.

    Parameters
    ----------
    record
        What to write.
    path
        Ends in ``.parquet``, ``.json`` or ``.npy``; the last gets a file ``<name>.npy.json`` beside it.

    Examples
    --------
    >>> import tempfile
    >>> record = SelectionRecord(3, np.array([2, 0]), np.zeros(2, int), [None], [3], [np.ones(2)], None, {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_record(record, Path(folder, "picks.json"))
    ...     read_record(Path(folder, "picks.json")).order
    array([2, 0])
    """
    path = Path(path)
    encode, _ = _format_of(path)
    if not path.parent.is_dir():
        raise DataFileNotFoundError(
            f"path={str(path)!r}: the folder {path.parent} does not exist; make it first."
        )
    contents = encode(record, path)
    with replacing(*contents) as temporary:
        for made, data in zip(temporary, contents.values(), strict=True):
            made.write_bytes(data)


def read_record(path: str | os.PathLike[str]) -> SelectionRecord:
    """Read what :func:`write_record` wrote; see its example.

    Parameters
    ----------
    path
        Ends in ``.parquet``, ``.json`` or ``.npy``.

    Returns
    -------
    SelectionRecord

    Examples
    --------
    >>> read_record("nowhere.json")
    Traceback (most recent call last):
    gmmatch.errors.DataFileNotFoundError: path='nowhere.json': there is no such file.
    """
    path = Path(path)
    _, decode = _format_of(path)
    if not path.exists():
        raise DataFileNotFoundError(f"path={str(path)!r}: there is no such file.")
    if path.is_dir():
        raise InvalidInputError(
            f"path={str(path)!r} is a folder: give the file that a selection was saved to."
        )
    contents = path.read_bytes()
    try:
        return decode(contents, path)
    except (DataFileNotFoundError, InvalidInputError):
        raise
    except _DAMAGE as error:
        raise damaged(path, error) from None


def damaged(path: str | os.PathLike[str], reason: object) -> InvalidInputError:
    """The error for a file that is no selection or not a whole one, in one sentence.

    Examples
    --------
    >>> damaged("picks.json", "it is empty")
    InvalidInputError("path='picks.json' is not a gmmatch selection, or is damaged: it is empty.")
    """
    if isinstance(reason, KeyError):
        reason = f"{reason} is missing"
    first_line = next(iter(str(reason).splitlines()), "").rstrip(".") or type(reason).__name__
    return InvalidInputError(f"path={str(path)!r} is not a gmmatch selection, or is damaged: {first_line}.")


# ---------------------------------------------------------------------------------------------- JSON


def _header(record: SelectionRecord) -> dict[str, Any]:
    groups = [
        {"label": _json_float(label), "n_rows": size}
        for label, size in zip(record.labels, record.group_sizes, strict=True)
    ]
    header = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        "n_rows": record.n_rows,
        "groups": groups,
        "provenance": record.provenance,
    }
    if record.screening is not None:
        header["screening"] = screening_to_json(record.screening)
    return header


def _per_pick(record: SelectionRecord) -> dict[str, Any]:
    return {
        "group_of_pick": record.group_of_pick.tolist(),
        "residuals": [[_json_float(value) for value in path.tolist()] for path in record.residuals],
        "ids": None if record.ids is None else record.ids.tolist(),
    }


def _to_json(document: dict[str, Any]) -> bytes:
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
        raise damaged(path, error) from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise damaged(path, f"it does not say format: {_FORMAT}")
    version = document["format_version"]
    if type(version) is not int or version < 1:
        raise damaged(path, f"its format_version is {version!r}")
    if version > FORMAT_VERSION:
        raise InvalidInputError(
            f"path={str(path)!r} was written by a newer gmmatch (format {version}; this one reads up to "
            f"{FORMAT_VERSION}): upgrade gmmatch to read it."
        )
    return document


def _record_from(
    header: dict[str, Any], order: Indices, group_of_pick: Indices, residuals: list[Vector], ids: Any
) -> SelectionRecord:
    groups = header["groups"]
    if not groups or len(order) != len(group_of_pick) or len(groups) != len(residuals):
        raise ValueError("its parts have different lengths")
    if len(order) and not 0 <= group_of_pick.min() <= group_of_pick.max() < len(groups):
        raise ValueError("a pick belongs to no group")
    if not isinstance(header["provenance"], dict):
        raise ValueError("its provenance is not a mapping")
    return SelectionRecord(
        n_rows=header["n_rows"],
        order=order,
        group_of_pick=group_of_pick,
        labels=[_read_float(group["label"]) for group in groups],
        group_sizes=[group["n_rows"] for group in groups],
        residuals=residuals,
        ids=ids,
        provenance=header["provenance"],
        screening=None if header.get("screening") is None else screening_from_json(header["screening"]),
    )


def _integers(values: Any) -> Indices:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError("row or group numbers are not integers")
    return array.astype(np.int64)


def _record_from_json(document: dict[str, Any], order: Any) -> SelectionRecord:
    residuals = [
        np.array([_read_float(value) for value in path], dtype=np.float64) for path in document["residuals"]
    ]
    ids = document["ids"]
    return _record_from(document, _integers(order), _integers(document["group_of_pick"]), residuals, ids)


def _encode_json(record: SelectionRecord, path: Path) -> dict[Path, bytes]:
    document = {**_header(record), "order": record.order.tolist(), **_per_pick(record)}
    return {path: _to_json(document)}


def _decode_json(contents: bytes, path: Path) -> SelectionRecord:
    document = _parse_header(contents, path)
    return _record_from_json(document, document["order"])


# ----------------------------------------------------------------------------------------------- npy


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _encode_npy(record: SelectionRecord, path: Path) -> dict[Path, bytes]:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(record.order), allow_pickle=False)
    array = buffer.getvalue()
    # Two files cannot be renamed in one step: the checksum tells when they do not belong together.
    sidecar = {**_header(record), "npy_sha256": hashlib.sha256(array).hexdigest(), **_per_pick(record)}
    return {path: array, _sidecar(path): _to_json(sidecar)}


def _decode_npy(contents: bytes, path: Path) -> SelectionRecord:
    order = np.lib.format.read_array(io.BytesIO(contents), allow_pickle=False)
    sidecar = _sidecar(path)
    if not sidecar.is_file():
        raise DataFileNotFoundError(
            f"path={str(path)!r} holds row numbers only; the rest of the selection is in {sidecar.name} "
            "beside it, which is missing: copy both files, or save as .parquet or .json."
        )
    document = _parse_header(sidecar.read_bytes(), sidecar)
    if document["npy_sha256"] != hashlib.sha256(contents).hexdigest():
        raise damaged(path, f"{sidecar.name} beside it belongs to another array")
    return _record_from_json(document, order)


# ------------------------------------------------------------------------------------------- Parquet


def _encode_parquet(record: SelectionRecord, path: Path) -> dict[Path, bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Where the picks of the first group, then of the second, ... stand in the pick order.
    by_group = np.argsort(record.group_of_pick, kind="stable")
    counts = np.bincount(record.group_of_pick, minlength=len(record.labels))
    residual = np.full(len(record.order), np.nan)
    known = np.repeat([len(path) > 0 for path in record.residuals], counts)
    residual[by_group[known]] = np.concatenate([np.empty(0), *record.residuals])
    unknown = np.ones(len(record.order), dtype=bool)
    unknown[by_group[known]] = False

    keys, kind = _group_keys(record.labels)
    columns = {
        "row": pa.array(record.order, pa.int64()),
        "group": pa.array([keys[i] for i in record.group_of_pick.tolist()], pa.type_for_alias(kind)),
    }
    try:
        if record.ids is not None:
            columns["id"] = pa.array(record.ids, pa.string() if record.ids.dtype == object else None)
    except UnicodeEncodeError:
        raise InvalidInputError("ids hold text that is not valid Unicode: save as .json instead.") from None
    columns["residual"] = pa.array(residual, pa.float64(), mask=unknown)
    table = pa.table(columns).replace_schema_metadata({_METADATA_KEY: _to_json(_header(record))})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, write_page_checksum=True)
    return {path: buffer.getvalue()}


def _decode_parquet(contents: bytes, path: Path) -> SelectionRecord:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(contents), page_checksum_verification=True)
    metadata = table.schema.metadata or {}
    if _METADATA_KEY not in metadata:
        raise damaged(path, "the metadata that gmmatch writes is missing")
    header = _parse_header(metadata[_METADATA_KEY], path)
    keys, _ = _group_keys([_read_float(group["label"]) for group in header["groups"]])
    position = {key: i for i, key in enumerate(keys)}
    group_of_pick = _integers([position[key] for key in table["group"].to_pylist()])
    missing = table["residual"].is_null().to_numpy()
    values = table["residual"].to_numpy().astype(np.float64)
    known = np.argsort(group_of_pick, kind="stable")
    known = known[~missing[known]]
    ends = np.cumsum(np.bincount(group_of_pick[known], minlength=len(keys)))
    residuals = np.split(values[known], ends[:-1])
    ids = table["id"].to_pylist() if "id" in table.column_names else None
    return _record_from(header, _integers(table["row"].to_numpy()), group_of_pick, residuals, ids)


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


_Encoder = Callable[[SelectionRecord, Path], "dict[Path, bytes]"]
_Decoder = Callable[[bytes, Path], SelectionRecord]
_FORMATS: dict[str, tuple[_Encoder, _Decoder]] = {
    ".parquet": (_encode_parquet, _decode_parquet),
    ".json": (_encode_json, _decode_json),
    ".npy": (_encode_npy, _decode_npy),
}


def _format_of(path: Path) -> tuple[_Encoder, _Decoder]:
    try:
        return _FORMATS[path.suffix.lower()]
    except KeyError:
        raise InvalidInputError(
            f"path={str(path)!r} has the suffix {path.suffix!r}: use .parquet, .json or .npy."
        ) from None
