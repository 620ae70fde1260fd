"""``gmmatch export``: the picked files or rows as a dataset of their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gmmatch.cli.io.arguments import EmbeddingColumnOption, ForceOption
from gmmatch.cli.io.files import (
    check_folder,
    check_output,
    compression_of,
    keep_inputs,
    opened_output,
    put_image,
    same_place,
    written,
    written_folder,
)
from gmmatch.cli.io.output import note, print_json
from gmmatch.errors import InvalidInputError
from gmmatch.files import as_path, is_remote

if TYPE_CHECKING:
    from gmmatch.data.images import ImageFolder
    from gmmatch.data.source import BaseSource
    from gmmatch.data.tables import ParquetSource
    from gmmatch.data.text_tables import CSVTable, JSONLines
    from gmmatch.selection.selection import Selection
    from gmmatch.types import Indices

_DATA_COLUMNS = ("text_column", "image_column", "embedding_column")


def export(
    picks: Annotated[
        Path, typer.Argument(parser=as_path, metavar="PICKS", help="What `gmmatch select` wrote.")
    ],
    source: Annotated[
        str,
        typer.Argument(help="What was embedded: a folder of images, or Parquet, CSV or JSON-lines files."),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            parser=as_path,
            metavar="PATH",
            help="A new folder for images, a new file of the same kind for rows.",
        ),
    ],
    link: Annotated[
        bool,
        typer.Option(
            "--link/--copy", help="Whether images are linked (hard, or symbolic on another disk) or copied."
        ),
    ] = False,
    split: Annotated[
        str | None, typer.Option(help="Which split; by default the one that was embedded.")
    ] = None,
    embedding_column: EmbeddingColumnOption = None,
    id_column: Annotated[
        str | None,
        typer.Option(help="The column of ids, '' for none; by default the one that names the picks."),
    ] = None,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a sentence.")] = False,
) -> None:
    """Write the picked images or rows as a dataset of their own.

    Images keep their sub-folders. Rows of tables keep all their columns and their order.

    \b
    Examples:
      gmmatch export picks.parquet photos/ -o picked/ --link
      gmmatch export picks.parquet texts.jsonl -o picked.jsonl
      gmmatch export picks.parquet vectors.parquet -o picked.parquet --id-column key
    """
    from gmmatch.selection.selection import Selection

    keep_inputs(output, [picks])
    selection = Selection.load(picks)
    before = selection.provenance.get("embeddings", {}).get("source", {}).get("opened_with", {})
    columns = {"split": split, "embedding_column": embedding_column, "id_column": id_column}
    opened = _open(source, _options(before, columns))
    write = _writer(opened, output, link=link, force=force)
    count = write(matched_rows(selection, opened))
    if as_json:
        print_json({"output": str(output), "exported": count})
    else:
        note(f"Wrote {count:,} of the picks' rows to {output}.")


def _options(before: Mapping[str, Any], columns: Mapping[str, str | None]) -> dict[str, Any]:
    """What to open the source with: what was asked for now, and else what was before."""
    asked = {name: value for name, value in columns.items() if value is not None}
    if "embedding_column" in asked:  # at most one column of rows can be named
        before = {name: value for name, value in before.items() if name not in _DATA_COLUMNS}
    options = {**before, **asked}
    if options.get("id_column") == "":
        del options["id_column"]
    return options


def _open(source: str, options: dict[str, Any]) -> BaseSource:
    from gmmatch.data import open_source
    from gmmatch.data.columns import UndecidedColumnsError
    from gmmatch.data.files import is_store

    if is_store(source):
        raise InvalidInputError(
            f"{source} is a store of embeddings: give the images or texts that it was made from."
        )
    try:
        return open_source(source, **options)
    except UndecidedColumnsError as error:
        if not error.candidates:
            raise
        # All columns are exported, so it does not matter which of them the picks were made by.
        kind, names = next(iter(error.candidates.items()))
        return open_source(source, **{**options, f"{kind}_column": names[0]})


def _writer(source: BaseSource, output: Path, *, link: bool, force: bool) -> Callable[[Indices], int]:
    """Return the function that writes these rows, after checking that it can."""
    from gmmatch.data.images import ImageFolder
    from gmmatch.data.opening import format_of
    from gmmatch.data.tables import ParquetSource
    from gmmatch.data.text_tables import CSVTable, JSONLines

    if isinstance(source, ImageFolder):
        if is_remote(output):
            raise InvalidInputError(f"--output {output}: images are exported to a folder of this machine.")
        check_folder(output, source.folder, force=force)
        return partial(_export_images, source, output, link)
    if link:
        raise InvalidInputError(
            f"--link is for folders of images, and {source.location} is not one: leave it out."
        )
    if not isinstance(source, (ParquetSource, JSONLines, CSVTable)):
        raise InvalidInputError(
            f"{source.location} is a {source.format}, whose rows cannot be exported: in Python, "
            "Selection.load(picks).apply(dataset) takes them."
        )
    suffixes = {ParquetSource: ".parquet", JSONLines: ".jsonl", CSVTable: ".csv"}
    if format_of(output) != format_of(f"x{suffixes[type(source)]}"):
        raise InvalidInputError(
            f"--output {output}: {source.location} has the format {source.format}, so end it in "
            f"{suffixes[type(source)]}."
        )
    check_output(output, force=force)
    if any(same_place(output, file) for file in source.files):
        raise InvalidInputError(f"--output {output} is the source itself: choose another name.")
    if isinstance(source, ParquetSource):
        return partial(_export_parquet, source, output)
    return partial(_export_lines, source, output)


def matched_rows(selection: Selection, source: BaseSource) -> Indices:
    """Return the rows of the source that the picks are, ascending; a row picked twice is there twice."""
    import numpy as np

    n_rows = source.n_rows
    if n_rows is None:
        raise InvalidInputError(f"{source.location} is a stream, whose rows cannot be looked up.")
    if selection.ids is None:
        if selection.n_rows != n_rows:
            raise InvalidInputError(
                f"{source.location} has {n_rows:,} rows, but the picks were made from {selection.n_rows:,}: "
                "give the source that they were made from."
            )
        return np.array(selection.indices)
    ids, known = selection.ids.tolist(), source.ids
    if isinstance(known, range):
        _check_unchanged(selection, source, n_rows)
        missing = [name for name in ids if not isinstance(name, int) or name not in known]
        if missing:
            raise _mismatch(missing, len(ids), source)
        return np.sort(np.array(ids, dtype=np.int64))
    position: dict[Any, int] = {}
    for row, name in enumerate(known):
        if position.setdefault(name, row) != row:
            return _at_their_places(selection, source, name)
    missing = [name for name in ids if name not in position]
    if missing:
        raise _mismatch(missing, len(ids), source)
    return np.sort(np.array([position[name] for name in ids], dtype=np.int64))


def _at_their_places(selection: Selection, source: BaseSource, repeated: Any) -> Indices:
    """Return the picks' own row numbers, where ids alone do not tell them apart but all stand where they stood."""
    import numpy as np

    rows, ids = selection.indices.tolist(), selection.ids
    assert ids is not None
    known = list(source.ids)
    if len(known) != selection.n_rows or [known[row] for row in rows] != ids.tolist():
        raise InvalidInputError(
            f"{source.location} has two rows with the id {repeated!r}, and is not what the picks were made from, row "
            "by row: give that one, or a source in which every id is there once."
        )
    return np.sort(np.array(rows, dtype=np.int64))


def _mismatch(missing: Sequence[Any], n_ids: int, source: BaseSource) -> InvalidInputError:
    columns = getattr(source, "columns", None)
    advice = "give the source that the picks were made from"
    if columns is not None and columns.id is None:
        advice += ", with its --id-column if it was embedded with one"
    return InvalidInputError(
        f"{len(missing):,} of the {n_ids:,} picks are not in {source.location}, the first of them with the id "
        f"{missing[0]!r}: {advice}."
    )


def _check_unchanged(selection: Selection, source: BaseSource, n_rows: int) -> None:
    """Raise if rows that are known by their number alone come from another source."""
    origin = selection.provenance.get("embeddings", {})
    before = origin.get("source", {})
    if before.get("n_rows") not in (None, n_rows):
        raise InvalidInputError(
            f"{source.location} has {n_rows:,} rows, but what was embedded had {before['n_rows']:,}: "
            "give the source that the picks were made from."
        )
    # The fingerprint depends on the columns that were asked for: only like is compared with like.
    fingerprint = origin.get("source_fingerprint")
    same_columns = before.get("how") == source.describe()["how"]
    if fingerprint is not None and same_columns and source.fingerprint() != fingerprint:
        raise InvalidInputError(
            f"{source.location} is not what was embedded, or has changed since: embed and select again."
        )


def _export_images(source: ImageFolder, output: Path, link: bool, rows: Indices) -> int:
    """Copy or link these images; one that is there twice is written once."""
    names = list(dict.fromkeys(str(source.ids[row]) for row in rows.tolist()))
    with written_folder(output, source.folder, len(names)) as temporary:
        for name in names:
            place = temporary / name
            place.parent.mkdir(parents=True, exist_ok=True)
            put_image(source.folder / name, place, link)
    return len(names)


def _export_parquet(source: ParquetSource, output: Path, rows: Indices) -> int:
    """Write these rows with all columns and the schema's metadata, which tell `datasets` what is an image."""
    import numpy as np
    import pyarrow.parquet as pq

    with pq.ParquetFile(source.files[0]) as first:
        schema = first.schema_arrow
        compression = compression_of(first)
    start = 0
    with written(output) as temporary, pq.ParquetWriter(temporary, schema, compression=compression) as writer:
        for path in source.files:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                if not file.schema_arrow.equals(schema):
                    raise InvalidInputError(f"{path} has other columns than {source.files[0].name}.")
                for batch in file.iter_batches(1024):
                    low, high = np.searchsorted(rows, [start, start + len(batch)])
                    if high > low:
                        writer.write_batch(batch.take(rows[low:high] - start))
                    start += len(batch)
    return len(rows)


def _export_lines(source: JSONLines | CSVTable, output: Path, rows: Indices) -> int:
    """Write these records as they are, quotes and all, after the header if there is one."""
    from gmmatch.data.text_tables import CSVTable, json_lines

    header = b""
    records: Iterator[bytes] = (line for path in source.files for _, line in json_lines(path))
    if isinstance(source, CSVTable):
        header, records = _csv_lines(source.files)
    wanted = deque(rows.tolist())
    with written(output) as temporary, opened_output(temporary, output) as file:
        file.write(header)
        for number, line in enumerate(records):
            while wanted and wanted[0] == number:  # a row may be wanted twice
                file.write(line if line.endswith((b"\n", b"\r")) else line + b"\n")
                wanted.popleft()
            if not wanted:
                break
    return len(rows)


def _csv_lines(files: list[Path]) -> tuple[bytes, Iterator[bytes]]:
    """Return the header of CSV files, and the records of all of them."""
    from gmmatch.data.text_tables import csv_records

    _, names, header = next(csv_records(files[0]))

    def lines() -> Iterator[bytes]:
        for path in files:
            records = csv_records(path)
            if next(records)[1] != names:
                raise InvalidInputError(f"{path} has another header than {files[0].name}.")
            yield from (text.encode() for _, _, text in records)

    return header.encode(), lines()
