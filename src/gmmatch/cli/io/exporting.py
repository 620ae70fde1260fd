"""Writing the picked rows of a source, whatever it is: which rows they are, and who writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.cli.io.files import check_output, keep_inputs, same_place
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.data.source import BaseSource
    from gmmatch.selection.selection import Selection
    from gmmatch.types import Indices

_DATA_COLUMNS = ("text_column", "image_column", "embedding_column")


def export_picks(
    picks: Path,
    source: str,
    output: Path,
    *,
    link: bool = False,
    columns: Mapping[str, str | None] | None = None,
    force: bool = False,
) -> int:
    """Write the picked rows of a source and return how many there are.

    Parameters
    ----------
    picks
        A saved selection.
    source
        What :func:`gmmatch.data.open_source` takes.
    output
        A folder for a folder of images; else a file of the source's format.
    link
        Whether images are linked instead of copied.
    columns
        ``split``, ``embedding_column`` and ``id_column``, as for :func:`gmmatch.data.open_source`; by default,
        or where they are None, what `gmmatch embed` or `gmmatch select` took. ``""`` is no column of ids.
    force
        Whether an output that exists is replaced.

    Returns
    -------
    int
    """
    from gmmatch.selection.selection import Selection

    keep_inputs(output, [picks])
    selection = Selection.load(picks)
    before = selection.provenance.get("embeddings", {}).get("source", {}).get("opened_with", {})
    opened = _open(source, _options(before, columns or {}))
    write = _writer(opened, output, link=link, force=force)
    return int(write(matched_rows(selection, opened)))


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


def _writer(source: BaseSource, output: Path, *, link: bool, force: bool) -> Any:
    """Return the function that writes these rows, after checking that it can."""
    from gmmatch.data.images import ImageFolder
    from gmmatch.data.opening import format_of
    from gmmatch.data.tables import ParquetSource
    from gmmatch.data.text_tables import CSVTable, JSONLines

    if isinstance(source, ImageFolder):
        from gmmatch.cli.io.export_images import check_folder, export_images

        check_folder(output, source.folder, force=force)
        return lambda rows: export_images(source, rows, output, link=link)
    if link:
        raise InvalidInputError(
            f"--link is for folders of images, and {source.location} is not one: leave it out."
        )
    kinds = {ParquetSource: "parquet", JSONLines: "json", CSVTable: "csv"}
    wanted = next((kind for cls, kind in kinds.items() if isinstance(source, cls)), None)
    if wanted is None or not isinstance(source, (ParquetSource, JSONLines, CSVTable)):
        raise InvalidInputError(
            f"{source.location} is a {source.format}, whose rows cannot be exported: in Python, "
            "Selection.load(picks).apply(dataset) takes them."
        )
    if format_of(output) != wanted:
        examples = {"parquet": ".parquet", "json": ".jsonl", "csv": ".csv"}
        raise InvalidInputError(
            f"--output {output}: {source.location} has the format {source.format}, so end it in {examples[wanted]}."
        )
    check_output(output, force=force)
    if any(same_place(output, file) for file in source.files):
        raise InvalidInputError(f"--output {output} is the source itself: choose another name.")
    from gmmatch.cli.io.export_tables import export_csv, export_json_lines, export_parquet

    if isinstance(source, ParquetSource):
        return lambda rows: export_parquet(source, rows, output)
    if isinstance(source, JSONLines):
        return lambda rows: export_json_lines(source, rows, output)
    return lambda rows: export_csv(source, rows, output)


def matched_rows(selection: Selection, source: BaseSource) -> Indices:
    """Return the rows of the source that the picks are, ascending; a row picked twice is there twice.

    Examples
    --------
    >>> import numpy as np
    >>> from gmmatch import Selection
    >>> from gmmatch.data import open_source
    >>> matched_rows(Selection([2, 0], n_rows=3), open_source(np.zeros((3, 1))))
    array([0, 2])
    """
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
        return np.sort(_row_numbers(ids, known, source))
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


def _row_numbers(ids: Sequence[Any], known: range, source: BaseSource) -> Indices:
    import numpy as np

    missing = [name for name in ids if not isinstance(name, int) or name not in known]
    if missing:
        raise _mismatch(missing, len(ids), source)
    return np.array(ids, dtype=np.int64)


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
