"""Rows of a source as new files: images in a folder, rows of a table with all their columns and some new ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.data.arrow_tables import ParquetSource, open_parquet
from gmmatch.data.images import ImageFolder
from gmmatch.data.opening import format_of
from gmmatch.data.tables import BaseSource
from gmmatch.data.text_tables import CSVTable, JSONLines, csv_records, delimiter_of, json_lines, open_binary
from gmmatch.errors import InvalidInputError
from gmmatch.files import (
    csv_bytes,
    explain_failure,
    is_remote,
    overlap,
    replacing_folder,
    resolved,
    write_whole,
)

if TYPE_CHECKING:
    from gmmatch._array import Indices
    from gmmatch.groups import Label

Columns = Mapping[str, list[Any]]
"""New columns, a value for each row that is written."""

# Hidden, so that no reader of image folders sees it. Its presence is what lets --force delete a folder.
MARK = ".gmmatch-export.json"


def check_replaceable(output: Path, source: Path) -> None:
    """Raise if images of a folder must not be written to another: over each other, or over files of somebody's."""
    if overlap(output, source):
        raise InvalidInputError(f"{output} and {source} lie within each other: choose another folder.")
    if output.is_dir() and any(output.iterdir()) and not (output / MARK).is_file():
        raise InvalidInputError(f"{output} holds files that gmmatch did not write: choose another folder.")


def put_image(image: Path, target: Path, link: bool) -> None:
    """Copy an image, or link to it; a link that the file system refuses becomes a symbolic one."""
    if not image.is_file():
        raise InvalidInputError(f"{image} is missing: the folder has changed since its files were listed.")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not link:
        shutil.copy2(image, target)
        return
    try:
        target.hardlink_to(image.resolve())
    except OSError:  # on another disk, or where there are none
        target.symlink_to(image.resolve())


def export_images(
    source: ImageFolder,
    output: Path,
    rows: Indices,
    columns: Columns,
    *,
    link: bool = False,
    new_labels: Mapping[int, Label] | None = None,
) -> int:
    """Copy or link images, those with new labels to other sub-folders; one that is there twice is written once."""
    names = list(dict.fromkeys(source.ids[row] for row in rows.tolist()))
    targets = dict(zip(names, names, strict=True))
    for row, label in (new_labels or {}).items():
        targets[source.ids[row]] = _free_name(source.relabeled(source.ids[row], label), targets)
    mark = {"source": str(source.folder.resolve()), "images": len(names)}
    with explain_failure(output), replacing_folder(output) as temporary:
        (temporary / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")
        for name, target in targets.items():
            put_image(source.folder / name, temporary / target, link)
        if columns:
            labels = source.labels or [None] * len(source.ids)
            values = zip(rows.tolist(), *columns.values(), strict=True)
            lines = {row: [source.ids[row], labels[row], *more] for row, *more in values}
            (temporary / "labels.csv").write_bytes(csv_bytes([["file", "label", *columns], *lines.values()]))
    return len(names)


def _free_name(name: str, targets: Mapping[str, str]) -> str:
    """Return the name, with a number where an image of that name is there already."""
    path, taken = Path(name), set(targets.values())
    candidates = (path.with_stem(f"{path.stem}-{number}").as_posix() for number in count(2))
    return next(candidate for candidate in chain([name], candidates) if candidate not in taken)


def export_parquet(source: BaseSource, output: Path, rows: Indices, columns: Columns) -> int:
    """Write rows with all columns and the schema's metadata, which tell `datasets` what is an image."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(source.files[0])
    _check_new(columns, schema.names, source.files[0])
    added = {name: pa.array(values) for name, values in columns.items()}
    wider, start = schema, 0
    for name, values in added.items():
        wider = wider.append(pa.field(name, values.type))
    with write_whole(output) as temporary, pq.ParquetWriter(temporary, wider) as writer:
        for path in source.files:
            with open_parquet(path) as file:
                if not file.schema_arrow.equals(schema):
                    raise InvalidInputError(f"{path} has other columns than {source.files[0].name}.")
                for batch in file.iter_batches(1024):
                    low, high = np.searchsorted(rows, [start, start + len(batch)])
                    if high > low:
                        picked = batch.take(rows[low:high] - start)
                        arrays = [*picked.columns, *(values[low:high] for values in added.values())]
                        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=wider))
                    start += len(batch)
    return len(rows)


def export_json_lines(source: BaseSource, output: Path, rows: Indices, columns: Columns) -> int:
    """Write lines as they are, new columns last."""

    def widen(line: bytes, values: dict[str, Any]) -> bytes:
        record = json.loads(line)
        _check_new(values, record, source.files[0])
        return json.dumps({**record, **values}, ensure_ascii=False).encode()

    lines = (line for path in source.files for _, line in json_lines(path))
    return _export_lines(lines, output, rows, columns, widen)


def export_csv(source: BaseSource, output: Path, rows: Indices, columns: Columns) -> int:
    """Write records as they are, quotes and all, new columns last, after the header."""
    _, names, header = next(csv_records(source.files[0]))
    _check_new(columns, names, source.files[0])
    delimiter = delimiter_of(header)

    def widen(line: bytes, values: dict[str, Any]) -> bytes:
        return line.rstrip(b"\r\n") + delimiter.encode() + csv_bytes([values.values()], delimiter)

    def lines() -> Iterator[bytes]:
        for path in source.files:
            records = csv_records(path)
            if next(records)[1] != names:
                raise InvalidInputError(f"{path} has another header than {source.files[0].name}.")
            yield from (text.encode("utf-8", "surrogateescape") for _, _, text in records)

    first = widen(header.encode(), {name: name for name in columns}) if columns else header.encode()
    return _export_lines(lines(), output, rows, columns, widen, first)


def _export_lines(
    lines: Iterator[bytes], output: Path, rows: Indices, columns: Columns, widen: Any, header: bytes = b""
) -> int:
    wanted, position = rows.tolist(), 0
    with write_whole(output) as temporary, open_binary(temporary, "wb", output) as file:
        file.write(header)
        for number, line in enumerate(lines):
            while position < len(wanted) and wanted[position] == number:  # a row may be wanted twice
                values = {name: column[position] for name, column in columns.items()}
                record = widen(line, values) if values else line
                file.write(record if record.endswith((b"\n", b"\r")) else record + b"\n")
                position += 1
            if position == len(wanted):
                break
    return len(wanted)


def _check_new(columns: Mapping[str, Any], known: Collection[str], path: Path) -> None:
    for name in columns:
        if name in known:
            raise InvalidInputError(f"{path} has a column {name!r} already: rename it first.")


# By the kind of a source: how its files end, and what writes rows of it.
_WRITERS: dict[type, tuple[str, Callable[..., int]]] = {
    ImageFolder: ("", export_images),
    ParquetSource: (".parquet", export_parquet),
    JSONLines: (".jsonl", export_json_lines),
    CSVTable: (".csv", export_csv),
}


def open_writer(source: BaseSource, output: Path, *, link: bool = False) -> Callable[..., int]:
    """Return the function that writes rows of a source, given by ascending row numbers and new columns, if it can."""
    if type(source) not in _WRITERS:
        raise InvalidInputError(
            f"{source.location} is a {source.format}, whose rows cannot be exported: "
            "give a folder of images, or files of Parquet, CSV or JSON lines."
        )
    suffix, write = _WRITERS[type(source)]
    if isinstance(source, ImageFolder):
        if is_remote(output):
            raise InvalidInputError(f"{output}: images are exported to a folder of this machine.")
        check_replaceable(output, source.folder)
        return partial(write, source, output, link=link)
    if link:
        raise InvalidInputError(f"link= is for folders of images, which {source.location} is not.")
    if format_of(output) != format_of(f"rows{suffix}"):
        raise InvalidInputError(f"{output}: {source.location} is {source.format}, so end it in {suffix}.")
    if resolved(output) in map(resolved, source.files):
        raise InvalidInputError(f"{output} is also an input: choose another name.")
    return partial(write, source, output)
