"""``gmmatch export``: the picked files or rows as a dataset of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gmmatch.cli.io.arguments import (
    ConfidenceOption,
    EmbeddingColumnOption,
    ForceOption,
    PicksArgument,
    least_confidence,
    output_option,
)
from gmmatch.cli.io.files import check_folder, check_output, keep_inputs
from gmmatch.cli.io.output import note, print_json
from gmmatch.errors import InvalidInputError
from gmmatch.files import is_remote

if TYPE_CHECKING:
    from gmmatch.data.source import BaseSource
    from gmmatch.selection.selection import Selection
    from gmmatch.types import Indices

Extra = Mapping[str, list[Any]]
"""Columns that are written beside those of the source, a value for each row."""


_DATA_COLUMNS = ("text_column", "image_column", "embedding_column")


def export(
    picks: PicksArgument,
    source: Annotated[
        str,
        typer.Argument(help="What was embedded: a folder of images, or Parquet, CSV or JSON-lines files."),
    ],
    output: Annotated[Path, output_option("A new folder for images, a new file of the same kind for rows.")],
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
    labels: Annotated[
        Literal["given", "corrected"],
        typer.Option(
            help="With 'corrected', write the suggested label beside the given one, in columns of a table or in "
            "labels.csv of a folder."
        ),
    ] = "given",
    min_confidence: ConfidenceOption = None,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a sentence.")] = False,
) -> None:
    """Write the picked images or rows as a new dataset.

    Images keep their sub-folders. Rows of tables keep all their columns and their order. Picks with weights get a
    column `weight`, images in labels.csv. The source is never changed.

    \b
    Examples:
      gmmatch export picks.parquet photos/ -o picked/ --link
      gmmatch export picks.parquet texts.jsonl -o picked.jsonl
      gmmatch export picks.parquet vectors.parquet -o picked.parquet --id-column key
      gmmatch export picks.parquet texts.jsonl -o picked.jsonl --labels corrected --min-confidence 0.99
    """
    from gmmatch.selection.selection import Selection

    keep_inputs(output, [picks])
    confidence = least_confidence(min_confidence, "--labels corrected", labels == "corrected")
    selection = Selection.load(picks)
    opened = open_picked(
        selection, source, split=split, embedding_column=embedding_column, id_column=id_column
    )
    extra = {} if confidence is None else _corrected(selection, confidence)
    if selection.weights is not None:
        extra["weight"] = selection.weights.tolist()
    write = _writer(opened, output, link=link, force=force)
    rows, places = matched_rows(selection, opened)
    columns_added = {name: [values[i] for i in places] for name, values in extra.items()}
    count = write(rows, columns_added)
    changed = {} if confidence is None else {"corrected": int(sum(columns_added["label_changed"]))}
    if as_json:
        print_json({"output": str(output), "exported": count, **changed})
    else:
        said = f" {changed['corrected']:,} of them have a corrected label." if changed else ""
        note(f"Wrote {count:,} picked rows to {output}.{said}")


def _corrected(selection: Selection, min_confidence: float) -> dict[str, list[Any]]:
    """Return the corrected label of each pick, how probable it is, and whether it is another than the given one."""
    from gmmatch.screening.corrected import check_confidence, sure_suggestions

    check_confidence(min_confidence)
    screening, record = selection.screening, selection.provenance.get("relabeled")
    if record is None and (screening is None or screening.suggested_labels is None):
        raise InvalidInputError(
            "--labels corrected: the picks suggest no labels. Select with labels, and --method robust or --relabel."
        )
    labels, picks = selection.labels.tolist(), selection.indices.tolist()
    # What `select --relabel` has corrected is in the labels already: by row, what was given, and how sure it was.
    record = record or {"rows": [], "given": [], "confidence": []}
    before = dict(zip(record["rows"], zip(record["given"], record["confidence"], strict=True), strict=True))
    given = [before.get(row, (label,))[0] for row, label in zip(picks, labels, strict=True)]
    chance: list[Any] = [before[row][1] if row in before else None for row in picks]
    if screening is not None and screening.suggested_labels is not None:
        sure = sure_suggestions(screening, min_confidence)[selection.indices]
        suggested = screening.suggested_labels[selection.indices].tolist()
        found = screening.suggested_probability[selection.indices].round(6).tolist()  # type: ignore[index]
        for place, row in enumerate(picks):
            if row not in before and given[place] is not None:
                labels[place] = suggested[place] if sure[place] else given[place]
                chance[place] = found[place]
    for place, row in enumerate(picks):
        if row in before and before[row][1] < min_confidence:
            labels[place] = given[place]
    changed = [new != old for new, old in zip(labels, given, strict=True)]
    return {"corrected_label": labels, "label_confidence": chance, "label_changed": changed}


def open_picked(selection: Selection, source: str, **columns: str | None) -> BaseSource:
    """Open what picks were made from, as it was opened then but for what is asked for now."""
    before = selection.provenance.get("embeddings", {}).get("source", {}).get("opened_with", {})
    return _open(source, _options(before, columns))


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


def _writer(source: BaseSource, output: Path, *, link: bool, force: bool) -> Callable[[Indices, Extra], int]:
    """Return the function that writes these rows, after checking that it can."""
    from gmmatch.cli.io.exporting import export_images, export_lines, export_parquet
    from gmmatch.data.images import ImageFolder
    from gmmatch.data.opening import format_of
    from gmmatch.data.tables import ParquetSource
    from gmmatch.data.text_tables import CSVTable, JSONLines

    if isinstance(source, ImageFolder):
        if is_remote(output):
            raise InvalidInputError(f"--output {output}: images are exported to a folder of this machine.")
        check_folder(output, source.folder, force=force)
        return partial(export_images, source, output, link)
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
    keep_inputs(output, source.files)
    if isinstance(source, ParquetSource):
        return partial(export_parquet, source, output)
    return partial(export_lines, source, output)


def matched_rows(selection: Selection, source: BaseSource) -> tuple[Indices, Indices]:
    """Return the rows of the source that the picks are, ascending, and which of ``selection.indices`` each is.

    A row picked twice is there twice.
    """
    import numpy as np

    rows = _rows_of_picks(selection, source)
    order = np.argsort(rows, kind="stable")
    return rows[order], order


def _rows_of_picks(selection: Selection, source: BaseSource) -> Indices:
    """Return the row of the source that each pick is."""
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
        return np.array(ids, dtype=np.int64)
    position: dict[Any, int] = {}
    for row, name in enumerate(known):
        if position.setdefault(name, row) != row:
            return _at_their_places(selection, source, name)
    missing = [name for name in ids if name not in position]
    if missing:
        raise _mismatch(missing, len(ids), source)
    return np.array([position[name] for name in ids], dtype=np.int64)


def _at_their_places(selection: Selection, source: BaseSource, repeated: Any) -> Indices:
    """Return the picks' own row numbers, where ids alone do not tell them apart but all stand where they stood."""
    import numpy as np

    rows, ids = selection.indices.tolist(), selection.ids
    assert ids is not None
    known = list(source.ids)
    if len(known) != selection.n_rows or [known[row] for row in rows] != ids.tolist():
        raise InvalidInputError(
            f"{source.location} has two rows with the id {repeated!r}, so picks cannot be looked up by id: "
            "pass the source that was embedded, or one in which every id is unique."
        )
    return np.array(rows, dtype=np.int64)


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
    from gmmatch.cli.io.inputs import has_changed

    origin = selection.provenance.get("embeddings", {})
    before = origin.get("source", {})
    if before.get("n_rows") not in (None, n_rows):
        raise InvalidInputError(
            f"{source.location} has {n_rows:,} rows, but what was embedded had {before['n_rows']:,}: "
            "give the source that the picks were made from."
        )
    if has_changed(source, before, origin.get("source_fingerprint")):
        raise InvalidInputError(
            f"{source.location} is not what was embedded, or has changed since: embed and select again."
        )
