"""Corrupted copies of one file: Parquet, CSV, JSON lines, .npy or .npz. All else stays as it was."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from gmmatch.data import ImageBytes
from gmmatch.errors import InvalidInputError
from gmmatch_paper.commands.corrupting import Advance, Changes, Job, file_format
from gmmatch_paper.commands.outputs import writing
from gmmatch_paper.corruption.gross import replaced
from gmmatch_paper.corruption.images import ImageCorruption
from gmmatch_paper.corruption.labels import LabelNoise
from gmmatch_paper.corruption.result import one_kind
from gmmatch_paper.parallel import map_in_threads

_LABEL_NAMES = ("label", "labels", "class", "category", "target", "cls")
_ROWS_AT_A_TIME = 256
_NUMBERS_AT_A_TIME = 1 << 22

ChangeColumn = Callable[[list[Any], int], list[Any] | None]
"""Gets the values of a column from a row number on; returns those to write, or None to leave them."""


def corrupt_file(job: Job, advance: Advance) -> Changes:
    """Write the corrupted copy of a file."""
    if isinstance(job.corruption, LabelNoise):
        return _corrupt_labels(job, advance)
    if isinstance(job.corruption, ImageCorruption):
        return _corrupt_images(job, advance)
    return _corrupt_vectors(job, advance)


def _corrupt_labels(job: Job, advance: Advance) -> Changes:
    labels = list(job.source.labels)
    result = job.corruption.apply(np.array(labels, dtype=object))
    after = result.data.tolist()

    def change(values: list[Any], first: int) -> list[Any]:
        rows = range(first, first + len(values))
        return [after[row] if result.mask[row] else value for row, value in zip(rows, values, strict=True)]

    write = {".parquet": _rewrite_parquet, ".jsonl": _rewrite_json_lines, ".npz": _rewrite_npz}
    rewrite = write.get(file_format(job.path), _rewrite_csv)
    rewrite(job.path, job.output, job.columns.get("label_column"), _LABEL_NAMES, change, advance)
    return Changes(list(job.source.ids), result.mask, result.kinds, after, labels)


def _corrupt_images(job: Job, advance: Advance) -> Changes:
    """Write a copy of a Parquet file in which the bytes of some images are others: JPEGs stay JPEGs, else PNG."""
    from gmmatch_paper.commands.corrupting_images import encode_like, open_picture

    mask = job.corruption.choose(job.n_rows)
    kinds = np.full(job.n_rows, "", dtype="<U32")

    def corrupt(value: Any, row: int) -> Any:
        data = value["bytes"] if isinstance(value, dict) else value
        if data is None:
            raise InvalidInputError(
                f"Row {row} of {job.path} names a file: only images within it can be corrupted."
            )
        image = ImageBytes(data, f"row {row} of {job.path}")
        corrupted, kinds[row] = job.corruption.corrupt(open_picture(image), row)
        encoded = encode_like(corrupted, image)
        return {**value, "bytes": encoded} if isinstance(value, dict) else encoded

    def change(values: list[Any], first: int) -> list[Any] | None:
        chosen = np.flatnonzero(mask[first : first + len(values)]).tolist()
        changed = map_in_threads(lambda position: corrupt(values[position], first + position), chosen)
        for position, value in zip(chosen, changed, strict=True):
            values[position] = value
        return values if chosen else None

    names = ("image", "img", "picture", "photo")
    _rewrite_parquet(job.path, job.output, job.columns.get("image_column"), names, change, advance)
    return Changes(list(job.source.ids), mask, kinds)


def _corrupt_vectors(job: Job, advance: Advance) -> Changes:
    """Write a copy of vectors in which an adversary replaced some rows."""
    suffix = file_format(job.path)
    if suffix == ".npy":
        array = np.load(job.path, mmap_mode="r")
    else:
        array = np.concatenate([batch.rows for batch in job.source.batches(4096)])
    rows, vectors = job.corruption.replacements(array)
    mask = np.zeros(len(array), dtype=np.bool_)
    mask[rows] = True

    def change(values: Any, first: int) -> Any:
        own = slice(*np.searchsorted(rows, [first, first + len(values)]))
        return replaced(np.asarray(values), rows[own] - first, vectors[own]) if own.start < own.stop else None

    if suffix == ".npy":
        _write_npy(array, job.output, change, advance)
    elif suffix == ".npz":
        names = [name for name, member in np.load(job.path).items() if member.ndim == 2]
        _rewrite_npz(job.path, job.output, job.columns.get("embedding_column"), tuple(names), change, advance)
    else:
        names = ["embedding", "embeddings", "vector", "features"]
        given = job.columns.get("embedding_column")
        _rewrite_parquet(job.path, job.output, given, tuple(names), change, advance)
    return Changes(list(job.source.ids), mask, one_kind(job.corruption.name, mask))


def _find_column(path: Path, given: str | None, usual: tuple[str, ...], present: list[str]) -> str:
    """Return the name of a column: the given one, or the one with a usual name."""
    by_name = {name.lower(): name for name in reversed(present)}
    name = given or next((by_name[wanted] for wanted in usual if wanted in by_name), None)
    if name not in present:
        raise InvalidInputError(
            f"{path} has no column {given or usual[0]!r}: name the one to change by --label-column, --image-column "
            "or --embedding-column."
        )
    return name


def _rewrite_parquet(
    path: Path,
    output: Path,
    given: str | None,
    usual: tuple[str, ...],
    change: ChangeColumn,
    advance: Advance,
) -> None:
    """Stream a Parquet file into another with one column changed; schema, metadata and compression stay."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = 0
    with pq.ParquetFile(path, pre_buffer=False) as file, writing(output) as temporary:
        schema = file.schema_arrow
        position = schema.get_field_index(_find_column(path, given, usual, schema.names))
        field = schema.field(position)
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        with pq.ParquetWriter(temporary, schema, compression=_compression(file.metadata)) as writer:
            for batch in file.iter_batches(_ROWS_AT_A_TIME):
                values = change(batch.column(position).to_pylist(), first)
                if values is not None:
                    listed = values.tolist() if isinstance(values, np.ndarray) else values
                    batch = batch.set_column(position, field, pa.array(listed, plain).cast(field.type))
                writer.write_batch(batch)
                first += len(batch)
                advance(first)


def _compression(metadata: Any) -> str:
    if not metadata.num_row_groups or not metadata.num_columns:
        return "snappy"
    name = str(metadata.row_group(0).column(0).compression).lower()
    return {"uncompressed": "none", "lz4_raw": "lz4"}.get(name, name)


def _open(path: Path, mode: str, name: Path) -> IO[bytes]:
    """Open a file, compressed if its name says so."""
    return cast("IO[bytes]", gzip.open(path, mode) if name.suffix == ".gz" else path.open(mode))


def _rewrite_json_lines(
    path: Path,
    output: Path,
    given: str | None,
    usual: tuple[str, ...],
    change: ChangeColumn,
    advance: Advance,
) -> None:
    """Change a key of some lines; the other lines stay as they are."""
    name, row = "", 0
    with (
        writing(output) as temporary,
        _open(path, "rb", path) as lines,
        _open(temporary, "wb", output) as file,
    ):
        for line in lines:
            if line.strip():
                record = json.loads(line)
                name = name or _find_column(path, given, usual, list(record))
                value = (change([record.get(name)], row) or [record.get(name)])[0]
                if value != record.get(name):
                    line = json.dumps({**record, name: value}, ensure_ascii=False).encode() + b"\n"
                row += 1
            file.write(line if line.endswith(b"\n") else line + b"\n")
            advance(row)


def _rewrite_csv(
    path: Path,
    output: Path,
    given: str | None,
    usual: tuple[str, ...],
    change: ChangeColumn,
    advance: Advance,
) -> None:
    """Change the cells of a column; the delimiter and the line ends stay."""
    with _open(path, "rb", path) as binary:
        text = binary.read().decode("utf-8-sig")
    header = text.partition("\n")[0]
    delimiter = max((",", ";", "\t", "|"), key=header.count)
    records = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    position = records[0].index(_find_column(path, given, usual, records[0]))
    body = [record for record in records[1:] if record]
    for record, label in zip(body, change([record[position] for record in body], 0) or [], strict=True):
        record[position] = str(label)
    ending = "\r\n" if header.endswith("\r") else "\n"
    with writing(output) as temporary, _open(temporary, "wb", output) as file:
        for start in range(0, len(body) + 1, _ROWS_AT_A_TIME):
            chunk = [records[0], *body][start : start + _ROWS_AT_A_TIME]
            file.write("".join(_csv_line(record, delimiter, ending) for record in chunk).encode())
            advance(min(start + _ROWS_AT_A_TIME, len(body)))


def _csv_line(record: list[str], delimiter: str, ending: str) -> str:
    line = io.StringIO(newline="")
    csv.writer(line, delimiter=delimiter, lineterminator=ending).writerow(record)
    return line.getvalue()


def _write_npy(array: NDArray[Any], output: Path, change: Any, advance: Advance) -> None:
    dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
    step = max(1, _NUMBERS_AT_A_TIME // array.shape[1])
    with writing(output) as temporary:
        copy = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=array.shape)
        for start in range(0, len(array), step):
            block = array[start : start + step]
            changed = change(block, start)
            copy[start : start + step] = block if changed is None else changed
            advance(min(len(array), start + step))
        copy.flush()
        del copy


def _rewrite_npz(
    path: Path, output: Path, given: str | None, usual: tuple[str, ...], change: Any, advance: Advance
) -> None:
    """Write all members of an archive, one of them changed, compressed if they were."""
    with writing(output) as temporary, zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        names = [entry.filename.removesuffix(".npy") for entry in entries]
        chosen = _find_column(path, given, usual, names)
        with zipfile.ZipFile(temporary, "w", max(entry.compress_type for entry in entries)) as copy:
            for name, entry in zip(names, entries, strict=True):
                with archive.open(entry) as before, copy.open(entry.filename, "w", force_zip64=True) as after:
                    if name != chosen:
                        shutil.copyfileobj(before, after)
                        continue
                    array = np.lib.format.read_array(before, allow_pickle=False)
                    values = change(array if array.ndim == 2 else array.tolist(), 0)
                    changed = array if values is None else np.asarray(values)
                    dtype = changed.dtype if array.ndim == 2 else np.result_type(array.dtype, changed.dtype)
                    np.lib.format.write_array(after, changed.astype(dtype), allow_pickle=False)
        advance(len(array))
